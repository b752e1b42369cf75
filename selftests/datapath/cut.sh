#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# A filter of the receiver moves the borders between the packets of a burst: what is no packet that anybody
# sent is not taken for one.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

# pulled: frames that were long enough for the filter to have something to do: bursts.
pulled() { tc -n "$nodeB" -s -j filter show dev eth0 ingress | jq -s '[.. | .stats? // empty] | first | .packets - .overlimits'; }

# To write one byte, even if it remains what it was, the frame is made linear up to there.
cut() {
	local status=0 packets bytes
	tc -n "$nodeB" qdisc add dev eth0 clsact || return 1
	tc -n "$nodeB" filter add dev eth0 ingress matchall action pedit munge offset 20000 u8 preserve || return 1
	"$xfer" damaged "$nodeA" "$nodeB" "$(address sunh 2)" "$cid" write 10 60000 4 || status=$?
	case $status in 0 | 3) ;; *) return 1 ;; esac
	[ "$(pulled)" -gt 0 ] || { echo "no burst was cut"; return 1; }
	packets=$(conn_get "$nodeB" "$cid" rx-packets) bytes=$(conn_get "$nodeB" "$cid" rx-bytes)
	[ "$bytes" -le "$((packets * 8992))" ] || { echo "$packets packets with $bytes bytes: more than the link takes"; return 1; }
	tc -n "$nodeB" qdisc del dev eth0 clsact
}

whole_again() {
	local node
	for node in "$nodeA" "$nodeB"; do on "$node" superp conn reset "$cid" || return 1; done
	for node in "$nodeA" "$nodeB"; do on "$node" superp conn start "$cid" || return 1; done
	"$xfer" each "$nodeA" "$nodeB" "$(address sunh 2)" "$cid" write,read,send 60000
}

nodes_up 9000
ports_up
cid=1
connect sunh "$cid" ext on
tap_case "packets of a burst that was cut elsewhere are not taken" cut
tap_case "without the filter all is well" whole_again
tap_end
