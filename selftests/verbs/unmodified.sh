#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Debian's programs for RDMA as they are, by "superp run": between two nodes, with SUPERp as the device.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
. lib/perftest.sh
trap nodes_down EXIT

# with_poller COMMAND…
with_poller() {
	local -x polled=1
	"$@"
}

listens() { on "$nodeB" ss -Hltn | grep -q ":$1 "; }

# pair PORT PROGRAM…: at B as a server, at A as its client, which find each other by TCP; what both print is in
# $server_said and $client_said. SUPERP_PARTITION is $serving at B, $asking at A, where they are set.
serving='' asking=''
pair() {
	local port=$1 server status=0
	shift
	timeout 60 env ${serving:+"SUPERP_PARTITION=$serving"} ip netns exec "$nodeB" bash -c 'run "$@"' run "$@" >/tmp/unmodified-server 2>&1 &
	server=$!
	nodes_wait 30 listens "$port" || { cat /tmp/unmodified-server; return 1; }
	client_said=$(timeout 60 env ${asking:+"SUPERP_PARTITION=$asking"} ip netns exec "$nodeA" bash -c 'run "$@"' run "$@" 10.23.0.2 2>&1) || status=1
	wait "$server" || status=1
	server_said=$(cat /tmp/unmodified-server)
	printf '%s\n' "at A:" "$client_said" "at B:" "$server_said"
	return "$status"
}
says() { grep -qE -- "$1" <<<"$2" || { echo "not said: $1"; return 1; }; }

devinfo() {
	local said
	said=$(on "$nodeA" superp run -- ibv_devinfo -v -d superp) || return 1
	echo "$said"
	says 'state:\s+PORT_ACTIVE' "$said" || return 1
	says 'vendor_id:\s+0xffffff' "$said" || return 1
	says 'active_speed:\s+2.5 Gbps' "$said" || return 1
	says 'max_srq_sge:\s+16' "$said" || return 1
	says 'GID\[ +0\]:\s+::ffff:10.23.0.1, RoCE v2' "$said" || return 1
	says 'GID\[ +1\]:\s+fd23::1, RoCE v2' "$said" || return 1
	ip -n "$nodeA" link set eth0 down
	said=$(on "$nodeA" superp run -- ibv_devinfo -d superp)
	ip -n "$nodeA" link set eth0 up
	nodes_wait 5 nodes_running "$nodeA" eth0 || return 1
	says 'state:\s+PORT_DOWN' "$said"
}

# What becomes of the port and of its addresses, by a program that waits for it; it prints at once only if told.
async_events() {
	local watcher status=0
	ip netns exec "$nodeA" superp run -- stdbuf -oL ibv_asyncwatch -d superp >/tmp/unmodified-events 2>&1 &
	watcher=$!
	nodes_wait 20 grep -q 'async event FD' /tmp/unmodified-events &&
		ip -n "$nodeA" link set eth0 down && nodes_wait 10 told PORT_ERR &&
		ip -n "$nodeA" link set eth0 up && nodes_wait 10 told PORT_ACTIVE &&
		ip -n "$nodeA" address add 10.23.0.77/16 dev eth0 && nodes_wait 10 told GID_CHANGE || status=1
	ip -n "$nodeA" address delete 10.23.0.77/16 dev eth0
	kill "$watcher"
	wait "$watcher" || true
	cat /tmp/unmodified-events
	nodes_wait 5 nodes_running "$nodeA" eth0 || return 1
	return "$status"
}
told() { grep -q "event_type IBV_EVENT_$1 .*, port 1" /tmp/unmodified-events; }

# pingpong PROGRAM INDEX OPTION…: with the GID of that index; B compares what it received.
pingpong() {
	pair 18515 "$1" -d superp -g "$2" -n 100 -c "${@:3}" || return 1
	says '^100 iters in' "$client_said" || return 1
	! says 'invalid data' "$server_said"
}

# sent FIELD [CID]: by both nodes, over that connection or the one that programs should use.
cid=1
sent() { echo $(($(conn_get "$nodeA" "${2:-$cid}" "$1") + $(conn_get "$nodeB" "${2:-$cid}" "$1"))); }

# perftest COUNT SIZE PROGRAM OPTION…: it reports that many operations, and they went over the connection. Each of its
# queue pairs has $iterations.
# On a busy machine perftest may fail to measure the clock, which it does once all is moved; then it reports nothing.
iterations=50
perftest() {
	local before status=0
	before=$(sent tx-ops)
	pair 18515 "$3" -d superp -n "$iterations" "${@:4}" || status=1
	says 'Device +: superp' "$client_said" || return 1
	tap_equal 1 "$(($(sent tx-ops) - before >= $1))" "$1 operations were sent" || return 1
	! says 'Correlation coefficient' "$client_said$server_said" >/dev/null || return 0
	says "^ $2 +$1 " "$client_said" || return 1
	return "$status"
}

# one_by_one: small writes, each posted by itself, share packets all the same.
one_by_one() {
	local before iterations=5000
	before=$(conn_get "$nodeA" "$cid" tx-packets)
	perftest 5000 64 ib_write_bw -s 64 || return 1
	tap_equal 1 "$(($(conn_get "$nodeA" "$cid" tx-packets) - before < 4000))" "fewer packets than writes"
}

# over CID OTHER COMMAND…: succeeds, with operations over the one connection and none over the other.
over() {
	local before
	before="$(sent tx-ops "$1") $(sent tx-ops "$2")"
	"${@:3}" || return 1
	tap_equal "${before#* }" "$(sent tx-ops "$2")" "operations over connection $2" || return 1
	tap_equal 1 "$(($(sent tx-ops "$1") > ${before% *}))" "operations over connection $1"
}

