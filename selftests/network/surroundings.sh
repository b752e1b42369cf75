#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What a machine can have around a connection: offloads that are switched under traffic, VRF, VLANs in VLANs, link-local
# addresses, several next hops, packet filters, shapers, taps, mirrors, a peer with a new Ethernet address, and
# MACsec, IPsec and WireGuard. Every byte that moves is compared.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap 'nodes_down; bridge_down' EXIT
cid=0

# fresh [MTU]: two nodes with ports.
fresh() {
	nodes_down
	nodes_up "${1:-9000}" && ports_up
}
both() {
	local node
	for node in "$nodeA" "$nodeB"; do "$@" "$node" || return 1; done
}
# connected WAY [OPTION…]: a connection of the next id. It is given up later than by default, for machines that do other
# things, and earlier than the kernel by itself asks for an Ethernet address again.
connected() {
	cid=$((cid + 1))
	connect "$1" "$cid" ext on pdl_dead_time 15s "${@:2}"
}
# moves PEER COUNT [BYTES]
moves() { "$xfer" mixed "$nodeA" "$nodeB" "$1" "$cid" write,read,send "$2" "${3:-60000}" 8; }
# under PEER COMMAND…: with transfers before, while it runs, and after.
under() {
	local command status=0
	moves "$1" 20 || return 1
	"${@:2}" & command=$!
	while kill -0 "$command" 2>/dev/null; do moves "$1" 200 >/tmp/moved || { cat /tmp/moved; status=1; break; }; done
	wait "$command" || status=1
	[ "$status" = 0 ] && moves "$1" 20 || status=1
	tap_equal "established established" "$(conn_get "$nodeA" "$cid" state) $(conn_get "$nodeB" "$cid" state)" states || return 1
	return "$status"
}

# What a driver has not, it refuses.
feature() { on "$3" ethtool -K eth0 "$1" "$2" >/dev/null 2>&1 || true; }
switch_offloads() {
	local name
	for name in gso tso sg tx rx gro tx-udp-segmentation rx-udp-gro-forwarding; do
		both feature "$name" off
		sleep 0.05
		both feature "$name" on
	done
	# All of them off, in the order in which they do not depend on each other, and on again.
	for name in gro tso gso sg tx; do both feature "$name" off; done
	sleep 0.2
	for name in tx sg gso tso gro; do both feature "$name" on; done
}
offloads() {
	fresh || return 1
	connected "$way" && under "$(address "$way" 2)" switch_offloads
}

in_vrf() {
	ip -n "$1" link add blue type vrf table 10 && ip -n "$1" link set blue up || return 1
	# IPv6 addresses go with the change of the master.
	ip -n "$1" link set eth0 master blue || return 1
	nodes_address "$1" eth0 "$2" 2>/dev/null || true
	ip -n "$1" link set eth0 up && nodes_wait 5 nodes_running "$1" eth0
}
accept_all() { on "$1" sysctl -q net.ipv4.udp_l3mdev_accept=1; }
# As for any tunnel of the kernel's, sockets that are bound to no device have to be allowed what comes in by a VRF.
vrf() {
	fresh || return 1
	in_vrf "$nodeA" 1 && in_vrf "$nodeB" 2 || return 1
	connected "$way" || return 1
	# sysfs is that of the namespace in which it is mounted.
	[ "$way" = sunh ] || { tap_refused udp_l3mdev_accept ip netns exec "$nodeA" superp doctor && both accept_all; } || return 1
	moves "$(address "$way" 2)" 50
}

stacked_on() {
	ip -n "$1" link add outer link eth0 type vlan protocol 802.1ad id 100 &&
		ip -n "$1" link add inner link outer type vlan id 200 &&
		ip -n "$1" link set outer up && ip -n "$1" link set inner up &&
		ip -n "$1" address add "10.24.0.$2/16" dev inner && ip -n "$1" address add "fd24::$2/64" dev inner nodad
}
stacked() {
	local device=inner net=24
	nodes_down && nodes_up 9000 || return 1
	stacked_on "$nodeA" 1 && stacked_on "$nodeB" 2 && ports_up inner || return 1
	connected "$way" && moves "$(address "$way" 2 24)" 50
}

