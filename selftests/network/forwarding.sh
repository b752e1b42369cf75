#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# SUNH switches: nodes A and B are connected by two machines that forward, over two parallel links.
#
#	A eth0 -- toA S l0 ---- l0 T toB -- eth0 B
#	                l1 ---- l1
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh

nodeA=fwdA nodeS=fwdS nodeT=fwdT nodeB=fwdB
everything_down() {
	local node
	for node in "$nodeA" "$nodeS" "$nodeT" "$nodeB"; do ip netns delete "$node" 2>/dev/null || true; done
}
trap everything_down EXIT

# link NODE DEVICE NODE DEVICE
link() {
	ip link add "$2" mtu 9000 netns "$1" type veth peer name "$4" mtu 9000 netns "$3"
	ip -n "$1" link set "$2" up
	ip -n "$3" link set "$4" up
}
mac() { ip -n "$1" -j link show "$2" 2>/dev/null | jq -r '.[0].address'; }
frames() {
	on "$1" superp -j route show | jq --arg dev "$2" '[.[] | select(.ifname == $dev) | .packets] | add // 0'
}

# route NODE ADDRESS DEVICE TO-NODE TO-DEVICE
route() { on "$1" superp route add "$2" dev "$3" lladdr "$(mac "$4" "$5")"; }

# The nodes send to their switch.
ends() {
	local cid=$1
	half "$nodeA" sunh "$cid" "$cid" 1 2 eth0 23 lladdr "$(mac "$nodeS" toA)" ext on "${@:2}" || return 1
	half "$nodeB" sunh "$cid" "$cid" 2 1 eth0 23 lladdr "$(mac "$nodeT" toB)" ext on "${@:2}"
}
transfers() { "$xfer" mixed "$nodeA" "$nodeB" 10.23.0.2 "$1" write,read,send "${@:2}"; }

off_at_first() {
	local status=0
	ends 1 tal_transaction_timeout 20000000 || return 1
	"$xfer" mixed "$nodeA" "$nodeB" 10.23.0.2 1 write 1 1000 1 || status=$?
	tap_equal 3 "$status" status || return 1
	tap_equal 0 "$(on "$nodeS" superp -j node show | jq .forwarded)" "frames forwarded" || return 1
	[ "$(drops "$nodeS" no_connection)" -gt 0 ] || return 1
	disconnect 1
}

switched() {
	on "$nodeS" superp node set forwarding on && on "$nodeT" superp node set forwarding on || return 1
	ends 2 || return 1
	transfers 2 "$(fewer 200)" 60000 16 || return 1
	tap_equal 0 "$(drops "$nodeS" not_forwarded)" "frames not forwarded" || return 1
	tap_equal 0 "$(drops "$nodeS" too_long)" "frames that were too long" || return 1
	# A flow keeps its link, so nothing was reordered or lost.
	tap_equal 0 "$(conn_sum "$nodeB" 2 rx-out-of-order retrans-fast)" "out of order"
}

flows_are_spread() {
	local cid label=1 l0 l1
	for ((cid = 10; cid < 26; cid++)); do
		ends "$cid" flow-label "$label" || return 1
		transfers "$cid" 10 1000 4 || return 1
		label=$((label * 3 % 4096))
	done
	l0=$(frames "$nodeS" l0) l1=$(frames "$nodeS" l1)
	echo "frames over l0: $l0, l1: $l1"
	[ "$l0" -gt 50 ] && [ "$l1" -gt 50 ]
}

other_link_takes_over() {
	local before cid
	ip -n "$nodeS" link set l0 down || return 1
	before=$(frames "$nodeS" l0)
	for ((cid = 10; cid < 26; cid++)); do
		transfers "$cid" 10 1000 4 || return 1
	done
	tap_equal "$before" "$(frames "$nodeS" l0)" "frames over the link that is down" || return 1
	ip -n "$nodeS" link set l0 up
}

