#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# "superp connect" on each of two nodes is all that they need: whichever is first, over whatever there is
# between them, also again, and after one of them has lost its state.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# both WAY FIRST [OPTION…]: the command at both nodes, first at FIRST (1 or 2); sets sayA and sayB.
both() {
	local way=$1 first=$2 later status=0 nodes=("$nodeA" "$nodeB") one
	shift 2
	later=$((3 - first))
	rm -f "$said.wait"
	on "${nodes[first - 1]}" superp -j connect "$(address "$way" "$later")" -W 30 "$@" >"$said.$first" 2>"$said.wait" &
	one=$!
	nodes_wait 10 grep -q "run there: superp connect $(address "$way" "$first")" "$said.wait" || status=1
	on "${nodes[later - 1]}" superp -j connect "$(address "$way" "$first")" -W 30 "$@" >"$said.$later" || status=1
	wait "$one" || status=1
	sayA=$(cat "$said.1") sayB=$(cat "$said.2")
	[ "$status" = 0 ] || { echo "$sayA"; echo "$sayB"; cat "$said.wait"; }
	return "$status"
}
told() { jq -r "[$2] | map(tostring) | join(\" \")" <<<"$1"; }
# carries WAY CID ENCAP MTU: what both said, and that data goes through.
carries() {
	tap_equal "$2 $3 true" "$(told "$sayA" '."local-cid", .encap, .ext')" "what A made" || return 1
	tap_equal "$(told "$sayA" '."remote-cid", ."local-cid", .encap, .mtu, .new')" \
		"$(told "$sayB" '."local-cid", ."remote-cid", .encap, .mtu, .new')" "what both made" || return 1
	tap_equal "$4" "$(told "$sayA" .mtu)" "bytes of a packet" || return 1
	on "$nodeA" superp ping "$(address "$1" 2)" --cid "$2" --count 2 --interval 0.01 --timeout 20 || return 1
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$1" 2)" "$2" write,read,send 20 3000 4
}
# Nothing is prepared: no port, no connection.
fresh() {
	local node
	for node in "$nodeA" "$nodeB"; do
		on "$node" superp -j conn show | jq -r '.[]."local-cid"' >"$said.conns"
		while read -r cid; do on "$node" superp conn del "$cid" || return 1; done <"$said.conns"
		on "$node" superp dev del eth0 2>/dev/null || true
	done
}

