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
frames() { on "$nodeB" cat "/sys/class/net/${device:-eth0}/statistics/rx_packets"; }

# transfer: writes, reads and messages of many packets, compared at the end. Prints how many packets and how
# many frames the second node has received.
transfer() {
	local packets before
	packets=$(conn_get "$nodeB" "$cid" rx-packets) before=$(frames)
	"$xfer" each "$nodeA" "$nodeB" "$(address "$way" 2 "${net:-23}")" "$cid" write,read,send 20000 300000 1000000 >&2 || return 1
	echo "$(($(conn_get "$nodeB" "$cid" rx-packets) - packets)) packets, $(($(frames) - before)) frames"
}

together() {
	local found packets frames
	found=$(transfer) || return 1
	read -r packets _ frames _ <<<"$found"
	[ "$frames" -lt "$((packets / 2))" ] || { echo "$found"; return 1; }
}

# checksum_errors: of datagrams that the second node has dropped.
checksum_errors() {
	on "$nodeB" awk '$1 == "Udp:" { if (!column) for (i = 2; i <= NF; i++) { if ($i == "InCsumErrors") column = i } else sum += $column }
		$1 == "Udp6InCsumErrors" { sum += $2 } END { print sum }' /proc/net/snmp /proc/net/snmp6
}

singly() {
	local found packets frames errors
	errors=$(checksum_errors)
	found=$(transfer) || return 1
	read -r packets _ frames _ <<<"$found"
	tap_equal "$errors" "$(checksum_errors)" "checksum errors" || return 1
	[ "$frames" -ge "$packets" ] || { echo "$found"; return 1; }
}

