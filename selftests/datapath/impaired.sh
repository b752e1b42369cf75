#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Links that lose, reorder, repeat and damage packets slow transfers down and change nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

impair() {
	nodes_netem "$nodeA" "$@" || return 1
	nodes_netem "$nodeB" "$@"
}

# transfers COUNT MAX DEPTH: of mixed kinds.
transfers() {
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send "$@"
}

# counted NODE COUNTER…: one of these must have counted, or the link was not what it should be.
counted() {
	local sum
	sum=$(conn_sum "$1" "$cid" "${@:2}")
	echo "${*:2}: $sum"
	[ "$sum" -gt 0 ]
}

# explain: what both ends and the neighbour tables look like.
explain() {
	local node
	for node in "$nodeA" "$nodeB"; do
		on "$node" superp -j conn show "$cid" -s
		ip -n "$node" -s neigh
	done
}

# under NETEM COUNTER…: transfers under that, until the counters show it: the link does it by chance.
under() {
	local status=0 turn
	# shellcheck disable=SC2086 # words
	impair $1 || return 1
	for ((turn = 0; turn < 10; turn++)); do
		transfers "$(fewer 150)" 60000 16 || { status=1; break; }
		! counted "$nodeB" "${@:2}" || break
	done
	impair
	[ "$status" = 0 ] || { explain; return 1; }
	[ "$turn" -lt 10 ]
}

connect_next() {
	cid=$((cid + 1))
	connect "$way" "$cid" "$@"
}

nodes_up 9000
ports_up
cid=0
all='delay 300us 200us loss 2% reorder 10% 50% duplicate 5%'
for way in $encapsulations; do
	connect_next ext on
	tap_case "$way: 10 % loss" under 'loss 10%' rx-out-of-order rx-duplicates
	tap_case "$way: loss, reordering and duplication" under "$all" rx-out-of-order
done
# The rest does not depend on the encapsulation.
for way in sunh udp4; do
	connect_next ext on
	tap_case "$way: reordering" under 'delay 500us reorder 30% 50%' rx-out-of-order
	tap_case "$way: duplication" under 'duplicate 10%' rx-duplicates
	connect_next ext on ordered off
	tap_case "$way, unordered: loss, reordering and duplication" under "$all" rx-out-of-order
	connect_next
	tap_case "$way, no extensions: loss, reordering and duplication" under "$all" rx-out-of-order
done

# UDP has a checksum: what is damaged is lost.
for way in udp4 udp6; do
	connect_next ext on
	tap_case "$way: 10 % of the packets damaged" under 'corrupt 10%' rx-out-of-order rx-duplicates
done

# SUNH relies on the FCS of Ethernet, which a veth pair has not. Damage goes through to the headers
# and the data; the nodes must stand it, every operation must end, nothing outside the regions may
# change, and a connection made anew must work.
damaged() {
	local status=0
	impair corrupt 2% || return 1
	"$xfer" damaged "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read 200 20000 16 || status=$?
	impair
	case $status in 0 | 3) ;; *) return 1 ;; esac
	on "$nodeA" superp conn reset "$cid" && on "$nodeB" superp conn reset "$cid" &&
		on "$nodeA" superp conn start "$cid" && on "$nodeB" superp conn start "$cid" || return 1
	transfers 20 20000 4
}
way=sunh
# An answer whose damaged header names another transaction was acknowledged, and does not come again:
# only the life time of a transaction ends its request, here 5 s.
connect_next ext on tal_transaction_timeout 500000000
tap_case "$way: 2 % of the frames damaged; all requests end, and a reset connection works" damaged

# A peer that is gone: requests end with a named error, and so does the connection.
unreachable() {
	local status=0
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send 20 1000 4 || return 1
	nodes_netem "$nodeB" loss 100% || return 1
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write 20 1000 4 || status=$?
	nodes_netem "$nodeB"
	tap_equal 3 "$status" "status" || return 1
	tap_equal broken "$(conn_get "$nodeA" "$cid" state)" state || return 1
	[ -n "$(conn_get "$nodeA" "$cid" cause)" ]
}
for way in sunh udp4; do
	connect_next ext on
	tap_case "$way: a peer that no longer answers fails every request and names the cause" unreachable
done
tap_end
