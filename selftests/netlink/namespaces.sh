#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# A node sees and changes nothing of another one, however equal their numbers are.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# of NODE FILTER COMMAND…
of() { on "$1" superp -j "${@:3}" | jq -r "$2"; }

equal_numbers() {
	on "$nodeA" superp conn add 64 peer 10.23.0.2 peer-cid 64 window 16 || return 1
	on "$nodeB" superp conn add 64 peer 10.23.0.1 peer-cid 64 window 1024 || return 1
	tap_equal 16 "$(of "$nodeA" '.[].params.pdl_window_size' conn)" "connections of A" || return 1
	tap_equal 1024 "$(of "$nodeB" '.[].params.pdl_window_size' conn)" "connections of B"
}

parameters() {
	on "$nodeA" superp param set pdl_max_rtx 7 || return 1
	tap_equal 7 "$(of "$nodeA" '.[].value' param show pdl_max_rtx)" "A" || return 1
	tap_equal 4 "$(of "$nodeB" '.[].value' param show pdl_max_rtx)" "B"
}

ports() {
	tap_equal 1 "$(of "$nodeA" length dev)" "ports of A" || return 1
	on "$nodeA" superp conn del 64 || return 1
	on "$nodeA" superp dev del eth0 || return 1
	tap_equal 0 "$(of "$nodeA" length dev)" "ports of A" || return 1
	tap_equal 1 "$(of "$nodeB" length dev)" "ports of B" || return 1
	tap_equal 1 "$(of "$nodeB" length conn)" "connections of B" || return 1
	on "$nodeA" superp dev add eth0 || return 1
	on "$nodeA" superp conn add 64 peer 10.23.0.2 peer-cid 64
}

queue_pairs_and_regions() {
	local server ready
	ready=$(mktemp)
	ip netns exec "$nodeB" superp -j xfer serve --qpn 9 --size 64K >"$ready" &
	server=$!
	nodes_wait 10 grep -q ready "$ready" || return 1
	tap_equal "1 1" "$(of "$nodeB" '"\(.qps) \(.regions)"' node)" "B" || return 1
	tap_equal "0 0" "$(of "$nodeA" '"\(.qps) \(.regions)"' node)" "A" || return 1
	tap_equal "0 0" "$(of "$nodeA" length qp) $(of "$nodeA" length mr)" "dumps of A" || return 1
	kill -TERM "$server"
	wait "$server"
}

counters() {
	local before
	before=$(on "$nodeB" superp -j stats | jq -c .drops)
	# A SUNH frame for another protocol: dropped by A only.
	nodes_inject "$nodeB" "$(nodes_mac "$nodeA")" 0x88b5 "0011f000000200010000000000000000$(printf '00%.0s' {1..40})" || return 1
	nodes_wait 5 dropped_by_a || return 1
	tap_equal "$before" "$(on "$nodeB" superp -j stats | jq -c .drops)" "drops of B"
}

dropped_by_a() { [ "$(on "$nodeA" superp -j stats | jq '[.drops[]] | add')" -gt 0 ]; }

device_that_moves() {
	local third="$nodeA-third"
	ip netns add "$third" || return 1
	ip -n "$nodeA" link add moving type dummy || return 1
	on "$nodeA" superp dev add moving encap sunh || return 1
	moving_connection 70 || return 1
	ip -n "$nodeA" link set moving netns "$third" || return 1
	tap_equal 1 "$(of "$nodeA" length dev)" "ports of A" || return 1
	tap_equal 0 "$(of "$third" length dev)" "ports of where it went" || return 1
	# It takes no connection along. When it comes back it is another port.
	ip -n "$third" link set moving up && ip -n "$third" link set moving netns "$nodeA" || return 1
	on "$nodeA" superp dev add moving encap sunh || return 1
	nodes_wait 10 eval '[ "$(conn_get "$nodeA" 70 state)" = broken ]' || return 1
	tap_equal "the device was removed" "$(conn_get "$nodeA" 70 cause)" "cause" || return 1
	moving_connection 71 || return 1
	tap_equal established "$(conn_get "$nodeA" 71 state)" "state of a new one" || return 1
	tap_equal 1 "$(of "$nodeA" '.[].conns' dev show moving)" "connections over it" || return 1
	on "$nodeA" superp conn del 70 71 || return 1
	ip -n "$nodeA" link del moving || return 1
	ip netns delete "$third"
}
moving_connection() {
	on "$nodeA" superp conn add "$1" peer 10.99.0.2 peer-cid "$1" local 10.99.0.1 dev moving lladdr 02:00:00:00:00:01 &&
		on "$nodeA" superp conn start "$1"
}

namespace_that_goes() {
	local third="$nodeA-third" i
	for ((i = 0; i < 10; i++)); do
		ip netns add "$third" || return 1
		ip -n "$third" link add gone type dummy || return 1
		ip -n "$third" address add 10.99.0.1/24 dev gone || return 1
		ip -n "$third" link set gone up || return 1
		on "$third" superp dev add gone || return 1
		on "$third" superp conn add 64 peer 10.99.0.2 peer-cid 64 || return 1
		on "$third" superp conn add 65 peer 10.99.0.2 peer-cid 65 encap udp || return 1
		on "$third" superp conn start 64 65 || return 1
		ip netns delete "$third" || return 1
	done
	tap_equal 1 "$(of "$nodeA" length conn)" "connections of A"
}

nodes_up
ports_up
tap_case "connections with equal numbers" equal_numbers
tap_case "parameters" parameters
tap_case "ports" ports
tap_case "queue pairs and regions" queue_pairs_and_regions
tap_case "counters" counters
tap_case "a device that moves leaves its node" device_that_moves
tap_case "namespaces that go with everything in them" namespace_that_goes
tap_end
