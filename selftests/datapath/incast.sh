#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The windows that a node advertises share its receive budget [proto 3.7].
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

budget() { on "$nodeB" superp param set pdl_receive_budget "$1" && on "$nodeB" superp param set pdl_budget_static "$2"; }
window() { conn_get "$nodeB" "$1" rx-window; }
transfers() { "$xfer" mixed "$nodeA" "$nodeB" "$(address sunh 2)" "$@"; }

# All connections carry something at the same time.
all_at_once() {
	local pids=() pid status=0
	for ((cid = 1; cid <= 4; cid++)); do
		transfers "$cid" write,send "$(fewer 400)" 60000 16 &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || status=1; done
	return "$status"
}

unlimited() {
	transfers 1 write,read,send 50 60000 8 || return 1
	tap_equal 32 "$(window 1)" "window without a budget"
}

equal_parts() {
	budget 40 1 || return 1
	all_at_once || return 1
	for ((cid = 1; cid <= 4; cid++)); do
		tap_equal 10 "$(window "$cid")" "window of connection $cid" || return 1
	done
	# Also when the others have nothing to do.
	transfers 1 write 50 60000 8 || return 1
	tap_equal 10 "$(window 1)" "window of the only active one"
}

shared_by_the_active() {
	local cid
	budget 40 0 || return 1
	all_at_once || return 1
	for ((cid = 1; cid <= 4; cid++)); do
		[ "$(window "$cid")" -lt 33 ] || return 1
	done
	transfers 1 write 200 60000 8 || return 1
	tap_equal 32 "$(window 1)" "window of the only active one"
}

too_small() {
	budget 2 1 || return 1
	all_at_once || return 1
	for ((cid = 1; cid <= 4; cid++)); do
		tap_equal 1 "$(window "$cid")" "window of connection $cid" || return 1
	done
}

shares_grow_when_one_goes() {
	budget 40 1 || return 1
	disconnect 4 || return 1
	transfers 1 write 50 60000 8 || return 1
	tap_equal 13 "$(window 1)" "window of one of three"
}

switched_off() {
	budget 0 0 || return 1
	transfers 1 write 50 60000 8 || return 1
	tap_equal 32 "$(window 1)" "window without a budget"
}

nodes_up 9000
ports_up
for ((cid = 1; cid <= 4; cid++)); do connect sunh "$cid" ext on; done
tap_case "without a budget every connection advertises pdl_receive_win" unlimited
tap_case "static partitioning: every connection has an equal part" equal_parts
tap_case "the active connections share the budget" shared_by_the_active
tap_case "a budget under a packet each is a packet each, and everything arrives" too_small
tap_case "the others get the part of a connection that is removed" shares_grow_when_one_goes
tap_case "without a budget again" switched_off
tap_end
