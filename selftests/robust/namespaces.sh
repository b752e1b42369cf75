#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Network namespaces are nodes of their own: equal addresses and ids do not meet, and a namespace
# that ends under traffic takes everything with it.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap 'nodes_down; nodeA=$firstA nodeB=$firstB nodes_down' EXIT

firstA='' firstB=''
two_pairs() {
	nodes_up 9000 || return 1
	firstA=$nodeA firstB=$nodeB
	ports_up || return 1
	connect sunh 5 ext on || return 1
	connect udp4 6 ext on || return 1
	nodes_up 9000 || return 1
	ports_up || return 1
	connect sunh 5 ext on || return 1
	connect udp4 6 ext on
}

in_parallel() {
	local pids=() pid status=0
	for pair in "$firstA $firstB" "$nodeA $nodeB"; do
		for link in 'sunh 5' 'udp4 6'; do
			# shellcheck disable=SC2086 # words
			"$xfer" mixed $pair 10.23.0.2 "${link#* }" write,read,send 100 60000 16 &
			pids+=($!)
		done
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || status=1
	done
	return "$status"
}

# The second pair's counters know nothing of the first's traffic.
separate_counters() {
	local before
	before=$(conn_get "$nodeB" 5 rx-packets)
	"$xfer" mixed "$firstA" "$firstB" 10.23.0.2 5 write,read,send 20 20000 8 || return 1
	tap_equal "$before" "$(conn_get "$nodeB" 5 rx-packets)" "packets of the other pair"
}

other_node_is_invisible() {
	tap_equal 0 "$(unshare --net superp -j conn show | jq length)" "connections of a new namespace" || return 1
	tap_equal 0 "$(unshare --net superp -j dev | jq length)" "ports of a new namespace"
}

# More than what earlier transfers over the same connection have left.
before=0
flowing() { [ "$(conn_get "$nodeB" "$cid" rx-messages)" -gt $((before + 5)) ]; }

# The namespace of one end goes, while the other end keeps sending to it. Nothing of it is heard
# any more: its dying process must not end the requests with an answer (no such queue pair).
deleted() {
	local traffic status=0 before
	before=$(conn_get "$nodeB" "$cid" rx-messages)
	"$xfer" mixed "$nodeA" "$nodeB" 10.23.0.2 "$cid" write,read,send 1000000 60000 16 >/tmp/traffic 2>&1 &
	traffic=$!
	nodes_wait 10 flowing || return 1
	nodes_netem "$nodeB" loss 100% || return 1
	kill -KILL "$(pgrep -P "$traffic")" || return 1
	ip netns delete "$nodeB" || return 1
	wait "$traffic" || status=$?
	cat /tmp/traffic
	tap_equal 3 "$status" "exit status of the traffic" || return 1
	# Its end of the veth pair went with it, and so did ours.
	nodes_wait 10 device_gone "$nodeA" || return 1
	tap_equal broken "$(conn_get "$nodeA" "$cid" state)" state || return 1
	ip netns delete "$nodeA"
}
device_gone() { ! ip -n "$1" link show eth0 >/dev/null 2>&1; }

# Both go while the initiator's requests are under way.
deleted_with_its_processes() {
	local traffic pids
	nodes_up 9000 && ports_up && connect "$way" "$cid" ext on || return 1
	"$xfer" mixed "$nodeA" "$nodeB" 10.23.0.2 "$cid" write,read,send 1000000 60000 16 >/dev/null 2>&1 &
	traffic=$!
	nodes_wait 10 flowing || return 1
	pids=$(pgrep -P "$traffic") || return 1
	ip netns delete "$nodeA" && ip netns delete "$nodeB" || return 1
	kill -KILL "$traffic" "$pids" || return 1
	wait "$traffic" 2>/dev/null || true
}

tap_case "two pairs of nodes with equal addresses and ids" two_pairs
tap_case "transfers in both pairs at once" in_parallel
tap_case "counters are each node's own" separate_counters
tap_case "a new namespace has no ports and no connections" other_node_is_invisible
cid=5 way=sunh
tap_case "sunh: a namespace deleted under traffic breaks its peer's connection" deleted
cid=6 way=udp4
nodeA=$firstA nodeB=$firstB
tap_case "udp4: a namespace deleted under traffic breaks its peer's connection" deleted
for way in sunh udp4; do
	tap_case "$way: namespaces deleted under traffic, then their processes killed" deleted_with_its_processes
done
tap_end
