#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What people type at the command, and what they are told: names, units, mistakes, and what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
folder=$(mktemp -d)
server=''
restore() {
	[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
	nodes_down
	rm -rf "$folder"
}
trap restore EXIT

# told TEXT COMMAND…: the command must fail at node A, and say this; what it said is left in $folder/told.
told() {
	local text=$1 status=0
	shift
	on "$nodeA" "$@" >"$folder/told" 2>&1 || status=$?
	cat "$folder/told"
	[ "$status" != 0 ] || { echo "was not refused: $*"; return 1; }
	says "$text"
}
says() { grep -qF -- "$1" "$folder/told" || { echo "not said: $1"; return 1; }; }
hinted() { grep -qxF -- "hint: $1" "$folder/told" || { echo "not hinted: $1"; return 1; }; }

# limited KIB COMMAND…: as a user without capabilities who may pin so much memory.
limited() {
	local kib=$1
	shift
	setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all \
		bash -c "ulimit -l $kib"' && exec "$@"' limited "$@"
}
export -f limited

# serve OPTION…: xfer serve at node B; tells the RMA address in $remote.
serve() {
	: >"$folder/server"
	ip netns exec "$nodeB" superp -j xfer serve "$@" >"$folder/server" &
	server=$!
	nodes_wait 10 grep -q ready "$folder/server" || return 1
	remote=$(jq -r .remote "$folder/server")
}
# perf_serve OPTION…: perf serve at node B.
perf_serve() {
	: >"$folder/server"
	ip netns exec "$nodeB" superp -j perf serve "$@" >"$folder/server" &
	server=$!
	nodes_wait 10 grep -q ready "$folder/server"
}
end_server() {
	kill -TERM "$server" || return 1
	wait "$server" || return 1
	server=''
}

limit_of_locked_memory() {
	local command
	for command in "xfer serve --size 1M --timeout 1" "perf serve --size 1M" \
		"xfer write 10.23.0.2 --remote 0 --length 1M" "xfer read 10.23.0.2 --remote 0 --length 1M" \
		"perf write bw 10.23.0.2 --remote 0 --size 1M --count 1 --depth 1"; do
		# shellcheck disable=SC2086 # words
		told 'RLIMIT_MEMLOCK is 64 KiB' bash -c 'limited 64 superp "$@"' limited $command || return 1
		says 'Cannot allocate memory' && says 'LimitMEMLOCK=' || return 1
	done
}

# A region of one page needs a limit of one page, and one that ends in a second page needs two.
one_page_is_one() {
	local page
	page=$(getconf PAGESIZE)
	on "$nodeA" bash -c 'limited "$@"' limited $((page / 1024)) superp xfer serve --size "$page" --timeout 0.1 || return 1
	told 'RLIMIT_MEMLOCK' bash -c 'limited "$@"' limited $((page / 1024)) superp xfer serve --size $((page + 1)) --timeout 0.1
}

perf_serve_twice() {
	perf_serve || return 1
	tap_refused "queue pair 5001: Address already in use: by superp, process $server" on "$nodeB" superp perf serve || return 1
	tap_refused 'end that program, or take another number' on "$nodeB" superp perf serve || return 1
	tap_refused "by superp, process $server" on "$nodeB" superp xfer serve --qpn 5001 --timeout 1 || return 1
	end_server
}

# Memory that was there before perf serve was started again.
perf_serve_again() {
	local old client status=0
	perf_serve || return 1
	old=$(jq -r .remote "$folder/server")
	ip netns exec "$nodeA" superp perf write bw 10.23.0.2 --duration 60 >"$folder/told" 2>&1 &
	client=$!
	nodes_wait 10 eval '[ "$(on "$nodeB" superp -j mr | jq ".[0].\"remote-writes\"")" != 0 ]' || return 1
	end_server && perf_serve || return 1
	wait "$client" || status=$?
	cat "$folder/told"
	tap_equal 1 "$status" "status of the measurement" || return 1
	says 'access refused' && says 'perf serve there has ended, or was started again' || return 1
	told 'perf serve there has ended, or was started again' superp perf write bw 10.23.0.2 --remote "$old" --count 1 || return 1
	on "$nodeA" superp perf write bw 10.23.0.2 --count 1 || return 1
	end_server || return 1
	told 'start it there: superp perf serve' superp perf write bw 10.23.0.2 --count 1
}

# queue_pairs COUNT: perf serve has so many.
queue_pairs() { [ "$(node_count "$nodeB" qps)" = "$1" ]; }

# Those that ended, and one that was killed.
clients_leave() {
	local client
	perf_serve || return 1
	nodes_wait 5 queue_pairs 1 || return 1
	on "$nodeA" superp perf write bw 10.23.0.2 --count 10 || return 1
	on "$nodeA" superp perf send bw 10.23.0.2 --count 10 --qps 3 || return 1
	nodes_wait 1 queue_pairs 1 || { on "$nodeB" superp qp; return 1; }
	ip netns exec "$nodeA" superp perf send rate 10.23.0.2 --duration 100 --qps 4 &
	client=$!
	nodes_wait 10 eval '! queue_pairs 1' || return 1
	kill -KILL "$client"
	wait "$client" || true
	nodes_wait 4 queue_pairs 1 || { on "$nodeB" superp qp; return 1; }
	end_server
}

# A sender of whom nothing comes for a while is there all the same.
client_pauses() {
	local client
	perf_serve || return 1
	ip netns exec "$nodeA" superp -j perf send rate 10.23.0.2 --duration 100 >"$folder/client" &
	client=$!
	nodes_wait 10 eval '[ "$(node_count "$nodeB" qps)" -gt 1 ]' || return 1
	kill -STOP "$client"
	sleep 5
	queue_pairs 1 && { echo "it was given up"; return 1; }
	kill -CONT "$client" && kill -INT "$client" || return 1
	wait "$client" || { cat "$folder/client"; return 1; }
	end_server
}

none_is_no_number() {
	told 'not a number of 1 or more' superp ping 10.23.0.2 -c 0 || return 1
	told 'not a number of 1 or more' superp events -c 0 || return 1
	told 'not a number of 1 or more' superp xfer serve --messages 0
}

# named COMMAND…: at node A, where the name "peer.test" has an address that nothing leads to, and B's.
named() {
	printf '127.0.0.1 localhost\n10.99.99.99 peer.test\n10.23.0.2 peer.test\nfd23::2 six.test\n' >"$folder/hosts"
	# shellcheck disable=SC2016 # the inner shell's
	on "$nodeA" unshare --mount sh -ec 'mount --bind "$0" /etc/hosts; exec "$@"' "$folder/hosts" "$@"
}
peers_have_names() {
	named superp -j ping peer.test -c 1 | jq -e '.peer == "10.23.0.2" and .received == 1' || return 1
	named superp conn add 70 peer six.test peer-cid 70 encap udp local fd23::1 || return 1
	tap_equal fd23::2 "$(conn_get "$nodeA" 70 remote-addr)" peer || return 1
	named superp doctor peer.test -W 60 || return 1
	on "$nodeA" superp conn del 70 || return 1
	told 'nowhere.invalid: no IP address, and as a host name: ' superp ping nowhere.invalid -c 1 || return 1
	told '10.23.0: neither an IP address nor a host name' superp ping 10.23.0 -c 1 || return 1
	tap_refused 'no established connection leads to 127.0.0.1' named superp ping localhost -c 1
}

times_have_units() {
	on "$nodeA" superp ping 10.23.0.2 -c 2 -i 500us -W 60s || return 1
	on "$nodeA" superp param set pdl_dead_time 2s || return 1
	tap_equal 2000000000 "$(on "$nodeA" superp -j param show pdl_dead_time | jq '.[0].value')" pdl_dead_time || return 1
	on "$nodeA" superp param set pdl_dead_time default || return 1
	on "$nodeA" superp conn add 71 peer 10.23.0.2 peer-cid 71 pdl_dead_time 1.5s tal_transaction_timeout 500us || return 1
	tap_equal '1500000000 50000' "$(on "$nodeA" superp -j conn show 71 |
		jq -r '.[0].params | "\(.pdl_dead_time) \(.tal_transaction_timeout)"')" parameters || return 1
	on "$nodeA" superp conn del 71 || return 1
	told 'pdl_window_size 2s: the value is a number of packets' superp param set pdl_window_size 2s || return 1
	told 'such as 2 (seconds), 500ms' superp ping 10.23.0.2 -W 2parsec
}

