#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Devices that cannot be ports are refused by a sentence that says what to use: parts of bridges and bonds, and
# ipvlan for SUNH. What can be one is.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# part_of TYPE [OPTION…]: eth0 of A becomes part of such a device, is refused, and can be a port when it is free again.
part_of() {
	ip -n "$nodeA" link set eth0 down
	ip -n "$nodeA" link add master0 type "$@" && ip -n "$nodeA" link set eth0 master master0 || return 1
	tap_refused "part of a bridge, bond or team, which takes all that it receives: use that" \
		on "$nodeA" superp dev add eth0 || return 1
	on "$nodeA" superp dev add master0 && on "$nodeA" superp dev del master0 || return 1
	ip -n "$nodeA" link set eth0 nomaster && ip -n "$nodeA" link del master0 || return 1
	on "$nodeA" superp dev add eth0 && on "$nodeA" superp dev del eth0
}
ipvlan() {
	ip -n "$nodeA" address flush dev eth0
	ip -n "$nodeA" link set eth0 up
	ip -n "$nodeA" link add ipvl0 link eth0 type ipvlan mode l2 || return 1
	ip -n "$nodeA" address add 10.23.0.1/16 dev ipvl0 && ip -n "$nodeA" link set ipvl0 up || return 1
	tap_refused "receives nothing but IP: let it serve udp alone" on "$nodeA" superp dev add ipvl0 || return 1
	on "$nodeA" superp dev add ipvl0 encap udp && on "$nodeB" superp dev add eth0 || return 1
	half "$nodeA" udp4 1 1 1 2 ipvl0 23 ext on && half "$nodeB" udp4 1 1 2 1 eth0 23 ext on || return 1
	"$xfer" mixed "$nodeA" "$nodeB" 10.23.0.2 1 write,read,send 20 20000 4
}

nodes_up 1500
for module in bridge bonding ipvlan; do modprobe "$module"; done
tap_case "part of a bridge" part_of bridge
tap_case "part of a bond" part_of bond mode active-backup
tap_case "ipvlan: not SUNH, but UDP" ipvlan
tap_end
