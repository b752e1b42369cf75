#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Debian's programs for RDMA CM as they are, by "superp run": between two nodes, with SUPERp as the device.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
. lib/perftest.sh
trap nodes_down EXIT


# has NODE QPN, listens PORT: somebody takes messages there, or requests at B.
has() { on "$1" superp -j qp show | jq -e --argjson qpn "$2" 'any(.[]; .qpn == $qpn)' >/dev/null; }
listens() { has "$nodeB" $((0xc00000 + $1)); }
free() { ! listens "$1"; }

# pair PORT SERVER -- CLIENT: at B and at A; what they print is in $server_said and $client_said. Variables "serving"
# and "asking" are SUPERP_PARTITION there.
serving='' asking=''
pair() {
	local port=$1 server status=0
	local -a serve=()
	shift
	while [ "$1" != -- ]; do
		serve+=("$1")
		shift
	done
	shift
	# Who listened before, and has ended, is seen for a moment more.
	nodes_wait 30 free "$port" || return 1
	timeout 60 env ${serving:+"SUPERP_PARTITION=$serving"} ip netns exec "$nodeB" bash -c 'run "$@"' run "${serve[@]}" >/tmp/cm-server 2>&1 &
	server=$!
	nodes_wait 30 listens "$port" || { kill "$server"; cat /tmp/cm-server; return 1; }
	client_said=$(timeout 60 env ${asking:+"SUPERP_PARTITION=$asking"} ip netns exec "$nodeA" bash -c 'run "$@"' run "$@" 2>&1) || status=1
	wait "$server" || status=$((status | 2))
	server_said=$(cat /tmp/cm-server)
	printf '%s\n' "at A:" "$client_said" "at B:" "$server_said" "status $status"
	return "$status"
}
says() { grep -qE -- "$1" <<<"$2" || { echo "not said: $1"; return 1; }; }

# sent CID: operations that both nodes sent over the connection.
sent() { echo $(($(conn_get "$nodeA" "$1" tx-ops) + $(conn_get "$nodeB" "$1" tx-ops))); }

# rping ADDRESS [OPTION…]: both ends compare the data.
ping_pong() {
	pair 7174 rping -s -a "$1" -p 7174 -v -V -C 10 -S 4000 "${@:2}" -- \
		rping -c -a "$1" -p 7174 -v -V -C 10 -S 4000 "${@:2}" || return 1
	tap_equal 10 "$(grep -c 'ping data: rdma-ping-' <<<"$client_said")" "messages at the client" || return 1
	tap_equal 10 "$(grep -c 'server ping data: rdma-ping-' <<<"$server_said")" "messages at the server"
}

# One server for several clients, one after the other and two at a time.
persistent() {
	local server client clients=() status=0
	on "$nodeB" superp run -- rping -s -P -a 10.23.0.2 -p 7175 >/tmp/cm-server 2>&1 &
	server=$!
	nodes_wait 30 listens 7175 || status=1
	for client in 1 2 3; do
		timeout 60 ip netns exec "$nodeA" superp run -- rping -c -a 10.23.0.2 -p 7175 -V -C 5 &
		clients+=($!)
		[ "$client" != 1 ] || wait "${clients[0]}" || status=1
	done
	wait "${clients[1]}" || status=1
	wait "${clients[2]}" || status=1
	kill "$server"
	wait "$server" || true
	cat /tmp/cm-server
	return "$status"
}

# perftest COUNT SIZE PROGRAM OPTION…: it reports that many operations, and they went over the connection.
# On a busy machine perftest may fail to measure the clock, which it does once all is moved; then it reports nothing,
# and the other end waits for it until it is ended, without a word.
# Its server listens a second time, for the queue pairs: a client that is there before is rejected.
perftest() {
	local before status
	before=$(sent 1)
	for _ in 1 2 3; do
		status=0
		pair 18515 "$3" -R -n 50 "${@:4}" -- "$3" -R -n 50 "${@:4}" 10.23.0.2 || status=1
		says RDMA_CM_EVENT_REJECTED "$client_said" >/dev/null || break
	done
	tap_equal 1 "$(($(sent 1) - before >= $1))" "$1 operations were sent" || return 1
	! says 'Correlation coefficient' "$client_said$server_said" >/dev/null || return 0
	says 'rdma_cm QPs.*: ON' "$client_said" || return 1
	says 'Device +: superp' "$client_said" || return 1
	says "^ $2 +$1 " "$client_said" || return 1
	return "$status"
}

