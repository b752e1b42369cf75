#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# A fabric from its file: a manager, an agent in each of four nodes, boot, traffic, faults, shutdown.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/fabric.sh
trap fabric_down EXIT

waits_by_name() {
	fabric sunh
	superp fabric apply "$folder/fabric.toml" || return 1
	nodes_wait 30 eval '[ "$(state .nodes_ready)" = 3 ]' || { why; return 1; }
	tap_equal booting "$(state .phase)" phase || return 1
	tap_equal "node fx4: waiting for READY: connection refused by 10.99.0.4:7779" "$(state '.waiting[]')" waiting ||
		return 1
	tap_equal 0 "$(superp_states fx1 established)" "connections started early"
}

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

verified_transfers() {
	local node peer
	for node in "${nodes[@]}"; do
		serve "$node" --size 1M || return 1
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
	nodes_wait 30 all_run || { why; return 1; }
	wait "$pinger" || { echo "the ping failed"; return 1; }
	tap_equal "$before" "$(lives)" "lives of the connections" || return 1
	tap_equal 2 "$(state .term)" term
}

# A node dies with all that it has, and is there again, its disk as it was. The manager names it, gives it back
# what it had, and begins a new life of its connections; the others are not touched. What was under way
# ends with an error.
node_killed() {
	local before others pinger told=0
	before=$(last_event)
	others=$(lives_without fx4)
	ip netns exec fx2 superp ping 10.23.0.4 -i 0.05 -W 60 -q &
	pinger=$!
	nodes_wait 20 talks fx2 10.23.0.4 || return 1
	node_delete fx4 || return 1
	wait "${agents[fx4]}" || true
	nodes_wait 60 node_gone fx4 || { ip link; return 1; }
	nodes_wait 30 eval 'state ".waiting[]" | grep "^node fx4: waiting for "' || { why; return 1; }
	! wait "$pinger" || { echo "the ping was answered"; return 1; }
	node_add fx4 || return 1
	node_running fx4 || return 1
	agent fx4
	nodes_wait 60 eval '[ "$(state ".waiting | length")" = 0 ] && all_run' || { why; return 1; }
	superp fabric events --after "$before" >"$folder/events"
	for told in 'node       fx4: does not answer: ' 'node       fx4: answers again'; do
		grep -F "$told" "$folder/events" || { echo "not told: $told"; why; return 1; }
	done
	tap_equal 3 "$(superp_states fx4 established)" "connections of fx4" || return 1
	tap_equal "$others" "$(lives_without fx4)" "lives of the other connections" || return 1
	all_to_all
}
# lives_without NODE: of the connections that it has no end of.
lives_without() {
	superp -j fabric conns | jq -r --arg node "$1" 'map(select(any(.ends[]; .node == $node) | not) | .life) | join(" ")'
}

# A link that stays cut under traffic breaks a connection; the manager resets both ends, and they go on
# when the link is back.
cut_link() {
	local conn
	conn=$(connection fx1 fx3)
	ip link set f-fx3 down || return 1
	! on fx1 superp ping 10.23.0.3 -c 1 -W 30 -q || return 1
	nodes_wait 30 eval '[ "$(life "$conn")" -gt 0 ]' || { why; return 1; }
	superp fabric events | grep -F "connection $conn: hard error:" || { why; return 1; }
	ip link set f-fx3 up || return 1
	nodes_wait 20 nodes_running fx3 eth0 || return 1
	nodes_wait 60 heals || { why; return 1; }
	all_to_all
}
heals() {
	all_run && on fx1 superp ping 10.23.0.3 -c 1 -W 5 -q &&
		on fx3 superp ping 10.23.0.1 -c 1 -W 5 -q
}

