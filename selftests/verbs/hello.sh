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
rust=/superp/build/userspace/release/examples/hello

# greets SERVER CALLER
greets() {
	local ready server
	rm -f /tmp/hello-ready
	mkfifo /tmp/hello-ready
	timeout 60 ip netns exec "$nodeB" "$1" serve "$(address "$way" 1)" >/tmp/hello-ready &
	server=$!
	exec 7</tmp/hello-ready
	read -r ready <&7
	tap_equal ready "$ready" "the server's word" || return 1
	timeout 60 ip netns exec "$nodeA" "$2" call "$(address "$way" 2)" || return 1
	wait "$server" || return 1
	tap_equal 'received: hello, memory
written: 8192 bytes, immediate 42' "$(cat <&7)" "the server's report"
}

# Threads that each wait for their own completion queue.
workers() {
	local server workers=/superp/build/userspace/release/examples/workers
	timeout 60 ip netns exec "$nodeB" "$workers" echo 10.23.0.1 >/tmp/workers &
	server=$!
	nodes_wait 20 grep ready /tmp/workers || return 1
	tap_equal 'ready
4 threads, 200 answers each' "$(timeout 60 ip netns exec "$nodeA" "$workers" ask 10.23.0.2)" report || return 1
	wait "$server"
}

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
tap_case "without a connection, in C" tap_refused 'No route to host' on "$nodeA" "$c" call 10.23.0.77
tap_case "without a connection, in Rust" tap_refused NoConnection on "$nodeA" "$rust" call 10.23.0.77
tap_end
