#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Who may do what: everyone may look, changes and the keys of regions need CAP_NET_ADMIN in the user
# namespace that owns the network namespace.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# nobody COMMAND…: as a user without any capability, in node A.
nobody() {
	on "$nodeA" setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \
		--bounding-set=-all -- "$@"
}

looking_is_allowed() {
	nobody superp node >/dev/null || return 1
	nobody superp dev >/dev/null || return 1
	nobody superp conn show 64 -s >/dev/null || return 1
	nobody superp param >/dev/null || return 1
	nobody superp qp >/dev/null || return 1
	nobody superp stats >/dev/null
}

# Who knows where the numbers of packets begin can forge them.
first_numbers() {
	tap_equal 'null null' "$(nobody superp -j conn show 64 | jq -r '.[0] | "\(.["start-psn"]) \(.["start-xid"])"')" 'what a user sees' || return 1
	tap_equal null "$(nobody superp -j conn show | jq -r '.[0]["start-psn"]')" 'what a user sees of all' || return 1
	nobody superp conn show 64 | grep -x 'start  *shown to administrators' || return 1
	tap_equal '0 0' "$(on "$nodeA" superp -j conn show 64 | jq -r '.[0] | "\(.["start-psn"]) \(.["start-xid"])"')" 'what root sees'
}

# refused COMMAND…: with the errno and the hint.
refused() {
	tap_refused "Operation not permitted" nobody superp "$@" || return 1
	tap_refused "CAP_NET_ADMIN" nobody superp "$@"
}

nothing_changed() {
	tap_equal "1 1" "$(on "$nodeA" superp -j node | jq -r '"\(.ports) \(.conns)"')" "ports and connections" ||
		return 1
	tap_equal 4 "$(on "$nodeA" superp -j route show | jq -r 'map(.address) | join(" ")')" routes || return 1
	tap_equal established "$(conn_get "$nodeA" 64 state)" state || return 1
	tap_equal 32 "$(on "$nodeA" superp -j param show pdl_window_size | jq -r '.[0].value')" parameter
}

# own COMMAND…: as a user who is root in namespaces of its own, below those of node A.
own() { nobody unshare --user --map-root-user --net -- "$@"; }

own_namespace_is_ones_own() {
	tap_equal 64 "$(own sh -c 'superp param set pdl_window_size 64 &&
		superp -j param show pdl_window_size' | jq -r '.[0].value')" "own parameter" || return 1
	own sh -c 'ip link set lo up && superp dev add lo encap udp && superp mr' >/dev/null || return 1
	nothing_changed
}

# Root of a user namespace that does not own the network namespace.
foreign_root_is_nobody() {
	tap_refused "Operation not permitted" nobody unshare --user --map-root-user -- \
		superp param set pdl_window_size 64 || return 1
	tap_refused "Operation not permitted" nobody unshare --user --map-root-user -- superp mr || return 1
	nothing_changed
}

# With the one capability and nothing else.
capability_is_enough() {
	on "$nodeA" setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all,+net_admin \
		--ambient-caps=-all,+net_admin --bounding-set=-all,+net_admin -- \
		sh -c 'superp param set pdl_window_size 32 && superp mr >/dev/null || exit 1
			timeout 1 superp events
			[ $? = 124 ]'
}

nodes_up
ports_up
connect sunh 64
on "$nodeA" superp route add 4 dev eth0 lladdr 02:00:00:00:00:04
tap_case "everyone may look" looking_is_allowed
tap_case "first numbers of packets are shown to administrators" first_numbers
tap_case "changing the node" refused node set cm-address fd23::9
tap_case "adding a port" refused dev add lo
tap_case "removing a port" refused dev del eth0
tap_case "creating a connection" refused conn add 65 peer 10.23.0.2 peer-cid 65
tap_case "deleting a connection" refused conn del 64
tap_case "starting a connection" refused conn start 64
tap_case "resetting a connection" refused conn reset 64
tap_case "shutting a connection down" refused conn stop 64
tap_case "adding a route" refused route add 5 dev eth0 lladdr 02:00:00:00:00:05
tap_case "deleting a route" refused route del 4
tap_case "setting a parameter" refused param set pdl_window_size 64
tap_case "looking at the keys of regions" refused mr
tap_case "listening to events, which can hold keys" refused events
tap_case "refusals change nothing" nothing_changed
tap_case "a namespace of one's own can be changed" own_namespace_is_ones_own
tap_case "root of another user namespace is nobody" foreign_root_is_nobody
tap_case "CAP_NET_ADMIN alone is enough" capability_is_enough
tap_end
