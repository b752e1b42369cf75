#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# superp doctor, on set-ups that are broken one by one: it names the one fault and no other, and what it
# gives as a remedy makes it content.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
found=$(mktemp)
restore() {
	nodes_down
	rm -f "$found" "$found.mtu"
}
trap restore EXIT

# Who does not answer at all need not be waited for; who does may take its time on a busy machine.
patient=60
impatient=0.2

# finds NODE SECONDS "CHECK:OBJECT…" [ARGUMENT…]: the faults, all of them; leaves the answer in $found.
finds() {
	local node=$1 seconds=$2 wanted=$3 status=0
	shift 3
	on "$node" superp -j doctor -W "$seconds" "$@" >"$found" || status=$?
	cat "$found"
	tap_equal "$wanted" "$(jq -r 'map(select(.verdict == "wrong") | "\(.check):\(.object)") | join(" ")' "$found")" \
		faults || { ip -n "$node" -s neighbour; on "$node" grep -E '^(Icmp|Tcp):' /proc/net/snmp; return 1; }
	tap_equal "$([ -z "$wanted" ] || echo 1)" "${status#0}" "exit status"
}
content() { finds "$nodeA" "$patient" '' "$@"; }

# told FIELD: of the fault that was found.
told() { jq -r --arg field "$1" '.[] | select(.verdict == "wrong") | .[$field] // empty' "$found"; }

# apply: what it said, as it said it. There must be something.
apply() {
	local here there
	here=$(told remedy)
	there=$(told peer-remedy)
	[ -n "$here$there" ] || { echo "no command is given"; return 1; }
	[ -z "$here" ] || on "$nodeA" sh -ec "$here" || return 1
	[ -z "$there" ] || on "$nodeB" sh -ec "$there"
}

# fresh: a new connection by $way at both ends, and no other.
fresh() {
	alone || return 1
	connect "$way" "$cid" ext on
}
# alone: without any connection; $cid is the next one's number.
alone() {
	local node
	for node in "$nodeA" "$nodeB"; do
		on "$node" sh -ec 'superp -j conn | jq ".[].\"local-cid\"" | xargs -r superp conn del' || return 1
	done
	cid=$((cid + 1))
}
cid=0 way=sunh

both_running() { nodes_wait 10 nodes_running "$nodeA" eth0 && nodes_wait 10 nodes_running "$nodeB" eth0; }
state_is() { [ "$(conn_get "$1" "$cid" state)" = "$2" ]; }

# afresh: both ends of a connection whose requests were lost for a while, whether it has broken or not.
afresh() {
	local node
	for node in "$nodeA" "$nodeB"; do
		on "$node" superp conn reset "$cid" start-psn 0x60000000 || return 1
		on "$node" superp conn start "$cid" || return 1
	done
}

no_port() {
	finds "$nodeA" "$patient" port:node || return 1
	{ on "$nodeA" superp doctor || true; } | grep -qx ' *hint: superp dev add eth0' || return 1
	apply && content
}

no_connection() {
	ip -n "$nodeB" address add 10.23.0.77/16 dev eth0 || return 1
	finds "$nodeA" "$patient" connection:10.23.0.77 10.23.0.77 || return 1
	told advice | grep -q '^superp connect 10.23.0.77, ' || return 1
	alone || return 1
	half "$nodeB" sunh "$cid" "$cid" 77 1 eth0 23 || return 1
	half "$nodeA" sunh "$cid" "$cid" 1 77 eth0 23 || return 1
	content 10.23.0.77 && ip -n "$nodeB" address del 10.23.0.77/16 dev eth0
}

not_started() {
	fresh && on "$nodeA" superp conn reset "$cid" || return 1
	finds "$nodeA" "$patient" "connection:$cid" || return 1
	tap_equal "superp conn start $cid" "$(told remedy)" remedy || return 1
	apply && content
}

switched_off() {
	fresh && ip -n "$nodeA" link set eth0 down || return 1
	finds "$nodeA" "$patient" link:eth0 10.23.0.2 || return 1
	apply && both_running && content
}

