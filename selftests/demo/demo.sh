#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What "make demo" runs in the guest: node A writes 16 MiB of random data into node B's memory, reads
# it back, and sends 1000 messages of mixed sizes, over each encapsulation, on a clean link and on a
# bad one. Both ends' files are compared by SHA-256. Fails if anything is not as it should be.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

size=$((16 << 20))
messages=1000
bad_link='delay 200us 100us loss 1% reorder 25% 50% duplicate 1%'
folder=$(mktemp -d)
checked=0 wrong=0

bold='' red='' green='' plain=''
if [ -n "${TERM:-}" ] && [ "$TERM" != dumb ]; then
	bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m'
fi

# line LINK WHAT RESULT PACKETS RETRANSMITS OURS THEIRS: a row of the table; RESULT is what the
# command said of itself, the last two are files that must be equal.
line() {
	local bytes speed sum other verdict
	bytes=$(jq -r .bytes <<<"$3")
	speed=$(jq -r '.bytes / .seconds / 1e6 * 10 | round / 10' <<<"$3")
	sum=$(sha256sum <"$6")
	other=$(sha256sum <"$7")
	checked=$((checked + 1))
	if [ "$sum" = "$other" ] && [ "$bytes" = "$(stat -c %s "$6")" ]; then
		verdict="${green}equal  ${sum:0:16}…$plain"
	else
		verdict="${red}WRONG  ${sum:0:8}… is not ${other:0:8}…$plain"
		wrong=$((wrong + 1))
	fi
	printf '  %-13s %-22s %9s %8s %9s %12s   %s\n' "$1" "$2" "$bytes" "$speed" "$4" "$5" "$verdict"
}

# measure COMMAND…: sets result, packets and resent: what the command said, and what both ends of the
# connection counted meanwhile.
measure() {
	local packets_before resent_before
	packets_before=$(both conn_sum tx-packets)
	resent_before=$(both retransmits)
	result=$("$@")
	packets=$(($(both conn_sum tx-packets) - packets_before))
	resent=$(($(both retransmits) - resent_before))
}
both() { echo $(($("$1" "$nodeA" "$cid" "${@:2}") + $("$1" "$nodeB" "$cid" "${@:2}"))); }

# transfers WAY LINK: the three lines of one encapsulation on one link.
transfers() {
	local way=$1 link=$2 peer result packets resent written read server ready
	peer=$(address "$way" 2)
	rm -f "$folder"/{region,back,received}
	on "$nodeB" superp -j xfer serve --size "$size" --out "$folder/region" \
		--messages "$messages" --messages-out "$folder/received" >"$folder/server" &
	server=$!
	nodes_wait 10 test -s "$folder/server"
	ready=$(head -n 1 "$folder/server")
	remote=$(jq -r .rma_addr <<<"$ready")

	measure on "$nodeA" superp -j xfer write "$peer" --cid "$cid" --remote "$remote" --file "$folder/data"
	written=("$link" 'RMA write' "$result" "$packets" "$resent")
	measure on "$nodeA" superp -j xfer read "$peer" --cid "$cid" --remote "$remote" --length "$size" --out "$folder/back"
	read=("$link" 'RMA read' "$result" "$packets" "$resent")
	measure on "$nodeA" superp -j xfer send "$peer" --cid "$cid" --qpn "$(jq -r .qpn <<<"$ready")" \
		--file "$folder/messages" --count "$messages"
	wait "$server"

	line "${written[@]}" "$folder/data" "$folder/region"
	line "${read[@]}" "$folder/region" "$folder/back"
	line "$link" "$messages messages" "$result" "$packets" "$resent" "$folder/messages" "$folder/received"
}

# refusal: a write that leaves the region by one byte, and what becomes of it.
refusal() {
	local server ready remote message status=0
	truncate -s 4096 "$folder/page"
	on "$nodeB" superp -j xfer serve --size 4096 --out "$folder/region" >"$folder/server" &
	server=$!
	nodes_wait 10 test -s "$folder/server"
	ready=$(head -n 1 "$folder/server")
	remote=$(jq -r .rma_addr <<<"$ready")
	message=$(on "$nodeA" superp xfer write "$(address sunh 2)" --cid "$cid" --remote $((remote + 1)) \
		--file "$folder/data.page" 2>&1) || status=$?
	kill "$server"
	wait "$server"
	checked=$((checked + 1))
	if [ $status != 0 ] && grep -q 'out of bounds' <<<"$message" && cmp -s "$folder/region" "$folder/page"; then
		printf '  %s\n  %s\n' "${message##*superp: }" "${green}and not a byte of it was written$plain"
	else
		printf '  %s\n' "${red}WRONG  status $status: $message$plain"
		wrong=$((wrong + 1))
	fi
}

head -c "$size" /dev/urandom >"$folder/data"
head -c $((4 << 20)) /dev/urandom >"$folder/messages"
head -c 4096 "$folder/data" >"$folder/data.page"
nodes_up 9000
ports_up

cat <<TEXT

  ${bold}SUPERp for Linux${plain}   superp.ko on $(uname -sr)

     node A  10.23.0.1  fd23::1                                node B  10.23.0.2  fd23::2
             eth0 ------------------- veth, MTU 9000 ------------------- eth0

  A writes $((size >> 20)) MiB into B's memory, reads it back, and sends $messages messages of mixed sizes.
  Bad link: $bad_link, each way.
TEXT
cid=0
for way in sunh udp4 udp6; do
	case $way in
	sunh) title='SUNH: Ethernet, 8-byte header' ;;
	udp4) title='UDP over IPv4' ;;
	udp6) title='UDP over IPv6' ;;
	esac
	printf '\n  %s%-36s %9s %8s %9s %12s   %s%s\n' "$bold" "$title" bytes MB/s packets retransmits SHA-256 "$plain"
	for link in clean bad; do
		cid=$((cid + 1))
		connect "$way" "$cid" ext on
		if [ $link = bad ]; then
			# shellcheck disable=SC2086 # words
			nodes_netem "$nodeA" $bad_link && nodes_netem "$nodeB" $bad_link
		fi
		transfers "$way" "$link link"
		nodes_netem "$nodeA" && nodes_netem "$nodeB"
	done
done
printf '\n  %sA write that ends one byte behind the region%s\n' "$bold" "$plain"
refusal

printf '\n  %s%d of %d verified%s\n\n' "$bold" $((checked - wrong)) "$checked" "$plain"
[ "$wrong" = 0 ]
