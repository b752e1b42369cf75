# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables for, and of, those who source this
# Ports and connections between the two nodes of nodes.sh, and what they count; sourced, after it.
# Functions that change or ask a node take its namespace's name.

# The program of datapath/xfer.c, which moves data and compares it.
xfer=/superp/build/selftests/datapath/xfer

# The homes that emulate or check are slower by far. There a test that takes every way takes two, and
# what is only repeated is repeated less; SUPERP_THOROUGH=1 has it all everywhere.
case ${SUPERP_THOROUGH:-0}${SUPERP_HOME:-uml} in
0qemu) encapsulations='sunh udp4' ways='sunh udp4' fraction=4 ;;
0debug) encapsulations='sunh6 udp6' ways='sunh udp6' fraction=4 ;;
# The ways a packet can travel: SUNH by an IPv4 or IPv6 neighbour, UDP over each; and the headers it can have.
*) encapsulations='sunh sunh6 udp4 udp6' ways='sunh udp4 udp6' fraction=1 ;;
esac
# fewer COUNT: how often that is for what need not be repeated COUNT times.
fewer() { echo $((($1 + fraction - 1) / fraction)); }

# ports_up [DEVICE]: both nodes use the device for SUPERp.
ports_up() {
	on "$nodeA" superp dev add "${1:-eth0}" || return 1
	on "$nodeB" superp dev add "${1:-eth0}"
}

# address WAY NUMBER [NET]: the address of node NUMBER (1 or 2) for this way; NET is 23 unless told.
address() {
	case $1 in
	sunh | udp4) echo "10.${3:-23}.0.$2" ;;
	*) echo "fd${3:-23}::$2" ;;
	esac
}

# half NODE WAY CID PEER-CID NUMBER PEER-NUMBER DEVICE NET [OPTION…]: one end, started.
half() {
	local node=$1 way=$2 cid=$3 peer_cid=$4 options="${*:9}"
	# Version 0.4 alone unless told, so that both are tested.
	[[ " $options " == *" ext "* ]] || options+=' ext off'
	on "$node" superp batch <<-END
		conn add $cid peer $(address "$way" "$6" "$8") peer-cid $peer_cid \
			encap ${way/sunh6/sunh} dev $7 local $(address "$way" "$5" "$8") $options
		conn start $cid
	END
}

# connect WAY CID [OPTION…]: a connection between both nodes, with that id at both ends; options as
# "superp conn add" has them. Variables "device" and "net" name others than eth0 and 23.
connect() {
	local way=$1 cid=$2
	shift 2
	half "$nodeA" "$way" "$cid" "$cid" 1 2 "${device:-eth0}" "${net:-23}" "$@" || return 1
	half "$nodeB" "$way" "$cid" "$cid" 2 1 "${device:-eth0}" "${net:-23}" "$@"
}

# disconnect CID: removes it at both ends.
disconnect() {
	on "$nodeA" superp conn del "$1" || return 1
	on "$nodeB" superp conn del "$1"
}

# conn_get NODE CID FIELD: a field of a connection, or of its counters.
conn_get() {
	on "$1" superp -j conn show "$2" -s | jq -r --arg field "$3" \
		'(if type == "array" then .[0] else . end) | .[$field] // .stats[$field] // empty'
}

# conn_sum NODE CID FIELD…: sum of counters.
conn_sum() {
	local node=$1 cid=$2
	shift 2
	on "$node" superp -j conn show "$cid" -s | jq -r \
		'(if type == "array" then .[0] else . end).stats as $stats | [$ARGS.positional[] | $stats[.]] | add' --args "$@"
}

# retransmits NODE CID: packets sent again, for whatever reason.
retransmits() { conn_sum "$1" "$2" retrans-fast retrans-rto retrans-full; }

# drops NODE REASON: packets dropped for it.
drops() { on "$1" superp -j stats | jq -r --arg reason "$2" '.drops[$reason] // "no such counter"'; }

# node_count NODE OBJECT: how many conns, qps or regions there are.
node_count() { on "$1" superp -j node show | jq -r --arg object "$2" '.[$object]'; }

# module_unused: waits until no socket holds the module. They are freed, and let go of it, an RCU grace
# period after they were closed.
module_unused() { nodes_wait 10 module_refcount 0; }
module_refcount() { [ "$(cat /sys/module/superp/refcnt)" = "$1" ]; }
