#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The peer's Ethernet address: found by ARP, kept while the peer acknowledges, or configured.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# arp_answers NODE YES: whether the node answers ARP requests.
arp_answers() {
	local ignore=8
	[ "$2" = no ] || ignore=0
	on "$1" sysctl -q "net.ipv4.conf.eth0.arp_ignore=$ignore"
}

transfers() {
	"$xfer" mixed "$nodeA" "$nodeB" 10.23.0.2 "$cid" write,read,send "$@"
}

# Unit of time, seconds. For more than that, on a busy machine, there may be no packet.
case $SUPERP_HOME in uml) unit=2 ;; debug) unit=6 ;; *) unit=3 ;; esac

# Entries age in 0.25 to 0.75 units; one unit after the next packet they are asked for, and given up after three
# probes in 0.3 units.
short_lives() {
	local node
	for node in "$nodeA" "$nodeB"; do
		on "$node" sysctl -q "net.ipv4.neigh.eth0.base_reachable_time_ms=$((500 * unit))" \
			"net.ipv4.neigh.eth0.delay_first_probe_time=$unit" \
			"net.ipv4.neigh.eth0.retrans_time_ms=$((100 * unit))" || return 1
	done
}

# An entry that is being asked for when nobody answers any more is given up, whatever else is known.
all_reachable() {
	ip -n "$nodeA" neigh change 10.23.0.2 dev eth0 lladdr "$(nodes_mac "$nodeB")" nud reachable &&
		ip -n "$nodeB" neigh change 10.23.0.1 dev eth0 lladdr "$(nodes_mac "$nodeA")" nud reachable
}

# Acknowledgements are proof that the peer is reachable: nobody asks for its address again. One program
# sends for five units: while no packet follows, an acknowledgement tells the neighbour's entry nothing.
kept_by_traffic() {
	local status=0 start
	transfers 20 1000 4 || return 1
	arp_answers "$nodeA" no && arp_answers "$nodeB" no && all_reachable || return 1
	nodes_netem "$nodeA" delay 40ms
	start=$SECONDS
	transfers $((500 * unit)) 1000 4 || status=1
	nodes_netem "$nodeA"
	ip -n "$nodeA" neigh show 10.23.0.2
	arp_answers "$nodeA" yes && arp_answers "$nodeB" yes || return 1
	[ $((SECONDS - start)) -ge $((4 * unit)) ] || { echo "it was over too soon to show anything"; return 1; }
	return "$status"
}

static() {
	local mac
	arp_answers "$nodeA" no && arp_answers "$nodeB" no || return 1
	for node in "$nodeA" "$nodeB"; do ip -n "$node" neigh flush dev eth0; done
	mac=$(ip -n "$nodeB" -j link show eth0 | jq -r '.[0].address')
	half "$nodeA" sunh "$cid" "$cid" 1 2 eth0 23 lladdr "$mac" ext on || return 1
	mac=$(ip -n "$nodeA" -j link show eth0 | jq -r '.[0].address')
	half "$nodeB" sunh "$cid" "$cid" 2 1 eth0 23 lladdr "$mac" ext on || return 1
	transfers 100 20000 8 || return 1
	tap_equal '' "$(ip -n "$nodeA" neigh show 10.23.0.2)" "entry of the neighbour"
}

# What is sent to another station's address arrives, and is not taken.
wrong_static() {
	local status=0
	half "$nodeA" sunh "$cid" "$cid" 1 2 eth0 23 lladdr 02:00:00:00:00:99 tal_transaction_timeout 5000000 || return 1
	half "$nodeB" sunh "$cid" "$cid" 2 1 eth0 23 ext on || return 1
	"$xfer" mixed "$nodeA" "$nodeB" 10.23.0.2 "$cid" write 1 1000 1 || status=$?
	tap_equal 3 "$status" status || return 1
	tap_equal broken "$(conn_get "$nodeA" "$cid" state)" state || return 1
	tap_equal 0 "$(conn_get "$nodeB" "$cid" rx-packets)" "packets of B"
}

nodes_up 9000
ports_up
cid=0
short_lives
for way in sunh udp4; do
	cid=$((cid + 1))
	connect "$way" "$cid" ext on
	tap_case "$way: no address resolution while the peer acknowledges" kept_by_traffic
done
cid=$((cid + 1))
tap_case "sunh: a configured Ethernet address needs no ARP" static
cid=$((cid + 1))
tap_case "sunh: a frame to another Ethernet address is not taken" wrong_static
tap_end
