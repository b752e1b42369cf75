#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# A peer that is not there yet is no fault: whatever the order of commands on the two nodes, and whatever
# is missing there, the connection waits and goes on by itself. A peer that was there and went is one.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# It would break within a tenth of a second.
quick=(pdl_max_rtx 1 pdl_dead_time 50000000 pdl_retrans_time_out 5000000 ext on)

# table_state NODE CID: what the table says.
table_state() { on "$1" superp conn show | awk -v cid="$2" '$1 == cid { print $2 }'; }
heard() { on "$nodeA" superp -j conn show "$cid" | jq '.[0].heard'; }
state_is() { [ "$(conn_get "$1" "$2" state)" = "$3" ]; }
tries() { [ "$(conn_sum "$nodeA" "$cid" retrans-rto)" -ge 8 ]; }

# waits WAY PREPARE: A begins a transfer; B's half comes when A has tried often, after PREPARE.
waits() {
	local way=$1 sender
	"$2" away || return 1
	half "$nodeA" "$way" "$cid" "$cid" 1 2 eth0 23 "${quick[@]}" || return 1
	on "$nodeA" superp -j ping "$(address "$way" 2)" --cid "$cid" --count 1 --timeout 60 >"$said" 2>&1 &
	sender=$!
	nodes_wait 20 tries || { echo "A does not try"; return 1; }
	tap_equal "established, connecting, false" "$(conn_get "$nodeA" "$cid" state), $(table_state "$nodeA" "$cid"), $(heard)" "A before B is there" || return 1
	"$2" there || return 1
	half "$nodeB" "$way" "$cid" "$cid" 2 1 eth0 23 "${quick[@]}" || return 1
	wait "$sender" || { cat "$said"; return 1; }
	tap_equal 1 "$(jq .received "$said")" "answers" || return 1
	tap_equal "established, true" "$(table_state "$nodeA" "$cid"), $(heard)" \
		"A when B is there"
}
nothing() { :; }
# The device is there, SUPERp does not use it.
no_port() {
	case $1 in
	away) on "$nodeB" superp dev del eth0 ;;
	there) on "$nodeB" superp dev add eth0 ;;
	esac
}
# Nor does the address exist.
no_address() {
	case $1 in
	away) ip -n "$nodeB" link set eth0 down ;;
	there)
		ip -n "$nodeB" link set eth0 up && ip -n "$nodeB" address replace fd23::2/64 dev eth0 nodad
		;;
	esac
}

# Of the last of the ways above.
gone() {
	disconnect_b || return 1
	on "$nodeA" superp ping "$(address "$way" 2)" --cid "$cid" --count 1 --timeout 60 >"$said" 2>&1 && return 1
	nodes_wait 10 state_is "$nodeA" "$cid" broken || return 1
	on "$nodeA" superp conn reset "$cid" && on "$nodeA" superp conn start "$cid" || return 1
	tap_equal connecting "$(table_state "$nodeA" "$cid")" "A, in a new life"
}
disconnect_b() { on "$nodeB" superp conn del "$cid"; }
cleared() { { on "$nodeA" superp conn del "$cid"; disconnect_b; } 2>/dev/null || true; }

nodes_up 9000
ports_up
said=$(mktemp)
cid=0
for way in $encapsulations; do
	for missing in nothing no_port no_address; do
		[ "$cid" = 0 ] || cleared
		cid=$((cid + 1))
		case $missing in
		nothing) text="its connection" ;;
		no_port) text="its port, and its connection" ;;
		no_address) text="its link, and its connection" ;;
		esac
		tap_case "$way: waits for a peer that lacks $text" waits "$way" "$missing"
	done
	tap_case "$way: breaks when a peer that was there is gone" gone
done
tap_end