# many CONNECTIONS [OPTION…]: ucmatose.
many() {
	pair 7471 ucmatose -c "$@" -- ucmatose -s 10.23.0.2 -c "$@" || return 1
	says 'data transfers complete' "$client_said" || return 1
	says 'test complete' "$server_said" || return 1
	says 'return status 0' "$client_said" || return 1
	says 'return status 0' "$server_said"
}

endpoints() {
	pair 7471 rdma_server -- rdma_client -s 10.23.0.2 || return 1
	says 'rdma_client: end 0' "$client_said" || return 1
	says 'rdma_server: end 0' "$server_said"
}

# alone TEXT…: a client whose server is not there says each of them, at once.
alone() {
	local said begin=$SECONDS
	! said=$(timeout 60 ip netns exec "$nodeA" superp run -- rping -c -a 10.23.0.2 -p 7176 -C 1 -d 2>&1) || return 1
	echo "$said"
	[ $((SECONDS - begin)) -lt 30 ] || { echo "after $((SECONDS - begin)) s"; return 1; }
	for text in "$@"; do
		says "$text" "$said" || return 1
	done
}

unfit() {
	connect sunh 1 "${@:2}" || return 1
	alone "superp: connection to 10.23.0.2: it $1" RDMA_CM_EVENT_ADDR_ERROR || return 1
	disconnect 1
}

# in_partition: with another connection of a lower id that is in none.
in_partition() {
	local serving=7 asking=7 before
	before=$(sent 1)
	ping_pong 10.23.0.2 || return 1
	tap_equal "$before" "$(sent 1)" "operations of the connection in no partition" || return 1
	says 'no established connection to the peer is in the partition that SUPERP_PARTITION names' \
		"$(SUPERP_PARTITION=8 alone 2>&1)"
}

rsockets() { tap_refused 'the sockets of librdmacm (rsocket) are not possible' on "$nodeB" superp run -- rstream; }

nodes_up 9000
ports_up
tap_case "without a connection" alone 'superp: connection to 10.23.0.2: no established connection leads to the peer' \
	RDMA_CM_EVENT_ADDR_ERROR
tap_case "with an unordered connection" unfit 'is not ordered' ext on ordered off
tap_case "with a connection without extensions" unfit 'has no extensions' ext off
connect sunh 1 ext on
tap_case "nobody listens" alone RDMA_CM_EVENT_REJECTED
tap_case "rping" ping_pong 10.23.0.2
tap_case "rping, which makes its queue pairs itself" ping_pong 10.23.0.2 -q
tap_case "rping, of three clients" persistent
for program in ib_write_bw ib_read_bw; do
	tap_case "$program -R" perftest 50 65536 "$program"
done
tap_case "ib_send_lat -R" perftest 50 16 ib_send_lat -s 16
tap_case "ib_send_bw -R, four queue pairs, both ways" perftest 200 4096 ib_send_bw -q 4 -b -s 4096
tap_case "ucmatose" many 1
tap_case "ucmatose, 20 connections" many 20
tap_case "ucmatose, with a change of channels" many 3 -m
tap_case "rdma_server and rdma_client" endpoints
tap_case "rsockets are refused" rsockets
connect sunh 3 ext on partition 7
tap_case "SUPERP_PARTITION: rping" in_partition
disconnect 3
connect udp6 2 ext on
tap_case "udp6: rping" ping_pong fd23::2
nothing_left() { tap_equal '0 0' "$(node_count "$nodeA" regions) $(node_count "$nodeA" qps)" "regions and queue pairs"; }
tap_case "nothing is left" nothing_left
rm -f /tmp/cm-*
tap_end
