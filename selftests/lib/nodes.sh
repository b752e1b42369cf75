# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Two nodes in one machine; sourced.
#
#	 $nodeA                                    $nodeB          network namespaces
#	 10.23.0.1/16                              10.23.0.2/16
#	 fd23::1/64                                fd23::2/64
#	 eth0 ------------------ veth ------------ eth0
#
# Any number of such pairs can exist at a time.

# nodes_up [MTU]: makes them and sets $nodeA and $nodeB; MTU is 9000 unless told.
nodes_up() {
	nodes_add
	ip link add eth0 netns "$nodeA" type veth peer name eth0 netns "$nodeB"
	nodes_start "${1:-9000}"
}

# nodes_up_on DEVICE DEVICE MTU: the same with two devices of the machine that are on one wire, instead of a veth.
# The kernel gives them back to the machine when the nodes go.
nodes_up_on() {
	nodes_add
	nodes_outside ip link set "$1" netns "$nodeA" name eth0
	nodes_outside ip link set "$2" netns "$nodeB" name eth0
	nodes_start "$3"
}

# nodes_outside COMMAND…: in the machine's own network namespace; every test has one of its own (run-tests).
nodes_outside() { nsenter --net=/proc/1/ns/net "$@"; }

nodes_add() {
	local number=''
	while [ -e "/run/netns/nodeA$number" ] || [ -e "/run/netns/nodeB$number" ]; do
		number=$((number + 1))
	done
	nodeA=nodeA$number
	nodeB=nodeB$number
	ip netns add "$nodeA"
	ip netns add "$nodeB"
}

nodes_start() {
	local node
	nodes_address "$nodeA" eth0 1
	nodes_address "$nodeB" eth0 2
	for node in "$nodeA" "$nodeB"; do
		ip -n "$node" link set lo up
		ip -n "$node" link set eth0 mtu "$1" up
	done
	# The first packet of a test must not wait for the carrier.
	for node in "$nodeA" "$nodeB"; do
		nodes_wait 5 nodes_running "$node" eth0
	done
}

# nodes_address NODE DEVICE NUMBER: gives the device the addresses of node NUMBER.
nodes_address() {
	ip -n "$1" address add "10.23.0.$3/16" dev "$2"
	ip -n "$1" address add "fd23::$3/64" dev "$2" nodad
}

# It warns where the namespace of the other end has no name.
nodes_running() { ip -n "$1" link show dev "$2" 2>/dev/null | grep -q "state UP"; }

# nodes_down: ends the processes in the nodes and removes both.
nodes_down() {
	local node pids
	for node in "${nodeA:-}" "${nodeB:-}"; do
		if [ -z "$node" ] || [ ! -e "/run/netns/$node" ]; then continue; fi
		mapfile -t pids < <(ip netns pids "$node")
		[ ${#pids[@]} = 0 ] || kill -KILL "${pids[@]}" 2>/dev/null || true
		ip netns delete "$node"
	done
	nodeA='' nodeB=''
}

# on NODE COMMAND…: runs a command in a node.
on() {
	local node=$1
	shift
	ip netns exec "$node" "$@"
}

# nodes_netem NODE SPEC…: what tc-netem(8) does to the packets that leave the node, for example
# "loss 1% delay 1ms reorder 25%", "duplicate 1%", "corrupt 1%". Without SPEC: nothing any more.
nodes_netem() {
	local node=$1
	shift
	if [ $# = 0 ]; then
		tc -n "$node" qdisc del dev eth0 root 2>/dev/null || true
	else
		tc -n "$node" qdisc replace dev eth0 root netem limit 10000 "$@"
	fi
}

# nodes_acquainted: both know for good which Ethernet address the other has. For tests that let a direction lose
# everything, which in a slow home outlives an entry of the neighbour table.
nodes_acquainted() {
	nodes_neighbour "$nodeA" "$nodeB" 2
	nodes_neighbour "$nodeB" "$nodeA" 1
}

# nodes_neighbour NODE PEER ID: the addresses that nodes_address gave to PEER.
nodes_neighbour() {
	local mac
	mac=$(ip netns exec "$2" cat /sys/class/net/eth0/address)
	ip -n "$1" neigh replace "10.23.0.$3" lladdr "$mac" dev eth0 nud permanent
	ip -n "$1" neigh replace "fd23::$3" lladdr "$mac" dev eth0 nud permanent
}

# nodes_wait SECONDS COMMAND…: until the command succeeds; fails when the time is over, which is that of an idle
# machine: emulated and checked homes, and those that do other things as well, get more.
nodes_wait() {
	local end=$((SECONDS + $1 * 5))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || { echo "not within its time: $*"; return 1; }
		sleep 0.05
	done
}

# nodes_unshared PID: prints the process that PID, which becomes "unshare --fork", has started. The shell that PID is
# before has children, too: they are not meant.
nodes_unshared() { [ "$(cat "/proc/$1/comm")" = unshare ] && pgrep -P "$1"; }

# nodes_mac NODE: the Ethernet address of its eth0.
nodes_mac() { on "$1" cat /sys/class/net/eth0/address; }

# nodes_inject NODE DESTINATION ETHERTYPE HEX [COUNT]: sends raw frames out of the node's eth0.
nodes_inject() {
	local node=$1
	shift
	on "$node" "$(dirname "${BASH_SOURCE[0]}")/inject.py" eth0 "$@"
}
