#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Many connections between two nodes, each with its own numbers, work at the same time.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

connect_all() {
	local way ways
	read -ra ways <<<"$encapsulations"
	for ((cid = 1; cid <= all; cid++)); do
		way=${ways[cid % ${#ways[@]}]}
		connect "$way" "$cid" ext on || return 1
	done
	tap_equal "$all" "$(node_count "$nodeA" conns)" "connections of A"
}

# One transfer over each, eight at a time.
transfer_all() {
	local way ways first pids pid status=0
	read -ra ways <<<"$encapsulations"
	for ((first = 1; first <= all; first += 8)); do
		pids=()
		for ((cid = first; cid < first + 8; cid++)); do
			way=${ways[cid % ${#ways[@]}]}
			"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send 20 30000 4 &
			pids+=($!)
		done
		for pid in "${pids[@]}"; do
			wait "$pid" || status=1
		done
	done
	return "$status"
}

each_has_its_own_traffic() {
	local packets
	for ((cid = 1; cid <= all; cid++)); do
		packets=$(conn_get "$nodeB" "$cid" rx-packets)
		[ "$packets" -ge 10 ] || { echo "connection $cid: $packets packets"; return 1; }
	done
}

one_more_is_refused() {
	tap_refused pdl_conns_per_xpu connect sunh $((all + 1)) ext on
}

limit_can_be_raised() {
	on "$nodeA" superp param set pdl_conns_per_xpu $((all + 1)) || return 1
	on "$nodeB" superp param set pdl_conns_per_xpu $((all + 1)) || return 1
	connect sunh $((all + 1)) ext on || return 1
	"$xfer" mixed "$nodeA" "$nodeB" "$(address sunh 2)" $((all + 1)) write,read,send 20 30000 4
}

nodes_up 9000
ports_up
# As many as there may be unless told otherwise, which is 64.
all=$(fewer 64)
for node in "$nodeA" "$nodeB"; do
	[ "$all" = 64 ] || on "$node" superp param set pdl_conns_per_xpu "$all"
done
tap_case "$all connections between two nodes" connect_all
tap_case "data goes over all of them, eight at a time" transfer_all
tap_case "each carried its own" each_has_its_own_traffic
tap_case "one more than pdl_conns_per_xpu is refused by that name" one_more_is_refused
tap_case "with the parameter raised it is not" limit_can_be_raised

# PSN and XID begin just below their wrap.
wraps() {
	disconnect 1 || return 1
	connect "$1" 1 ext on "${@:2}" start-psn 4294967200 start-xid 65500 || return 1
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$1" 2)" 1 write,read,send "$(fewer 200)" 60000 16 || return 1
	"$xfer" mixed "$nodeB" "$nodeA" "$(address "$1" 1)" 1 write,read,send "$(fewer 200)" 60000 16
}
wraps_with_loss() {
	local status=0
	nodes_netem "$nodeA" loss 3% && nodes_netem "$nodeB" loss 3% || return 1
	wraps "$@" || status=1
	nodes_netem "$nodeA" && nodes_netem "$nodeB" || return 1
	return "$status"
}
tap_case "PSN and XID wrap" wraps udp4
tap_case "PSN and XID wrap, unordered" wraps udp6 ordered off
tap_case "PSN and XID wrap with loss" wraps_with_loss sunh

# Windows of every size, and of odd ones [proto 3.1].
window() {
	disconnect 1 || return 1
	connect sunh 1 ext on pdl_window_size "$1" pdl_receive_win "$2" tal_trans_window "$3" || return 1
	"$xfer" mixed "$nodeA" "$nodeB" "$(address sunh 2)" 1 write,read,send "$(fewer 100)" 100000 16
}
tap_case "the smallest windows" window 16 1 1
tap_case "windows that are no power of two" window 100 77 33
tap_case "the largest windows" window 1024 1024 1024
tap_end