in_a_bridge() {
	fresh && ip -n "$nodeA" link add bridge0 type bridge || return 1
	ip -n "$nodeA" link set eth0 master bridge0 || return 1
	finds "$nodeA" "$impatient" link:eth0 10.23.0.2 || return 1
	told text | grep -q bridge0 || return 1
	apply && both_running && afresh && content && ip -n "$nodeA" link del bridge0
}

no_carrier() {
	fresh && ip -n "$nodeB" link set eth0 down || return 1
	finds "$nodeA" "$patient" link:eth0 || return 1
	told text | grep -q carrier || return 1
	finds "$nodeB" "$patient" link:eth0 || return 1
	on "$nodeB" sh -ec "$(told remedy)" && both_running && content
}

small_mtu() {
	fresh && ip -n "$nodeA" link set eth0 mtu 1500 || return 1
	finds "$nodeA" "$patient" mtu:eth0 || return 1
	apply || return 1
	# What it did to the connection is there still: that must be created again.
	finds "$nodeA" "$patient" "connection:$cid" || return 1
	apply && content
}

# lower_mtu WAY: of two devices on one wire the peer's takes shorter packets, and drops others without a word. What was
# made by hand at this end loses its long packets, and only these. A veth takes bursts whatever their packets'
# length is.
lower_mtu() {
	local way=$1 status=0
	alone && ip -n "$nodeB" link set eth0 mtu 1500 && ip -n "$nodeA" link set eth0 gso_max_segs 1 || return 1
	# A device that was switched off has lost them.
	ip -n "$nodeA" address replace fd23::1/64 dev eth0 nodad && ip -n "$nodeB" address replace fd23::2/64 dev eth0 nodad || return 1
	connect "$way" "$cid" ext on pdl_dead_time 1s && named "$(address "$way" 2)" || status=1
	[ "$status" != 0 ] || both_ways || status=1
	ip -n "$nodeB" link set eth0 mtu 9000 && ip -n "$nodeA" link set eth0 gso_max_segs 65535
	return "$status"
}
# Before a long packet was sent, if it is asked about; after one broke the connection; and what it gives helps.
named() {
	nodes_wait 20 names_mtu "$1" || return 1
	[ "$(conn_get "$nodeA" "$cid" state)" = established ] || return 1
	! "$xfer" each "$nodeA" "$nodeB" "$1" "$cid" write 4000 1 || return 1
	nodes_wait 20 state_is "$nodeA" broken && nodes_wait 20 names_mtu || return 1
	told text | grep -q 'packets of 9000 bytes' && apply || return 1
	finds "$nodeA" "$patient" '' "$1" && finds "$nodeB" "$patient" ''
}
# It is best effort where machines are busy.
names_mtu() { finds "$nodeA" "$impatient" "mtu:$cid" "$@" >"$found.mtu" 2>&1; }
both_ways() {
	"$xfer" each "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send 9000 4 &&
		"$xfer" each "$nodeB" "$nodeA" "$(address "$way" 1)" "$cid" write,read,send 9000 4
}

no_address() {
	fresh && ip -n "$nodeA" address flush dev eth0 scope global || return 1
	finds "$nodeA" "$patient" address:eth0 || return 1
	apply && content
}

other_address() {
	local prefix
	prefix=$(ip -n "$nodeA" -j address show dev eth0 | jq -r '.[].addr_info[] | select(.local == "10.23.0.1").prefixlen')
	ip -n "$nodeA" address add 10.99.0.1/16 dev eth0 || return 1
	fresh && ip -n "$nodeA" address del "10.23.0.1/$prefix" dev eth0 || return 1
	finds "$nodeA" "$patient" "address:$cid" || return 1
	apply && content && ip -n "$nodeA" address del 10.99.0.1/16 dev eth0
}

