#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The command's objects and verbs: what is set is shown, and everything that -j prints is JSON.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# json FILTER COMMAND…: what the jq filter makes of the command's output.
json() {
	local filter=$1 output
	shift
	output=$(on "$nodeA" superp -j "$@") || { echo "failed: $*: $output"; return 1; }
	jq -r "$filter" <<<"$output"
}

# json_error FILTER COMMAND…: as json, of a command that must fail.
json_error() {
	local filter=$1 output
	shift
	if output=$(on "$nodeA" superp -j "$@" 2>/dev/null); then
		echo "was not refused: $*"
		return 1
	fi
	jq -r "$filter" <<<"$output"
}

# One value a command, no more and no less, and each what a strict reader takes.
everything_is_json() {
	local all words commands=0
	all=$(mktemp)
	while read -r -a words; do
		on "$nodeA" superp -j "${words[@]}" >>"$all" || { echo "failed: ${words[*]}"; return 1; }
		commands=$((commands + 1))
		tap_equal "$commands" "$(wc -l <"$all")" "lines after ${words[*]}" || return 1
	done <<-'END'
		node
		dev
		dev show eth0
		conn
		conn show -s
		conn show 64
		conn show 64 -s
		param
		param show pdl_window_size
		param set pdl_window_size 32
		mr
		qp
		stats
		ping 10.23.0.2 -c 1
	END
	python3 -m json.tool --json-lines <"$all" >/dev/null
}

errors_are_json() {
	tap_equal ENOENT "$(json_error .errno conn show 4711)" errno || return 1
	tap_equal ENOENT "$(json_error .errno param show colour)" errno || return 1
	tap_equal EHOSTUNREACH "$(json_error .errno ping 10.23.0.2 --cid 4711)" errno || return 1
	tap_equal ERANGE "$(json_error .errno param set pdl_max_rtx 9)" errno || return 1
	tap_equal true "$(json_error 'has("hint")' conn start 4711)" hint
}

node_is_shown() {
	tap_equal 22 "$(json .family node)" family || return 1
	tap_equal $((0x88b5)) "$(json .ethertype node)" ethertype || return 1
	tap_equal "10.23.0.1 fd23::1" "$(json '.addresses | join(" ")' node)" addresses || return 1
	tap_equal "1 1 0 0" "$(json '"\(.ports) \(.conns) \(.qps) \(.regions)"' node)" counts
}

cm_address_is_kept() {
	tap_equal null "$(json '."cm-address"' node)" before || return 1
	json . node set cm-address fd23::99 >/dev/null || return 1
	tap_equal fd23::99 "$(json '."cm-address"' node)" "IPv6" || return 1
	json . node set cm-address 10.23.0.99 >/dev/null || return 1
	tap_equal 10.23.0.99 "$(json '."cm-address"' node)" "IPv4" || return 1
	json . node set cm-address none >/dev/null || return 1
	tap_equal null "$(json '."cm-address"' node)" none
}

address_space_is_shown() {
	local space='"\(."rma-base") \(."rma-size")"'
	tap_equal "0 0" "$(json "$space" node)" before || return 1
	json . node set rma-base 0x10000000000 0x40000000 >/dev/null || return 1
	tap_equal "1099511627776 1073741824" "$(json "$space" node)" "base and size" || return 1
	on "$nodeA" superp node | grep -q '^RMA addresses global, 0x40000000 bytes from 0x10000000000$' || return 1
	json . node set rma-base 0x10000 >/dev/null || return 1
	tap_equal "65536 0" "$(json "$space" node)" "without a size" || return 1
	tap_refused "rma-base is not a multiple of the page size" on "$nodeA" superp node set rma-base 0x10001 ||
		return 1
	tap_refused "rma-size is not a multiple of the page size" on "$nodeA" superp node set rma-base 0x10000 17 ||
		return 1
	tap_refused "beyond the last address" on "$nodeA" superp node set rma-base 0xffffffffffff0000 0x20000 ||
		return 1
	tap_refused "rma-size needs an rma-base" on "$nodeA" superp node set rma-base 0 0x10000 || return 1
	tap_equal "65536 0" "$(json "$space" node)" "after refusals" || return 1
	json . node set rma-base 0 >/dev/null || return 1
	tap_equal "0 0" "$(json "$space" node)" none || return 1
	on "$nodeA" superp node | grep -q '^RMA addresses by key$'
}

port_is_shown() {
	tap_equal "eth0 up sunh,udp 9000 1" "$(json \
		'.[] | "\(.name) \(.state) \(.encap | join(",")) \(.mtu) \(.conns)"' dev)" port
}

port_goes_down_and_up() {
	ip -n "$nodeA" link set eth0 down || return 1
	tap_equal down "$(json '.[0].state' dev)" "state" || return 1
	ip -n "$nodeA" link set eth0 up || return 1
	nodes_wait 5 nodes_running "$nodeA" eth0 || return 1
	tap_equal up "$(json '.[0].state' dev)" "state" || return 1
	# A device that goes down loses its IPv6 addresses.
	ip -n "$nodeA" address replace fd23::1/64 dev eth0 nodad
}