link_local_of() { ip -n "$1" -j -6 address show dev eth0 scope link | jq -r '[.[].addr_info[]? | .local // empty][0]'; }
ready_link_local() { [ "$(link_local_of "$1")" != null ] && ! ip -n "$1" -6 address show dev eth0 | grep -q tentative; }
link_local() {
	local a b
	fresh || return 1
	nodes_wait 10 ready_link_local "$nodeA" && nodes_wait 10 ready_link_local "$nodeB" || return 1
	a=$(link_local_of "$nodeA") b=$(link_local_of "$nodeB")
	cid=$((cid + 1))
	on "$nodeA" superp conn add "$cid" peer "$b" peer-cid "$cid" encap "$way" dev eth0 local "$a" ext on || return 1
	on "$nodeB" superp conn add "$cid" peer "$a" peer-cid "$cid" encap "$way" dev eth0 local "$b" ext on || return 1
	both start || return 1
	moves "$b" 50
}
start() { on "$1" superp conn start "$cid"; }

# Addresses on lo, over two links. Nothing goes over one without a carrier, as routing daemons have it.
several_next_hops() {
	local node number other net=10.25.0. first=10.23.0. own=10.99.9. family=ipv4 link=24 host=32
	[ "$way" = udp4 ] || net=fd25:: first=fd23:: own=fd99:: family=ipv6 link=64 host=128
	nodes_down && nodes_up 9000 || return 1
	ip link add eth1 netns "$nodeA" type veth peer name eth1 netns "$nodeB" || return 1
	for number in 1 2; do
		node=$nodeA other=2
		[ "$number" = 1 ] || node=$nodeB other=1
		ip -n "$node" link set eth1 mtu 9000 up || return 1
		ip -n "$node" address add "$net$number/$link" dev eth1 nodad && ip -n "$node" address add "$own$number/$host" dev lo || return 1
		on "$node" sysctl -q "net.$family".conf.eth{0,1}.ignore_routes_with_linkdown=1 || return 1
	done
	for number in 1 2; do
		node=$nodeA other=2
		[ "$number" = 1 ] || node=$nodeB other=1
		ip -n "$node" route add "$own$other/$host" nexthop via "$first$other" nexthop via "$net$other" || return 1
	done
	ports_up && on "$nodeA" superp dev add eth1 && on "$nodeB" superp dev add eth1 || return 1
	cid=$((cid + 1))
	on "$nodeA" superp conn add "$cid" peer "${own}2" peer-cid "$cid" encap "$way" local "${own}1" ext on || return 1
	on "$nodeB" superp conn add "$cid" peer "${own}1" peer-cid "$cid" encap "$way" local "${own}2" ext on || return 1
	both start && moves "${own}2" 50 || return 1
	# A link that goes takes nothing along.
	under "${own}2" ip -n "$nodeA" link set eth1 down
}

# filter NODE VERDICT: what it does to datagrams that come in for SUPERp.
filter() {
	on "$1" nft -f - <<-END
		table inet surroundings {
			chain input { type filter hook input priority 0; udp dport 7777 $2; }
		}
	END
}
filter_goes() { on "$nodeB" nft delete table inet surroundings; }
filtered_for_a_second() { filter "$nodeB" "$verdict" && sleep 1 && filter_goes; }
filtered() {
	fresh || return 1
	connected "$way" && under "$(address "$way" 2)" filtered_for_a_second
}

shaped() {
	fresh || return 1
	connected "$way" || return 1
	tc -n "$nodeA" qdisc replace dev eth0 root tbf rate 200mbit burst 64kb latency 20ms || return 1
	tc -n "$nodeB" qdisc replace dev eth0 root tbf rate 200mbit burst 64kb latency 20ms || return 1
	moves "$(address "$way" 2)" 60
}
lossy() {
	fresh || return 1
	connected "$way" || return 1
	nodes_netem "$nodeA" loss 30% && nodes_netem "$nodeB" loss 30% && moves "$(address "$way" 2)" 40 20000
}

new_address() {
	ip -n "$nodeB" link set eth0 address "$1" && sleep 0.3
}
changes_address() {
	local number
	# Down and up, as many drivers want it, would take the IPv6 addresses; veth does without.
	for number in 1 2 3; do new_address "02:00:00:00:99:0$number" || return 1; done
}
other_address() {
	fresh || return 1
	connected "$way" && under "$(address "$way" 2)" changes_address
}

