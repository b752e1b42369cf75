#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Windows of every size over links that lose packets, holes beyond a SACK's reach, and numbers that wrap.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# transfers COUNT MAX DEPTH: of mixed kinds.
transfers() {
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send "$@"
}

lossy() {
	local status=0
	nodes_netem "$nodeA" loss 3% && nodes_netem "$nodeB" loss 3% || return 1
	"$@" || status=1
	nodes_netem "$nodeA" && nodes_netem "$nodeB" || return 1
	return "$status"
}

connect_next() {
	cid=$((cid + 1))
	connect "$way" "$cid" ext on "$@"
}

# PSN and XID begin shortly before their end, and have come round when this returns.
wraps() {
	# Nothing is sent twice for a wrap, nor, on one CPU and with this timeout, for another reason.
	connect_next start-psn 0xffffff80 start-xid 65500 pdl_retrans_time_out 10000000000 "$@" || return 1
	taskset 1 "$xfer" each "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send \
		100 9000 20000 300000 1000000 || return 1
	tap_equal 0 "$(retransmits "$nodeA" "$cid")" "retransmits of A" || return 1
	[ "$(conn_get "$nodeA" "$cid" tx-packets)" -gt 128 ] && [ "$(conn_get "$nodeB" "$cid" tx-packets)" -gt 128 ] ||
		return 1
	connect_next start-psn 0xffffff80 start-xid 65500 "$@" || return 1
	lossy transfers "$(fewer 150)" 60000 16 || return 1
	[ "$(conn_get "$nodeA" "$cid" transactions)" -gt 36 ]
}

# Holes whose successors lie 32 packets and more beyond are told by NACKs [proto 3.5].
nacks() {
	local round
	connect_next pdl_window_size 256 pdl_receive_win 256 tal_trans_window 64 "$@" || return 1
	for ((round = 0; round < 20; round++)); do
		lossy transfers 30 1000000 16 || return 1
		[ "$(conn_get "$nodeB" "$cid" tx-nacks)" -eq 0 ] || [ "$(conn_get "$nodeA" "$cid" rx-nacks)" -eq 0 ] || return 0
	done
	echo "no NACK in 20 rounds"
	return 1
}

sizes() {
	local window
	for window in 16 17 100 1024; do
		connect_next pdl_window_size "$window" pdl_receive_win "$window" "$@" || return 1
		lossy transfers "$(fewer 60)" 300000 16 || { echo "window $window"; return 1; }
	done
}

nodes_up 9000
ports_up
cid=0
for way in sunh udp4; do
	tap_case "$way: PSNs and XIDs wrap" wraps
	tap_case "$way, unordered: PSNs and XIDs wrap" wraps ordered off
	tap_case "$way: windows of 16 to 1024 packets" sizes
	tap_case "$way: NACKs in a window of 256" nacks
	tap_case "$way, unordered: NACKs in a window of 256" nacks ordered off
done
tap_end
