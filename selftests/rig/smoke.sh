#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What every other test takes for granted: the module is there, comes and goes where it is not built in, and two nodes
# can be made whose link loses, delays and duplicates packets.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
trap nodes_down EXIT

loaded() { [ -d /sys/module/superp ]; }
reload() {
	rmmod superp || return 1
	! loaded || return 1
	insmod "$SUPERP_MODULE" || return 1
	loaded
}
ping_both() {
	on "$nodeA" ping -c 3 -i 0.05 -W 5 -q 10.23.0.2 || return 1
	on "$nodeB" ping -c 3 -i 0.05 -W 5 -q fd23::1
}
jumbo() { on "$nodeA" ping -c 1 -W 5 -M 'do' -s 8972 -q 10.23.0.2; }
# Of 200 packets through 30 % loss some arrive and some do not.
lossy() {
	local received
	nodes_netem "$nodeA" loss 30% || return 1
	received=$(on "$nodeA" ping -c 200 -i 0.002 -W 1 -q 10.23.0.2 | sed -n 's/.* \([0-9]*\) received.*/\1/p') || true
	nodes_netem "$nodeA" || return 1
	echo "received $received of 200"
	[ "$received" -gt 80 ] && [ "$received" -lt 190 ]
}
duplicating() {
	nodes_netem "$nodeA" duplicate 50% || return 1
	on "$nodeA" ping -c 50 -i 0.002 -W 1 -q 10.23.0.2 | grep -q duplicates || return 1
	nodes_netem "$nodeA"
}
# A raw frame of an EtherType that nobody listens to is still counted by the receiving device.
inject() {
	local before after
	before=$(on "$nodeB" cat /sys/class/net/eth0/statistics/rx_packets)
	nodes_inject "$nodeA" "$(nodes_mac "$nodeB")" 0x88b7 "$(printf '%092d' 0)" 100 || return 1
	after=$(on "$nodeB" cat /sys/class/net/eth0/statistics/rx_packets)
	[ $((after - before)) -ge 100 ] || { echo "$before to $after"; return 1; }
}
removed() {
	local a=$nodeA b=$nodeB
	nodes_down
	[ ! -e "/run/netns/$a" ] && [ ! -e "/run/netns/$b" ]
}

tap_case 'module is loaded' loaded
[ "$SUPERP_MODULE" = none ] || tap_case 'module is unloaded and loaded again' reload
tap_case 'two nodes come up' nodes_up
tap_case 'both nodes answer' ping_both
tap_case 'a 9000-byte packet passes whole' jumbo
tap_case 'netem loses packets' lossy
tap_case 'netem duplicates packets' duplicating
tap_case 'raw frames arrive' inject
tap_case 'nodes are removed' removed
tap_end
