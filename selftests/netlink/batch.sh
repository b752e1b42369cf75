#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# "superp batch": many commands in one run, and "superp perf --connections" over what it has made.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
file=$(mktemp)
trap 'rm -f "$file"; nodes_down' EXIT

nodes_up 9000
ports_up
count=$(fewer 64)

# conns NUMBER: the commands that make and start so many connections at a node, 1 or 2.
conns() {
	local cid
	echo "# Connections of node $1"
	for ((cid = 1; cid <= count; cid++)); do
		echo "conn add $cid peer 10.23.0.$((3 - $1)) peer-cid $cid encap sunh dev 'eth0' local \"10.23.0.$1\" ext on"
		echo
		echo "conn start $cid # and go"
	done
}

from_file_and_input() {
	conns 1 >"$file"
	on "$nodeA" superp batch "$file" || return 1
	conns 2 | on "$nodeB" superp batch || return 1
	tap_equal "$count" "$(node_count "$nodeA" conns)" "connections of A" || return 1
	tap_equal "$count" "$(node_count "$nodeB" conns)" "connections of B"
}

answers_are_lines() {
	tap_equal '[1,"10.23.0.2"]' "$(printf 'conn show 1\nconn show 2\n' | on "$nodeA" superp -j batch - |
		jq -sc '[(.[0] | if type == "array" then .[0] else . end)["local-cid"], (.[1] | if type == "array" then .[0] else . end)["remote-addr"]]')" "what was shown"
}

ends_at_the_first_failure() {
	printf 'param set pdl_receive_budget 64\n\nconn start 9999\nconn del 1\n' >"$file"
	tap_refused "$file:3: " on "$nodeA" superp batch "$file" || return 1
	tap_equal "$count" "$(node_count "$nodeA" conns)" "connections of A" || return 1
	echo 'conn start seven' >"$file"
	tap_refused "$file:1: invalid value 'seven'" on "$nodeA" superp batch "$file"
}

goes_on_when_forced() {
	printf 'conn start 9999\nconn del 1\nconn "start 2\nconn add %s\n' \
		"1 peer 10.23.0.2 peer-cid 1 encap sunh dev eth0 local 10.23.0.1 ext on" >"$file"
	tap_refused "2 of 4 commands failed" on "$nodeA" superp batch --force "$file" || return 1
	tap_equal "$count" "$(node_count "$nodeA" conns)" "connections of A" || return 1
	on "$nodeA" superp conn start 1
}

no_file() { tap_refused 'no-such-file: No such file' on "$nodeA" superp batch no-such-file; }

# sent CID: operations that A has sent over that connection.
sent() { conn_get "$nodeA" "$1" tx-ops; }

perf_uses_all() {
	local cid server
	on "$nodeB" superp perf serve >"$file" &
	server=$!
	nodes_wait 10 grep -q . "$file" || return 1
	on "$nodeA" superp -j perf write rate 10.23.0.2 --connections "$count" --qps $((2 * count)) --depth 4 --count $((80 * count)) --verify |
		jq -e --argjson count "$count" '.connections == $count and .verified' || return 1
	kill "$server"
	wait "$server" || true
	for ((cid = 1; cid <= count; cid++)); do
		tap_equal 1 "$(($(sent "$cid") >= 70))" "operations over connection $cid" || return 1
	done
}

perf_refuses() {
	tap_refused "of $((count + 1)) connections to 10.23.0.2, $count are established" on "$nodeA" superp perf write rate 10.23.0.2 \
		--connections $((count + 1)) --qps 100 --remote 0 || return 1
	tap_refused 'more than there are queue pairs' on "$nodeA" superp perf write rate 10.23.0.2 --connections 2 --remote 0
}

tap_case "commands of a file, and of standard input" from_file_and_input
tap_case "what is asked for is answered, in order" answers_are_lines
tap_case "the first failure ends it, and says where it is" ends_at_the_first_failure
tap_case "by force it goes on" goes_on_when_forced
tap_case "a file that is none" no_file
tap_case "superp perf over $count connections" perf_uses_all
tap_case "superp perf over too many" perf_refuses
tap_end