# Taps and a mirror hold copies of packets for as long as they like.
watched() {
	local status=0 watchers
	fresh || return 1
	connected "$way" || return 1
	ip -n "$nodeA" link add watch type dummy && ip -n "$nodeA" link set watch up || return 1
	tc -n "$nodeA" qdisc add dev eth0 clsact || return 1
	tc -n "$nodeA" filter add dev eth0 egress matchall action mirred egress mirror dev watch || return 1
	tc -n "$nodeA" filter add dev eth0 ingress matchall action mirred egress mirror dev watch || return 1
	on "$nodeA" tcpdump -i eth0 -s 0 -w "/tmp/a.pcap" 2>/dev/null & watchers=($!)
	on "$nodeB" tcpdump -i eth0 -s 0 -w /dev/null 2>/dev/null & watchers+=($!)
	nodes_wait 10 test -e /tmp/a.pcap || status=1
	moves "$(address "$way" 2)" "$(fewer 200)" || status=1
	kill -TERM "${watchers[@]}"
	wait "${watchers[@]}" || true
	[ "$(stat -c %s /tmp/a.pcap)" -gt 1000000 ] || { echo "tcpdump has seen too little"; status=1; }
	[ "$(ip -n "$nodeA" -s -j link show watch | jq '.[0].stats64.tx.packets')" -gt 100 ] || { echo "nothing was mirrored"; status=1; }
	rm -f /tmp/a.pcap
	return "$status"
}

# A bridge between the two, which asks the packet filter of IP, and tracks connections there.
bridge_down() { ! [ -e /run/netns/between ] || ip netns delete between; }
bridged() {
	local status=0 end
	nodes_down && bridge_down || return 1
	nodes_add && ip netns add between || return 1
	ip -n between link add br0 mtu 9000 type bridge && ip -n between link set br0 up || return 1
	for end in "$nodeA" "$nodeB"; do
		ip link add eth0 netns "$end" mtu 9000 type veth peer name "to$end" netns between mtu 9000 || return 1
		ip -n between link set "to$end" master br0 up || return 1
	done
	nodes_start 9000 && ports_up || return 1
	nodes_outside modprobe br_netfilter || return 1
	on between sysctl -q net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1 || return 1
	on between nft -f - <<-END || return 1
		table inet surroundings {
			chain forward { type filter hook forward priority 0; udp dport 7777 counter accept; }
		}
	END
	connected "$way" && moves "$(address "$way" 2)" 200 || status=1
	[ "$way" = sunh ] || on between nft list ruleset | grep -E 'packets [1-9]' || { echo "the filter has seen nothing"; status=1; }
	bridge_down
	return "$status"
}

key=00112233445566778899aabbccddeeff
macsec_on() {
	ip -n "$1" link add link eth0 macsec0 type macsec encrypt on &&
		ip -n "$1" macsec add macsec0 tx sa 0 pn 1 on key 01 "$key" &&
		ip -n "$1" macsec add macsec0 rx port 1 address "$(nodes_mac "$3")" &&
		ip -n "$1" macsec add macsec0 rx port 1 address "$(nodes_mac "$3")" sa 0 pn 1 on key 01 "$key" &&
		ip -n "$1" link set macsec0 up &&
		ip -n "$1" address add "10.24.0.$2/16" dev macsec0 && ip -n "$1" address add "fd24::$2/64" dev macsec0 nodad
}
macsec() {
	local device=macsec0 net=24
	nodes_down && nodes_up "$1" || return 1
	macsec_on "$nodeA" 1 "$nodeB" && macsec_on "$nodeB" 2 "$nodeA" && ports_up macsec0 || return 1
	connected "$way" && moves "$(address "$way" 2 24)" 60 100000 || return 1
	[ "$(ip -n "$nodeB" -s macsec show macsec0 | grep -c InPktsOK)" != 0 ]
}

