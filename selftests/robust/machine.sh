#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What happens to a machine under traffic: its clock is set, and processors go and come. Every byte that
# moves is compared. By itself: the clock and the processors are everybody's.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
cpu=/sys/devices/system/cpu/cpu1/online
restore() {
	nodes_down
	[ "$(cat "$cpu")" = 1 ] || echo 1 >"$cpu"
}
trap restore EXIT
cid=0

uptime_s() { cut -d. -f1 /proc/uptime; }

connected() {
	nodes_down
	nodes_up 9000 && ports_up || return 1
	cid=$((cid + 1))
	connect "$1" "$cid" ext on
}
moves() { "$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send "$1" 60000 8; }

# under COMMAND…: with transfers while it runs, and after.
under() {
	local command status=0 rounds=0
	moves 20 || return 1
	"$@" & command=$!
	while kill -0 "$command" 2>/dev/null; do
		moves 100 >/tmp/moved || { cat /tmp/moved; status=1; break; }
		rounds=$((rounds + 1))
	done
	wait "$command" || status=1
	echo "# $rounds rounds"
	[ "$rounds" -gt 1 ] || { echo "no traffic while it happened"; status=1; }
	[ "$status" = 0 ] && moves 20 || status=1
	tap_equal "established established" "$(conn_get "$nodeA" "$cid" state) $(conn_get "$nodeB" "$cid" state)" states || return 1
	return "$status"
}

# Set from what was before and the time since then: a date that was set is not one to count from.
jumps() {
	local before=$EPOCHSECONDS up jump
	up=$(uptime_s)
	for jump in 3600 -3600 864000 -864000 1000000000 0; do
		date -s "@$((before + $(uptime_s) - up + jump))" >/dev/null || return 1
		sleep 0.3
	done
}
clock() { connected "$way" && under jumps; }

goes_and_comes() {
	for _ in 1 2 3 4 5; do
		echo 0 >"$cpu" && sleep 0.3 && echo 1 >"$cpu" && sleep 0.3 || return 1
	done
}
processors() { connected "$way" && under goes_and_comes; }

# Timers and queued packets of the processor that goes are somebody else's from then on.
stays_away() {
	local status=0
	connected "$way" && moves 50 && echo 0 >"$cpu" || return 1
	moves 200 || status=1
	echo 1 >"$cpu"
	moves 50 && return "$status"
}

for way in sunh udp4 udp6; do
	tap_case "$way: the clock is set forth and back" clock
	tap_case "$way: a processor goes and comes, five times" processors
	tap_case "$way: a processor stays away" stays_away
done
tap_end