port_is_refused() {
	tap_refused "port already" on "$nodeA" superp dev add eth0 || return 1
	tap_refused "no network device" on "$nodeA" superp dev add nosuchdevice || return 1
	tap_refused "not a port" on "$nodeA" superp dev del lo || return 1
	tap_refused "not a port" on "$nodeA" superp dev show lo || return 1
	tap_refused "connections use the port" on "$nodeA" superp dev del eth0 || return 1
	tap_refused "sunh" on "$nodeA" superp dev add lo encap tcp
}

ports_serve_what_they_are_told() {
	on "$nodeA" superp dev add lo encap udp || return 1
	tap_equal udp "$(json '.[0].encap | join(",")' dev show lo)" encap || return 1
	tap_refused "no port serves" on "$nodeA" superp conn add peer 127.0.0.2 peer-cid 1 dev lo || return 1
	on "$nodeA" superp dev del lo || return 1
	tap_equal 1 "$(json length dev)" ports
}

every_setting_is_shown() {
	local add
	on "$nodeA" superp conn add 65 peer fd23::2 peer-cid 66 encap sunh dev eth0 local fd23::1 \
		lladdr 02:00:00:00:00:07 ext on ordered-tx off ordered-rx on partition 5 tclass 0x2b \
		hop-limit 9 flow-label 0xabc mtu 1000 start-psn 0xfffffff0 start-xid 65000 window 512 \
		tal_max_ops_per_pkt 15 || return 1
	add=$(json '.[] | [."local-cid", ."remote-cid", .encap, .ifname, ."local-addr", ."remote-addr",
		.lladdr, .ext, ."ordered-tx", ."ordered-rx", .partition, .tclass, ."hop-limit",
		."flow-label", .mtu, ."start-psn", ."start-xid", .params.pdl_window_size,
		.params.tal_max_ops_per_pkt, .state] | map(tostring) | join(" ")' conn show 65) || return 1
	tap_equal "65 66 sunh eth0 fd23::1 fd23::2 02:00:00:00:00:07 true false true 5 43 9 2748 1000 \
4294967280 65000 512 15 created" "$add" "connection" || return 1
	on "$nodeA" superp conn del 65
}

defaults_are_chosen() {
	local cid
	cid=$(json '."local-cid"' conn add peer 10.23.0.2 peer-cid 9 encap udp) || return 1
	tap_equal "udp4 10.23.0.1 true true false 15 8972" "$(json '.[] | [.encap, ."local-addr",
		."ordered-tx", ."ordered-rx", .ext, ."hop-limit", .mtu] | map(tostring) | join(" ")' \
		conn show "$cid")" connection || return 1
	tap_equal 1 "$cid" "smallest free id" || return 1
	on "$nodeA" superp conn del "$cid"
}

parameters_are_defaults_of_new_connections() {
	on "$nodeA" superp param set pdl_window_size 128 || return 1
	tap_equal 128 "$(json '.[0].value' param show pdl_window_size)" value || return 1
	on "$nodeA" superp conn add 70 peer 10.23.0.2 peer-cid 70 || return 1
	tap_equal 128 "$(json '.[0].params.pdl_window_size' conn show 70)" "of the new connection" || return 1
	tap_equal 32 "$(json '.[0].params.pdl_window_size' conn show 64)" "of the old connection" || return 1
	on "$nodeA" superp conn del 70 || return 1
	on "$nodeA" superp param set pdl_window_size default || return 1
	tap_equal 32 "$(json '.[0].value' param show pdl_window_size)" default
}

parameter_in_use_is_refused() {
	tap_refused "in use" on "$nodeA" superp param set nh_udp_port 7000 || return 1
	tap_refused "in use" on "$nodeA" superp param set nh_num_caddr_bits 16
}

states_of_a_connection() {
	on "$nodeA" superp conn add 71 peer 10.23.0.2 peer-cid 71 || return 1
	tap_equal created "$(conn_get "$nodeA" 71 state)" state || return 1
	on "$nodeA" superp conn start 71 || return 1
	tap_equal established "$(conn_get "$nodeA" 71 state)" state || return 1
	on "$nodeA" superp conn reset 71 || return 1
	tap_equal created "$(conn_get "$nodeA" 71 state)" state || return 1
	on "$nodeA" superp conn del 71 || return 1
	tap_refused "connection 71: no connection with this id" on "$nodeA" superp conn show 71 || return 1
	tap_refused "connection 71: no connection with this id" on "$nodeA" superp conn del 71 || return 1
	tap_refused "connection 71: no connection with this id" on "$nodeA" superp conn start 71 || return 1
	tap_refused "connection 71: no connection with this id" on "$nodeA" superp conn reset 71
}