# Transport mode: what SUPERp sends is encrypted between IP and UDP.
transform() {
	local spi=$4
	ip -n "$1" xfrm state add src "$2" dst "$3" proto esp spi "$spi" mode transport aead 'rfc4106(gcm(aes))' "0x${key}aabbccdd" 128 || return 1
	ip -n "$1" xfrm policy add src "$2" dst "$3" dir "$5" tmpl src "$2" dst "$3" proto esp mode transport
}
ipsec() {
	local a b
	fresh "$1" || return 1
	a=$(address "$way" 1) b=$(address "$way" 2)
	transform "$nodeA" "$a" "$b" 1001 out && transform "$nodeA" "$b" "$a" 1002 in || return 1
	transform "$nodeB" "$a" "$b" 1001 in && transform "$nodeB" "$b" "$a" 1002 out || return 1
	connected "$way" && moves "$b" 60 100000 || return 1
	# Nothing went in the clear.
	[ "$(ip -n "$nodeA" -s xfrm state | grep -A1 'lifetime current' | grep -oE '[0-9]+\(packets\)' | head -n 1 | tr -dc 0-9)" -gt 20 ] ||
		{ echo "not encrypted"; ip -n "$nodeA" -s xfrm state; return 1; }
}

# tunnel_on NODE ID PEER PEERID: each end makes its key where the other finds it.
tunnel_on() {
	ip -n "$1" link add wg0 type wireguard &&
		on "$1" wg set wg0 listen-port 51820 private-key "/tmp/wg$2" \
			peer "$(wg pubkey <"/tmp/wg$4")" allowed-ips 10.24.0.0/16,fd24::/64 endpoint "10.23.0.$4:51820" &&
		ip -n "$1" address add "10.24.0.$2/16" dev wg0 && ip -n "$1" address add "fd24::$2/64" dev wg0 nodad &&
		ip -n "$1" link set wg0 mtu "$(($5 - 80))" up
}
wireguard() {
	fresh "$1" || return 1
	(umask 077 && wg genkey >/tmp/wg1 && wg genkey >/tmp/wg2) || return 1
	tunnel_on "$nodeA" 1 "$nodeB" 2 "$1" && tunnel_on "$nodeB" 2 "$nodeA" 1 "$1" || return 1
	cid=$((cid + 1))
	routed "$nodeA" 1 2 && routed "$nodeB" 2 1 || return 1
	moves "$(address "$way" 2 24)" 60 100000 || return 1
	[ "$(on "$nodeB" wg show wg0 transfer | cut -f 2)" -gt 1000000 ] || { on "$nodeB" wg show; return 1; }
	# It is changed under the connection.
	under "$(address "$way" 2 24)" keys_anew
}
# routed NODE ID PEERID: one half of a connection over whatever device the route names.
routed() {
	on "$1" superp conn add "$cid" peer "$(address "$way" "$3" 24)" peer-cid "$cid" encap "$way" \
		local "$(address "$way" "$2" 24)" ext on pdl_dead_time 15s && on "$1" superp conn start "$cid"
}
keys_anew() {
	local old
	old=$(wg pubkey </tmp/wg2)
	wg genkey >/tmp/wg2 || return 1
	on "$nodeB" wg set wg0 private-key /tmp/wg2 && sleep 0.3 || return 1
	on "$nodeA" wg set wg0 peer "$old" remove peer "$(wg pubkey </tmp/wg2)" allowed-ips 10.24.0.0/16,fd24::/64 \
		endpoint 10.23.0.2:51820 && sleep 0.5
}

for way in sunh udp4 udp6; do
	tap_case "$way: offloads are switched under traffic" offloads
	tap_case "$way: a VRF" vrf
	tap_case "$way: a VLAN in a VLAN (802.1ad)" stacked
	tap_case "$way: a shaper of 200 Mbit/s" shaped
	tap_case "$way: 30 % of the packets are lost, each way" lossy
	tap_case "$way: the peer's Ethernet address changes, three times" other_address
	tap_case "$way: tcpdump at both ends, and a mirror" watched
	tap_case "$way: a bridge with br_netfilter" bridged
	tap_case "$way: MACsec" macsec 9000
	tap_case "$way: MACsec, MTU 1500" macsec 1500
done
for way in sunh udp6; do tap_case "$way: link-local addresses" link_local; done
for way in udp4 udp6; do
	tap_case "$way: addresses on lo, two next hops, one of which goes" several_next_hops
done
for way in udp4 udp6; do
	for verdict in drop reject; do tap_case "$way: a packet filter's $verdict for a second" filtered; done
	tap_case "$way: IPsec" ipsec 9000
	tap_case "$way: IPsec, MTU 1500" ipsec 1500
	tap_case "$way: WireGuard, whose keys change" wireguard 9000
	tap_case "$way: WireGuard, MTU 1500" wireguard 1500
done
tap_end
