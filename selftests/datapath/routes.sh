#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The route over UDP is kept from one packet to the next, and another one is taken as soon as it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

transfer() { "$xfer" each "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send 100000; }

# sent DEVICE: bytes that A has sent by it.
sent() { on "$nodeA" cat "/sys/class/net/$1/statistics/tx_bytes"; }

# by DEVICE: a transfer leaves by this device, and by the other one nothing that is worth a word.
by() {
	local before0 before1 more=1
	[ "$1" = eth0 ] || more=0
	before0=$(sent eth0) before1=$(sent eth1)
	transfer || return 1
	tap_equal "$more $((!more))" \
		"$(($(sent eth0) - before0 > 100000)) $(($(sent eth1) - before1 > 100000))" "eth0, eth1 used"
}

other_way() {
	by eth0 || return 1
	ip -n "$nodeA" route add "$peer" via "$(address "$way" 2 24)" dev eth1 src "$(address "$way" 1)" || return 1
	by eth1 || return 1
	ip -n "$nodeA" route del "$peer" || return 1
	by eth0
}

sent_again() { [ "$(retransmits "$nodeA" "$cid")" -gt "$1" ]; }

# passed_over ROUTE…: what cannot take this route is lost, no more, until the route is gone.
passed_over() {
	local transfer before
	ip -n "$nodeA" route add "$@" || return 1
	before=$(retransmits "$nodeA" "$cid")
	transfer &
	transfer=$!
	nodes_wait 20 sent_again "$before" || return 1
	ip -n "$nodeA" route del "$@" || return 1
	wait "$transfer"
}

shorter() {
	local headers=28 status=0
	[ "$way" = udp4 ] || headers=48
	ip -n "$nodeA" route add "$peer" dev eth0 mtu 3000 || return 1
	transfer && transfer || status=1
	ip -n "$nodeA" route del "$peer" dev eth0 mtu 3000 || return 1
	tap_equal $((3000 - headers)) "$(conn_get "$nodeA" "$cid" path-mtu)" "bytes of a packet" && return "$status"
}

# endpoint NODE NUMBER PEER-NUMBER: of a connection whose device the route decides.
endpoint() {
	on "$1" superp conn add "$cid" peer "$(address "$way" "$3")" peer-cid "$cid" encap "$way" \
		local "$(address "$way" "$2")" ext on
	on "$1" superp conn start "$cid"
}

nodes_up 9000
ip link add eth1 mtu 9000 netns "$nodeA" type veth peer name eth1 mtu 9000 netns "$nodeB"
ip -n "$nodeA" address add 10.24.0.1/16 dev eth1
ip -n "$nodeB" address add 10.24.0.2/16 dev eth1
ip -n "$nodeA" address add fd24::1/64 dev eth1 nodad
ip -n "$nodeB" address add fd24::2/64 dev eth1 nodad
ip -n "$nodeA" link set eth1 up
ip -n "$nodeB" link set eth1 up
nodes_wait 5 nodes_running "$nodeA" eth1
ports_up
cid=0
for way in udp4 udp6; do
	cid=$((cid + 1))
	peer=$(address "$way" 2)
	endpoint "$nodeA" 1 2
	endpoint "$nodeB" 2 1
	tap_case "$way: another route is taken" other_way
	tap_case "$way: without a route packets are sent again" passed_over unreachable "$peer"
	tap_case "$way: on a route that takes less they are shorter" shorter
done
tap_end