first_or_later() { fresh && both "$1" "$2" && carries "$1" 1 "$3" "$4"; }
chosen() { fresh && both sunh 1 --encap udp && carries sunh 1 udp4 8972; }
# Of A's 9000 and B's 4000 bytes.
unequal() {
	local status=0
	fresh || return 1
	ip -n "$nodeB" link set eth0 mtu 4000
	both sunh 2 && carries sunh 1 sunh 3992 || status=1
	ip -n "$nodeB" link set eth0 mtu 9000
	return "$status"
}
# Two devices of each node are in one subnet, on one wire: ARP answers for an address on either of them.
two_cards() {
	local node number=0 status=0
	fresh || return 1
	ip netns add wire && ip -n wire link add br0 type bridge && ip -n wire link set br0 up || return 1
	for node in "$nodeA" "$nodeB"; do
		number=$((number + 1))
		for card in 1 2; do
			ip -n "$node" link add "card$card" mtu 1500 type veth peer name "w$number$card" netns wire || return 1
			ip -n wire link set "w$number$card" master br0 up && ip -n "$node" link set "card$card" up || return 1
			ip -n "$node" address add "10.77.0.$number$card/24" dev "card$card" || return 1
		done
		on "$node" sysctl -q net.ipv4.conf.all.rp_filter=0
		on "$node" superp dev add card1 && on "$node" superp dev add card2 || return 1
	done
	# Frames for B's first address go to its second device.
	ip -n "$nodeA" neigh replace 10.77.0.21 dev card1 lladdr "$(ip -n "$nodeB" -j link show card2 | jq -r '.[0].address')"
	on "$nodeA" superp -j connect 10.77.0.21 -W 30 --encap udp >"$said.1" 2>&1 &
	number=$!
	on "$nodeB" superp -j connect 10.77.0.11 -W 30 --encap udp >"$said.2" 2>&1 || status=1
	wait "$number" || status=1
	[ "$status" = 1 ] || "$xfer" mixed "$nodeA" "$nodeB" 10.77.0.21 1 write,read,send 20 3000 4 || status=1
	[ "$status" = 0 ] || cat "$said.1" "$said.2"
	fresh
	for node in "$nodeA" "$nodeB"; do on "$node" superp dev del card1 && on "$node" superp dev del card2; done
	ip netns del wire
	return "$status"
}
# Ids of other connections are in the way, different ones at both nodes.
others() {
	fresh && ports_up || return 1
	on "$nodeA" superp conn add 1 peer 10.23.0.77 peer-cid 1 dev eth0 || return 1
	on "$nodeA" superp conn add 2 peer 10.23.0.77 peer-cid 2 dev eth0 || return 1
	both sunh 1 && carries sunh 3 sunh 8992 || return 1
	tap_equal 1 "$(told "$sayA" '."remote-cid"')" "id at B"
}
# A connection of another encapsulation is no answer to what is asked for.
beside() {
	fresh && both sunh 1 && both sunh 2 --encap udp || return 1
	tap_equal "2 udp4 true" "$(told "$sayA" '."local-cid", .encap, .new')" "what A made" || return 1
	tap_equal 2 "$(node_count "$nodeA" conns)" "connections of A"
}
# Only one end asks for it: what is there stays at both.
beside_by_one() {
	local one
	fresh && both sunh 1 || return 1
	on "$nodeA" superp -j connect 10.23.0.2 -W 30 --encap udp >"$said.1" 2>&1 &
	one=$!
	on "$nodeB" superp -j connect 10.23.0.1 -W 30 >"$said.2" || return 1
	wait "$one" || { cat "$said.1"; return 1; }
	tap_equal "2 2" "$(node_count "$nodeA" conns) $(node_count "$nodeB" conns)" "connections" || return 1
	tap_equal "[] []" "$(tail -n 1 "$said.1" | jq -c .removed) $(jq -c .removed "$said.2")" "what was removed"
}
again() {
	fresh && both sunh 1 && both sunh 2 || return 1
	tap_equal "1 false" "$(told "$sayA" '."local-cid", .new')" "what A has" || return 1
	carries sunh 1 sunh 8992
}
# B has lost all that it had.
restarted() {
	fresh && both sunh 1 && carries sunh 1 sunh 8992 || return 1
	on "$nodeB" superp conn del 1 || return 1
	both sunh 2 || return 1
	tap_equal "true 1" "$(told "$sayA" '.new, .removed[]')" "what A says" || return 1
	tap_equal 1 "$(node_count "$nodeA" conns)" "connections of A" || return 1
	carries sunh 2 sunh 8992
}
alone() {
	tap_refused 'did not come within' on "$nodeA" superp connect 10.23.0.2 -W 1 || return 1
	tap_refused 'did not come within' on "$nodeB" superp connect 10.23.0.1 -W 1
}
differs() {
	local one
	fresh || return 1
	on "$nodeA" superp connect 10.23.0.2 -W 30 --encap udp >"$said.1" 2>&1 &
	one=$!
	tap_refused 'this end would use sunh, the peer udp' on "$nodeB" superp connect 10.23.0.1 -W 30 --encap sunh || return 1
	! wait "$one" || return 1
	grep -q 'this end would use udp, the peer sunh' "$said.1"
}
itself() { tap_refused 'is an address of this node' on "$nodeA" superp connect 10.23.0.1; }
# Somebody else talks to the port where A waits.
stranger() {
	local one
	fresh || return 1
	ip -n "$nodeB" address add 10.23.0.9/16 dev eth0
	rm -f "$said.wait"
	on "$nodeA" superp -j connect 10.23.0.2 -W 30 >"$said.1" 2>"$said.wait" &
	one=$!
	nodes_wait 10 grep -q "run there" "$said.wait" || return 1
	on "$nodeB" python3 -c '
import socket
caller = socket.create_connection(("10.23.0.1", 7777), 10, ("10.23.0.9", 0))
caller.settimeout(10)
assert caller.recv(10) == b"", "A talks to a stranger"' || return 1
	on "$nodeB" superp -j connect 10.23.0.1 --local 10.23.0.2 -W 30 || return 1
	wait "$one"
}
# What comes from the peer is nothing that the command would say.
nonsense() {
	local one text=$1
	rm -f "$said.1"
	on "$nodeA" superp connect 10.23.0.2 -W 30 >"$said.1" 2>&1 &
	one=$!
	nodes_wait 10 grep -q "run there" "$said.1" || return 1
	on "$nodeB" python3 -c '
import socket, sys
caller = socket.create_connection(("10.23.0.1", 7777), 10, ("10.23.0.2", 0))
caller.sendall(sys.argv[1].encode() + b"\n")
caller.settimeout(10)
while caller.recv(4096): pass' "$text" || return 1
	! wait "$one" || return 1
	grep "$2" "$said.1" || { cat "$said.1"; return 1; }
}

nodes_up 9000
said=$(mktemp)
tap_case "SUNH, A first" first_or_later sunh 1 sunh 8992
tap_case "SUNH, B first" first_or_later sunh 2 sunh 8992
tap_case "IPv6 addresses, B first" first_or_later sunh6 2 sunh 8992
tap_case "UDP where it is asked for" chosen
tap_case "ends with different MTUs take the lower" unequal
tap_case "two cards of a node in one subnet, over UDP" two_cards
tap_case "ids that are free at each end" others
tap_case "once more: what is there is kept" again
tap_case "another one, for another encapsulation" beside
tap_case "another one, for which one end asks" beside_by_one
tap_case "once more, after one end has lost its connection" restarted
tap_case "alone, it says what to do" alone
tap_case "ends that ask for different things both say so" differs
tap_case "the own address is refused" itself
tap_case "only the peer is listened to" stranger
tap_case "an answer that is no JSON is refused" nonsense 'GET / HTTP/1.1' 'is not superp connect'
tap_case "an answer out of turn is refused" nonsense '{"said":"started"}' 'what does not belong here'
tap_case "another version is named" nonsense \
	'{"said":"hello","version":2,"cid":1,"kinds":[],"ext":true,"start-psn":0,"conns":[]}' 'speaks version 2'
tap_end