# What a peer sends against the rules is dropped and counted, the manager tells of it, and nobody who keeps to
# the rules is disturbed: fx2 says that it has packets of fx1 that were never sent.
peer_breaks_rules() {
	local conn before lives pinger told=0
	conn=$(connection fx1 fx2)
	before=$(last_event)
	lives=$(lives)
	ip netns exec fx1 superp ping 10.23.0.2 -c 100 -i 0.02 -W 20 -q &
	pinger=$!
	nodes_wait 20 talks fx1 10.23.0.2 || return 1
	# ACK PSN 0x80000000 ahead of PSN 0: one of the two is outside of any window.
	nodes_inject fx2 "$(nodes_mac fx1)" 0x88b5 \
		"00fdf00000020001$(printf '%02x00' "${conn%%@*}")1f000000000000000080000000008000""00000000ffff" 100 || return 1
	nodes_wait 20 eval 'superp fabric events --after "$before" >"$folder/events"; grep -E "report +fx1: .*_psn" "$folder/events"' ||
		told=1
	wait "$pinger" || { echo "the ping failed"; return 1; }
	[ "$told" = 0 ] || { cat "$folder/events"; on fx1 superp -j node show; return 1; }
	scrape https://10.99.0.1:7779 | grep -E '^superp_node_rx_out_of_window_total [1-9][0-9]*$' || return 1
	tap_equal "$lives" "$(lives)" "lives of the connections"
}

soft_restart() {
	local conn before
	conn=$(connection fx2 fx4)
	before=$(life "$conn")
	ip netns exec fx2 superp ping 10.23.0.4 -c 100 -i 0.05 -W 20 -q &
	nodes_wait 20 talks fx2 10.23.0.4 || return 1
	superp fabric restart "$conn" || return 1
	nodes_wait 30 eval '[ "$(life "$conn")" -gt '"$before"' ] && all_run' ||
		{ why; return 1; }
	wait $! || { echo "a request was lost"; return 1; }
}

# drain_node: a node leaves its peers in order, and comes back; who follows the events sees it happen.
drain_node() {
	local before follower told=0
	# From the last event on, so that nothing is missed however late it begins.
	before=$(last_event)
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

# Whose certificate is taken back is refused by the manager and by the agents; a node goes on with another one.
revoked() {
	local node
	issue viewer mallory || return 1
	superp fabric --tls "$folder/mallory" status || return 1
	superp-cm revoke --dir "$folder/ca" mallory || return 1
	for node in "${nodes[@]}"; do
		nodes_wait 20 grep -q 'revoked: [0-9a-f]* viewer mallory, ' "$folder/agent-$node" || { why; return 1; }
	done
	tap_refused 'it refuses our certificate, which was revoked' superp fabric --tls "$folder/mallory" status || return 1
	superp-cm revoke --dir "$folder/ca" fx2 || return 1
	nodes_wait 20 eval '[[ $(state ".waiting[]") = *"10.99.0.2:7779: its certificate was revoked"* ]]' ||
		{ why; return 1; }
	issue agent renewed --address 10.99.0.2 || return 1
	cp "$folder"/renewed/tls.{crt,key} "$folder/fx2" || return 1
	nodes_wait 20 all_run || { why; return 1; }
	superp fabric audit >"$folder/audit" || return 1
	grep -q 'authority revoke [0-9a-f]* agent fx2: 200, list 2, ' "$folder/audit" || { cat "$folder/audit"; return 1; }
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
	serve fx1 --size 1M || return 1
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
tap_case "a node is killed with its kernel state and comes back" node_killed
tap_case "a cut link breaks a connection, and the manager heals it" cut_link
tap_case "a peer that breaks the rules is told of, and disturbs nobody" peer_breaks_rules
tap_case "a connection restarts softly under traffic, and no request is lost" soft_restart
tap_case "a node is drained and restarted, which events and metrics tell" drain_node
tap_case "roles, and the record of who did what" roles
tap_case "certificates are revoked, and renewed, while all runs" revoked
tap_case "the dashboard and the alerts speak of metrics that there are" monitored
tap_case "system shutdown, and another configuration" system_shutdown
tap_end