shut_down() {
	fresh && on "$nodeA" superp conn stop "$cid" || return 1
	finds "$nodeA" "$patient" "connection:$cid" || return 1
	tap_equal "superp conn stop $cid" "$(told peer-remedy)" "remedy at the peer" || return 1
	apply && nodes_wait 10 state_is "$nodeA" stopped && nodes_wait 10 state_is "$nodeB" stopped || return 1
	finds "$nodeA" "$patient" "connection:$cid" || return 1
	apply && content
}

# The peer has no such connection: the peer's doctor knows, and later the connection is broken.
unknown_to_the_peer() {
	fresh && on "$nodeB" superp conn del "$cid" || return 1
	finds "$nodeA" "$impatient" "answer:$cid" || return 1
	told text | grep -q 'waits for its peer, which does not answer yet' || return 1
	tap_equal "superp doctor 10.23.0.1" "$(told peer-remedy)" "remedy at the peer" || return 1
	# It goes on by itself.
	half "$nodeB" sunh "$cid" "$cid" 2 1 eth0 23 ext on && content
}
lost_by_the_peer() {
	fresh && on "$nodeA" superp ping 10.23.0.2 -c 1 -W 20 && on "$nodeB" superp conn del "$cid" || return 1
	finds "$nodeA" "$impatient" "answer:$cid" || return 1
	told text | grep -q 'the peer of connection .* does not answer' || return 1
	finds "$nodeB" "$patient" connection:10.23.0.1 10.23.0.1 || return 1
	nodes_wait 30 state_is "$nodeA" broken || return 1
	finds "$nodeA" "$patient" "connection:$cid" || return 1
	told text | grep -q 'broken: the peer does not answer' || return 1
	half "$nodeB" sunh "$cid" "$cid" 2 1 eth0 23 ext on || return 1
	apply && content
}

# neighbour_lost COMMAND…: nobody answers for the address of B, which A has forgotten.
neighbour_lost() {
	local peer
	peer=$(address "$way" 2)
	fresh && "$@" || return 1
	ip -n "$nodeA" neigh flush dev eth0 || return 1
	finds "$nodeA" "$impatient" "neighbour:$peer" "$peer"
}
no_arp() {
	neighbour_lost ip -n "$nodeB" link set eth0 arp off || return 1
	ip -n "$nodeB" link set eth0 arp on && ip -n "$nodeA" neigh flush dev eth0 && afresh && content
}
no_neighbour_discovery() {
	local way=udp6
	# A device that goes down loses them.
	ip -n "$nodeA" address replace fd23::1/64 dev eth0 nodad || return 1
	ip -n "$nodeB" address replace fd23::2/64 dev eth0 nodad || return 1
	neighbour_lost ip -n "$nodeB" address del fd23::2/64 dev eth0 || return 1
	ip -n "$nodeB" address add fd23::2/64 dev eth0 nodad || return 1
	ip -n "$nodeA" neigh flush dev eth0 && afresh && content
}

no_route() {
	local route
	alone || return 1
	half "$nodeB" udp4 "$cid" "$cid" 2 1 eth0 23 || return 1
	on "$nodeA" superp conn add "$cid" peer 10.23.0.2 peer-cid "$cid" encap udp local 10.23.0.1 || return 1
	on "$nodeA" superp conn start "$cid" && content || return 1
	route=$(ip -n "$nodeA" -4 route show dev eth0)
	ip -n "$nodeA" -4 route flush dev eth0 || return 1
	finds "$nodeA" "$impatient" route:10.23.0.2 || return 1
	# shellcheck disable=SC2086 # words
	ip -n "$nodeA" route add ${route% } dev eth0 && afresh && content
}

# A second device in the same network answers ARP for the first one's address, too.
two_cards() {
	local mac
	fresh && ip -n "$nodeA" link add link eth0 name card1 type macvlan mode bridge || return 1
	ip -n "$nodeA" address add 10.23.0.3/16 dev card1 && ip -n "$nodeA" link set card1 up || return 1
	content || return 1
	mac=$(on "$nodeA" cat /sys/class/net/card1/address)
	# Whose answer is believed is chance where there is a switch.
	ip -n "$nodeB" neigh replace 10.23.0.1 lladdr "$mac" dev eth0 nud permanent || return 1
	finds "$nodeA" "$impatient" neighbour:eth0 10.23.0.2 || return 1
	told text | grep -q card1 || return 1
	apply && ip -n "$nodeB" neigh del 10.23.0.1 dev eth0 || return 1
	afresh && content && ip -n "$nodeA" link del card1
}

