#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# superp perf, which is made of the library's rings: all that it moves is what it should be, its JSON is
# one document that adds up, and what fails is told.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# measure OPERATION MEASURE OPTION…: at node A, as JSON in $result. The server tells where its memory is.
measure() {
	result=$(on "$nodeA" superp -j perf "$1" "$2" "$peer" --cid "$cid" "${@:3}") ||
		{ echo "$result"; return 1; }
}

# field NAME: of the result, which must be one document.
field() { jq -es --arg name "$1" 'if length == 1 then .[0][$name] else error("not one document") end' <<<"$result"; }

# moves OPERATION MEASURE SIZE COUNT OPTION…: so many requests, compared, and counted right.
moves() {
	measure "$1" "$2" --size "$3" --count "$4" --verify "${@:5}" || return 1
	tap_equal "$4" "$(field operations)" "operations" || return 1
	tap_equal $(($3 * $4)) "$(field bytes)" "bytes" || return 1
	tap_equal true "$(field verified)" "verified"
}

sizes() {
	local size
	for size in 16 17 1024 8900 65536; do
		moves "$1" bw "$size" 100 --depth 16 || return 1
	done
	moves "$1" bw 1048576 20 --depth 4
}

# A ring that is smaller than the run, batches that do not divide it, one request at a time.
depths() {
	moves "$1" rate 64 201 --depth 1 --batch 1 || return 1
	moves "$1" rate 64 401 --depth 7 --batch 3 || return 1
	moves "$1" rate 64 3000 --depth 256 --batch 64
}

# Requests of a queue pair whose ring has no room wait for those of no other.
queue_pairs() {
	moves "$1" rate 64 1001 --qps 7 --depth 3 --batch 2 || return 1
	tap_equal 7 "$(field queue-pairs)" "queue pairs" || return 1
	moves "$1" rate 64 3000 --qps 256 --depth 8 || return 1
	moves "$1" bw 65536 100 --qps 4 --depth 4
}

# With a thread that takes requests in, nobody rings.
polled() {
	moves "$1" rate 64 3000 --qps 4 --depth 16 --poller || return 1
	tap_equal true "$(field poller)" "poller" || return 1
	moves "$1" bw 65536 200 --depth 8 --poller
}

# The other queue pair of each moves bytes the other way: A's counters and B's both have all of them.
both_ways() {
	local before
	before=$(conn_get "$nodeA" "$cid" rx-bytes)
	moves "$1" bw 65536 400 --bidirectional --depth 8 || return 1
	tap_equal 'true 2' "$(field bidirectional) $(field queue-pairs)" "queue pairs" || return 1
	tap_equal 1 "$(($(conn_get "$nodeA" "$cid" rx-bytes) - before >= 100 * 65536))" "bytes came back" || return 1
	moves "$1" rate 64 2000 --bidirectional --qps 8 --depth 4 || return 1
	tap_refused 'only of write and read' measure "$1" lat --bidirectional || return 1
	tap_refused 'twice as many queue pairs' measure "$1" rate --bidirectional --qps 513
}

latencies() {
	moves "$1" lat 16 300 "${@:2}" || return 1
	jq -e '."latency-ns" | .samples == 300 and .min > 0 and .min <= .p50 and .p50 <= .p90 and .p90 <= .p99
		and .p99 <= ."p99.9" and ."p99.9" <= ."p99.99" and ."p99.99" <= .max' <<<"$result" >/dev/null ||
		{ echo "$result"; return 1; }
}

by_time() {
	measure "$1" bw --duration 0.2 || return 1
	jq -e '.seconds >= 0.2 and .operations > 0 and ."bytes-per-second" > 0' <<<"$result" >/dev/null || { echo "$result"; return 1; }
}

additions() {
	moves atomic rate 8 500 --depth 32 || return 1
	moves atomic rate 8 500 --depth 4 --qps 8 || return 1
	moves atomic lat 8 100
}

# Outside of the memory of the peer; the refusal is named, in JSON too.
refused() {
	! result=$(on "$nodeA" superp -j perf "$1" bw "$peer" --cid "$cid" --remote "$remote" --size 1M --depth 64 --count 64 2>/dev/null) ||
		return 1
	tap_equal 3 "$(field major)" "major code" || return 1
	# Which reason it is, the peer does not say.
	tap_equal 0 "$(field minor)" "minor code" || return 1
	tap_equal '"EACCES"' "$(field errno)" "errno"
}

# Memory that the server does not have is noticed before anything moves.
too_much() { tap_refused 'size times depth times queue pairs must fit' measure "$1" bw --size 1M --depth 8 --qps 4; }