given_twice() {
	local add=(superp conn add 72 peer 10.23.0.2 peer-cid 72)
	told 'dev is given twice: eth0 and lo' "${add[@]}" dev eth0 dev lo || return 1
	told 'dev is given twice: eth0 and eth0' "${add[@]}" dev eth0 dev eth0 || return 1
	told 'pdl_window_size is given twice' "${add[@]}" window 32 pdl_window_size 64 || return 1
	told 'two paths are the same' "${add[@]}" path eth0 path eth0 || return 1
	says 'path DEV of another device' || return 1
	told 'encap is given twice: udp and sunh' superp dev add lo encap udp encap sunh || return 1
	told 'start-psn is given twice: 1 and 2' superp conn reset 64 start-psn 1 start-psn 2
}

# A device may be called almost anything.
names_are_not_obeyed() {
	local name
	name=$(printf 'e\033[2Jx;y')
	ip -n "$nodeA" link add name "$name" type dummy || return 1
	on "$nodeA" superp dev add "$name" || return 1
	on "$nodeA" superp dev >"$folder/shown" || return 1
	grep -F 'e\u{1b}[2Jx;y' "$folder/shown" || return 1
	! grep -q "$(printf '\033')" "$folder/shown" || { cat -v "$folder/shown"; return 1; }
	tap_equal "$name" "$(on "$nodeA" superp -j dev | jq -r --arg name "$name" '.[] | select(.name == $name).name')" JSON || return 1
	told 'e\u{1b}[2Jx;y: the device is a port already' superp dev add "$name" || return 1
	! grep -q "$(printf '\033')" "$folder/told" || return 1
	# What the doctor says can be pasted.
	{ on "$nodeA" superp -j doctor -W 60 || true; } >"$folder/doctor"
	tap_equal "ip link set '$name' up" "$(jq -r --arg name "$name" '.[] | select(.object == $name).remedy' "$folder/doctor")" \
		remedy || return 1
	ip -n "$nodeA" link del "$name"
}

