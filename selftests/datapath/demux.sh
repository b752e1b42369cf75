#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Where a peer's datagrams go is looked up once, and again when it may have changed; filters see each of them.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# arrived NODE: datagrams that its sockets have got.
arrived() {
	local field=UdpInDatagrams
	[ "$way" = udp4 ] || field=Udp6InDatagrams
	on "$1" nstat -asz "$field" | awk -v field="$field" '$1 == field { print $2 }'
}

# family: of the addresses of $way, as nft calls it.
family() { [ "$way" = udp4 ] && echo ip || echo ip6; }

# watch FAMILY NOTHING: counts datagrams of which IP has to ask for the route. Of two hooks that are the last the
# older one comes later.
watch() {
	local node
	for node in "$nodeA" "$nodeB"; do
		on "$node" nft -f - <<-RULES || return 1
			table $1 watch {
				counter asked { }
				chain way {
					type filter hook prerouting priority 2147483647;
					meta l4proto udp rt $1 nexthop != $2 accept
					meta l4proto udp counter name asked
				}
			}
		RULES
	done
}

# asked NODE
asked() { on "$1" nft -j list counter "$(family)" watch asked | jq '.. | .packets? // empty'; }

transfer() { "$xfer" each "$nodeA" "$nodeB" "$(address "$way" 2 23)" "$cid" write,read,send 1000000; }

# found: prints how many datagrams have arrived, and of how many the route was asked for.
found() {
	local arrived=0 asked=0 node
	transfer >&2 || return 1
	for node in "$nodeA" "$nodeB"; do
		arrived=$((arrived - $(arrived "$node"))) asked=$((asked - $(asked "$node")))
	done
	transfer >&2 || return 1
	for node in "$nodeA" "$nodeB"; do
		arrived=$((arrived + $(arrived "$node"))) asked=$((asked + $(asked "$node")))
	done
	echo "$arrived $asked"
}

once() {
	local arrived asked
	read -r arrived asked <<<"$(found)"
	[ "$arrived" -gt 30 ] || { echo "$arrived datagrams"; return 1; }
	tap_equal 0 "$asked" "of $arrived datagrams"
}

each() {
	local arrived asked node
	for node in "$nodeA" "$nodeB"; do
		ip -n "$node" -f "$1" rule add from "$2" table main || return 1
	done
	read -r arrived asked <<<"$(found)"
	[ "$arrived" -gt 30 ] || { echo "$arrived datagrams"; return 1; }
	tap_equal "$arrived" "$asked" "of $arrived datagrams"
}

# The kernel's switches of early demultiplexing, for IPv6, too.
switched_off() {
	local arrived asked node status=0
	for node in "$nodeA" "$nodeB"; do
		on "$node" sysctl -qw "net.ipv4.$1=0" || return 1
	done
	read -r arrived asked <<<"$(found)"
	[ "$arrived" -gt 30 ] || { echo "$arrived datagrams"; return 1; }
	tap_equal "$arrived" "$asked" "of $arrived datagrams" || status=1
	for node in "$nodeA" "$nodeB"; do
		on "$node" sysctl -qw "net.ipv4.$1=1" || return 1
	done
	return "$status"
}

sent_again() { [ "$(retransmits "$nodeA" "$cid")" -gt "$1" ]; }

# held COMMAND…: while it is done to the second node no datagram gets there; "undo" goes before it for the reverse.
held() {
	local transfer before again
	transfer || return 1
	again=$(retransmits "$nodeA" "$cid")
	"$@" || return 1
	before=$(arrived "$nodeB")
	transfer &
	transfer=$!
	nodes_wait 20 sent_again $((again + 1)) || return 1
	tap_equal "$before" "$(arrived "$nodeB")" "datagrams that arrived" || return 1
	undo "$@" || return 1
	wait "$transfer"
}

own_address() {
	case $way in
	udp4) ip -n "$nodeB" address "${1:-del}" 10.23.0.2/16 dev eth0 ;;
	udp6) ip -n "$nodeB" address "${1:-del}" fd23::2/64 dev eth0 nodad ;;
	esac
}

# filter HOOK
filter() {
	on "$nodeB" nft -f - <<-RULES
		table $(family) superp {
			chain way { type filter hook $1 priority 0; meta l4proto udp ${2:-drop}; }
		}
	RULES
}

undo() {
	case $1 in
	own_address) own_address add ;;
	filter) on "$nodeB" nft delete table "$(family)" superp ;;
	esac
}

passed() {
	local status=0
	filter "$1" accept || return 1
	once || status=1
	undo filter || return 1
	return "$status"
}

nodes_up 9000
watch ip 0.0.0.0
watch ip6 ::
ports_up
cid=1
for way in udp4 udp6; do
	# Longer than a machine that does other things takes to see what is not sent any more.
	connect "$way" "$cid" ext on pdl_dead_time 60s
	tap_case "$way: routes are looked up once" once
	tap_case "$way: nothing arrives for an address that is gone" held own_address
	tap_case "$way: routes are looked up once when it is back" once
	for hook in prerouting input; do
		tap_case "$way: a rule in $hook drops datagrams" held filter "$hook"
		tap_case "$way: with one that lets them pass, routes are looked up once" passed "$hook"
	done
	for switch in ip_early_demux udp_early_demux; do
		tap_case "$way: without $switch each is looked up" switched_off "$switch"
	done
	cid=$((cid + 1))
done
# Those that were there do not come back.
way=udp4 cid=1
tap_case "$way: where routes have rules each is looked up" each inet 192.0.2.1
way=udp6 cid=2
tap_case "$way: where routes have rules each is looked up" each inet6 2001:db8::1
tap_end
