#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# A link behind a router takes shorter packets than before, while data moves over UDP: what is under way
# arrives, what follows is cut shorter, and nothing is given up.
#
#	A eth0 ---- 9000 ---- toA R toB ---- 9000, later 1500, 1400 ---- eth0 B
#	10.51.1.1  fd51:1::1                                     10.51.2.2  fd51:2::2
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh

nodeA=narrowA nodeR=narrowR nodeB=narrowB
everything_down() {
	local node
	for node in "$nodeA" "$nodeR" "$nodeB"; do ip netns delete "$node" 2>/dev/null || true; done
}
trap everything_down EXIT

network() {
	local node
	for node in "$nodeA" "$nodeR" "$nodeB"; do
		ip netns add "$node" && ip -n "$node" link set lo up || return 1
	done
	ip link add eth0 mtu 9000 netns "$nodeA" type veth peer name toA mtu 9000 netns "$nodeR" || return 1
	ip link add eth0 mtu 9000 netns "$nodeB" type veth peer name toB mtu 9000 netns "$nodeR" || return 1
	on "$nodeR" sysctl -q net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 || return 1
	has "$nodeA" eth0 10.51.1.1/24 fd51:1::1/64 && has "$nodeR" toA 10.51.1.254/24 fd51:1::fe/64 || return 1
	has "$nodeB" eth0 10.51.2.2/24 fd51:2::2/64 && has "$nodeR" toB 10.51.2.254/24 fd51:2::fe/64 || return 1
	ip -n "$nodeA" route add default via 10.51.1.254 && ip -n "$nodeA" -6 route add default via fd51:1::fe || return 1
	ip -n "$nodeB" route add default via 10.51.2.254 && ip -n "$nodeB" -6 route add default via fd51:2::fe || return 1
	ports_up
}
has() { ip -n "$1" address add "$3" dev "$2" && ip -n "$1" address add "$4" dev "$2" nodad && ip -n "$1" link set "$2" up; }
link() { ip -n "$nodeR" link set toB mtu "$1" && ip -n "$nodeB" link set eth0 mtu "$1"; }

# made WAY CID [OPTION…]: a connection through the router.
made() {
	local way=$1 cid=$2 a=10.51.1.1 b=10.51.2.2
	[ "$way" = udp4 ] || a=fd51:1::1 b=fd51:2::2
	shift 2
	on "$nodeA" superp conn add "$cid" peer "$b" peer-cid "$cid" encap "$way" local "$a" "$@" || return 1
	on "$nodeB" superp conn add "$cid" peer "$a" peer-cid "$cid" encap "$way" local "$b" "$@" || return 1
	on "$nodeA" superp conn start "$cid" && on "$nodeB" superp conn start "$cid"
}
peer() { [ "$1" = udp4 ] && echo 10.51.2.2 || echo fd51:2::2; }
moves() { "$xfer" mixed "$nodeA" "$nodeB" "$(peer "$way")" "$cid" write,read,send "$1" 100000 8; }
# Datagrams that a node has had to send in fragments.
fragmented() { on "$1" nstat -asz Ip6FragOKs IpFragOKs | awk '/FragOKs/ { sum += $2 } END { print sum }'; }
lengths() { echo "$(conn_get "$nodeA" "$cid" "$1") $(conn_get "$nodeB" "$cid" "$1")"; }
states() { echo "$(conn_get "$nodeA" "$cid" state) $(conn_get "$nodeB" "$cid" state)"; }

falls() {
	local mover headers=28 status=0 before after
	[ "$way" = udp4 ] || headers=48
	link 9000 && made "$way" "$cid" ext on && moves 10 || return 1
	tap_equal "$((9000 - headers)) $((9000 - headers))" "$(lengths path-mtu)" "bytes of a packet at first" || return 1
	moves "$(fewer 2000)" &
	mover=$!
	nodes_wait 20 eval '[ "$(conn_get "$nodeA" "$cid" tx-packets)" -gt 200 ]' || return 1
	link 1500
	wait "$mover" || status=1
	tap_equal "established established" "$(states)" "states" || return 1
	[ "$status" = 0 ] || return 1
	moves 10 || return 1
	tap_equal "$((1500 - headers)) $((1500 - headers))" "$(lengths path-mtu)" "bytes of a packet" || return 1
	tap_equal "$((9000 - headers)) $((9000 - headers))" "$(lengths mtu)" "bytes at the beginning" || return 1
	[ "$(fragmented "$nodeA")" -gt 0 ] || { echo "nothing was under way in long packets"; return 1; }
	# What is made now fits.
	before="$(fragmented "$nodeA") $(fragmented "$nodeB")"
	moves 20 || return 1
	after="$(fragmented "$nodeA") $(fragmented "$nodeB")"
	tap_equal "$before" "$after" "datagrams in fragments"
}
# Once more, and a new life: with the full length it meets the narrow link again.
again() {
	link 1400 && moves 20 || return 1
	on "$nodeA" superp conn stop "$cid" && on "$nodeB" superp conn stop "$cid" || return 1
	nodes_wait 10 eval '[ "$(states)" = "stopped stopped" ]' || return 1
	on "$nodeA" superp conn reset "$cid" start-psn 1000000 && on "$nodeB" superp conn reset "$cid" start-psn 1000000 || return 1
	on "$nodeA" superp conn start "$cid" && on "$nodeB" superp conn start "$cid" || return 1
	moves 20
}
# A message has to be one transaction there, which is shorter in short packets.
strict() {
	local longest
	link 9000 && made "$way" "$cid" ext off && moves_strict 16 || return 1
	longest=$(($(lengths mtu | cut -d' ' -f1) - 60))
	link 1500 || return 1
	moves_strict 16 && moves_strict $((longest * 20))
}
moves_strict() { "$xfer" each "$nodeA" "$nodeB" "$(peer "$way")" "$cid" write,read,send "$1" 100; }

tap_case "nodes and a router" network
cid=0
for way in udp4 udp6; do
	cid=$((cid + 1))
	tap_case "$way: MTU 9000 becomes 1500 under traffic" falls
	tap_case "$way: then 1400, and a new life of the connection" again
	cid=$((cid + 1))
	tap_case "$way: long messages without extensions" strict
done
tap_end
