#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What happens to a machine while data moves: its clock is set, a processor goes and comes back.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT
cid=0

moves() { "$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send "$1" 60000 8; }
# under COMMAND…: with transfers before, while it runs, and after; the connection does not break.
under() {
	local command status=0
	moves 20 || return 1
	"$@" & command=$!
	while kill -0 "$command" 2>/dev/null; do moves 50 >/tmp/moved || { cat /tmp/moved; status=1; break; }; done
	wait "$command" || status=1
	[ "$status" = 0 ] && moves 20 || status=1
	tap_equal "established established" "$(conn_get "$nodeA" "$cid" state) $(conn_get "$nodeB" "$cid" state)" states || return 1
	return "$status"
}

clock() {
	local change
	for change in '+1 day' '-2 days' '+1 day'; do
		date -s "$(date -d "$change" +'%F %T')" >/dev/null || return 1
		sleep 1
	done
}
processor() {
	local switch=/sys/devices/system/cpu/cpu1/online
	for _ in 1 2 3; do
		echo 0 >$switch && sleep 0.7 || return 1
		tap_equal 0 "$(cat $switch)" "processor 1" || return 1
		echo 1 >$switch && sleep 0.7 || return 1
	done
}

nodes_up 9000
ports_up
for way in sunh udp4; do
	cid=$((cid + 1))
	connect "$way" "$cid" ext on
	tap_case "$way: the clock jumps by days" under clock
	tap_case "$way: a processor goes, and comes back" under processor
done
tap_end
