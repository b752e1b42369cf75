# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables for, and of, those who source this
# The two nodes of nodes.sh with four parallel links, and connections over several of them; sourced,
# after superp.sh.
#
#	A eth0 ---- eth0 B
#	  eth1 ---- eth1
#	  eth2 ---- eth2
#	  eth3 ---- eth3
#
# SUNH: each node has one address, on all of its ports. UDP: each link is a network of its own.

paths_dir=$(mktemp -d)
loader=''
cid=0

paths_up() {
	local link
	nodes_up
	link_addresses "$nodeA" 0 1
	link_addresses "$nodeB" 0 2
	ports_up
	for link in 1 2 3; do
		link_up "$link"
		ports_up "eth$link"
	done
}

paths_down() {
	load_end || true
	nodes_down
	rm -rf "$paths_dir"
}

# net WAY LINK: the number of the network of a link.
net() {
	case $1 in
	sunh) echo 23 ;;
	*) echo $((30 + $2)) ;;
	esac
}
mac() { on "$1" cat "/sys/class/net/$2/address"; }

link_up() {
	ip link add "eth$1" mtu 9000 netns "$nodeA" type veth peer name "eth$1" mtu 9000 netns "$nodeB" || return 1
	link_addresses "$nodeA" "$1" 1 || return 1
	link_addresses "$nodeB" "$1" 2 || return 1
	for node in "$nodeA" "$nodeB"; do ip -n "$node" link set "eth$1" up || return 1; done
	for node in "$nodeA" "$nodeB"; do nodes_wait 30 nodes_running "$node" "eth$1" || return 1; done
}
# IPv6 addresses are kept when the device goes down, and are there at once when it comes up.
link_addresses() {
	on "$1" sysctl -qw "net.ipv6.conf.eth$2.keep_addr_on_down=1" "net.ipv6.conf.eth$2.accept_dad=0" || return 1
	[ "$2" = 0 ] || ip -n "$1" address add "10.23.0.$3/32" dev "eth$2" || return 1
	ip -n "$1" address add "10.3$2.0.$3/24" dev "eth$2" || return 1
	ip -n "$1" address add "fd3$2::$3/64" dev "eth$2" nodad
}

# half_over NODE WAY CID NUMBER PEER-NUMBER LINKS [OPTION…]: one end of a connection over some links.
half_over() {
	local node=$1 way=$2 cid=$3 link net words=()
	for link in $6; do
		net=$(net "$way" "$link")
		words+=(path "eth$link" peer "$(address "$way" "$5" "$net")" local "$(address "$way" "$4" "$net")")
	done
	on "$node" superp conn add "$cid" peer-cid "$cid" encap "$way" "${words[@]}" ext on "${@:7}" || return 1
	on "$node" superp conn start "$cid"
}
# connect_over WAY CID LINKS [OPTION…]
connect_over() {
	half_over "$nodeA" "$1" "$2" 1 2 "$3" "${@:4}" && half_over "$nodeB" "$1" "$2" 2 1 "$3" "${@:4}"
}

# paths NODE CID FIELD: of each path of a connection, in a line.
paths() {
	on "$1" superp -j conn show "$2" | jq -r --arg field "$3" '[.[0].paths[] | .[$field] // "none"] | join(" ")'
}
paths_are() { [ "$(paths "$1" "$2" "$3")" = "$4" ]; }
# path NODE CID I FIELD: of the I-th path.
path() {
	local found
	read -ra found < <(paths "$1" "$2" "$4")
	echo "${found[$3]}"
}
state_is() { [ "$(conn_get "$1" "$2" state)" = "$3" ]; }
# counts CID: packets that A sent and received by each path, into the array "counted".
counts() {
	read -ra counted < <(on "$nodeA" superp -j conn show "$1" |
		jq -r '[.[0].paths[] | ."tx-packets", ."rx-packets"] | join(" ")')
}
# carries CID I: packets go by a path from now on, from both ends.
carries() {
	counts "$1" || return 1
	nodes_wait 60 more "$1" $((2 * $2)) $((counted[2 * $2] + 20)) $((counted[2 * $2 + 1] + 20)) ||
		{ echo "path $2: ${counted[*]}"; return 1; }
}
more() {
	counts "$1" && [ "${counted[$2]}" -gt "$3" ] && [ "${counted[$2 + 1]}" -gt "$4" ]
}

# load WAY CID FIRST-LINK: writes, reads and messages, every byte of which is compared, until load_end.
load() {
	rm -f "$paths_dir"/*
	while [ ! -e "$paths_dir/stop" ]; do
		"$xfer" mixed "$nodeA" "$nodeB" "$(address "$1" 2 "$(net "$1" "$3")")" "$2" write,read,send 100 60000 16 \
			>"$paths_dir/out" 2>&1 || { mv "$paths_dir/out" "$paths_dir/failed"; break; }
	done &
	loader=$!
}
load_end() {
	[ -n "$loader" ] || return 0
	touch "$paths_dir/stop"
	wait "$loader" || true
	loader=''
	if [ -e "$paths_dir/failed" ]; then
		cat "$paths_dir/failed"
		return 1
	fi
}
# under_load WAY CID FIRST-LINK COMMAND…: while it runs; nothing may fail of either.
under_load() {
	local status=0
	load "$1" "$2" "$3"
	"${@:4}" || status=1
	load_end || status=1
	disconnect "$2" || status=1
	return "$status"
}
