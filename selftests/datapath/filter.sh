#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Datagrams are IP's: it counts them, and netfilter has its say from the moment a rule is there.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# ip_count NODE FIELD: a counter of IPv4, as in /proc/net/snmp or netstat.
ip_count() { on "$1" nstat -asz "$2" | awk -v field="$2" '$1 == field { print $2 }'; }

transfer() { "$xfer" each "$nodeA" "$nodeB" 10.23.0.2 1 write,send "$@"; }

counted() {
	local requests octets bytes=1000000
	requests=$(ip_count "$nodeA" IpOutRequests)
	octets=$(ip_count "$nodeA" IpExtOutOctets)
	transfer "$bytes" || return 1
	requests=$(($(ip_count "$nodeA" IpOutRequests) - requests))
	octets=$(($(ip_count "$nodeA" IpExtOutOctets) - octets))
	# A write and a message; the packets of a burst are one request of IP.
	[ "$octets" -gt $((2 * bytes)) ] || { echo "$octets bytes were counted"; return 1; }
	[ "$octets" -lt $((3 * bytes)) ] || { echo "$octets bytes were counted"; return 1; }
	[ "$requests" -gt $((2 * bytes / 65536)) ] || { echo "$requests datagrams were counted"; return 1; }
}

# filter HOOK VERDICT: on what goes to the connection's port there; counts it.
filter() {
	on "$nodeA" nft -f - <<-RULES
		table ip superp {
			chain way { type filter hook $1 priority 0; ip protocol udp ip daddr 10.23.0.2 counter $2; }
		}
	RULES
}
seen() { [ "$(on "$nodeA" nft -j list table ip superp | jq '[.. | .counter? // empty | .packets] | add')" -ge "$1" ]; }

# filtered HOOK
filtered() {
	local transfer before
	filter "$1" drop || return 1
	before=$(ip_count "$nodeB" UdpInDatagrams)
	transfer 100000 &
	transfer=$!
	nodes_wait 20 seen 2 || return 1
	tap_equal "$before" "$(ip_count "$nodeB" UdpInDatagrams)" "datagrams that arrived" || return 1
	on "$nodeA" nft delete table ip superp || return 1
	wait "$transfer"
}

# passed HOOK: what a rule lets pass goes on as without it.
passed() {
	local status=0
	filter "$1" accept || return 1
	counted && seen 2 || status=1
	on "$nodeA" nft delete table ip superp || return 1
	return "$status"
}

nodes_up 9000
ports_up
connect udp4 1 ext on pdl_dead_time 60s
tap_case "IP counts datagrams and bytes" counted
for hook in output postrouting; do
	tap_case "a rule in $hook drops them" filtered "$hook"
	tap_case "a rule in $hook lets them pass" passed "$hook"
done
tap_case "IP counts them when the rules are gone" counted
tap_end