# in_partition COMMAND…: both nodes' programs are in that of connection 3, which is the higher one.
in_partition() {
	local serving=7 asking=7 cid=3
	over 3 1 "$@"
}

# shut PROGRAM…: what is registered in the partition is shut to a program that is in none.
shut() {
	local serving=7
	! pair 18515 "$@" || { echo "it succeeded"; return 1; }
	says 'Completion with error at client' "$client_said" || return 1
	# IBV_WC_REM_ACCESS_ERR, and the codes of the protocol: 3.0.
	says 'Failed status 10: .* syndrom 0x30000' "$client_said"
}

# unconnected: B is in a partition without a connection.
unconnected() {
	local serving=8
	unfit 'no established connection to the peer is in the partition that SUPERP_PARTITION names'
}

# refused TEXT PROGRAM…: at A alone.
refused() { tap_refused "$1" on "$nodeA" superp run -- "${@:2}"; }

# unfit TEXT: B, which looks the connection up first, says why not.
unfit() {
	! pair 18515 ibv_rc_pingpong -g 0 -n 1 || { echo "it succeeded"; return 1; }
	says "superp: queue pair [0-9]+: 10.23.0.1: $1" "$server_said" || return 1
	says 'Failed to modify QP to RTR' "$server_said"
}
# unfit_connection TEXT OPTION…
unfit_connection() {
	connect sunh 1 "${@:2}" || return 1
	unfit "$1" || return 1
	disconnect 1
}

nodes_up 9000
on "$nodeA" sysctl -qw net.ipv6.conf.eth0.keep_addr_on_down=1
tap_case "a node without ports is told" refused 'no device here carries SUPERp' ibv_devinfo
ports_up
tap_case "a program that is none is told" refused 'no-such-program' no-such-program
tap_case "other programs run, with their arguments and status" \
	tap_equal 'a  b' "$(on "$nodeA" superp run -- echo 'a  b')" "what it printed"
tap_case "ibv_devinfo: the port and its addresses" devinfo
tap_case "ibv_asyncwatch: what becomes of the port and its addresses" async_events
tap_case "without a connection" unfit "no established connection leads to the peer"
tap_case "with an unordered connection" unfit_connection 'the connection is not ordered' ext on ordered off
tap_case "with a connection without extensions" unfit_connection 'the connection has no extensions' ext off

connect sunh 1 ext on
tap_case "ibv_rc_pingpong, polling" pingpong ibv_rc_pingpong 0
tap_case "ibv_rc_pingpong, by events" pingpong ibv_rc_pingpong 0 -e
tap_case "ibv_rc_pingpong, by the extended interface" pingpong ibv_rc_pingpong 0 -N
tap_case "ibv_srq_pingpong, 16 queue pairs" pingpong ibv_srq_pingpong 0
tap_case "ibv_srq_pingpong, 4 queue pairs, by events" pingpong ibv_srq_pingpong 0 -q 4 -e
for program in ib_write_bw ib_read_bw ib_send_bw; do
	tap_case "$program" perftest 50 65536 "$program"
done
tap_case "ib_write_bw, small writes share packets" one_by_one
tap_case "ib_atomic_bw" perftest 50 8 ib_atomic_bw
tap_case "ib_send_bw, a shared receive queue of four queue pairs" perftest 200 4096 ib_send_bw --use-srq -q 4 -s 4096
tap_case "ib_send_bw, by events, both ways" perftest 50 65536 ib_send_bw -e -b
tap_case "ib_write_bw, with immediate data" perftest 50 1048576 ib_write_bw --write_with_imm -s 1048576
tap_case "ib_write_lat, with immediate data" perftest 50 16 ib_write_lat --write_with_imm -s 16
tap_case "ib_write_bw, four queue pairs, both ways" perftest 200 8192 ib_write_bw -q 4 -b -s 8192
for program in ib_write_lat ib_send_lat; do
	tap_case "$program" perftest 50 16 "$program" -s 16
done
tap_case "with a poller: ib_write_lat" with_poller perftest 50 16 ib_write_lat -s 16
tap_case "with a poller: ib_send_bw, both ways" with_poller perftest 50 65536 ib_send_bw -b
tap_case "with a poller: ibv_rc_pingpong, by events" with_poller pingpong ibv_rc_pingpong 0 -e
connect sunh 3 ext on partition 7
tap_case "SUPERP_PARTITION: ibv_rc_pingpong" in_partition pingpong ibv_rc_pingpong 0
tap_case "SUPERP_PARTITION: ib_write_bw" in_partition perftest 50 65536 ib_write_bw
tap_case "SUPERP_PARTITION at the server alone: ib_write_bw" shut ib_write_bw -d superp -n 50
tap_case "SUPERP_PARTITION without a connection" unconnected
tap_case "SUPERP_PARTITION that is none" \
	refused 'superp: memory is not registered: SUPERP_PARTITION is "seven", which is no partition: it is a number' \
	env SUPERP_PARTITION=seven ibv_rc_pingpong -g 0
tap_case "without SUPERP_PARTITION the lowest connection" over 1 3 pingpong ibv_rc_pingpong 0
disconnect 3
connect udp6 2 ext on
tap_case "udp6: ibv_rc_pingpong" pingpong ibv_rc_pingpong 1

for type in UC UD; do
	tap_case "queue pairs of type $type are refused" tap_refused "Couldn't create QP" \
		on "$nodeA" superp run -- "ibv_${type,,}_pingpong" -g 0
done
tap_case "memory by demand is refused" refused "isn't ODP capable" ibv_rc_pingpong -g 0 -o
nothing_left() { tap_equal '0 0' "$(node_count "$nodeA" regions) $(node_count "$nodeA" qps)" "regions and queue pairs"; }
tap_case "nothing is left" nothing_left
rm -f /tmp/unmodified-*
tap_end