# A sniffer has a reference to what passes, which must then be left as it is.
sniffed() {
	local sniffers=() node status=0
	for node in "$nodeA" "$nodeB"; do
		rm -f "$scratch/$node"
		ip netns exec "$node" python3 -c 'import signal, socket
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

# Frames in which the header of the next packet comes right behind that of the first: there are some with what
# is written and with messages, which come to the second node, and some with what is read, which leave it.
runs() {
	local sniffer status=0
	rm -f "$scratch/runs"
	ip netns exec "$nodeB" python3 -c 'import signal, socket, struct, sys
found = {"written": 0, "message": 0, "read": 0}
held = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
held.bind(("eth0", 0))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{found}" if 0 in found.values() else 0))
print("ready", flush=True)
while True:
    frame, (_, protocol, way, *_) = held.recvfrom(256)
    first = {0x88B5: 22, 0x0800: 42, 0x86DD: 62}.get(protocol, len(frame))
    for second in range(first + 24, min(first + 64, len(frame) - 8), 4):
        (cid, psn), (next_cid, next_psn) = (struct.unpack_from("<HxxI", frame, at) for at in (first, second))
        if cid == next_cid and next_psn == (psn + 1) % 2**32:
            message = frame[first + 17] == 0xC1
            found["read" if way == socket.PACKET_OUTGOING else "message" if message else "written"] += 1
' >"$scratch/runs" 2>&1 &
	sniffer=$!
	nodes_wait 20 grep -q ready "$scratch/runs" && together || status=$?
	kill "$sniffer"
	wait "$sniffer" || { cat "$scratch/runs"; return 1; }
	return "$status"
}

# both COMMAND…: of both nodes, each with its namespace's name in place of "NODE".
both() {
	local node
	for node in "$nodeA" "$nodeB"; do "${@/#NODE/$node}"; done
}

# bridge_up: a second way, by a bridge outside of the nodes, which takes bursts as they are, and passes them
# on tagged by a device that can do nothing itself: the tag is in the frame, and the checksums are made.
bridge_up() {
	local feature
	ip link add sw type bridge vlan_filtering 1
	ip link set sw mtu 9000 up
	ip link add eth1 mtu 9000 netns "$nodeA" type veth peer name swA mtu 9000
	ip link add eth1 mtu 9000 netns "$nodeB" type veth peer name swB mtu 9000
	ip -n "$nodeB" link add link eth1 name eth1.7 type vlan id 7
	for feature in tx tx-gso-list txvlan; do ethtool -K swB "$feature" off; done
	ip link set swA master sw up
	ip link set swB master sw up
	bridge vlan add dev swA vid 7 pvid untagged
	bridge vlan add dev swB vid 7
	ip -n "$nodeA" address add 10.24.0.1/16 dev eth1
	ip -n "$nodeA" address add fd24::1/64 dev eth1 nodad
	ip -n "$nodeB" address add 10.24.0.2/16 dev eth1.7
	ip -n "$nodeB" address add fd24::2/64 dev eth1.7 nodad
	ip -n "$nodeA" link set eth1 up
	ip -n "$nodeB" link set eth1 up
	ip -n "$nodeB" link set eth1.7 up
	nodes_wait 10 nodes_running "$nodeA" eth1
	nodes_wait 10 nodes_running "$nodeB" eth1.7
	on "$nodeA" superp dev add eth1
	on "$nodeB" superp dev add eth1.7
}
bridged() {
	local net=24 device=eth1.7
	half "$nodeA" "$way" "$cid" "$cid" 1 2 eth1 "$net" ext on || return 1
	half "$nodeB" "$way" "$cid" "$cid" 2 1 "$device" "$net" ext on || return 1
	singly || return 1
	# What was taken apart wrongly would be sent again until it is right.
	[ "$(conn_get "$nodeB" "$cid" rx-duplicates)" -lt 20 ] || { echo "packets came again and again"; return 1; }
	[ "$(conn_get "$nodeA" "$cid" retrans-fast)" -lt 5 ] || { echo "packets were lost"; return 1; }
}

# lossy: by the same bridge, which now passes bursts as they are and loses some, by chance: of those behind, each
# packet waits for those before it.
lossy() {
	local net=24 device=eth1.7 turn
	half "$nodeA" "$way" "$cid" "$cid" 1 2 eth1 "$net" ext on || return 1
	half "$nodeB" "$way" "$cid" "$cid" 2 1 "$device" "$net" ext on || return 1
	for ((turn = 0; turn < 20; turn++)); do
		transfer || return 1
		[ "$(conn_get "$nodeB" "$cid" rx-out-of-order)" -eq 0 ] || return 0
	done
	echo "nothing was lost"
	return 1
}

# collected: from an ordinary device, which takes nothing together, frames are single. What a driver has ready at once still
# goes on together: of a connection that acknowledges each packet, such have one acknowledgment.
collected() {
	local status=0
	both on NODE superp param set pdl_ack_every 1
	connect "$way" "$cid" ext on || return 1
	both on NODE ethtool -K eth0 tso off tx-gso-list off gro on >"$scratch/ethtool"
	acknowledged || status=$?
	both on NODE superp param set pdl_ack_every 8
	both on NODE ethtool -K eth0 tso on tx-gso-list on gro off >"$scratch/ethtool"
	return "$status"
}
acknowledged() {
	local frames packets acks
	frames=$(frames)
	"$xfer" each "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write 1000000 2000000 >&2 || return 1
	frames=$(($(frames) - frames)) packets=$(conn_get "$nodeB" "$cid" rx-packets) acks=$(conn_get "$nodeB" "$cid" tx-packets)
	if [ "$frames" -lt "$packets" ] || [ "$acks" -ge "$((packets / 4))" ]; then
		echo "$frames frames, $packets packets, $acks acknowledgments"
		return 1
	fi
}

# ipsec_up: what goes by UDP between the nodes is encrypted, and nothing else is let in.
ipsec_up() {
	local node direction from to
	while read -r node direction from to; do
		ip -n "$node" xfrm state add src "10.23.0.$from" dst "10.23.0.$to" proto esp spi "$from" mode transport \
			aead 'rfc4106(gcm(aes))' "0x$(printf '%040d' "$from")" 128 || return 1
		ip -n "$node" xfrm policy add src "10.23.0.$from" dst "10.23.0.$to" proto udp dir "$direction" \
			tmpl src "10.23.0.$from" dst "10.23.0.$to" proto esp mode transport || return 1
	done <<-END
		$nodeA out 1 2
		$nodeA in 2 1
		$nodeB out 2 1
		$nodeB in 1 2
	END
}
encrypted() {
	ipsec_up && connect udp4 "$cid" ext on && singly || return 1
	ip -n "$nodeB" -s xfrm state show src 10.23.0.1 | grep -qE '^\s*[0-9]{6,}\(bytes\)' || { echo "nothing was encrypted"; return 1; }
}

nodes_up 9000
ports_up
scratch=$(mktemp -d)
cid=0
for way in $ways; do
	cid=$((cid + 1))
	connect "$way" "$cid" ext on
	tap_case "$way: packets pass a veth pair together" together
	tap_case "$way: those that a sniffer has seen are whole" sniffed
	tap_case "$way: those of a long write, message or read are one buffer" runs
	both on NODE ethtool -K eth0 tx-gso-list off >"$scratch/ethtool"
	tap_case "$way: a device that does not take them together has them taken apart" singly
	both on NODE ethtool -K eth0 tx off >"$scratch/ethtool"
	tap_case "$way: so has one that makes no checksums" singly
	both on NODE ethtool -K eth0 tx on tx-gso-list on >"$scratch/ethtool"
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
cid=$((cid + 1)) way=sunh
tap_case "$way: frames that a driver has ready at once go on together" collected
bridge_up >"$scratch/bridge"
for way in $ways; do
	cid=$((cid + 1))
	tap_case "$way: behind a bridge that tags, too, a device that does nothing itself gets them whole" bridged
done
for feature in tx txvlan tx-gso-list; do ethtool -K swB "$feature" on; done >"$scratch/ethtool"
tc qdisc add dev swB root netem loss 10% limit 10000
for way in $ways; do
	cid=$((cid + 1))
	tap_case "$way: behind one that is lost packets wait for it" lossy
done
# User Mode Linux's kernel here has no IPsec.
if [ "$SUPERP_HOME" = qemu ]; then
	cid=$((cid + 1)) way=udp4
	tap_case "$way: IPsec gets them whole" encrypted
fi
rm -r "$scratch"
tap_end
