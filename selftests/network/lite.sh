#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# SUPERp-lite [proto 6]: transactions without the packet delivery layer, over a link that loses
# nothing. What it loses all the same ends the connection, by the timer of a transaction.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# 40 packets of 8 transactions at a time: no queue of a device or CPU is too short for them. The timer
# outlives a virtual CPU that stands still.
settings='lite on tal_transaction_timeout 2000000000 tal_trans_window 8'

# lite_connect CID [OPTION…]
# shellcheck disable=SC2086 # words
lite_connect() {
	half "$nodeA" sunh "$1" 0 1 2 eth0 23 $settings "${@:2}" || return 1
	half "$nodeB" sunh "$1" 0 2 1 eth0 23 $settings "${@:2}"
}

flags() {
	on "$nodeA" superp conn show 1 | grep -q 'flags .*lite' || return 1
	tap_equal true "$(on "$nodeA" superp -j conn show 1 | jq '.[0].lite // .lite')" lite || return 1
	# 8 bytes of SUNH header, and none of the packet delivery layer's.
	tap_equal 8992 "$(conn_get "$nodeA" 1 mtu)" mtu
}

all_sizes() {
	"$xfer" each "$nodeA" "$nodeB" 10.23.0.2 1 write,read,send \
		0 1 15 16 17 21 22 23 25 26 100 8967 8968 8969 8976 8977 20000 300000 1000000
}

both_ways() {
	local other status=0
	"$xfer" mixed "$nodeA" "$nodeB" 10.23.0.2 1 write,read,send 300 60000 16 &
	other=$!
	"$xfer" mixed "$nodeB" "$nodeA" 10.23.0.1 1 write,read,send 300 60000 16 || status=1
	wait "$other" || status=1
	return "$status"
}

# Nothing of the packet delivery layer happens.
no_packet_layer() {
	local node
	for node in "$nodeA" "$nodeB"; do
		tap_equal 0 "$(conn_sum "$node" 1 retrans-fast retrans-rto retrans-full rx-duplicates \
			rx-out-of-order rx-out-of-window rto)" "packet layer of $node" || return 1
	done
}

strict_sizes() {
	"$xfer" each "$nodeA" "$nodeB" 10.23.0.2 2 read 0 1 15 16 17 21 22 23 100 9000 20000 || return 1
	"$xfer" each "$nodeA" "$nodeB" 10.23.0.2 2 write 26 27 100 8968 8969 8980 8991 20000 || return 1
	"$xfer" each "$nodeA" "$nodeB" 10.23.0.2 2 send 26 27 100 8968 8972 8973 20000
}

# Ethernet would make it longer, and nothing says how long it was.
strict_refuses_short() {
	truncate -s 4096 /tmp/memory
	tap_refused 'refused EMSGSIZE' "$xfer" op "$nodeA" 10.23.0.2 2 write 0x0000123456789ab0 25 /tmp/memory
}

# inject ETHERTYPE SOURCE HEX: a frame from A to B, with a SUNH header of that source.
inject() {
	nodes_inject "$nodeA" "$(nodes_mac "$nodeB")" "$1" "00fdf000${2}0002$3"
}

counted() { [ "$(drops "$nodeB" "$1")" -gt "$2" ]; }

# counts REASON ETHERTYPE SOURCE HEX
counts() {
	local before
	before=$(drops "$nodeB" "$1")
	inject "${@:2}" || return 1
	nodes_wait 10 counted "$1" "$before"
}

# A connection is found by the source address alone, and by no id.
strangers() {
	local noop=800000000000ffff
	counts no_connection 0x88b6 0003 "$noop" || return 1
	# ACK XID of a transaction that was never started.
	counts ack_xid_out_of_window 0x88b6 0001 0000000000000070 || return 1
	# A packet with a packet delivery header for the number that the connection has here.
	counts no_connection 0x88b5 0001 "02001f000000000000000000ffffffff""00000000$noop" || return 1
	"$xfer" mixed "$nodeA" "$nodeB" 10.23.0.2 2 write 10 20000 4
}

loss_is_fatal() {
	local said status=0
	truncate -s 4096 /tmp/memory
	nodes_netem "$nodeA" loss 100% || return 1
	said=$("$xfer" op "$nodeA" 10.23.0.2 2 write 0x0000123456789ab0 64 /tmp/memory) || status=$?
	nodes_netem "$nodeA" || return 1
	tap_equal 3 "$status" status || return 1
	tap_equal 'completed 7.3 ETIMEDOUT' "$said" 'the request' || return 1
	tap_equal broken "$(conn_get "$nodeA" 2 state)" state || return 1
	conn_get "$nodeA" 2 cause | grep -q tal_transaction_timeout || return 1
	# The manager is told of it.
	nodes_wait 10 grep -q 'tal_transaction_timeout' /tmp/events
}

reset_works() {
	local node
	for node in "$nodeA" "$nodeB"; do on "$node" superp conn reset 2 || return 1; done
	for node in "$nodeA" "$nodeB"; do on "$node" superp conn start 2 || return 1; done
	"$xfer" mixed "$nodeA" "$nodeB" 10.23.0.2 2 write,read,send 50 20000 8
}

drained() { [ "$(conn_get "$1" 2 state)" = stopped ]; }

soft_shutdown() {
	on "$nodeA" superp conn stop 2 && on "$nodeB" superp conn stop 2 || return 1
	nodes_wait 10 drained "$nodeA" && nodes_wait 10 drained "$nodeB"
}

refusals() {
	local add="superp conn add 9 peer 10.23.0.2 dev eth0"
	# shellcheck disable=SC2086 # words
	{
		tap_refused "a lite connection with this node exists" on "$nodeA" $add $settings || return 1
		tap_refused "lite needs tal_transaction_timeout" on "$nodeA" ${add/.0.2/.0.3} lite on || return 1
		tap_refused "carry no id: leave peer-cid out" on "$nodeA" ${add/.0.2/.0.3} $settings peer-cid 5 || return 1
		tap_refused "lite is for encap sunh only" on "$nodeA" ${add/.0.2/.0.3} $settings encap udp4 || return 1
		tap_refused "spray is not for it" on "$nodeA" ${add/.0.2/.0.3} $settings ordered off spray on || return 1
		tap_refused "peer-cid ID is missing" on "$nodeA" ${add/.0.2/.0.3} lite off
	}
}

nodes_up 9000
ports_up
on "$nodeA" superp -j events >/tmp/events &
events=$!
lite_connect 1 ext on
tap_case "a lite connection says so" flags
tap_case "writes, reads and messages from 0 bytes to several transactions" all_sizes
tap_case "both ways at once" both_ways
tap_case "no acknowledgement, number or timer of the packet delivery layer" no_packet_layer
tap_case "one connection with a node, and what else is refused" refusals
disconnect 1
lite_connect 2
tap_case "no extensions: writes and messages from 26 bytes, reads of any size" strict_sizes
tap_case "no extensions: a write under 26 bytes is refused" strict_refuses_short
tap_case "packets of others and of no sense are dropped and counted" strangers
tap_case "a packet that is lost ends the connection, by name" loss_is_fatal
tap_case "a reset connection works" reset_works
tap_case "soft shutdown, both ways" soft_shutdown
kill "$events"
tap_end