routes_lead_away() {
	on "$nodeA" superp dev add lo || return 1
	told 'route to 5: frames over a loopback device come back to this node' superp route add 5 dev lo via 10.0.0.1 || return 1
	told 'come back to this node' superp route add 5 dev lo lladdr 02:00:00:00:00:05 || return 1
	on "$nodeA" superp dev del lo
}

# The own address may be missing too, and IPv6 then has no route from it.
no_route_is_told() {
	told 'connection 78: no route to the peer from local: does this node have that address' \
		superp conn add 78 peer fd99::2 peer-cid 78 encap udp6 local fd99::1 || return 1
	told 'no route to the peer' superp conn add 78 peer 192.0.2.1 peer-cid 78 encap udp4 local 10.23.0.1
}

ids_are_named() {
	local verb
	for verb in start stop del reset show; do
		told 'connection 77: no connection with this id' superp conn "$verb" 77 || return 1
		hinted 'superp conn show lists them' || return 1
	done
	told 'connection 77: ' superp conn reset 64 77 start-psn 0 || return 1
	on "$nodeB" superp conn reset 64 && on "$nodeB" superp conn start 64 && on "$nodeA" superp conn start 64 || return 1
	told 'connection 64: the connection is started already' superp conn start 64 || return 1
	told 'connection 64: a connection with this id exists' superp conn add 64 peer 10.23.0.2 peer-cid 1 || return 1
	told 'lo: the device is not a port' superp dev del lo || return 1
	told 'route to 9: the address has no such route' superp route del 9
}

# Not those of the kernel's interface.
words_are_those_of_the_command() {
	told 'local and peer are of different families' superp conn add peer 10.23.0.2 peer-cid 1 local fd23::1 || return 1
	told 'peer is not of the family' superp conn add peer 10.23.0.2 peer-cid 1 encap udp6 || return 1
	! grep -E '(remote|local)-(addr|cid)' "$folder/told"
}

# What was broken or stopped is told with the start value that is needed.
reset_is_told() {
	local peer
	alone_conn 80 || return 1
	on "$nodeA" superp conn stop 80 && on "$nodeB" superp conn stop 80 || return 1
	nodes_wait 10 eval '[ "$(conn_get "$nodeA" 80 state)" = stopped ]' || return 1
	told 'connection 80: the connection is shut down: reset it first' superp conn start 80 || return 1
	sed -n 's/^hint: \(.*\); at the peer: .*/\1/p' "$folder/told" >"$folder/here"
	peer=$(sed -n 's/^hint: .*; at the peer: //p' "$folder/told")
	on "$nodeA" sh -e "$folder/here" && on "$nodeB" sh -ec "$peer" || return 1
	on "$nodeA" superp ping 10.23.0.2 --cid 80 -c 1 -W 60 || return 1
	disconnect 80
}
alone_conn() { half "$nodeA" udp4 "$1" "$1" 1 2 eth0 23 "${@:2}" && half "$nodeB" udp4 "$1" "$1" 2 1 eth0 23 "${@:2}"; }

