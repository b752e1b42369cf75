#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Commands that run until they are told to stop, or for long, are interrupted as by ^C at a terminal: they end soon,
# and leave neither queue pairs nor regions behind.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/superp.sh
trap nodes_down EXIT

nothing() { [ "$(node_count "$1" qps) $(node_count "$1" regions)" = "0 0" ]; }
nothing_left() { nodes_wait 5 nothing "$nodeA" && nodes_wait 5 nothing "$nodeB"; }
ended() { ! kill -0 "$1" 2>/dev/null; }
# As from a terminal: what a script starts in the background ignores the signal.
from_terminal=(env --default-signal=INT ip netns exec)

# interrupted NODE READY COMMAND…: READY is a condition that says that it is under way.
interrupted() {
	local command status=0
	rm -f /tmp/said
	"${from_terminal[@]}" "$1" "${@:3}" >/tmp/said 2>&1 & command=$!
	nodes_wait 10 eval "$2" || { cat /tmp/said; kill -KILL "$command"; return 1; }
	kill -INT "$command"
	nodes_wait 5 ended "$command" || { echo "still there after the signal"; cat /tmp/said; kill -KILL "$command"; return 1; }
	wait "$command" || status=$?
	# 0: what it was asked for has been done; 130: the signal ended it; else it says so.
	case $status$(grep -o interrupted /tmp/said) in 0 | 130 | 1interrupted) ;; *) echo "status $status"; cat /tmp/said; return 1 ;; esac
	! grep -i panicked /tmp/said || return 1
	nothing_left
}
a_while() { sleep 0.5; }

# served OPERATION…: a client of "superp perf serve".
served() {
	local serve status=0
	rm -f /tmp/served
	"${from_terminal[@]}" "$nodeB" superp perf serve >/tmp/served 2>&1 & serve=$!
	nodes_wait 10 test -s /tmp/served || return 1
	interrupted_client "$@" || status=1
	kill -INT "$serve"
	nodes_wait 5 ended "$serve" || status=1
	wait "$serve" || status=1
	nothing_left || status=1
	return "$status"
}
interrupted_client() {
	local client status=0
	"${from_terminal[@]}" "$nodeA" superp perf "$@" >/tmp/said 2>&1 & client=$!
	a_while
	kill -INT "$client"
	nodes_wait 5 ended "$client" || { cat /tmp/said; kill -KILL "$client"; return 1; }
	wait "$client" || status=$?
	case $status in 0 | 130) ;; *) echo "status $status"; cat /tmp/said; return 1 ;; esac
}

nodes_up 9000
ports_up
connect sunh 1 ext on
tap_case "superp perf serve" interrupted "$nodeB" 'test -s /tmp/said' superp perf serve
tap_case "superp xfer serve" interrupted "$nodeB" 'test -s /tmp/said' superp xfer serve --size 1M
tap_case "superp ping" interrupted "$nodeA" 'test -s /tmp/said' superp ping 10.23.0.2
tap_case "superp events" interrupted "$nodeA" a_while superp events
tap_case "superp connect, which waits for its peer" interrupted "$nodeA" a_while superp connect 10.23.0.77
for kind in 'write bw' 'read lat' 'send rate'; do
	read -ra words <<<"$kind"
	tap_case "superp perf $kind" served "${words[@]}" 10.23.0.2 --duration 60
done
tap_end
