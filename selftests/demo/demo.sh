#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What "make demo" runs in the guest: node A writes 16 MiB of random data into node B's memory, reads
# it back, and sends 1000 messages of mixed sizes, over each encapsulation, on a clean link and on a
# bad one. The files of both ends are compared by SHA-256. Fails if anything is not as it should be.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/nodes.sh
. lib/superp.sh
. lib/report.sh
trap nodes_down EXIT

size=$((8 << 20))
messages=1000
text=$((4 << 20))
bad_link='delay 200us 100us loss 1% reorder 25% 50% duplicate 1%'
folder=$(mktemp -d)

# row LINK WHAT BYTES SPEED PACKETS RETRANSMITS: a row of the table, with the verdict at its end.
row() { printf '  %-12s %-22s %9s %8s %9s %12s   %s\n' "$@" "$verdict"; }

# line LINK WHAT RESULT PACKETS RETRANSMITS SIZE SUM OTHER: a row of a transfer of SIZE bytes; RESULT is what
# the command said of itself, the last two are sums of files that must be equal.
line() {
	local bytes speed
	read -r bytes speed < <(jq -r '"\(.bytes) \(.bytes / .seconds / 1e6)"' <<<"$3")
	if [ "$7" = "$8" ] && [ "$bytes" = "$6" ]; then
		judge yes "${7:0:16}… at both ends"
	else
		judge no "$bytes bytes, ${7:0:8}… here, ${8:0:8}… there"
	fi
	row "$1" "$2" "$bytes" "$(printf %.1f "$speed")" "$4" "$5"
}

sum() { sha256sum <"$folder/$1"; }

# measure COMMAND…: sets result, packets and resent: what the command said, and what both ends of the
# connection counted meanwhile.
measure() {
	local before=$counted
	result=$("$@")
	counted=$(count)
	read -r packets resent < <(jq -rs '
		def moved($counters): [.[2:][], .[:2][]] | map([.[].stats | .[$counters[]]] | add) | .[0] + .[1] - .[2] - .[3];
		"\(moved(["tx-packets"])) \(moved(["retrans-fast", "retrans-rto", "retrans-full"]))"' <<<"$before $counted")
}
# The connection at both ends, with its counters.
count() {
	local there
	on "$nodeB" superp -j conn show "$cid" -s >"$folder/there" & there=$!
	on "$nodeA" superp -j conn show "$cid" -s && wait "$there" && cat "$folder/there"
}

# serve OPTION…: B offers memory and takes messages; sets server, remote and qpn.
serve() {
	local ready
	rm -f "$folder"/{region,server}
	ip netns exec "$nodeB" superp -j xfer serve "$@" >"$folder/server" &
	server=$!
	nodes_wait 10 test -s "$folder/server"
	ready=$(head -n 1 "$folder/server")
	remote=$(jq -r .remote <<<"$ready")
	qpn=$(jq -r .qpn <<<"$ready")
}

# transfers WAY LINK: the three lines of one encapsulation on one link.
transfers() {
	local way=$1 link=$2 peer result packets resent counted written read sent answered region
	peer=$(address "$way" 2)
	counted=$(count)
	rm -f "$folder"/{back,received}
	serve --size "$size" --out "$folder/region" --messages "$messages" --messages-out "$folder/received"

	measure on "$nodeA" superp -j ping "$peer" --cid "$cid" --count 20 --interval 0.01
	sent=$(jq .sent <<<"$result") answered=$(jq .received <<<"$result")
	judge "$([ "$answered" = "$sent" ] && echo yes)" "$answered of $sent answered, $(jq '."avg-ns" / 1000 | round' <<<"$result") us"
	row "$link" 'round trip' - - "$packets" "$resent"

	measure on "$nodeA" superp -j xfer write "$peer" --cid "$cid" --remote "$remote" --file "$folder/data"
	written=("$link" 'RMA write' "$result" "$packets" "$resent")
	measure on "$nodeA" superp -j xfer read "$peer" --cid "$cid" --remote "$remote" --length "$size" --out "$folder/back"
	read=("$link" 'RMA read' "$result" "$packets" "$resent")
	measure on "$nodeA" superp -j xfer send "$peer" --cid "$cid" --qpn "$qpn" \
		--file "$folder/messages" --count "$messages"
	wait "$server"

	region=$(sum region)
	line "${written[@]}" "$size" "$data" "$region"
	line "${read[@]}" "$size" "$region" "$(sum back)"
	line "$link" "$messages messages" "$result" "$packets" "$resent" "$text" "$texts" "$(sum received)"
}

# refusal: a write that leaves the region by one byte, and what becomes of it.
refusal() {
	local message status=0
	truncate -s 4096 "$folder/page"
	serve --size 4096 --out "$folder/region"
	message=$(on "$nodeA" superp xfer write "$(address "$way" 2)" --cid "$cid" --remote "$(printf '0x%x' $((remote + 1)))" \
		--file "$folder/data.page" 2>&1) || status=$?
	kill "$server"
	wait "$server"
	if [ "$status" != 0 ] && grep -q 'access refused' <<<"$message" && cmp -s "$folder/region" "$folder/page"; then
		judge yes 'and not a byte of it was written'
	else
		judge no "status $status"
	fi
	printf '  %s\n  %s\n' "${message#superp: }" "$verdict"
}

head -c "$size" /dev/urandom >"$folder/data"
head -c "$text" /dev/urandom >"$folder/messages"
head -c 4096 "$folder/data" >"$folder/data.page"
data=$(sum data) texts=$(sum messages)
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
	printf '\n  %s%-35s %9s %8s %9s %12s   %s%s\n' "$bold" "$title" bytes MB/s packets retransmits verdict "$plain"
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

report_end