# Two use the same memory: the reader finds the bytes of the writer. It ends when it does.
wrong_bytes() {
	local writer status=0
	ip netns exec "$nodeA" superp perf write bw "$peer" --cid "$cid" --remote "$remote" --size 4K --depth 4 --duration 600 >/dev/null &
	writer=$!
	tap_refused 'verification: read moved wrong bytes' on "$nodeA" \
		superp perf read bw "$peer" --cid "$cid" --remote "$remote" --size 4K --depth 4 --duration 600 --verify || status=1
	kill "$writer"
	wait "$writer" || status=1
	return "$status"
}

no_connection() {
	tap_refused 'no established connection' on "$nodeA" superp perf write bw 10.23.0.77 --remote "$remote" --count 1
}

# Who measures without a server hears so, at once.
no_server() {
	tap_refused 'superp perf serve' on "$nodeA" superp perf write bw "$peer" --cid "$cid" --qpn 77 || return 1
	tap_refused 'superp perf serve' on "$nodeA" superp perf send bw "$peer" --cid "$cid" --qpn 77
}

# A message without room for its number cannot be compared; uncompared it goes.
short_messages() {
	tap_refused 'the 8 bytes of its number' measure send rate --size 7 --verify || return 1
	measure send rate --size 1 --count 500 || return 1
	tap_equal 500 "$(field operations)" "messages"
}

has_queue_pairs() { [ "$(node_count "$nodeB" qps)" = "$1" ]; }
more_queue_pairs() { [ "$(node_count "$nodeB" qps)" -gt "$1" ]; }

# Messages of several transactions, faster than the receiver compares them: each is refused now and then,
# and none gets parts of another.
many_long_messages() {
	moves send bw 1048576 "$(fewer 1000)" --depth 16 || return 1
	# Else nothing was refused, and nothing tested.
	[ "$(conn_get "$nodeA" "$cid" tx-no-buffer)" != 0 ]
}

# Senders that are killed, as many as are served at a time, keep others from measuring for a second at most.
killed_senders() {
	local sender
	nodes_wait 20 has_queue_pairs 1 || return 1
	for _ in $(seq 4); do
		ip netns exec "$nodeA" superp perf send bw "$peer" --cid "$cid" --size 4K --duration 600 >/dev/null &
		sender=$!
		nodes_wait 10 more_queue_pairs 1 || return 1
		kill -9 "$sender"
		wait "$sender" 2>/dev/null || :
		# The server notices, and keeps nothing of it.
		nodes_wait 20 has_queue_pairs 1 || return 1
	done
	moves send bw 65536 50
}

nodes_up 9000
ports_up
mkfifo /tmp/perf-ready
ip netns exec "$nodeB" superp -j perf serve --size 16M >/tmp/perf-ready &
server=$!
read -r ready </tmp/perf-ready
remote=$(jq -r .remote <<<"$ready")
cid=0
# The rings are the same for all ways.
for way in sunh udp6; do
	cid=$((cid + 1))
	peer=$(address "$way" 2)
	connect "$way" "$cid" ext on
	for operation in write read send; do
		tap_case "$way: ${operation}s of all sizes, compared" sizes "$operation"
		tap_case "$way: ${operation}s of many depths and batches, compared" depths "$operation"
	done
	tap_case "$way: atomic additions, each exactly once" additions
done
way=sunh cid=1
peer=$(address "$way" 2)
for operation in write read send; do
	tap_case "latency of a $operation: percentiles in order" latencies "$operation"
	tap_case "latency of a $operation, by events" latencies "$operation" --events
	tap_case "bandwidth of a $operation for a time" by_time "$operation"
	tap_case "${operation}s of many queue pairs, compared" queue_pairs "$operation"
	tap_case "${operation}s that a thread takes in, compared" polled "$operation"
done
for operation in write read; do
	tap_case "${operation}s both ways at once, compared" both_ways "$operation"
	tap_case "$operation outside of the memory is refused by name" refused "$operation"
	tap_case "$operation of more than the memory is refused at once" too_much "$operation"
done
tap_case "short messages" short_messages
tap_case "long messages that are refused for want of a buffer" many_long_messages
tap_case "senders that are killed" killed_senders
tap_case "wrong bytes are noticed" wrong_bytes
tap_case "without a connection" no_connection
tap_case "without a server" no_server
kill "$server"
ended=0
wait "$server" || ended=$?
tap_case "the server ends in order" tap_equal 0 "$ended" "its exit status"
tap_end
