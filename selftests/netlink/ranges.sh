#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Every value outside its range is refused with a text that names it; the ends of the range are not.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# set_param NAME VALUE
set_param() { on "$nodeA" superp param set "$1" "$2"; }

# parameter NAME MIN MAX DEFAULT: both ends are taken, one beyond each end is refused by name.
parameter() {
	local name=$1 min=$2 max=$3 default=$4
	set_param "$name" "$min" || return 1
	tap_equal "$min" "$(on "$nodeA" superp -j param show "$name" | jq -r '.[0].value')" "$name" || return 1
	set_param "$name" "$max" || return 1
	tap_equal "$max" "$(on "$nodeA" superp -j param show "$name" | jq -r '.[0].value | tostring')" \
		"$name" || return 1
	if [ "$min" != 0 ]; then
		tap_refused "$name $((min - 1)) is out of range $min..$max" set_param "$name" $((min - 1)) || return 1
	fi
	if [ "$max" != 18446744073709551615 ]; then
		tap_refused "$name $((max + 1)) is out of range $min..$max" set_param "$name" $((max + 1)) || return 1
		tap_refused "$name 18446744073709551615 is out of range" set_param "$name" 18446744073709551615 ||
			return 1
	fi
	# A refusal changed nothing.
	tap_equal "$max" "$(on "$nodeA" superp -j param show "$name" | jq -r '.[0].value | tostring')" \
		"$name after refusals" || return 1
	set_param "$name" "$default"
}

# conn_parameter NAME MIN MAX: the same for one connection.
conn_parameter() {
	local name=$1 min=$2 max=$3
	if [ "$min" != 0 ]; then
		tap_refused "$name $((min - 1)) is out of range $min..$max" add "$name" $((min - 1)) || return 1
	fi
	if [ "$max" != 18446744073709551615 ]; then
		tap_refused "$name $((max + 1)) is out of range $min..$max" add "$name" $((max + 1)) || return 1
	fi
	add "$name" "$min" || return 1
	tap_equal "$min" "$(on "$nodeA" superp -j conn show 64 | jq -r ".[0].params.$name")" "$name" || return 1
	on "$nodeA" superp conn del 64
}

# add KEY VALUE…: a connection with these settings.
add() { on "$nodeA" superp conn add 64 peer 10.23.0.2 peer-cid 47 "$@"; }

not_of_a_connection() {
	tap_refused "nh_hop_limit is the node's" add nh_hop_limit 3 || return 1
	tap_refused "no parameter pdl_colour" add pdl_colour 3 || return 1
	tap_refused "no parameter pdl_colour" set_param pdl_colour 3
}

# taken KEY VALUE…, refused TEXT KEY VALUE…
taken() { add "$@" && on "$nodeA" superp conn del 64; }
refused() { tap_refused "$1" add "${@:2}"; }

hop_limit() {
	refused "hop-limit" hop-limit 0 || return 1
	refused "hop-limit 16 is out of range 1..15 of sunh" hop-limit 16 || return 1
	taken hop-limit 1 && taken hop-limit 15 && taken encap udp hop-limit 255
}

flow_label() {
	refused "flow-label 4096 is out of range 0..4095 of sunh" flow-label 4096 || return 1
	refused "flow-label: integer out of range (0 to 1048575)" encap udp flow-label 1048576 || return 1
	taken flow-label 4095 && taken encap udp flow-label 1048575
}

mtu() {
	refused "mtu: integer out of range (128 to 65535)" mtu 127 || return 1
	refused "mtu: integer out of range (128 to 65535)" mtu 65536 || return 1
	refused "mtu" mtu 8993 || return 1
	taken mtu 128 && taken mtu 8992
}

addresses() {
	refused "not an address of one host" peer 224.0.0.1 || return 1
	refused "not an address of one host" peer ff02::1 || return 1
	refused "not an address of one host" peer 0.0.0.0 || return 1
	refused "not an address of one host" peer :: || return 1
	refused "not an address of one host" local 255.255.255.255 || return 1
	refused "different families" local fd23::1 || return 1
	refused "remote-addr is not of the family of the encapsulation" encap udp6 || return 1
	refused "remote-addr is not of the family of the encapsulation" encap udp4 peer fd23::2
}

link_addresses() {
	refused "lladdr is for encap sunh only" encap udp lladdr 02:00:00:00:00:01 || return 1
	refused "lladdr is not an address of one station" lladdr ff:ff:ff:ff:ff:ff || return 1
	refused "lladdr is not an address of one station" lladdr 01:00:5e:00:00:01 || return 1
	refused "lladdr is not an address of one station" lladdr 00:00:00:00:00:00 || return 1
	taken lladdr 02:00:00:00:00:01
}

twice() {
	add || return 1
	refused "a connection with this local-cid exists" || return 1
	on "$nodeA" superp conn del 64
}

as_many_as_allowed() {
	set_param pdl_conns_per_xpu 1 || return 1
	add || return 1
	tap_refused "pdl_conns_per_xpu" on "$nodeA" superp conn add 65 peer 10.23.0.2 peer-cid 1 || return 1
	on "$nodeA" superp conn del 64 || return 1
	set_param pdl_conns_per_xpu default
}

nodes_up
on "$nodeA" superp dev add eth0
tap_case "a port is needed for no parameter" tap_equal eth0 \
	"$(on "$nodeA" superp -j dev | jq -r '.[0].name')" port
# Parameters that a port uses are in use while it exists.
on "$nodeA" superp dev del eth0
on "$nodeA" superp -j param >/tmp/ranges.json
while read -r name min max default per_conn; do
	tap_case "$name takes $min to $max" parameter "$name" "$min" "$max" "$default"
done < <(jq -r '.[] | "\(.name) \(.min) \(.max | tostring) \(.default) \(."per-conn")"' /tmp/ranges.json)
on "$nodeA" superp dev add eth0
while read -r name min max default per_conn; do
	[ "$per_conn" = true ] || continue
	tap_case "$name of one connection takes $min to $max" conn_parameter "$name" "$min" "$max"
done < <(jq -r '.[] | "\(.name) \(.min) \(.max | tostring) \(.default) \(."per-conn")"' /tmp/ranges.json)
tap_case "what is not a parameter of a connection is named" not_of_a_connection
tap_case "hop-limit" hop_limit
tap_case "flow-label" flow_label
tap_case "mtu" mtu
tap_case "addresses" addresses
tap_case "link addresses" link_addresses
tap_case "an id that is taken" twice
tap_case "no more connections than allowed" as_many_as_allowed
tap_end
