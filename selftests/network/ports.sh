#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Connections over several ports: which paths carry packets, and which packets are taken in.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
. lib/paths.sh
trap paths_down EXIT

refusals() {
	tap_refused "two paths are the same" half_over "$nodeA" sunh 9 1 2 "0 0" || return 1
	tap_refused "4 paths at most" half_over "$nodeA" udp4 9 1 2 "0 1 2 3 0" || return 1
	ip -n "$nodeA" link add other type dummy || return 1
	tap_refused "no port serves" on "$nodeA" superp conn add 9 peer 10.23.0.2 peer-cid 9 path eth0 path other || return 1
	tap_refused "lladdr is for encap sunh" on "$nodeA" superp conn add 9 peer 10.30.0.2 peer-cid 9 encap udp4 \
		path eth0 path eth1 peer 10.31.0.2 lladdr 02:00:00:00:00:01 || return 1
	tap_refused "a lite connection has one path" on "$nodeA" superp conn add 9 peer 10.23.0.2 lite on \
		tal_transaction_timeout 100000000 path eth0 path eth1 || return 1
	half_over "$nodeA" sunh 9 1 2 "0 1" || return 1
	tap_refused "connections use the port" on "$nodeA" superp dev del eth1 || return 1
	on "$nodeA" superp conn del 9
}

# spray WAY LINKS: every path that is up carries packets of both ends.
spray() {
	local cid=$((cid += 1)) i=0 link
	connect_over "$1" "$cid" "$2" ordered off spray on pdl_dead_time 60000000000 || return 1
	under_load "$1" "$cid" "${2%% *}" all_carry "$cid" "$(wc -w <<<"$2")"
}
all_carry() {
	local i
	for ((i = 0; i < $2; i++)); do
		carries "$1" "$i" || return 1
	done
}

# Without spraying a connection keeps to one path; several do not keep to the same.
one_path_each() {
	local cid sent all='' order options=(pdl_retrans_time_out 5000000000 pdl_dead_time 60000000000)
	# Connections whose ids choose among all four.
	for ((cid = 100; cid < 108; cid++)); do
		order=(ordered on)
		[ $((cid % 2)) = 0 ] || order=(ordered off)
		connect_over sunh "$cid" "0 1 2 3" "${options[@]}" "${order[@]}" || return 1
		"$xfer" mixed "$nodeA" "$nodeB" 10.23.0.2 "$cid" write,read,send 20 20000 4 || return 1
		sent=$(paths "$nodeA" "$cid" tx-packets)
		echo "connection $cid: $sent"
		sent=$(tr ' ' '\n' <<<"$sent" | grep -nv '^0$')
		[ "$(wc -l <<<"$sent")" = 1 ] || return 1
		all+="${sent%%:*} "
		disconnect "$cid" || return 1
	done
	tap_equal "1 2 3 4" "$(tr ' ' '\n' <<<"$all" | grep . | sort -u | xargs)" "paths in use"
}

# A path whose MTU falls below the connection's longest packet is down for it, the others go on.
mtu_falls() {
	local cid=$((cid += 1))
	link_mtu 1 4000 || return 1
	connect_over sunh "$cid" "1 2" ordered off spray on pdl_dead_time 60000000000 || return 1
	tap_equal 3992 "$(conn_get "$nodeA" "$cid" mtu)" "MTU, of the smaller device" || return 1
	under_load sunh "$cid" 1 mtu_up_and_down "$cid" || return 1
	link_mtu 1 9000
}
# link_mtu LINK MTU: of both ends, or one would send what the other does not take.
link_mtu() { ip -n "$nodeA" link set "eth$1" mtu "$2" && ip -n "$nodeB" link set "eth$1" mtu "$2"; }
mtu_up_and_down() {
	link_mtu 2 2000 || return 1
	tap_equal "up down" "$(paths "$nodeA" "$1" state)" states || return 1
	carries "$1" 0 || return 1
	link_mtu 2 9000 || return 1
	tap_equal "up up" "$(paths "$nodeA" "$1" state)" states || return 1
	carries "$1" 1
}
mtu_of_all_falls() {
	local cid=$((cid += 1))
	half_over "$nodeA" sunh "$cid" 1 2 "1 2" || return 1
	ip -n "$nodeA" link set eth1 mtu 2000 || return 1
	state_is "$nodeA" "$cid" established || return 1
	ip -n "$nodeA" link set eth2 mtu 2000 || return 1
	state_is "$nodeA" "$cid" broken || return 1
	ip -n "$nodeA" link set eth1 mtu 9000 && ip -n "$nodeA" link set eth2 mtu 9000 || return 1
	on "$nodeA" superp conn del "$cid"
}