# The packets of one unordered connection use both links, and outlive the loss of one.
sprayed() {
	local l0 l1 pid status=0
	l0=$(frames "$nodeS" l0) l1=$(frames "$nodeS" l1)
	tap_refused "ordered connection keep one path" ends 6 spray on || return 1
	ends 6 ordered off spray on || return 1
	transfers 6 100 60000 16 || return 1
	[ "$(frames "$nodeS" l0)" -gt $((l0 + 100)) ] && [ "$(frames "$nodeS" l1)" -gt $((l1 + 100)) ] || return 1
	transfers 6 "$(fewer 2000)" 60000 16 &
	pid=$!
	ip -n "$nodeT" link set l0 down || status=1
	wait "$pid" || status=1
	ip -n "$nodeT" link set l0 up || status=1
	nodes_wait 5 nodes_running "$nodeS" l0 || status=1
	return "$status"
}

# Frames keep the EtherType that they came with.
switched_lite() {
	local settings=(lite on ext on tal_transaction_timeout 2000000000 tal_trans_window 8)
	half "$nodeA" sunh 8 0 1 2 eth0 23 lladdr "$(mac "$nodeS" toA)" "${settings[@]}" || return 1
	half "$nodeB" sunh 8 0 2 1 eth0 23 lladdr "$(mac "$nodeT" toB)" "${settings[@]}" || return 1
	transfers 8 100 60000 8 || return 1
	disconnect 8
}

hop_limit() {
	local before status=0
	before=$(drops "$nodeT" hop_limit)
	# The second switch would have to send it with 0.
	ends 3 hop-limit 2 tal_transaction_timeout 20000000 || return 1
	"$xfer" mixed "$nodeA" "$nodeB" 10.23.0.2 3 write 1 1000 1 || status=$?
	tap_equal 3 "$status" status || return 1
	[ "$(drops "$nodeT" hop_limit)" -gt "$before" ] || return 1
	ends 4 hop-limit 3 || return 1
	transfers 4 20 10000 4
}

too_long() {
	local before status=0
	before=$(drops "$nodeS" too_long)
	ip -n "$nodeS" link set l0 mtu 1500 && ip -n "$nodeS" link set l1 mtu 1500 || return 1
	ends 5 tal_transaction_timeout 20000000 || return 1
	"$xfer" mixed "$nodeA" "$nodeB" 10.23.0.2 5 write 4 60000 1 || status=$?
	tap_equal 3 "$status" status || return 1
	[ "$(drops "$nodeS" too_long)" -gt "$before" ] || return 1
	ip -n "$nodeS" link set l0 mtu 9000 && ip -n "$nodeS" link set l1 mtu 9000
}

refusals() {
	local mac
	mac=$(mac "$nodeT" l0)
	tap_refused "has this next hop" on "$nodeS" superp route add 2 dev l0 lladdr "$mac" || return 1
	tap_refused "not a port" on "$nodeS" superp route add 2 dev lo lladdr "$mac" || return 1
	tap_refused "not a SUNH address of 12 bits" on "$nodeS" superp route add 4096 dev l0 lladdr "$mac" || return 1
	tap_refused "not a SUNH address" on "$nodeS" superp route add 0 dev l0 lladdr "$mac" || return 1
	tap_refused "via, lladdr or prefix is missing" on "$nodeS" superp route add 2 dev l0 || return 1
	tap_refused "no such route" on "$nodeS" superp route del 9 || return 1
	tap_refused "routes use the port" on "$nodeS" superp dev del l0
}

# The third way to name a next hop: its IP address, which ARP resolves.
by_neighbour() {
	ip -n "$nodeT" address add 10.23.0.254/32 dev toB || return 1
	on "$nodeT" superp route del 2 || return 1
	on "$nodeT" superp route add 10.23.0.2 dev toB via 10.23.0.2 || return 1
	transfers 2 50 20000 8
}

