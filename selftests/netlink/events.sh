#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Events: who listens is told what happens in its node, and nothing of another one.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh

listeners=()
end() {
	[ ${#listeners[@]} = 0 ] || kill "${listeners[@]}" 2>/dev/null || true
	nodes_down
}
trap end EXIT

# listen NODE FILE: writes the node's events into the file from now on.
listen() {
	: >"$2"
	ip netns exec "$1" superp -j events >>"$2" &
	listeners+=($!)
	nodes_wait 10 listens "$1" $!
}

# listens NODE PID: the process is in a group of generic netlink (protocol 16).
listens() {
	on "$1" awk -v pid="$2" '$2 == 16 && $3 == pid && $4 !~ /^0*$/ { found = 1 } END { exit !found }' \
		/proc/net/netlink
}

# told FILE FILTER: an event that fits the jq filter is in the file, or comes within 5 s.
told() { nodes_wait 5 has "$@"; }
has() { [ "$(jq -c "select($2)" "$1" | wc -l)" -gt 0 ]; }

# fresh: forgets what was told.
fresh() { : >"$A" && : >"$B"; }

states() {
	fresh
	on "$nodeA" superp conn add 64 peer 10.23.0.2 peer-cid 47 || return 1
	told "$A" '.kind == "conn-state" and ."local-cid" == 64 and ."remote-cid" == 47 and
		."remote-addr" == "10.23.0.2" and ."conn-state" == "created" and .time > 0' || return 1
	on "$nodeA" superp conn start 64 || return 1
	told "$A" '.kind == "conn-state" and ."conn-state" == "established"' || return 1
	on "$nodeA" superp conn reset 64 || return 1
	told "$A" '.kind == "conn-state" and ."conn-state" == "created"' || return 1
	on "$nodeA" superp conn del 64 || return 1
	told "$A" '.kind == "conn-deleted" and ."local-cid" == 64'
}

other_node_hears_nothing() {
	has "$A" '."local-cid" == 64' || return 1
	tap_equal "" "$(cat "$B")" "events of B"
}

refused_request_tells_nothing() {
	fresh
	tap_refused "out of range" on "$nodeA" superp conn add 64 peer 10.23.0.2 peer-cid 47 window 7 || return 1
	on "$nodeA" superp dev add lo || return 1
	told "$A" '.kind == "port-state"' || return 1
	tap_equal 1 "$(wc -l <"$A")" "events" || return 1
	on "$nodeA" superp dev del lo
}

ports() {
	local index
	fresh
	ip -n "$nodeA" link add port9 type dummy || return 1
	index=$(on "$nodeA" cat /sys/class/net/port9/ifindex)
	on "$nodeA" superp dev add port9 encap sunh || return 1
	told "$A" ".kind == \"port-state\" and .ifindex == $index and .\"port-state\" == \"down\"" || return 1
	ip -n "$nodeA" link set port9 up || return 1
	told "$A" ".kind == \"port-state\" and .ifindex == $index and .\"port-state\" == \"up\"" || return 1
	fresh
	ip -n "$nodeA" link set port9 down || return 1
	told "$A" ".kind == \"port-state\" and .ifindex == $index and .\"port-state\" == \"down\"" || return 1
	ip -n "$nodeA" link del port9 || return 1
	told "$A" ".kind == \"port-deleted\" and .ifindex == $index"
}

carrier() {
	local index
	ip -n "$nodeA" link add port8 type veth peer name far8 || return 1
	index=$(on "$nodeA" cat /sys/class/net/port8/ifindex)
	ip -n "$nodeA" link set port8 up && ip -n "$nodeA" link set far8 up || return 1
	nodes_wait 10 nodes_running "$nodeA" port8 || return 1
	on "$nodeA" superp dev add port8 || return 1
	fresh
	ip -n "$nodeA" link set far8 down || return 1
	told "$A" ".kind == \"port-state\" and .ifindex == $index and .\"port-state\" == \"down\"" || return 1
	tap_equal down "$(on "$nodeA" superp -j dev show port8 | jq -r '.[0].state')" "state of the port" || return 1
	fresh
	ip -n "$nodeA" link set far8 up || return 1
	told "$A" ".kind == \"port-state\" and .ifindex == $index and .\"port-state\" == \"up\"" || return 1
	# What changes nothing is not told.
	fresh
	ip -n "$nodeA" link set port8 promisc on || return 1
	on "$nodeA" superp dev del port8 || return 1
	told "$A" ".kind == \"port-deleted\" and .ifindex == $index" || return 1
	tap_equal 1 "$(wc -l <"$A")" "events" || return 1
	ip -n "$nodeA" link del port8
}

broken_connection() {
	fresh
	on "$nodeA" superp conn add 66 peer 10.23.0.2 peer-cid 66 ext off tal_transaction_timeout 20000000 || return 1
	on "$nodeA" superp conn start 66 || return 1
	# Nobody there answers.
	! on "$nodeA" timeout 20 superp ping 10.23.0.2 --cid 66 -c 1 -W 15 || return 1
	told "$A" '.kind == "conn-state" and ."local-cid" == 66 and ."conn-state" == "broken" and
		(.cause | length) > 0' || return 1
	tap_equal broken "$(conn_get "$nodeA" 66 state)" state || return 1
	on "$nodeA" superp conn del 66
}

access_violation() {
	fresh
	connect sunh 67 ext on || return 1
	tap_refused "access refused" on "$nodeA" superp xfer write 10.23.0.2 --cid 67 --remote 0x123 --length 64 ||
		return 1
	told "$B" '.kind == "access-violation" and ."local-cid" == 67 and ."remote-addr" == "10.23.0.1" and
		.address == 291 and .length == 64 and (.cause | test("key"))' || return 1
	disconnect 67
}

# Of many packets the first is refused, and with it the rest.
one_violation() {
	fresh
	connect sunh 67 ext on || return 1
	tap_refused "access refused" on "$nodeA" superp xfer write 10.23.0.2 --cid 67 --remote 0x123 --length 65536 ||
		return 1
	told "$B" '.kind == "access-violation" and .address == 291 and .length < 9000' || return 1
	tap_equal 1 "$(jq -s 'map(select(.kind == "access-violation")) | length' "$B")" "violations told" || return 1
	tap_equal 1 "$(conn_get "$nodeB" 67 access-violations)" "violations counted" || return 1
	disconnect 67
}

# bad_packet [COUNT]: node A sends to connection 68 of B packets whose ACK PSN was never sent.
bad_packet() {
	nodes_inject "$nodeA" "$(nodes_mac "$nodeB")" 0x88b5 \
		"00fdf00000010002""44001f00000000000010000000000000""800000000000ffff" "$@"
}

reports() {
	fresh
	connect sunh 68 || return 1
	bad_packet || return 1
	told "$B" '.kind == "report" and ."local-cid" == 68 and .value == 4096 and .low != null and
		(.cause | test("ack_psn"))' || return 1
	tap_equal "" "$(jq -c 'select(.kind == "report")' "$A")" "reports of A"
}

# A peer cannot flood the manager: some are told, the rest is counted and told with a later one.
flood_of_reports() {
	local told suppressed
	fresh
	bad_packet 2000 || return 1
	# A new period, about a second, begins.
	sleep 2.2
	bad_packet || return 1
	told "$B" '.suppressed != null' || return 1
	told=$(jq -c 'select(.kind == "report")' "$B" | wc -l)
	suppressed=$(jq '.suppressed // 0' "$B" | awk '{ sum += $1 } END { print sum }')
	[ "$told" -le 1001 ] || { echo "$told of 2001 reports were told"; return 1; }
	tap_equal 2001 $((told + suppressed)) "told and suppressed together"
}

people_can_read_them() {
	local text
	text=$(mktemp)
	ip netns exec "$nodeA" superp events --count 1 >"$text" &
	nodes_wait 10 listens "$nodeA" $! || return 1
	on "$nodeA" superp conn add 69 peer 10.23.0.2 peer-cid 47 || return 1
	wait $! || return 1
	grep -qF 'conn 69 to 10.23.0.2 cid 47: created' "$text" || { cat "$text"; return 1; }
	on "$nodeA" superp conn del 69
}

nodes_up
ports_up
A=$(mktemp) B=$(mktemp)
listen "$nodeA" "$A"
listen "$nodeB" "$B"
tap_case "states of a connection" states
tap_case "the other node hears nothing" other_node_hears_nothing
tap_case "a refused request tells nothing" refused_request_tells_nothing
tap_case "ports" ports
tap_case "a port whose carrier goes and comes" carrier
tap_case "a connection that breaks" broken_connection
tap_case "a refused remote access" access_violation
tap_case "a refused remote access of many packets is one" one_violation
tap_case "what the protocol reports" reports
tap_case "a flood of reports is limited and counted" flood_of_reports
tap_case "text for people" people_can_read_them
tap_end
