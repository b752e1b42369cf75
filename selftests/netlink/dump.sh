#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Dumps are complete: many objects, several messages, changes meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

conns=300

make_connections() {
	on "$nodeA" superp param set pdl_conns_per_xpu 4096 || return 1
	on "$nodeA" netlink/many.py conns 2 $((2 * conns + 1)) 2
}

# cids FILTER…: the ids that a dump lists, one a line.
cids() { on "$nodeA" superp -j conn show "$@" | jq -r '.[]."local-cid"'; }

each_exactly_once_in_order() {
	tap_equal "$(seq 2 2 $((2 * conns)))" "$(cids)" "ids" || return 1
	tap_equal "$(seq 2 2 $((2 * conns)))" "$(cids -s)" "ids, with counters"
}

# While others come and go, those that stay are listed, each once.
complete_while_others_change() {
	local changer changes go status=0 round
	go=$(mktemp) changes=$(mktemp)
	ip netns exec "$nodeA" sh -c 'while [ -e "$0" ]; do
		for cid in 1 201 999; do superp conn add $cid peer 10.23.0.2 peer-cid 1; done
		superp conn del 1 201 999 && echo changed >>"$1"
	done' "$go" "$changes" &
	changer=$!
	for round in 1 2 3 4 5; do
		tap_equal "$(seq 2 2 $((2 * conns)))" "$(cids -s | awk '$1 % 2 == 0')" "ids, round $round" ||
			{ status=1; break; }
	done
	rm "$go"
	wait "$changer"
	[ -s "$changes" ] || { echo "nothing changed meanwhile"; return 1; }
	return "$status"
}

one_by_one_as_in_the_dump() {
	local cid dump
	dump=$(on "$nodeA" superp -j conn)
	for cid in 2 100 $((2 * conns)); do
		tap_equal "$(jq -cS ".[] | select(.\"local-cid\" == $cid)" <<<"$dump")" \
			"$(on "$nodeA" superp -j conn show "$cid" | jq -cS '.[0]')" "connection $cid" || return 1
	done
}

ports_too() {
	local devices names
	mapfile -t devices < <(seq -f d%g 0 39)
	printf 'link add %s type dummy\n' "${devices[@]}" | ip -n "$nodeA" -batch - || return 1
	on "$nodeA" netlink/many.py ports "${devices[@]}" || return 1
	names=$(on "$nodeA" superp -j dev | jq -r '.[].name' | sort)
	tap_equal "$(printf '%s\n' eth0 "${devices[@]}" | sort)" "$names" ports || return 1
	# A device that goes takes its port with it.
	ip -n "$nodeA" link del d7 || return 1
	tap_equal 40 "$(on "$nodeA" superp -j dev | jq length)" "ports after one device went"
}

parameters_too() {
	local names
	names=$(on "$nodeA" superp -j param | jq -r '.[].name')
	tap_equal "$(sort -u <<<"$names")" "$(sort <<<"$names")" "names are different" || return 1
	for name in pdl_retrans_time_out pdl_rtx_time_win pdl_rtx_max_pkts pdl_max_rtx \
		pdl_delayed_ack_time pdl_window_size pdl_conns_per_xpu pdl_receive_win nh_udp_port \
		nh_num_caddr_bits nh_hop_limit tal_trans_window tal_max_pkt_per_trans \
		tal_max_ops_per_pkt tal_transaction_timeout tal_sndbuf_per_user cm_port; do
		grep -qx "$name" <<<"$names" || { echo "no parameter $name"; return 1; }
	done
}

removed_at_once() {
	local all
	mapfile -t all < <(seq 2 2 $((2 * conns)))
	on "$nodeA" superp conn del "${all[@]}" || return 1
	tap_equal 0 "$(on "$nodeA" superp -j conn | jq length)" connections
}

nodes_up
on "$nodeA" superp dev add eth0
tap_case "$conns connections are made" make_connections
tap_case "a dump lists each exactly once, in order" each_exactly_once_in_order
tap_case "a dump is complete while other connections come and go" complete_while_others_change
tap_case "asked for one by one they are as in the dump" one_by_one_as_in_the_dump
tap_case "parameters" parameters_too
tap_case "connections are removed" removed_at_once
tap_case "ports" ports_too
tap_end
