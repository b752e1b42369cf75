#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Ethernet devices of any MTU from 576 bytes up, VLAN devices among them, carry every encapsulation
# that fits them.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# Packets have the size that the device leaves: 8 bytes of SUNH, 28 or 48 of IP and UDP.
payload_fits() {
	local headers=8
	case $way in udp4) headers=28 ;; udp6) headers=48 ;; esac
	tap_equal $((mtu - headers)) "$(conn_get "$nodeA" "$cid" mtu)" "mtu of the connection"
}

transfers() {
	local packet
	payload_fits || return 1
	packet=$((mtu - 64))
	"$xfer" each "$nodeA" "$nodeB" "$(address "$way" 2 "${net:-23}")" "$cid" write,read,send \
		0 1 16 $((packet - 1)) "$packet" $((packet + 1)) $((mtu * 32)) 300001 || return 1
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2 "${net:-23}")" "$cid" write,read,send 100 20000 8
}

cid=0
for mtu in 576 1500 9000; do
	nodes_up 1500
	for node in "$nodeA" "$nodeB"; do
		ip -n "$node" link set eth0 mtu "$mtu"
	done
	ports_up
	for way in $encapsulations; do
		# IPv6 needs links of 1280 bytes.
		case $mtu,$way in 576,*6) continue ;; esac
		cid=$((cid + 1))
		connect "$way" "$cid" ext on
		tap_case "MTU $mtu, $way" transfers
	done
	nodes_down
done

# A VLAN beside the untagged network, on the same link.
nodes_up 1500
mtu=1500 device=eth0.5 net=24
number=0
for node in "$nodeA" "$nodeB"; do
	number=$((number + 1))
	ip -n "$node" link add link eth0 name eth0.5 type vlan id 5
	ip -n "$node" address add "10.24.0.$number/16" dev eth0.5
	ip -n "$node" address add "fd24::$number/64" dev eth0.5 nodad
	ip -n "$node" link set eth0.5 up
done
ports_up eth0.5
for way in $encapsulations; do
	cid=$((cid + 1))
	connect "$way" "$cid" ext on
	tap_case "VLAN, $way" transfers
done

# The same id and addresses, but the other device: not this connection's packets.
wrong_device() {
	local before after
	before=$(drops "$nodeB" wrong_path)
	nodes_inject "$nodeA" "$(nodes_mac "$nodeB")" 0x88b5 \
		"00fdfabc00010002 $(printf '%02x00' "$vlan_cid")1f0000000000ffffffff00000000 800000000000ffff" || return 1
	nodes_wait 5 eval '[ "$(drops "$nodeB" wrong_path)" -gt "'"$before"'" ]' || return 1
	after=$(drops "$nodeB" wrong_path)
	tap_equal $((before + 1)) "$after" wrong_path
}
# shellcheck disable=SC2034 # used by connect
device=eth0.5
vlan_cid=$((cid + 1))
connect sunh "$vlan_cid" ext on
tap_case "a SUNH frame outside the connection's VLAN is dropped" wrong_device
tap_end