# A second link, and UDP over both.
two_paths() {
	local node peer
	alone || return 1
	ip link add eth1 mtu 9000 netns "$nodeA" type veth peer name eth1 mtu 9000 netns "$nodeB" || return 1
	ip -n "$nodeA" address add 10.24.0.1/16 dev eth1 && ip -n "$nodeB" address add 10.24.0.2/16 dev eth1 || return 1
	ip -n "$nodeA" link set eth1 up && ip -n "$nodeB" link set eth1 up && ports_up eth1 || return 1
	for node in 1 2; do
		peer=$((3 - node))
		on "$(if [ "$node" = 1 ]; then echo "$nodeA"; else echo "$nodeB"; fi)" sh -ec "superp conn add $cid \
			peer-cid $cid encap udp4 path eth0 peer 10.23.0.$peer local 10.23.0.$node \
			path eth1 peer 10.24.0.$peer local 10.24.0.$node; superp conn start $cid" || return 1
	done
	nodes_wait 10 nodes_running "$nodeA" eth1 && nodes_wait 10 nodes_running "$nodeB" eth1
}
one_path_off() {
	two_paths && content || return 1
	ip -n "$nodeA" link set eth1 down || return 1
	finds "$nodeA" "$patient" link:eth1 10.24.0.2 || return 1
	apply && nodes_wait 10 nodes_running "$nodeA" eth1 && nodes_wait 10 nodes_running "$nodeB" eth1 && content
}
one_device_removed() {
	ip -n "$nodeA" link del eth1 || return 1
	finds "$nodeA" "$patient" "connection:$cid" || return 1
	told text | grep -q 'was removed' || return 1
	disconnect "$cid" && connect udp4 "$cid" && content
}

# As nobody, with a limit: it tells what it did not see.
without_privileges() {
	fresh || return 1
	on "$nodeA" sh -ec 'ulimit -l 64; exec setpriv --reuid 65534 --regid 65534 --clear-groups \
		--inh-caps=-all --bounding-set=-all superp -j doctor -W 60' >"$found" || { cat "$found"; return 1; }
	jq -r '.[] | select(.verdict == "note" and .check == "region").text' "$found" | tee "$found.notes"
	grep -q CAP_NET_ADMIN "$found.notes" && grep -q '64 KiB' "$found.notes" && rm "$found.notes"
}

nodes_up 9000
for family in ipv4 ipv6; do
	# A neighbour is given up after three questions.
	on "$nodeA" sysctl -q "net.$family.neigh.eth0.retrans_time_ms=100"
done
tap_case "no port" no_port
on "$nodeB" superp dev add eth0
tap_case "no connection to the peer" no_connection
tap_case "a connection that is not started" not_started
tap_case "a device that is switched off" switched_off
tap_case "a port that has become a part of a bridge" in_a_bridge
tap_case "a device without carrier" no_carrier
tap_case "an MTU below the connection's" small_mtu
for encap in sunh udp4 udp6; do
	tap_case "$encap: an MTU of the peer's device below the connection's" lower_mtu "$encap"
done
tap_case "a port without address" no_address
tap_case "a connection whose own address is gone" other_address
tap_case "a connection that is shut down, here and at both ends" shut_down
tap_case "a connection that the peer does not have yet" unknown_to_the_peer
tap_case "a connection that the peer does not have any more, and that breaks" lost_by_the_peer
tap_case "a neighbour that does not answer ARP" no_arp
tap_case "a neighbour that does not answer neighbour discovery" no_neighbour_discovery
tap_case "no route" no_route
tap_case "two devices in one network" two_cards
tap_case "one of two paths switched off" one_path_off
tap_case "the device of a path removed" one_device_removed
tap_case "without privileges" without_privileges
tap_end