device_removed() {
	ip -n "$nodeS" link del l0 || return 1
	tap_equal 1 "$(on "$nodeS" superp -j route show | jq '[.[] | select(.address == 2)] | length')" \
		"next hops that are left" || return 1
	transfers 2 50 20000 8 || return 1
	on "$nodeS" superp route del 2 || return 1
	tap_equal 0 "$(on "$nodeS" superp -j route show | jq '[.[] | select(.address == 2)] | length')" routes
}

for node in "$nodeA" "$nodeS" "$nodeT" "$nodeB"; do
	ip netns add "$node"
	ip -n "$node" link set lo up
done
link "$nodeA" eth0 "$nodeS" toA
link "$nodeS" l0 "$nodeT" l0
link "$nodeS" l1 "$nodeT" l1
link "$nodeT" toB "$nodeB" eth0
ip -n "$nodeA" address add 10.23.0.1/16 dev eth0
ip -n "$nodeB" address add 10.23.0.2/16 dev eth0
ports_up
for port in "$nodeS toA" "$nodeS l0" "$nodeS l1" "$nodeT l0" "$nodeT l1" "$nodeT toB"; do
	on "${port% *}" superp dev add "${port#* }" encap sunh
done
for port in "$nodeA eth0" "$nodeS l0" "$nodeS l1" "$nodeT toB"; do
	nodes_wait 5 nodes_running "${port% *}" "${port#* }"
done
route "$nodeS" 1 toA "$nodeA" eth0
route "$nodeS" 2 l0 "$nodeT" l0
route "$nodeS" 2 l1 "$nodeT" l1
route "$nodeT" 1 l0 "$nodeS" l0
route "$nodeT" 1 l1 "$nodeS" l1
route "$nodeT" 2 toB "$nodeB" eth0

# RTNL is everybody's: while a device goes with so many routes, other namespaces can have devices.
many_routes_leave() {
	local count=2000 begin longest=0 took left
	ip link add many netns "$nodeS" type dummy && ip -n "$nodeS" link set many up || return 1
	on "$nodeS" superp dev add many || return 1
	seq 1000 "$((999 + count))" | sed 's/.*/route add & dev many lladdr 02:00:00:00:00:01/' | on "$nodeS" superp batch || return 1
	begin=$(on "$nodeS" superp -j route show | jq 'map(select(.ifname == "many")) | length')
	tap_equal "$count" "$begin" "routes" || return 1
	ip -n "$nodeS" link del many & left=$!
	while kill -0 "$left" 2>/dev/null; do
		begin=${EPOCHREALTIME/[.,]/}
		ip -n "$nodeT" link add other type dummy && ip -n "$nodeT" link del other || return 1
		took=$((${EPOCHREALTIME/[.,]/} - begin))
		[ "$took" -le "$longest" ] || longest=$took
	done
	wait "$left" || return 1
	echo "# $count routes; the longest wait of others is $((longest / 1000)) ms"
	tap_equal 0 "$(on "$nodeS" superp -j route show | jq 'map(select(.ifname == "many")) | length')" "routes left" || return 1
	# A grace period for each route took forty seconds.
	[ "$longest" -lt 10000000 ]
}

tap_case "nothing is forwarded before forwarding is switched on" off_at_first
tap_case "writes, reads and messages over two switches" switched
tap_case "SUPERp-lite over two switches" switched_lite
tap_case "flow labels are spread over parallel links" flows_are_spread
tap_case "the other link takes over when one is down" other_link_takes_over
tap_case "an unordered connection is sprayed over both links" sprayed
tap_case "the Hop Limit ends a frame's way" hop_limit
tap_case "a frame longer than the next link's MTU is dropped and counted" too_long
tap_case "routes that make no sense are refused by name" refusals
tap_case "the next hop by its IP address" by_neighbour
tap_case "a removed device takes its next hops along" device_removed
tap_case "others have devices while one goes with very many routes" many_routes_leave
tap_end
