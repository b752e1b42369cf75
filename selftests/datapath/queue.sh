#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# A device queue with room for two packets: what it has no room for waits, and is not lost.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# queue NODE QDISC…
queue() { tc -n "$1" qdisc replace dev eth0 root "${@:2}"; }

# turned_away NODE: packets that the queue had no room for.
turned_away() { tc -n "$1" -s -j qdisc show dev eth0 | jq '[.[].drops] | add'; }

# transfer SIZE…: writes, reads and messages, compared at the end.
transfer() {
	"$xfer" each "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send "$@"
}

# kept SENDER RECEIVER: what the queue turned away was not lost. Packets may overtake each other between
# CPUs, be taken for lost and sent again; then they come for the second time. A few do not: pure ACKs, of
# which nobody counts the second, and packets that were acknowledged while they waited for the queue. If
# the sender lost what is turned away, it would be each of more than a thousand packets.
kept() {
	local missing turned_away
	missing=$(($(retransmits "$1" "$cid") - $(conn_get "$2" "$cid" rx-duplicates)))
	turned_away=$(turned_away "$1")
	[ $((missing * 20)) -lt "$turned_away" ] && return
	echo "$1: $turned_away turned away, $missing did not come twice"
	return 1
}

small_queue() {
	local node
	for node in "$nodeA" "$nodeB"; do
		queue "$node" tbf rate 50mbit burst 15kb limit 20000 || return 1
	done
	transfer 100 20000 300000 1000000 || return 1
	for node in "$nodeA" "$nodeB"; do
		[ "$(turned_away "$node")" -gt 0 ] || { echo "the queue of $node was never full"; return 1; }
		tap_equal 0 "$(conn_get "$node" "$cid" tx-path-errors)" "lost packets of $node" || return 1
		tap_equal 0 "$(conn_get "$node" "$cid" retrans-rto)" "timeouts of $node" || return 1
	done
	nodes_wait 5 kept "$nodeA" "$nodeB" && nodes_wait 5 kept "$nodeB" "$nodeA"
}

# The queue takes nothing, then everything.
closed_for_a_while() {
	local transfer
	queue "$nodeA" pfifo limit 0 || return 1
	transfer 300000 &
	transfer=$!
	nodes_wait 20 queue_is_full || return 1
	queue "$nodeA" pfifo limit 1000 || return 1
	wait "$transfer"
}
queue_is_full() { [ "$(turned_away "$nodeA")" -gt 0 ]; }

# A queue that never takes anything: not waited for without end.
closed_for_good() {
	on "$nodeA" superp ping "$(address "$way" 2)" --cid "$cid" -c 1 -W 20 || return 1
	queue "$nodeA" pfifo limit 0 || return 1
	"$xfer" each "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write 64 >/dev/null 2>&1 &
	nodes_wait 60 broken || return 1
	wait $! || true
	queue "$nodeA" pfifo limit 1000 || return 1
	tap_equal "the peer does not answer" "$(conn_get "$nodeA" "$cid" cause)" cause
}
broken() { tap_equal broken "$(conn_get "$nodeA" "$cid" state)" state; }

nodes_up 9000
ports_up
cid=0
for way in $ways; do
	cid=$((cid + 1))
	# Whatever is sent again before ten seconds have passed was taken for lost.
	connect "$way" "$cid" ext on pdl_retrans_time_out 10000000000
	tap_case "$way: a full queue loses nothing" small_queue
	tap_case "$way: a queue that opens again" closed_for_a_while
	disconnect "$cid"
done
cid=$((cid + 1))
way=sunh
connect "$way" "$cid" ext on pdl_dead_time 1000000 pdl_max_rtx 1
tap_case "a queue that stays closed breaks the connection" closed_for_good
disconnect "$cid"
# Where nothing is sent again, each loss would end the connection. The timer is for 20 s.
cid=$((cid + 1))
lite="ext on lite on tal_transaction_timeout 2000000000 tal_trans_window 8"
# shellcheck disable=SC2086 # words
{
	half "$nodeA" sunh "$cid" 0 1 2 eth0 23 $lite
	half "$nodeB" sunh "$cid" 0 2 1 eth0 23 $lite
}
tap_case "lite: a full queue loses nothing" small_queue
tap_end
