# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # variables for those who source this
# Four nodes in one machine, an agent in each, and a manager that reaches them by mutual TLS; sourced,
# after nodes.sh.
#
#	manager 10.99.0.254 --- bridge "mgmt" ------- mg0 10.99.0.1 ... 10.99.0.4     agents
#	                        bridge "fabric" ----- eth0 10.23.0.1 ... 10.23.0.4    SUPERp
#	                                              fx1 ... fx4                     nodes
#
# The far ends of a node's devices, at the bridges, are m-fx1 and f-fx1, and so on.

nodes=(fx1 fx2 fx3 fx4)
folder=$(mktemp -d)
manager=''
declare -A agents=()
export SUPERP_MANAGER=https://10.99.0.254:7778 SUPERP_TLS=$folder/operator

fabric_down() {
	local node
	# The shell is not to tell of those that are killed.
	exec 2>/dev/null
	[ -z "$manager" ] || kill -KILL "$manager" || true
	for node in "${nodes[@]}"; do
		[ ! -e "/run/netns/$node" ] || node_delete "$node"
	done
	ip link del mgmt || true
	ip link del fabric || true
	wait
	rm -rf "$folder"
}

number() { echo "${1#fx}"; }

# network_up: four nodes on two bridges.
network_up() {
	local node net
	# The manager's own address is reached through it.
	ip link set lo up || return 1
	modprobe -q bridge || true
	for net in mgmt fabric; do
		ip link add "$net" type bridge || return 1
		ip link set "$net" mtu 9000 up || return 1
	done
	ip address add 10.99.0.254/24 dev mgmt || return 1
	for node in "${nodes[@]}"; do node_add "$node" || return 1; done
	for node in "${nodes[@]}"; do node_running "$node" || return 1; done
}

# node_add NODE: a node without an agent. Who was there before has the same Ethernet addresses again, or its
# neighbours would send to the old ones until they ask again.
node_add() {
	local net device far mac
	ip netns add "$1" || return 1
	ip -n "$1" link set lo up || return 1
	for device in mg0:mgmt:m:02:00:00:00:01 eth0:fabric:f:02:00:00:00:02; do
		IFS=: read -r device net far mac <<<"$device"
		ip link add "$far-$1" mtu 9000 type veth peer name "$device" mtu 9000 \
			address "$mac:$(printf %02x "$(number "$1")")" netns "$1" || return 1
		ip link set "$far-$1" master "$net" up || return 1
		ip -n "$1" link set "$device" up || return 1
	done
	ip -n "$1" address add "10.99.0.$(number "$1")/24" dev mg0 || return 1
	nodes_address "$1" eth0 "$(number "$1")"
}

# node_running NODE: waits for its links.
node_running() { nodes_wait 20 nodes_running "$1" eth0 && nodes_wait 20 nodes_running "$1" mg0; }

# node_delete NODE: its programs, the agent too, and then its network namespace.
node_delete() {
	local pids
	mapfile -t pids < <(ip netns pids "$1")
	[ ${#pids[@]} = 0 ] || kill -KILL "${pids[@]}" 2>/dev/null || true
	ip netns delete "$1"
}

# node_gone NODE: nothing of a deleted node is left; its devices go when the kernel frees the namespace.
node_gone() { ! ip link show "f-$1" >/dev/null 2>&1 && ! ip link show "m-$1" >/dev/null 2>&1; }

# The authority of the fabric, and a certificate for everybody.
certificates() {
	local node
	superp-cm init --dir "$folder/ca" --address 10.99.0.254 >/dev/null || return 1
	for node in "${nodes[@]}"; do
		issue agent "$node" --address "10.99.0.$(number "$node")" || return 1
	done
	issue operator operator && issue viewer viewer
}

# issue ROLE NAME OPTION…
issue() { superp-cm issue --dir "$folder/ca" --role "$1" --name "$2" --out "$folder/$2" "${@:3}" >/dev/null; }

# agent NODE: starts its agent.
agent() {
	ip netns exec "$1" superp-agent --tls "$folder/$1" --listen "10.99.0.$(number "$1"):7779" --state-dir "$folder/state-$1" \
		--run-dir "$folder/run-$1" >>"$folder/agent-$1" 2>&1 &
	agents[$1]=$!
}

manager() {
	superp-cm serve --store "$folder/manager.db" --listen 10.99.0.254:7778 --tls "$folder/ca/manager" >>"$folder/manager" 2>&1 &
	manager=$!
	nodes_wait 20 eval 'superp fabric status >/dev/null 2>&1'
}

# fabric ENCAP: a fabric file, all connected to all.
fabric() {
	cat >"$folder/fabric.toml" <<-FILE
		fabric = "four"

		[parameters]
		pdl_dead_time = 4_000_000_000

		[[nodes]]
		hosts = "fx[1-4]"
		agent = "10.99.0.{n}:7779"
		address = "10.23.0.{n}"
		ports = [{ dev = "eth0" }]
		rma = { base = 0x100_0000_0000, size = 0x1_0000_0000 }

		[[connections]]
		mesh = "fx[1-4]"
		encap = "$1"
		ext = true
	FILE
}

# why: what helps to understand a failure.
why() {
	superp fabric status
	superp fabric nodes
	superp fabric conns
	superp fabric events | tail -n 20
	tail -n 8 "$folder/manager" "$folder"/agent-*
}

# state FILTER: what the jq filter makes of the manager's status.
state() { superp -j fabric status | jq -r "$1"; }

# all_run: every connection runs at both ends.
all_run() { [ "$(state .connections_running)" = 6 ]; }

apply() { superp fabric apply "$folder/fabric.toml" --wait 60 || { why; return 1; }; }

# superp_states NODE STATE: how many connections of the node are in the state.
superp_states() { on "$1" superp -j conn show | jq -r --arg state "$2" '[.[] | select(.state == $state)] | length'; }

# connection NODE NODE: the name of the connection between two nodes, the lower one first.
connection() {
	superp -j fabric conns | jq -r --arg one "$1" --arg two "$2" '.[] | select([.ends[].node] == [$one, $two]) | .connection'
}
# life CONNECTION: its number.
life() { superp -j fabric conns | jq -r --arg conn "$1" '.[] | select(.connection == $conn) | .life'; }
lives() { superp -j fabric conns | jq -r 'map(.life) | join(" ")'; }

# last_event: its number.
last_event() { superp -j fabric events | tail -n 1 | jq .seq; }

# serve NODE OPTION…: the node offers memory; sets server, remote and qpn.
serve() {
	rm -f "$folder/server"
	ip netns exec "$1" superp -j xfer serve "${@:2}" >"$folder/server" &
	server=$!
	nodes_wait 20 test -s "$folder/server" || return 1
	read -r remote qpn < <(head -n 1 "$folder/server" | jq -r '"\(.remote) \(.qpn)"')
}

# talks NODE ADDRESS: a program of the node has a queue pair that is connected there.
talks() {
	[ "$(on "$1" superp -j qp show | jq --arg to "$2" 'map(select(."remote-addr" == $to)) | length')" -gt 0 ]
}