# hex PYTHON: a packet of robust/wire.py, from the packet delivery header on in "p".
hex() {
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=robust python3 -c "
from wire import *
p = pdl($cid, 0x7fffffff, 0xffffffff) + tal(NOOP)
a, b = (socket.inet_pton(socket.AF_INET6, '$A'), socket.inet_pton(socket.AF_INET6, '$B')) if ':' in '$A' \\
	else (socket.inet_aton('$A'), socket.inet_aton('$B'))
print(($1).hex())"
}
# A packet that nobody sent, with a PSN far off, is taken in by a path, and refused by any other way.
strange_paths() {
	local way=$1 cid=$((cid += 1)) type frame wrong source ours window
	local A B
	A=$(address "$way" 1 "$(net "$way" 1)") B=$(address "$way" 2 "$(net "$way" 1)")
	connect_over "$way" "$cid" "1 2" || return 1
	case $way in
	sunh) type=0x88b5 frame=$(hex 'sunh(1, 2) + p') ;;
	udp4) type=0x0800 frame=$(hex 'udp4(a, b, p)') ;;
	udp6) type=0x86dd frame=$(hex 'udp6(a, b, p)') ;;
	esac
	window=$(drops "$nodeB" psn_out_of_window) wrong=$(drops "$nodeB" wrong_path)
	source=$(drops "$nodeB" wrong_source) ours=$(drops "$nodeB" wrong_destination)
	inject 1 "$type" "$frame" || return 1
	nodes_wait 30 drops_are psn_out_of_window $((window + 5)) || return 1
	tap_equal 5 "$(path "$nodeB" "$cid" 0 rx-packets)" "packets received by the first path" || return 1
	# The same packet by a port that is none of the connection's.
	inject 3 "$type" "$frame" || return 1
	nodes_wait 30 drops_are wrong_path $((wrong + 5)) || return 1
	# And by the other path, whose addresses are different ones.
	if [ "$way" = sunh ]; then
		frame=$(hex 'sunh(3, 2) + p') || return 1
		inject 2 "$type" "$frame" || return 1
		nodes_wait 30 drops_are wrong_source $((source + 5)) || return 1
	else
		inject 2 "$type" "$frame" || return 1
		nodes_wait 30 drops_are wrong_destination $((ours + 5)) || return 1
	fi
	tap_equal 0 "$(path "$nodeB" "$cid" 1 rx-packets)" "packets received by the second path" || return 1
	tap_equal $((window + 5)) "$(drops "$nodeB" psn_out_of_window)" "packets taken in" || return 1
	disconnect "$cid"
}
drops_are() { [ "$(drops "$nodeB" "$1")" = "$2" ]; }
# inject LINK TYPE HEX: five times.
inject() { on "$nodeA" lib/inject.py "eth$1" "$(mac "$nodeB" "eth$1")" "$2" "$3" 5; }

paths_up
tap_case "paths that make no sense are refused by name" refusals
for way in $ways; do
	tap_case "$way: a connection that sprays uses both of two paths" spray "$way" "1 2"
	tap_case "$way: a connection that sprays uses all of four paths" spray "$way" "0 1 2 3"
done
tap_case "a connection that does not spray keeps to one path, each to its own" one_path_each
tap_case "a path whose MTU falls is not used until it rises again" mtu_falls
tap_case "a connection breaks when no path takes its packets" mtu_of_all_falls
for way in $ways; do
	tap_case "$way: a packet by no path of its connection is dropped and counted" strange_paths "$way"
done
tap_end
