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

nodes_up 9000
ports_up
scratch=$(mktemp -d)
cid=1
way=sunh
connect "$way" "$cid" ext on
tap_case "packets pass a veth pair together" together
tap_case "those that a sniffer has seen are whole" sniffed
for node in "$nodeA" "$nodeB"; do on "$node" ethtool -K eth0 tx-gso-list off; done
tap_case "a device that does not take them together has them taken apart" singly
for node in "$nodeA" "$nodeB"; do on "$node" ethtool -K eth0 tx-gso-list on; done
for node in "$nodeA" "$nodeB"; do ip -n "$node" link set eth0 gso_max_segs 1; done
tap_case "a device that takes one at a time gets one at a time" singly
for node in "$nodeA" "$nodeB"; do ip -n "$node" link set eth0 gso_max_segs 65535; done
for node in "$nodeA" "$nodeB"; do on "$node" ethtool -K eth0 gso off; done
tap_case "segmentation switched off is none" singly
for node in "$nodeA" "$nodeB"; do on "$node" ethtool -K eth0 gso on; done
for node in "$nodeA" "$nodeB"; do tc -n "$node" qdisc add dev eth0 root tbf rate 20gbit burst 1mb limit 4mb; done
tap_case "in front of a queue that limits the rate they are single" singly
for node in "$nodeA" "$nodeB"; do tc -n "$node" qdisc del dev eth0 root; done
for node in "$nodeA" "$nodeB"; do tc -n "$node" qdisc add dev eth0 root pfifo limit 1000; done
tap_case "a queue that keeps them whole gets them together" together
rm -r "$scratch"
tap_end
