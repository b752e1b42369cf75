#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# SUPERp over the drivers of network cards: devices that QEMU emulates, two of each kind on a wire.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# ends DRIVER: its two devices, in the order of their addresses.
ends() {
	local device driver
	for device in $(nodes_outside ip -j link show | jq -r 'sort_by(.address)[].ifname'); do
		driver=$(readlink "/sys/class/net/$device/device/driver") || continue
		[ "${driver##*/}" != "$1" ] || echo "$device"
	done
}
both_ends() { [ "$(ends "$1" | wc -l)" = 2 ]; }

# dropped NODE: packets that SUPERp has dropped, for whatever reason.
dropped() { on "$1" superp -j stats | jq '.drops | add'; }

# few_lost FROM TO: of ten packets at most one. What was sent again and had come was late only, as it may be on an emulated
# card, and a card whose ring is full may lose some; a driver that does not get on with SUPERp loses far more.
few_lost() {
	local sent lost
	sent=$(conn_get "$1" "$cid" tx-packets) || return 1
	lost=$(($(retransmits "$1" "$cid") - $(conn_get "$2" "$cid" rx-duplicates)))
	[ "$((lost * 10))" -le "$sent" ] || { echo "$1 sent $sent packets, $lost were lost"; return 1; }
}

arrives() {
	local node mtu
	mtu=$(conn_get "$nodeA" "$cid" mtu) || return 1
	"$xfer" each "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send 1 100 "$mtu" 60000 1000000 || return 1
	few_lost "$nodeA" "$nodeB" || return 1
	few_lost "$nodeB" "$nodeA" || return 1
	for node in "$nodeA" "$nodeB"; do
		tap_equal 0 "$(dropped "$node")" "packets that $node dropped" || return 1
	done
}

number=0
for driver in virtio_net vmxnet3 e1000e e1000 8139cp; do
	modprobe "$driver"
	nodes_wait 10 both_ends "$driver"
	mapfile -t devices < <(ends "$driver")
	max=$(nodes_outside ip -j -d link show "${devices[0]}" | jq '.[0].max_mtu')
	nodes_up_on "${devices[@]}" "$((max < 9000 ? max : 9000))"
	ports_up
	cid=0
	# Without SUPERP_THOROUGH the first takes every way, and of the others each another one.
	read -ra taken <<<"$ways"
	[ "${SUPERP_THOROUGH:-0}" = 1 ] || [ "$driver" = virtio_net ] || taken=("${taken[number++ % ${#taken[@]}]}")
	for way in "${taken[@]}"; do
		cid=$((cid + 1))
		connect "$way" "$cid" ext on
		tap_case "$driver, $way: what is moved arrives, and hardly a packet is lost" arrives
	done
	nodes_down
done
tap_end
