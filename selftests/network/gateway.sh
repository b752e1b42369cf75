#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# A gateway: node A speaks SUNH, node B UDP over IPv4 (as number 2) and IPv6 (as number 3).
#
#	A eth0 ---- SUNH ---- toA G toB ---- UDP/IP ---- eth0 B
#	10.23.0.1                   10.23.0.254          10.23.0.2
#	fd23::1                     fd23::fe             fd23::3
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh

nodeA=gateA nodeG=gateG nodeB=gateB
everything_down() {
	local node
	for node in "$nodeA" "$nodeG" "$nodeB"; do ip netns delete "$node" 2>/dev/null || true; done
}
trap everything_down EXIT

mac() { ip -n "$1" -j link show "$2" 2>/dev/null | jq -r '.[0].address'; }
packet() { network/gateway.py "$1" "$nodeA" "$nodeG" "$nodeB"; }
routes() { on "$nodeG" superp -j route show | jq "[.[] | select(.address == $1)] | length"; }

# ends VERSION CID [OPTION…]: a connection from SUNH to UDP over that version of IP.
ends() {
	local way=udp$1 number=$(($1 / 2)) sunh=sunh${1#4}
	half "$nodeA" "$sunh" "$2" "$2" 1 "$number" eth0 23 lladdr "$(mac "$nodeG" toA)" ext on "${@:3}" || return 1
	half "$nodeB" "$way" "$2" "$2" "$number" 1 eth0 23 ext on "${@:3}"
}
# transfers VERSION CID COUNT: from both ends.
transfers() {
	local a=10.23.0.1 b=10.23.0.2
	[ "$1" = 4 ] || a=fd23::1 b=fd23::3
	"$xfer" mixed "$nodeA" "$nodeB" "$b" "$2" write,read,send "$3" 60000 16 || return 1
	"$xfer" mixed "$nodeB" "$nodeA" "$a" "$2" write,read,send "$3" 60000 16
}

# Of the gateway's counters only the one of forwarded packets moves.
moved() {
	local before
	before=$(on "$nodeG" superp -j stats | jq -c .drops) || return 1
	ends "$1" "$2" mtu 8900 || return 1
	transfers "$1" "$2" 100 || return 1
	tap_equal "$before" "$(on "$nodeG" superp -j stats | jq -c .drops)" "drops of the gateway" || return 1
	[ "$(on "$nodeG" superp -j route show | jq "[.[] | select(.address == $(($1 / 2))) | .packets] | add")" -gt 100 ]
}

# A connection that fills A's device does not fit into UDP.
too_long() {
	local before status=0
	before=$(drops "$nodeG" too_long)
	ends 4 9 tal_transaction_timeout 20000000 || return 1
	"$xfer" mixed "$nodeA" "$nodeB" 10.23.0.2 9 write 4 60000 1 || status=$?
	tap_equal 3 "$status" status || return 1
	[ "$(drops "$nodeG" too_long)" -gt "$before" ] || return 1
	disconnect 9
}

# In front of A's own address frames need no address of the gateway's.
by_neighbour() {
	on "$nodeG" superp route del 1 || return 1
	on "$nodeG" superp route add 1 dev toA via 10.23.0.1 || return 1
	transfers 4 4 20
}

small_frames() {
	local status=0
	ip -n "$nodeG" link set toA mtu 1500 || return 1
	packet udp_refused || status=$?
	ip -n "$nodeG" link set toA mtu 9000 && return "$status"
}

refusals() {
	local add=(on "$nodeG" superp route add 7 dev)
	tap_refused "not a port that serves UDP" "${add[@]}" toA prefix 10.23.0.0/16 || return 1
	tap_refused "not a port that serves SUNH" "${add[@]}" toB via 10.23.0.7 || return 1
	tap_refused "has this next hop" on "$nodeG" superp route add 2 dev toB prefix 10.23.0.0/16 || return 1
	tap_refused "one of via, lladdr and prefix" "${add[@]}" toB prefix 10.23.0.0/16 via 10.23.0.7 || return 1
	tap_refused "not a prefix" "${add[@]}" toB prefix 10.23.0.0 || return 1
	local prefix
	for prefix in 10.23.1.0/16 10.23.0.0/15 10.23.0.0/32 fd23::/111 fd23::1:1/112; do
		tap_refused "1 to 16 bits for the host part" "${add[@]}" toB prefix "$prefix" || return 1
	done
	tap_refused "out of range" "${add[@]}" toB prefix fd23::/128 || return 1
	tap_refused "does not leave 12 bits" "${add[@]}" toB prefix 10.23.16.0/21 || return 1
	tap_equal 0 "$(routes 7)" "routes made by refused requests" || return 1
	tap_refused "routes use the port" on "$nodeG" superp dev del toB
}

shown() {
	tap_equal 10.23.0.0/16 "$(on "$nodeG" superp -j route show | jq -r '.[] | select(.address == 2).prefix')" prefix || return 1
	on "$nodeG" superp route show | grep -q 'toB *udp, prefix fd23::/112'
}

device_removed() {
	ip -n "$nodeG" link del toB || return 1
	tap_equal "1 0 0 0" "$(routes 1) $(routes 2) $(routes 3) $(routes 8)" "routes that are left"
}

for node in "$nodeA" "$nodeG" "$nodeB"; do
	ip netns add "$node"
	ip -n "$node" link set lo up
done
ip link add eth0 mtu 9000 netns "$nodeA" type veth peer name toA mtu 9000 netns "$nodeG"
ip link add eth0 mtu 9000 netns "$nodeB" type veth peer name toB mtu 9000 netns "$nodeG"
devices="$nodeA:eth0 $nodeG:toA $nodeG:toB $nodeB:eth0"
for device in $devices; do ip -n "${device%:*}" link set "${device#*:}" up; done
for device in $devices; do nodes_wait 30 nodes_running "${device%:*}" "${device#*:}"; done
# The checksum is in the frame then, and looked at.
on "$nodeG" ethtool -K toB tx off >/dev/null
ip -n "$nodeA" address add 10.23.0.1/16 dev eth0
ip -n "$nodeA" address add fd23::1/64 dev eth0 nodad
ip -n "$nodeB" address add 10.23.0.2/16 dev eth0
ip -n "$nodeB" address add fd23::3/64 dev eth0 nodad
ip -n "$nodeG" address add 10.23.0.254/16 dev toB
ip -n "$nodeG" address add fd23::fe/64 dev toB nodad
# IP brings to the gateway what is for A, by ARP, respectively by route, and the gateway takes it. The
# others are to be refused.
ip -n "$nodeB" route add fd23::1 via fd23::fe
for address in 10.23.0.1 fd23::1 10.23.0.6 10.23.0.8 10.24.0.1; do
	ip -n "$nodeG" route add local "$address" dev lo
done
ports_up
on "$nodeG" superp dev add toA encap sunh
on "$nodeG" superp dev add toB encap udp
# 5 is a second SUNH node, which nobody asks.
for address in 1 5; do
	on "$nodeG" superp route add "$address" dev toA lladdr "$(mac "$nodeA" eth0)"
done
# And 8 a second one beyond SUNH.
for address in 2 8; do on "$nodeG" superp route add "$address" dev toB prefix 10.23.0.0/16; done
on "$nodeG" superp route add 3 dev toB prefix fd23::/112

tap_case "nothing passes before forwarding is switched on" packet off
on "$nodeG" superp node set forwarding on
tap_case "writes, reads and messages between SUNH and UDP/IPv4, both ways" moved 4 4
tap_case "writes, reads and messages between SUNH and UDP/IPv6, both ways" moved 6 6
tap_case "a SUNH frame is expanded to UDP/IPv4, header by header" packet expanded4
tap_case "a SUNH frame is expanded to UDP/IPv6, header by header" packet expanded6
tap_case "a datagram of IPv4 is compressed to SUNH" packet compressed4
tap_case "a datagram of IPv6 is compressed to SUNH" packet compressed6
tap_case "padding of Ethernet goes along" packet padded
tap_case "SUNH frames that are dropped, each by its own counter" packet sunh_refused
tap_case "datagrams that are dropped, each by its own counter" small_frames
tap_case "a connection whose packets are too long for UDP fails" too_long
tap_case "the SUNH node by its IP address" by_neighbour
tap_case "routes that make no sense are refused by name" refusals
tap_case "the routes are shown" shown
tap_case "forwarding can be switched off again" on "$nodeG" superp node set forwarding off
tap_case "nothing passes then" packet off
tap_case "a removed device takes its next hops along" device_removed
tap_end
