#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The module cannot be unloaded while a socket uses it; otherwise it comes and goes, also with
# connections configured and packets coming in.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
unload() { module_unused && rmmod superp; }
loaded() { grep -q '^superp ' /proc/modules; }
restore() {
	nodes_down
	loaded || insmod "$SUPERP_MODULE"
}
trap restore EXIT

make_pair() {
	ports_up && connect sunh 1 ext on && connect udp4 2 ext on && connect udp6 3 ext on
}

transfers() {
	for way in sunh:1 udp4:2 udp6:3; do
		"$xfer" mixed "$nodeA" "$nodeB" "$(address "${way%:*}" 2)" "${way#*:}" write,read,send 20 20000 8 || return 1
	done
}

refused_while_a_socket_is_open() {
	truncate -s 64K /tmp/region
	coproc SERVER { exec "$xfer" serve "$nodeB" /tmp/region rw; }
	local ready pid=$SERVER_PID status=0
	read -r -t 10 ready <&"${SERVER[0]}" || return 1
	echo "socket is open: $ready"
	tap_refused 'in use' rmmod superp || status=1
	loaded || status=1
	eval "exec ${SERVER[1]}>&-"
	wait "$pid" || status=1
	return "$status"
}

unloads_with_connections() {
	unload || return 1
	! loaded || return 1
	# Nobody answers to the family and the netlink name any more.
	tap_refused '' on "$nodeA" superp conn show || return 1
	tap_refused 'module superp is not loaded' on "$nodeA" superp run -- ibv_devinfo
}

doctor_names_it() {
	local found
	found=$(on "$nodeA" superp -j doctor | jq -r '.[] | select(.verdict == "wrong") | "\(.check):\(.object): \(.remedy)"')
	tap_equal 'module:superp: modprobe superp' "$found" faults
}

loads_again() {
	insmod "$SUPERP_MODULE" || return 1
	tap_equal 0 "$(node_count "$nodeA" conns)" "connections of A" || return 1
	make_pair && transfers
}

many_times() {
	for ((i = 0; i < times; i++)); do
		unload || return 1
		insmod "$SUPERP_MODULE" || return 1
	done
}

# With connections whose peers have just spoken, so that timers run and packets arrive.
after_traffic() {
	for ((i = 0; i < after; i++)); do
		make_pair && transfers || return 1
		nodes_inject "$nodeA" "$(nodes_mac "$nodeB")" 0x88b5 \
			"00fdfabc00010002 01001f0000000000ffffffff00000000 800000000000ffff" 2000 &
		unload || return 1
		wait $! || return 1
		insmod "$SUPERP_MODULE" || return 1
	done
}

other_numbers() {
	unload || return 1
	insmod "$SUPERP_MODULE" family=21 ethertype=0x885b next_header=254 || return 1
	make_pair && transfers || return 1
	tap_equal 21 "$(cat /sys/module/superp/parameters/family)" family || return 1
	unload && insmod "$SUPERP_MODULE"
}

nodes_up 9000
tap_case "transfers before" eval 'make_pair && transfers'
tap_case "rmmod is refused while a socket is open" refused_while_a_socket_is_open
tap_case "rmmod succeeds with connections configured" unloads_with_connections
tap_case "superp doctor says that the module is not loaded" doctor_names_it
tap_case "the module loaded again starts empty and works" loads_again
times=$(fewer 12)
[ "${SUPERP_THOROUGH:-0}" = 0 ] || times=50
tap_case "rmmod and insmod $times times" many_times
after=$(fewer 5)
tap_case "rmmod $after times right after traffic, with frames coming in" after_traffic
tap_case "another address family, EtherType and Next Header" other_numbers
tap_end
