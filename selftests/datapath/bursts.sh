#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Packets that leave together pass a device as one where it takes them so, and singly where it does not.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# frames: as the device of the second node has counted them.
frames() { on "$nodeB" cat /sys/class/net/eth0/statistics/rx_packets; }

# transfer: writes, reads and messages of many packets, compared at the end. Prints how many packets and how
# many frames the second node has received.
transfer() {
	local packets before
	packets=$(conn_get "$nodeB" "$cid" rx-packets) before=$(frames)
	"$xfer" each "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send 20000 300000 1000000 >&2 || return 1
	echo "$(($(conn_get "$nodeB" "$cid" rx-packets) - packets)) packets, $(($(frames) - before)) frames"
}

together() {
	local found packets frames
	found=$(transfer) || return 1
	read -r packets _ frames _ <<<"$found"
	[ "$frames" -lt "$((packets / 2))" ] || { echo "$found"; return 1; }
}

singly() {
	local found packets frames
	found=$(transfer) || return 1
	read -r packets _ frames _ <<<"$found"
	[ "$frames" -ge "$packets" ] || { echo "$found"; return 1; }
}

# A sniffer has a reference to what passes, which must then be left as it is.
sniffed() {
	local sniffers=() node status=0
	for node in "$nodeA" "$nodeB"; do
		on "$node" python3 -c 'import signal, socket
held = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
held.bind(("eth0", 0))
print("ready", flush=True)
signal.pause()' >"$scratch/$node" &
		sniffers+=($!)
	done
	for node in "$nodeA" "$nodeB"; do nodes_wait 20 grep -q ready "$scratch/$node" || status=$?; done
	[ "$status" -ne 0 ] || together || status=$?
	kill "${sniffers[@]}"
	wait "${sniffers[@]}" || true
	return "$status"
}

# both COMMAND…: of both nodes, each with its namespace's name in place of "NODE".
both() {
	local node
	for node in "$nodeA" "$nodeB"; do "${@/#NODE/$node}"; done
}

nodes_up 9000
ports_up
scratch=$(mktemp -d)
cid=0
for way in $ways; do
	cid=$((cid + 1))
	connect "$way" "$cid" ext on
	offload=tx-gso-list
	[ "$way" = sunh ] || offload=tx-udp-segmentation
	tap_case "$way: packets pass a veth pair together" together
	tap_case "$way: those that a sniffer has seen are whole" sniffed
	both on NODE ethtool -K eth0 "$offload" off >"$scratch/ethtool"
	tap_case "$way: a device that does not take them together has them taken apart" singly
	both on NODE ethtool -K eth0 tx off >"$scratch/ethtool"
	tap_case "$way: so has one that makes no checksums" singly
	both on NODE ethtool -K eth0 tx on "$offload" on >"$scratch/ethtool"
	both ip -n NODE link set eth0 gso_max_segs 1
	tap_case "$way: a device that takes one at a time gets one at a time" singly
	both ip -n NODE link set eth0 gso_max_segs 65535
	both on NODE ethtool -K eth0 gso off
	tap_case "$way: segmentation switched off is none" singly
	both on NODE ethtool -K eth0 gso on
	both tc -n NODE qdisc add dev eth0 root tbf rate 20gbit burst 1mb limit 4mb
	tap_case "$way: in front of a queue that limits the rate they are single" singly
	both tc -n NODE qdisc del dev eth0 root
	both tc -n NODE qdisc add dev eth0 root pfifo limit 1000
	tap_case "$way: a queue that keeps them whole gets them together" together
	both tc -n NODE qdisc del dev eth0 root
done
rm -r "$scratch"
tap_end
