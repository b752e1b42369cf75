#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# A fabric from its file: a manager, an agent in each of four nodes, boot, traffic, faults, shutdown.
#
#	manager 10.99.0.254 --- bridge "mgmt" ------- mg0 10.99.0.1 ... 10.99.0.4     agents
#	                        bridge "fabric" ----- eth0 10.23.0.1 ... 10.23.0.4    SUPERp
#	                                              fx1 ... fx4                     nodes
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh

nodes=(fx1 fx2 fx3 fx4)
folder=$(mktemp -d)
manager=''
declare -A agents=()
export SUPERP_MANAGER=https://10.99.0.254:7778 SUPERP_TLS=$folder/operator

end() {
	local node pids
	[ -z "$manager" ] || kill -KILL "$manager" 2>/dev/null || true
	for node in "${nodes[@]}"; do
		[ -e "/run/netns/$node" ] || continue
		mapfile -t pids < <(ip netns pids "$node")
		[ ${#pids[@]} = 0 ] || kill -KILL "${pids[@]}" 2>/dev/null || true
		ip netns delete "$node"
	done
	ip link del mgmt 2>/dev/null || true
	ip link del fabric 2>/dev/null || true
	wait 2>/dev/null
	rm -rf "$folder"
}
trap end EXIT

number() { echo "${1#fx}"; }

# network_up: four nodes on two bridges.
network_up() {
	local node net device
	# The manager's own address is reached through it.
	ip link set lo up || return 1
	modprobe -q bridge || true
	for net in mgmt fabric; do
		ip link add "$net" type bridge || return 1
		ip link set "$net" mtu 9000 up || return 1
	done
	ip address add 10.99.0.254/24 dev mgmt || return 1
	for node in "${nodes[@]}"; do
		ip netns add "$node" || return 1
		ip -n "$node" link set lo up || return 1
		for device in mg0:mgmt:m eth0:fabric:f; do
			IFS=: read -r device net far <<<"$device"
			ip link add "$far-$node" mtu 9000 type veth peer name "$device" mtu 9000 netns "$node" || return 1
			ip link set "$far-$node" master "$net" up || return 1
			ip -n "$node" link set "$device" up || return 1
		done
		ip -n "$node" address add "10.99.0.$(number "$node")/24" dev mg0 || return 1
		nodes_address "$node" eth0 "$(number "$node")" || return 1
	done
	for node in "${nodes[@]}"; do
		nodes_wait 20 nodes_running "$node" eth0 || return 1
		nodes_wait 20 nodes_running "$node" mg0 || return 1
	done
}

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

apply() { superp fabric apply "$folder/fabric.toml" --wait 60 || { why; return 1; }; }

waits_by_name() {
	fabric sunh
	superp fabric apply "$folder/fabric.toml" || return 1
	nodes_wait 30 eval '[ "$(state .nodes_ready)" = 3 ]' || { why; return 1; }
	tap_equal booting "$(state .phase)" phase || return 1
	tap_equal "node fx4: waiting for READY: connection refused by 10.99.0.4:7779" "$(state '.waiting[]')" waiting ||
		return 1
	tap_equal 0 "$(superp_states fx1 established)" "connections started early"
}

# superp_states NODE STATE: how many connections of the node are in the state.
superp_states() { on "$1" superp -j conn show | jq -r --arg state "$2" '[.[] | select(.state == $state)] | length'; }

boots() {
	local node
	agent fx4
	apply || return 1
	tap_equal running "$(state .phase)" phase || return 1
	for node in "${nodes[@]}"; do
		tap_equal 3 "$(superp_states "$node" established)" "connections of $node" || return 1
		tap_equal "$(((256 + $(number "$node")) << 32)) $((1 << 32))" \
			"$(on "$node" superp -j node show | jq -r '"\(."rma-base") \(."rma-size")"')" "RMA addresses of $node" || return 1
	done
}

# all_to_all: every node pings every other one.
all_to_all() {
	local node peer
	for node in "${nodes[@]}"; do
		for peer in "${nodes[@]}"; do
			[ "$node" != "$peer" ] || continue
			on "$node" superp ping "10.23.0.$(number "$peer")" -c 3 -i 0.02 -W 20 -q || { why; return 1; }
		done
	done
}

# serve NODE: the node offers memory; sets server and remote.
serve() {
	rm -f "$folder/server"
	ip netns exec "$1" superp -j xfer serve --size 1M >"$folder/server" &
	server=$!
	nodes_wait 20 test -s "$folder/server" || return 1
	remote=$(head -n 1 "$folder/server" | jq -r .remote)
}

verified_transfers() {
	local node peer
	for node in "${nodes[@]}"; do
		serve "$node" || return 1
		for peer in "${nodes[@]}"; do
			[ "$node" != "$peer" ] || continue
			on "$peer" superp xfer write "10.23.0.$(number "$node")" --remote "$remote" --length 1M \
				--seed "$(number "$peer")" --verify || { cat "$folder/server"; return 1; }
		done
		kill "$server"
		wait "$server" || return 1
	done
}

same_file_again() {
	local before
	before=$(on fx1 superp -j conn show)
	superp fabric apply "$folder/fabric.toml" | grep -F "nothing changes" || return 1
	tap_equal "$before" "$(on fx1 superp -j conn show)" "connections of fx1"
}

wrong_file() {
	sed 's/ext = true/ext = true\nwindow = 7/' "$folder/fabric.toml" >"$folder/wrong.toml"
	tap_refused "wrong.toml:17:10: window 7 is outside 16..1024" superp fabric apply "$folder/wrong.toml" || return 1
	tap_equal 1 "$(state .generation)" generation
}

lives() { superp -j fabric conns | jq -r 'map(.life) | join(" ")'; }

agent_and_manager_killed() {
	local before pinger
	before=$(lives)
	ip netns exec fx2 superp ping 10.23.0.3 -c 100 -i 0.05 -W 20 -q &
	pinger=$!
	nodes_wait 20 talks fx2 10.23.0.3 || return 1
	kill -KILL "${agents[fx2]}" "$manager"
	wait "${agents[fx2]}" "$manager" || true
	agent fx2
	manager || { why; return 1; }
	nodes_wait 30 eval '[ "$(state .connections_running)" = 6 ]' || { why; return 1; }
	wait "$pinger" || { echo "the ping failed"; return 1; }
	tap_equal "$before" "$(lives)" "lives of the connections" || return 1
	tap_equal 2 "$(state .term)" term
}

# A link that stays cut under traffic breaks a connection; the manager resets both ends, and they go on
# when the link is back.
cut_link() {
	local conn
	conn=$(superp -j fabric conns | jq -r '.[] | select([.ends[].node] == ["fx1", "fx3"]) | .connection')
	ip link set f-fx3 down || return 1
	! on fx1 superp ping 10.23.0.3 -c 1 -W 30 -q || return 1
	nodes_wait 30 eval '[ "$(life "$conn")" -gt 0 ]' || { why; return 1; }
	superp fabric events | grep -F "connection $conn: hard error:" || { why; return 1; }
	ip link set f-fx3 up || return 1
	nodes_wait 20 nodes_running fx3 eth0 || return 1
	nodes_wait 60 heals || { why; return 1; }
	all_to_all
}
life() { superp -j fabric conns | jq -r --arg conn "$1" '.[] | select(.connection == $conn) | .life'; }
heals() {
	[ "$(state .connections_running)" = 6 ] && on fx1 superp ping 10.23.0.3 -c 1 -W 5 -q &&
		on fx3 superp ping 10.23.0.1 -c 1 -W 5 -q
}

# talks NODE ADDRESS: a program of the node has a queue pair that is connected there.
talks() {
	[ "$(on "$1" superp -j qp show | jq --arg to "$2" 'map(select(."remote-addr" == $to)) | length')" -gt 0 ]
}

soft_restart() {
	local conn before
	conn=$(superp -j fabric conns | jq -r '.[] | select([.ends[].node] == ["fx2", "fx4"]) | .connection')
	before=$(life "$conn")
	ip netns exec fx2 superp ping 10.23.0.4 -c 100 -i 0.05 -W 20 -q &
	nodes_wait 20 talks fx2 10.23.0.4 || return 1
	superp fabric restart "$conn" || return 1
	nodes_wait 30 eval '[ "$(life "$conn")" -gt '"$before"' ] && [ "$(state .connections_running)" = 6 ]' ||
		{ why; return 1; }
	wait $! || { echo "a request was lost"; return 1; }
}

# drain_node: a node leaves its peers in order, and comes back; who follows the events sees it happen.
drain_node() {
	local before follower told=0
	# From the last event on, so that nothing is missed however late it begins.
	before=$(superp -j fabric events | tail -n 1 | jq .seq)
	superp fabric events --follow --after "$before" >"$folder/events" &
	follower=$!
	superp fabric drain fx3 --wait 60 || { why; return 1; }
	nodes_wait 60 grep -F "fx3: 3 connections are shut down softly, as requested" "$folder/events" || told=1
	kill "$follower"
	[ "$told" = 0 ] || { cat "$folder/events"; why; return 1; }
	tap_equal 3 "$(superp_states fx3 stopped)" "connections of fx3 that are stopped" || return 1
	tap_equal 3 "$(state .connections_running)" "connections that run" || return 1
	metric 'superp_fabric_connection_ends{state="stopped"} 6' || return 1
	superp fabric restart fx3 --wait 60 || { why; return 1; }
	metric 'superp_fabric_connection_ends{state="established"} 12' || return 1
	on fx3 superp ping 10.23.0.1 -c 1 -W 20 -q
}

# scrape URL: metrics, as Prometheus gets them.
scrape() {
	python3 -c '
import ssl, sys, urllib.request
tls = ssl.create_default_context(cafile=f"{sys.argv[1]}/ca.crt")
tls.load_cert_chain(f"{sys.argv[1]}/tls.crt", f"{sys.argv[1]}/tls.key")
print(urllib.request.urlopen(sys.argv[2], context=tls).read().decode())' "$folder/viewer" "$1/metrics"
}

# metric LINE: the manager's metrics have this line.
metric() {
	scrape "$SUPERP_MANAGER" >"$folder/metrics" || return 1
	grep -Fx "$1" "$folder/metrics" || { cat "$folder/metrics"; why; return 1; }
}

# Who may not change anything is refused and recorded; who has no certificate is not even heard.
roles() {
	local record
	tap_refused 'viewer has the role viewer; POST /v1/shutdown needs the role operator' \
		superp fabric --tls "$folder/viewer" shutdown || return 1
	tap_refused 'has the role agent' superp fabric --tls "$folder/fx1" status || return 1
	tap_refused 'nobody/tls.crt: No such file' superp fabric --tls "$folder/nobody" status || return 1
	tap_equal running "$(SUPERP_TLS=$folder/viewer state .phase)" phase || return 1
	superp fabric audit >"$folder/audit" || return 1
	for record in 'viewer viewer POST /v1/shutdown: 403' 'operator operator POST /v1/apply: 200'; do
		grep -q "${record/ / *}" "$folder/audit" || { echo "not in the audit log: $record"; cat "$folder/audit"; return 1; }
	done
}

# All that the dashboard and the alerts speak of is told, by the manager or an agent.
monitored() {
	local monitoring=../userspace/monitoring told=0 metric
	{ scrape "$SUPERP_MANAGER" && scrape https://10.99.0.1:7779; } >"$folder/metrics" || return 1
	grep -ohE '\bsuperp_[a-z0-9_]+' "$monitoring"/superp-*.{json,yml} | sort -u >"$folder/spoken"
	[ "$(wc -l <"$folder/spoken")" -gt 20 ] || { echo "few metrics found"; return 1; }
	while read -r metric; do
		grep -q "^# TYPE $metric " "$folder/metrics" || { echo "nobody tells $metric"; told=1; }
	done <"$folder/spoken"
	return "$told"
}

# "Shutdown node": connections and programs end, every node says that it is done, and another
# configuration takes over.
system_shutdown() {
	local node
	serve fx1 || return 1
	superp fabric shutdown --wait 60 || { why; return 1; }
	tap_equal down "$(state .phase)" phase || return 1
	! ip netns pids fx1 | grep -qx "$server" || { echo "a program goes on"; return 1; }
	for node in "${nodes[@]}"; do
		tap_equal 0 "$(on "$node" superp -j conn show | jq length)" "connections of $node" || return 1
		superp fabric events | grep -F "node       $node: node shutdown complete" || { why; return 1; }
	done
	fabric udp
	apply || return 1
	tap_equal udp4 "$(on fx1 superp -j conn show | jq -r 'map(.encap) | unique | join(" ")')" encapsulation || return 1
	all_to_all
}

network_up
certificates
for node in fx1 fx2 fx3; do agent "$node"; done
manager
tap_case "the boot waits for every node, by name" waits_by_name
tap_case "with all ready the fabric runs" boots
tap_case "all to all" all_to_all
tap_case "verified transfers, all to all" verified_transfers
tap_case "the same file again changes nothing" same_file_again
tap_case "a file with a mistake changes nothing" wrong_file
tap_case "an agent and the manager are killed and start again; nothing that runs is touched" agent_and_manager_killed
tap_case "a cut link breaks a connection, and the manager heals it" cut_link
tap_case "a connection restarts softly under traffic, and no request is lost" soft_restart
tap_case "a node is drained and restarted, which events and metrics tell" drain_node
tap_case "roles, and the record of who did what" roles
tap_case "the dashboard and the alerts speak of metrics that there are" monitored
tap_case "system shutdown, and another configuration" system_shutdown
tap_end
