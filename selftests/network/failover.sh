#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Connections over several ports, of which some go under way: no operation is lost.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
. lib/paths.sh
trap paths_down EXIT

# pulled WAY SPRAY WHERE: each of two links is pulled at one end or both, and put back.
pulled() {
	local cid=$((cid += 1)) options=(pdl_dead_time 60000000000)
	[ "$2" = off ] || options+=(ordered off spray on)
	connect_over "$1" "$cid" "1 2" "${options[@]}" || return 1
	under_load "$1" "$cid" 1 pull_each "$cid" "$2" "$3"
}
pull_each() {
	local i node still states=("down up" "up down")
	for i in 0 1; do
		for node in $3; do ip -n "$node" link set "eth$((i + 1))" down || return 1; done
		# Without a carrier the far end knows it too.
		for node in "$nodeA" "$nodeB"; do nodes_wait 30 paths_are "$node" "$1" state "${states[$i]}" || return 1; done
		carries "$1" $((1 - i)) || return 1
		still=${counted[2 * i]}
		carries "$1" $((1 - i)) || return 1
		tap_equal "$still" "${counted[2 * i]}" "packets by the path that is down" || return 1
		for node in $3; do ip -n "$node" link set "eth$((i + 1))" up || return 1; done
		for node in "$nodeA" "$nodeB"; do nodes_wait 30 paths_are "$node" "$1" state "up up" || return 1; done
		# Of a connection with one path at a time the next round proves it.
		[ "$2" = off ] || carries "$1" "$i" || return 1
	done
}

# The link in between loses everything and neither end is told: what is not acknowledged goes elsewhere.
swallowed() {
	local cid=$((cid += 1)) options=(pdl_dead_time 60000000000)
	[ "$2" = off ] || options+=(ordered off spray on)
	connect_over "$1" "$cid" "1 2" "${options[@]}" || return 1
	under_load "$1" "$cid" 1 swallow_each "$cid"
}
swallow_each() {
	local i node status=0
	for i in 0 1; do
		for node in "$nodeA" "$nodeB"; do
			tc -n "$node" qdisc replace dev "eth$((i + 1))" root netem loss 100% || return 1
		done
		carries "$1" $((1 - i)) || status=1
		for node in "$nodeA" "$nodeB"; do
			tc -n "$node" qdisc del dev "eth$((i + 1))" root || return 1
		done
	done
	return "$status"
}

# device_deleted WAY SPRAY LINKS: under way; the other links go on, without the last one it breaks.
device_deleted() {
	local cid=$((cid += 1)) options=(pdl_dead_time 60000000000)
	[ "$2" = off ] || options+=(ordered off spray on)
	connect_over "$1" "$cid" "0 1 2 3" "${options[@]}" || return 1
	load "$1" "$cid" 0
	delete_each "$cid" || { load_end; return 1; }
	load_end || return 1
	state_is "$nodeA" "$cid" established && state_is "$nodeB" "$cid" established || return 1
	ip -n "$nodeB" link del eth0 || return 1
	for node in "$nodeA" "$nodeB"; do
		state_is "$node" "$cid" broken || return 1
		tap_equal "the device was removed" "$(conn_get "$node" "$cid" cause)" cause || return 1
		tap_refused "the device of the connection is gone" on "$node" superp conn reset "$cid" || return 1
	done
	disconnect "$cid"
}
delete_each() {
	local i
	for i in 3 1 2; do
		ip -n "$nodeA" link del "eth$i" || return 1
		for node in "$nodeA" "$nodeB"; do
			tap_equal none "$(path "$node" "$1" "$i" ifname)" "name of a device that is gone" || return 1
			tap_equal down "$(path "$node" "$1" "$i" state)" "state of its path" || return 1
		done
	done
	carries "$1" 0
}
link_again() {
	link_up "$1" || return 1
	if [ "$1" = 0 ]; then
		nodes_address "$nodeA" eth0 1 && nodes_address "$nodeB" eth0 2 || return 1
	fi
	ports_up "eth$1"
}

paths_up
for spray in off on; do
	tap_case "sunh, spray $spray: a link pulled at one end and put back" pulled sunh "$spray" "$nodeB"
	tap_case "sunh, spray $spray: a link pulled at both ends and put back" pulled sunh "$spray" "$nodeA $nodeB"
	tap_case "sunh, spray $spray: a link that loses everything" swallowed sunh "$spray"
done
tap_case "udp4: a link pulled at both ends and put back" pulled udp4 off "$nodeA $nodeB"
tap_case "udp6, spray on: a link pulled at one end and put back" pulled udp6 on "$nodeB"
tap_case "sunh: devices deleted one after the other, the last one ends the connection" device_deleted sunh off
for link in 0 1 2 3; do link_again "$link"; done
tap_case "udp4, spray on: the same" device_deleted udp4 on
tap_end
