#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Devices that go down, change or vanish, connections that are reset or removed, and processes that
# die, all under traffic: every request ends with success or a named error, and nothing is left.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# traffic_start COUNT: in the background, from A to B.
traffic_start() {
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send "$1" 60000 16 >/tmp/traffic 2>&1 &
	traffic=$!
	nodes_wait 10 flowing
}
# Initiator and target die at once.
traffic_kill() {
	local target
	target=$(pgrep -P "$traffic") || return 1
	kill -KILL "$traffic" "$target" || return 1
	wait "$traffic" 2>/dev/null || true
}
flowing() { [ "$(conn_get "$nodeB" "$cid" rx-messages)" -gt 5 ]; }

# traffic_ends STATUS: 0 all arrived, 3 requests failed by name.
traffic_ends() {
	local status=0
	wait "$traffic" || status=$?
	cat /tmp/traffic
	tap_equal "$1" "$status" "exit status of the traffic"
}

connect_next() {
	cid=$((cid + 1))
	connect "$way" "$cid" ext on "$@"
}

# nothing_left NODE: no region, no queue pair.
nothing_left() {
	nodes_wait 5 none_left "$1" || { on "$1" superp mr; on "$1" superp qp; return 1; }
}
none_left() { [ "$(node_count "$1" regions) $(node_count "$1" qps)" = '0 0' ]; }

broken_by() {
	tap_equal broken "$(conn_get "$1" "$cid" state)" "state at $1" || return 1
	tap_equal "$2" "$(conn_get "$1" "$cid" cause)" "cause at $1"
}

fresh_nodes() {
	nodes_down
	nodes_up 9000
	ports_up
	# Addresses survive that a device is down.
	for node in "$nodeA" "$nodeB"; do
		on "$node" sysctl -qw net.ipv6.conf.eth0.keep_addr_on_down=1 net.ipv6.conf.eth0.accept_dad=0
	done
}

# progress COUNT: waits until the target has that many messages more.
progress() {
	local wanted
	wanted=$(($(conn_get "$nodeB" "$cid" rx-messages) + $1))
	nodes_wait 20 received "$wanted"
}
received() { [ "$(conn_get "$nodeB" "$cid" rx-messages)" -ge "$1" ] || ! kill -0 "$traffic"; }

# IPv6 may take seconds to use a device again, so the connection is told to be patient.
down_for_a_while() {
	connect_next pdl_dead_time 20000000000 || return 1
	traffic_start 1000000 || return 1
	for _ in 1 2 3; do
		ip -n "$nodeB" link set eth0 down || return 1
		sleep 0.2
		ip -n "$nodeB" link set eth0 up || return 1
		progress 20 || return 1
	done
	kill -0 "$traffic" || { traffic_ends 0; conn_get "$nodeA" "$cid" cause; return 1; }
	traffic_kill
}

down_for_good() {
	connect_next || return 1
	traffic_start 1000000 || return 1
	ip -n "$nodeB" link set eth0 down || return 1
	traffic_ends 3 || return 1
	tap_equal broken "$(conn_get "$nodeA" "$cid" state)" state || return 1
	[ -n "$(conn_get "$nodeA" "$cid" cause)" ] || return 1
	ip -n "$nodeB" link set eth0 up
}

works_after_reset() {
	on "$nodeA" superp conn reset "$cid" && on "$nodeA" superp conn start "$cid" || return 1
	on "$nodeB" superp conn reset "$cid" && on "$nodeB" superp conn start "$cid" || return 1
	nodes_wait 5 nodes_running "$nodeA" eth0 || return 1
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send 50 20000 8
}

smaller_mtu() {
	connect_next || return 1
	traffic_start 1000000 || return 1
	ip -n "$nodeA" link set eth0 mtu 4000 || return 1
	traffic_ends 3 || return 1
	tap_equal broken "$(conn_get "$nodeA" "$cid" state)" state || return 1
	conn_get "$nodeA" "$cid" cause | grep -i mtu || return 1
	# A connection made now takes the new size.
	ip -n "$nodeB" link set eth0 mtu 4000 || return 1
	connect_next || return 1
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send 50 20000 8 || return 1
	ip -n "$nodeA" link set eth0 mtu 9000 && ip -n "$nodeB" link set eth0 mtu 9000
}

shorter_packets() {
	local transfer status=0
	connect_next || return 1
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send "$(fewer 4000)" 50000 8 &
	transfer=$!
	nodes_wait 20 eval '[ "$(conn_get "$nodeA" "$cid" tx-packets)" -gt 200 ]' || return 1
	ip -n "$nodeA" link set eth0 mtu 4000 && ip -n "$nodeB" link set eth0 mtu 4000 || status=1
	wait "$transfer" || status=1
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send 50 50000 8 || status=1
	ip -n "$nodeA" link set eth0 mtu 9000 && ip -n "$nodeB" link set eth0 mtu 9000 || status=1
	[ "$status" = 0 ] || return 1
	[ "$(conn_get "$nodeA" "$cid" path-mtu)" -lt 4000 ]
}

removed_under_traffic() {
	connect_next || return 1
	traffic_start 1000000 || return 1
	on "$nodeA" superp conn del "$cid" || return 1
	traffic_ends 3
}

reset_under_traffic() {
	connect_next || return 1
	traffic_start 1000000 || return 1
	on "$nodeA" superp conn reset "$cid" || return 1
	traffic_ends 3 || return 1
	tap_equal created "$(conn_get "$nodeA" "$cid" state)" state
}

# The initiator dies with requests under way; the target with requests coming in.
killed() {
	connect_next || return 1
	traffic_start 1000000 || return 1
	traffic_kill || return 1
	nothing_left "$nodeA" || return 1
	nothing_left "$nodeB" || return 1
	tap_equal established "$(conn_get "$nodeA" "$cid" state)" "state, which no process owns" || return 1
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send 50 20000 8
}

target_killed() {
	connect_next || return 1
	traffic_start 1000000 || return 1
	kill -KILL "$(pgrep -P "$traffic")" || return 1
	nothing_left "$nodeB" || return 1
	traffic_ends 3 || return 1
	grep -E 'failed: (Permission denied|Connection refused)' /tmp/traffic || return 1
	nothing_left "$nodeA"
}

# The device itself vanishes, and with a veth pair also its peer.
unregistered() {
	connect_next || return 1
	traffic_start 1000000 || return 1
	ip -n "$nodeB" link del eth0 || return 1
	traffic_ends 3 || return 1
	broken_by "$nodeA" 'the device was removed' || return 1
	broken_by "$nodeB" 'the device was removed' || return 1
	tap_equal '[]' "$(on "$nodeA" superp -j dev | jq -c '[.[] | select(.name == "eth0")]')" "ports of A"
}

cid=0
for way in $ways; do
	fresh_nodes
	tap_case "$way: requests go on after the device was down for a while" down_for_a_while
	tap_case "$way: a device that stays down breaks the connection and ends every request" down_for_good
	tap_case "$way: after a reset of both ends it works again" works_after_reset
	case $way in
	sunh) tap_case "$way: a smaller MTU breaks the connection by name" smaller_mtu ;;
	*) tap_case "$way: a smaller MTU is taken" shorter_packets ;;
	esac
	tap_case "$way: a device removed under traffic breaks its connections by name" unregistered
done
# How packets travel makes no difference to these.
way=sunh
fresh_nodes
tap_case "a connection removed under traffic ends every request" removed_under_traffic
tap_case "a connection reset under traffic ends every request" reset_under_traffic
tap_case "processes killed under traffic leave nothing" killed
tap_case "a target killed under traffic refuses the rest by name" target_killed
tap_end
