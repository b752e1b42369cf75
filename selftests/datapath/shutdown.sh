#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Soft shutdown: what was begun is completed, both ends exchange Last NULL, and what waits goes on after
# a restart.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# at_both_ends VERB: start, stop or reset.
at_both_ends() {
	on "$nodeA" superp conn "$1" "$cid" && on "$nodeB" superp conn "$1" "$cid"
}
state_is() { [ "$(conn_get "$1" "$cid" state)" = "$2" ]; }
both_stopped() { state_is "$nodeA" stopped && state_is "$nodeB" stopped; }
moving() { [ "$(conn_get "$nodeB" "$cid" rx-packets)" -gt 100 ]; }

connect_next() {
	cid=$((cid + 1))
	connect "$way" "$cid" ext on "$@"
}

idle() {
	connect_next || return 1
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send 20 30000 4 || return 1
	at_both_ends stop || return 1
	nodes_wait 10 both_stopped || return 1
	tap_refused "shut down already" on "$nodeA" superp conn stop "$cid" || return 1
	tap_refused "reset it first" on "$nodeA" superp conn start "$cid"
}

# One end alone waits for the other, which goes on meanwhile.
one_end_first() {
	connect_next || return 1
	on "$nodeA" superp conn stop "$cid" || return 1
	"$xfer" mixed "$nodeB" "$nodeA" "$(address "$way" 1)" "$cid" write,read 20 30000 4 || return 1
	state_is "$nodeA" draining || return 1
	on "$nodeB" superp conn stop "$cid" || return 1
	nodes_wait 10 both_stopped
}

# interrupted NETEM: transfers both ways are stopped midway, and all of them complete after a restart.
# Every byte is compared and each message counted, so that one lost or repeated would be seen.
interrupted() {
	local status=0 there back
	connect_next "${@:2}" || return 1
	# shellcheck disable=SC2086 # words
	nodes_netem "$nodeA" $1 && nodes_netem "$nodeB" $1 || return 1
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send 600 60000 16 &
	there=$!
	"$xfer" mixed "$nodeB" "$nodeA" "$(address "$way" 1)" "$cid" write,read,send 600 60000 16 &
	back=$!
	nodes_wait 10 moving || status=1
	at_both_ends stop || status=1
	nodes_wait 20 both_stopped || status=1
	# Neither is done.
	kill -0 "$there" && kill -0 "$back" || status=1
	at_both_ends reset && at_both_ends start || status=1
	nodes_netem "$nodeA" && nodes_netem "$nodeB" || status=1
	wait "$there" || status=1
	wait "$back" || status=1
	return "$status"
}

# A removal ends what waits, with an error.
removed() {
	local pid status=0
	connect_next || return 1
	nodes_netem "$nodeA" delay 25ms || return 1
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read 600 60000 16 &
	pid=$!
	nodes_wait 10 moving || return 1
	at_both_ends stop || return 1
	nodes_wait 10 both_stopped || return 1
	disconnect "$cid" || return 1
	wait "$pid" || status=$?
	nodes_netem "$nodeA" || return 1
	tap_equal 3 "$status" "status of the transfers"
}

nodes_up 9000
ports_up
cid=0
for way in sunh udp6; do
	tap_case "$way: an idle connection stops" idle
	tap_case "$way: the end that stops first answers the other" one_end_first
	tap_case "$way: transfers both ways go on after a restart" interrupted 'delay 25ms'
	tap_case "$way, unordered, with loss: transfers both ways go on after a restart" \
		interrupted 'delay 25ms loss 5%' ordered off
	tap_case "$way: removing a stopped connection ends what waits" removed
done
tap_end
