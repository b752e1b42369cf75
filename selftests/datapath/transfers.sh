#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Reads, writes and messages of every interesting size over every encapsulation arrive as they were
# sent; a clean link causes no retransmission; what must be refused is refused by name.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# sizes MTU HEADER PACKETS: around the payload of one packet, two packets and PACKETS of them (one
# transaction), and over several transactions.
sizes() {
	local payload=$(($1 - 24 - $2)) transaction
	transaction=$((payload * $3))
	echo $((payload - 1)) "$payload" $((payload + 1)) $((2 * payload + 1)) \
		$((transaction - 1)) "$transaction" $((transaction + 1)) $((3 * transaction + 4321))
}

# [proto 2.4]: operation headers of 8 (write, read response) and 16 bytes (extensions).
ext_case() {
	local mtu
	mtu=$(conn_get "$nodeA" "$cid" mtu)
	# shellcheck disable=SC2046
	"$@" "$xfer" each "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send \
		0 1 15 16 17 100 $(sizes "$mtu" 8 32) $(sizes "$mtu" 16 32)
}

# Without extensions: reads of any size, writes and messages from 16 bytes, a message in one
# transaction.
strict_case() {
	local mtu peer
	mtu=$(conn_get "$nodeA" "$cid" mtu)
	peer=$(address "$way" 2)
	# shellcheck disable=SC2046
	"$@" "$xfer" each "$nodeA" "$nodeB" "$peer" "$cid" write 16 17 31 $(sizes "$mtu" 8 32) || return 1
	# shellcheck disable=SC2046
	"$@" "$xfer" each "$nodeA" "$nodeB" "$peer" "$cid" read 0 1 15 16 17 $(sizes "$mtu" 8 32) || return 1
	"$@" "$xfer" each "$nodeA" "$nodeB" "$peer" "$cid" send 16 17 31 \
		$((mtu - 29)) $((mtu - 28)) $((mtu - 27)) $(((mtu - 28) / 16 * 16 * 32))
}

strict_refuses_short() {
	truncate -s 4096 /tmp/memory
	for length in 1 15; do
		tap_refused 'refused EMSGSIZE' "$xfer" op "$nodeA" "$(address "$way" 2)" "$cid" \
			write 0x0000123456789ab0 "$length" /tmp/memory || return 1
	done
}

# Nothing was lost, so nothing may be sent again. Packets that two CPUs send may overtake each other,
# so the transfers before this ran on one.
no_retransmit() {
	tap_equal 0 "$(retransmits "$nodeA" "$cid")" "retransmits of A" || return 1
	tap_equal 0 "$(retransmits "$nodeB" "$cid")" "retransmits of B" || return 1
	tap_equal 0 "$(conn_sum "$nodeB" "$cid" rx-duplicates rx-out-of-order rx-out-of-window)" "irregular packets"
}

nodes_up 9000
ports_up
# A virtual CPU that stands still for a while is no loss.
for node in "$nodeA" "$nodeB"; do
	on "$node" superp param set pdl_retrans_time_out 10000000000
	on "$node" superp param set tal_error_detail 1
done
cid=0
for way in $encapsulations; do
	cid=$((cid + 1))
	connect "$way" "$cid" ext on
	tap_case "$way: writes, reads and messages from 0 bytes to several transactions" ext_case taskset 1
	tap_case "$way: accesses outside a region, of another key or against its rights are refused" \
		"$xfer" refusals "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid"
	tap_case "$way: no retransmission on a clean link" no_retransmit

	cid=$((cid + 1))
	connect "$way" "$cid" ext on ordered off
	tap_case "$way, unordered: writes, reads and messages of all sizes" ext_case

	cid=$((cid + 1))
	connect "$way" "$cid"
	tap_case "$way, no extensions: writes and messages from 16 bytes, reads of any size" strict_case taskset 1
	tap_case "$way, no extensions: a write under 16 bytes is refused" strict_refuses_short
	tap_case "$way, no extensions: no retransmission on a clean link" no_retransmit
done

# Both directions at once, many operations under way.
both_ways() {
	"$xfer" mixed "$nodeA" "$nodeB" "$(address "$way" 2)" "$cid" write,read,send 300 60000 16 &
	local other=$!
	"$xfer" mixed "$nodeB" "$nodeA" "$(address "$way" 1)" "$cid" write,read,send 300 60000 16 || return 1
	wait "$other"
}
# The command sends immediates and counts them: of a write cut into pieces one, of messages each.
immediates() {
	local server ready peer told
	peer=$(address "$way" 2)
	rm -f /tmp/told
	ip netns exec "$nodeB" superp -j xfer serve --size 1M --messages 4 --timeout 60 >/tmp/told &
	server=$!
	nodes_wait 10 test -s /tmp/told || return 1
	ready=$(head -n 1 /tmp/told)
	on "$nodeA" superp xfer write "$peer" --cid "$cid" --remote "$(jq -r .remote <<<"$ready")" \
		--length 1M --chunk 100000 --imm 0xcafe --qpn "$(jq .qpn <<<"$ready")" --verify || return 1
	on "$nodeA" superp xfer send "$peer" --cid "$cid" --qpn "$(jq .qpn <<<"$ready")" \
		--length 3000 --count 3 --imm 4294967295 || return 1
	wait "$server" || return 1
	told=$(tail -n 1 /tmp/told)
	tap_equal '4 4294967295 3000' "$(jq -r '"\(.immediates) \(.last_imm) \(.bytes)"' <<<"$told")" immediates
}
# The command sends messages by key: both ends have seen the same, and they are where they should be.
by_key() {
	local server ready peer sent told
	peer=$(address "$way" 2)
	rm -f /tmp/told /tmp/placed
	ip netns exec "$nodeB" superp -j xfer serve --size 1M --access r --receive --messages 20 --out /tmp/placed \
		--timeout 60 >/tmp/told &
	server=$!
	nodes_wait 10 test -s /tmp/told || return 1
	ready=$(head -n 1 /tmp/told)
	sent=$(on "$nodeA" superp -j xfer send "$peer" --cid "$cid" --key "$(jq .key <<<"$ready")" \
		--offset 77777 --length 300000 --count 20) || return 1
	wait "$server" || return 1
	told=$(tail -n 1 /tmp/told)
	tap_equal "$(jq -c '[.messages, .bytes, .sizes_crc, .data_crc]' <<<"$sent")" \
		"$(jq -c '[.messages, .bytes, .sizes_crc, .data_crc]' <<<"$told")" "both ends" || return 1
	tap_equal "20 300000" "$(jq -r '"\(.messages) \(.bytes)"' <<<"$told")" "messages and bytes" || return 1
	tap_equal "0 0" "$(head -c 77777 /tmp/placed | tr -d '\0' | wc -c) $(tail -c +377778 /tmp/placed |
		tr -d '\0' | wc -c)" "bytes before and behind"
}
for way in $encapsulations; do
	cid=$((cid + 1))
	connect "$way" "$cid" ext on
	tap_case "$way: the command sends messages by key" by_key
	tap_case "$way: the command sends and counts immediates" immediates
	tap_case "$way: operations under way both ways at once" both_ways
done
tap_end