ping_counts_its_answers() {
	tap_equal "3 3" "$(json '"\(.sent) \(.received)"' ping 10.23.0.2 -c 3 -i 0.01)" probes || return 1
	tap_equal "true" "$(json '."min-ns" > 0 and ."min-ns" <= ."avg-ns" and ."avg-ns" <= ."max-ns"' \
		ping 10.23.0.2 -c 3 -i 0.01)" times || return 1
	tap_refused "no established connection" on "$nodeA" superp ping 10.23.0.77 -c 1
}

# A queue pair, a region and their counters, as xfer serve makes them.
queue_pairs_and_regions() {
	local server ready
	ready=$(mktemp)
	ip netns exec "$nodeB" superp -j xfer serve --qpn 9 --size 1M --access w --partition 3 >"$ready" &
	server=$!
	nodes_wait 10 grep -q ready "$ready" || return 1
	tap_equal "9 0 $server superp" "$(on "$nodeB" superp -j qp |
		jq -r '.[] | "\(.qpn) \(.pending) \(.pid) \(.command)"')" "queue pair" || return 1
	tap_equal "1048576 2 3 9 $server superp 0 0" "$(on "$nodeB" superp -j mr | jq -r '.[] |
		"\(.length) \(.access) \(.partition) \(.qpn) \(.pid) \(.command) \(."remote-reads") \(."remote-writes")"')" \
		region || return 1
	tap_equal "1 1" "$(on "$nodeB" superp -j node | jq -r '"\(.qps) \(.regions)"')" "counts" || return 1
	kill -TERM "$server"
	wait "$server" || return 1
	tap_equal "0 0" "$(on "$nodeB" superp -j node | jq -r '"\(.qps) \(.regions)"')" "counts after"
}

# holders INODE: the processes that have the socket, as the agent finds them.
holders() {
	local link
	for link in /proc/[0-9]*/fd/*; do
		[ "$(readlink "$link")" = "socket:[$1]" ] || continue
		link=${link#/proc/}
		echo "${link%%/*}"
	done | sort -u
}

# A number may be another process's by now, so that of a process that has ended is not told; its
# child, which has the socket, is found by the inode.
owners_are_told() {
	local maker child inode told
	told=$(mktemp)
	ip netns exec "$nodeB" python3 - >"$told" <<-'END' &
		import os, socket, struct, time
		s = socket.socket(22, socket.SOCK_SEQPACKET)
		name = struct.pack("=HHI16sI", 22, 0, 11, bytes(16), 0xffffffff)
		libc = __import__("ctypes").CDLL(None, use_errno=True)
		assert libc.bind(s.fileno(), name, len(name)) == 0
		child = os.fork()
		if child:
		    print(child, flush=True)
		    time.sleep(600)
		time.sleep(600)
	END
	maker=$!
	nodes_wait 10 test -s "$told" || return 1
	child=$(cat "$told")
	inode=$(on "$nodeB" superp -j qp | jq -r '.[].inode') || return 1
	tap_equal "$maker python3" "$(on "$nodeB" superp -j qp | jq -r '.[] | "\(.pid) \(.command)"')" maker || return 1
	tap_equal "$(printf '%s\n' "$maker" "$child" | sort)" "$(holders "$inode")" "holders" || return 1
	tap_equal "null null" "$(on "$nodeB" unshare --pid --fork superp -j qp |
		jq -r '.[] | "\(.pid) \(.command)"')" "of another pid namespace" || return 1
	kill -KILL "$maker"
	wait "$maker"
	tap_equal "null null $inode" "$(on "$nodeB" superp -j qp |
		jq -r '.[] | "\(.pid) \(.command) \(.inode)"')" "after the maker" || return 1
	tap_equal "$child" "$(holders "$inode")" "holder" || return 1
	kill -KILL "$child"
	nodes_wait 10 no_queue_pairs
}

no_queue_pairs() { [ "$(on "$nodeB" superp -j qp)" = '[]' ]; }

nodes_up
ports_up
connect sunh 64 ext on
tap_case "the node is shown" node_is_shown
tap_case "everything that -j prints is JSON" everything_is_json
tap_case "errors are JSON too" errors_are_json
tap_case "the manager's address is kept" cm_address_is_kept
tap_case "the address space is shown" address_space_is_shown
tap_case "a port is shown" port_is_shown
tap_case "a port follows its device" port_goes_down_and_up
tap_case "ports are refused by name" port_is_refused
tap_case "a port serves what it is told to" ports_serve_what_they_are_told
tap_case "every setting of a connection is shown" every_setting_is_shown
tap_case "what is left out is chosen" defaults_are_chosen
tap_case "parameters are defaults of new connections" parameters_are_defaults_of_new_connections
tap_case "a parameter in use is refused" parameter_in_use_is_refused
tap_case "a connection goes through its states" states_of_a_connection
tap_case "ping counts its answers" ping_counts_its_answers
tap_case "queue pairs and regions are shown" queue_pairs_and_regions
tap_case "processes are told from others that get their numbers" owners_are_told
tap_end
