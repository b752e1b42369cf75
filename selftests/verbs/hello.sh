#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The examples of the library: hello, in C and in Rust, each of which talks to itself and to the other, and workers.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT
c=/superp/build/selftests/verbs/hello-c
rust=$SUPERP_PROGRAMS/examples/hello

# serves SERVER: starts it at B.
serves() {
	local ready
	rm -f /tmp/hello-ready
	mkfifo /tmp/hello-ready
	timeout 60 ip netns exec "$nodeB" "$1" serve "$(address "$way" 1)" >/tmp/hello-ready &
	server=$!
	exec 7</tmp/hello-ready
	read -r ready <&7
	tap_equal ready "$ready" "the server's word"
}

# greets SERVER CALLER
greets() {
	serves "$1" || return 1
	timeout 60 ip netns exec "$nodeA" "$2" call "$(address "$way" 2)" || return 1
	wait "$server" || return 1
	tap_equal 'received: hello, memory
written: 8192 bytes, immediate 42' "$(cat <&7)" "the server's report"
}

# Threads that each wait for their own completion queue.
workers() {
	local server workers=$SUPERP_PROGRAMS/examples/workers
	timeout 60 ip netns exec "$nodeB" "$workers" echo 10.23.0.1 >/tmp/workers &
	server=$!
	nodes_wait 20 grep ready /tmp/workers || return 1
	tap_equal 'ready
4 threads, 200 answers each' "$(timeout 60 ip netns exec "$nodeA" "$workers" ask 10.23.0.2)" report || return 1
	wait "$server"
}

# sent CID: by both nodes.
sent() { echo $(($(conn_get "$nodeA" "$1" tx-ops) + $(conn_get "$nodeB" "$1" tx-ops))); }

# greets_in_partition SERVER CALLER: over the second connection, which is in it, and not over the first.
greets_in_partition() {
	local before
	before="$(sent 1) $(sent 3)"
	SUPERP_PARTITION=7 greets "$1" "$2" || return 1
	tap_equal "${before% *}" "$(sent 1)" "operations over the connection of no partition" || return 1
	tap_equal 1 "$(($(sent 3) > ${before#* }))" "operations over the connection of the partition"
}

# A caller that is not in the partition gets at nothing that is. The server waits for it in vain.
keeps_others_out() {
	local said='memory access refused' status=0
	[ "$2" = "$c" ] || said='Access(Other)'
	SUPERP_PARTITION=7 serves "$1" || return 1
	tap_refused "$said" on "$nodeA" "$2" call "$(address "$way" 2)" || status=1
	kill "$server"
	wait "$server" || true
	return "$status"
}

# refused_in VALUE TEXT PROGRAM
refused_in() { tap_refused "$2" on "$nodeA" env SUPERP_PARTITION="$1" "$3" call 10.23.0.2; }

nodes_up 9000
ports_up
cid=0
for way in sunh udp6; do
	cid=$((cid + 1))
	connect "$way" "$cid" ext on
	tap_case "$way: C and C" greets "$c" "$c"
	tap_case "$way: C serves, Rust calls" greets "$c" "$rust"
	tap_case "$way: Rust serves, C calls" greets "$rust" "$c"
	tap_case "$way: Rust and Rust" greets "$rust" "$rust"
done
tap_case "workers: every thread has an eventfd" workers
way=sunh
connect sunh 3 ext on partition 7
for pair in "$c $c" "$c $rust" "$rust $c" "$rust $rust"; do
	read -r serving calling <<<"$pair"
	who="$(basename "$calling") calls $(basename "$serving")"
	tap_case "SUPERP_PARTITION: $who" greets_in_partition "$serving" "$calling"
	tap_case "SUPERP_PARTITION at the server alone: $who" keeps_others_out "$serving" "$calling"
done
tap_case "SUPERP_PARTITION without a connection, in C" refused_in 8 'connect: No route to host' "$c"
tap_case "SUPERP_PARTITION without a connection, in Rust" refused_in 8 NoConnectionInPartition "$rust"
tap_case "SUPERP_PARTITION that is none, in C" refused_in seven \
	'SUPERP_PARTITION is "seven", which is no partition: it is a number' "$c"
tap_case "SUPERP_PARTITION that is none, in Rust" refused_in seven 'Partition(Malformed("seven"))' "$rust"
tap_case "without a connection, in C" tap_refused 'No route to host' on "$nodeA" "$c" call 10.23.0.77
tap_case "without a connection, in Rust" tap_refused NoConnection on "$nodeA" "$rust" call 10.23.0.77
tap_end