doctor_is_named() {
	told 'no established connection leads to 10.23.0.77' superp ping 10.23.0.77 -c 1 || return 1
	hinted 'superp doctor 10.23.0.77 tells why' || return 1
	told 'no established connection leads to 10.23.0.77' superp perf write bw 10.23.0.77 --remote 0 --count 1 || return 1
	hinted 'superp doctor 10.23.0.77 tells why' || return 1
	half "$nodeA" udp4 81 81 1 2 eth0 23 || return 1
	told '1 of 1 probes were not answered' superp ping 10.23.0.2 --cid 81 -c 1 -W 100ms || return 1
	hinted 'superp doctor 10.23.0.2 tells why' || return 1
	on "$nodeA" superp conn del 81
}

too_short() {
	local text='too short for connection 82, which has ext off and takes 16 bytes and more'
	alone_conn 82 ext off && serve --size 64K || return 1
	told "message of 4 bytes: $text" superp xfer send 10.23.0.2 --cid 82 --qpn 9 --length 4 || return 1
	hinted 'with ext on, at both ends, a connection takes any length' || return 1
	told "3 messages of 40 bytes in all: $text" superp xfer send 10.23.0.2 --cid 82 --qpn 9 --length 40 --count 3 || return 1
	told "write of 4 bytes at $remote: $text" superp xfer write 10.23.0.2 --cid 82 --remote "$remote" --length 4 || return 1
	told "write of 8 bytes: $text" superp perf write lat 10.23.0.2 --cid 82 --remote "$remote" --count 1 || return 1
	told 'message of 4 bytes: too short for a receive context' superp xfer send 10.23.0.2 --cid 82 --key 1 --length 4 || return 1
	! grep -q 'too long' "$folder/told" || return 1
	end_server && perf_serve || return 1
	told "message of 4 bytes: $text" superp perf send rate 10.23.0.2 --cid 82 --size 4 --count 1 || return 1
	end_server && disconnect 82
}

usage_is_json_too() {
	local command status
	for command in "-j conn start" "conn start --json" "-j conn start seven" "-j nonsense" "-j"; do
		status=0
		# shellcheck disable=SC2086 # words
		superp $command >"$folder/out" 2>"$folder/err" || status=$?
		tap_equal 2 "$status" "status of $command" || return 1
		jq -es 'length == 1 and (.[0].error | length) > 0' "$folder/out" || { cat "$folder/out"; return 1; }
		[ -s "$folder/err" ] || return 1
	done
	! superp conn start >"$folder/out" 2>/dev/null || return 1
	tap_equal '' "$(cat "$folder/out")" "standard output without -j"
}

output_is_closed() {
	local command
	for command in param "-j param" "conn show" --version; do
		# shellcheck disable=SC2086 # words
		! on "$nodeA" superp $command >&- 2>"$folder/told" || { echo "no failure: $command"; return 1; }
		says 'Bad file descriptor' || return 1
	done
	# What prints nothing misses nothing, and whoever wants nothing says so.
	on "$nodeA" superp node set cm-address none >&- || return 1
	on "$nodeA" superp param >/dev/null || return 1
	on "$nodeA" superp param <>/dev/null 1>&0 || return 1
	! on "$nodeA" superp batch - <&- 2>"$folder/told" || return 1
	says 'Bad file descriptor' || return 1
	! on "$nodeA" superp param >/dev/full 2>"$folder/told" || return 1
	says 'No space left'
}

nodes_up 9000
ports_up
connect sunh 64 ext on
tap_case "the limit of locked memory is named" limit_of_locked_memory
tap_case "one page is charged as one" one_page_is_one
tap_case "perf serve a second time" perf_serve_twice
tap_case "perf serve started again" perf_serve_again
tap_case "perf serve keeps nothing of those who left" clients_leave
tap_case "perf serve keeps those who pause" client_pauses
tap_case "a count of none is refused" none_is_no_number
tap_case "peers have names" peers_have_names
tap_case "times have units" times_have_units
tap_case "what is given twice is refused" given_twice
tap_case "terminals do not obey names" names_are_not_obeyed
tap_case "routes lead to other nodes" routes_lead_away
tap_case "a connection without a route" no_route_is_told
tap_case "failures name the id" ids_are_named
tap_case "failures have the command's own words" words_are_those_of_the_command
tap_case "a reset is told with its start value" reset_is_told
tap_case "the doctor is named" doctor_is_named
tap_case "what is too short is told so" too_short
tap_case "usage errors are JSON too" usage_is_json_too
tap_case "output that is closed" output_is_closed
tap_end
