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
	interrupted_client_of perf "$@" || status=1
	kill -INT "$serve"
	nodes_wait 5 ended "$serve" || status=1
	wait "$serve" || status=1
	nothing_left || status=1
	return "$status"
}
interrupted_client_of() {
	local client status=0
	"${from_terminal[@]}" "$nodeA" superp "$@" >/tmp/said 2>&1 & client=$!
	a_while
	kill -INT "$client"
	nodes_wait 5 ended "$client" || { cat /tmp/said; kill -KILL "$client"; return 1; }
	wait "$client" || status=$?
	case $status in 0 | 130) ;; *) echo "status $status"; cat /tmp/said; return 1 ;; esac
}

# moved OPERATION: a transfer to or from "superp xfer serve" over a link that is too slow for it.
moved() {
	local serve status=0 remote
	rm -f /tmp/served
	"${from_terminal[@]}" "$nodeB" superp -j xfer serve --size 16M --qpn 77 >/tmp/served 2>&1 & serve=$!
	nodes_wait 10 grep -q ready /tmp/served || return 1
	remote=$(jq -r .remote /tmp/served)
	nodes_netem "$nodeA" rate 1mbit
	nodes_netem "$nodeB" rate 1mbit
	case $1 in
	send) set -- send 10.23.0.2 --qpn 77 --length 1M --count 8 ;;
	*) set -- "$1" 10.23.0.2 --remote "$remote" --length 16M ;;
	esac
	interrupted_client_of xfer "$@" || status=1
	nodes_netem "$nodeA"
	nodes_netem "$nodeB"
	kill -INT "$serve"
	nodes_wait 5 ended "$serve" || status=1
	wait "$serve" || true
	nothing_left || status=1
	return "$status"
}
# It waits for answers.
unanswered() {
	local status=0
	nodes_netem "$nodeA" loss 100%
	interrupted "$nodeA" a_while superp doctor 10.23.0.2 -W 60 || status=1
	nodes_netem "$nodeA"
	return "$status"
}
# It waits for commands.
batch_waits() {
	mkfifo /tmp/commands
	sleep 1000 >/tmp/commands & local holds=$!
	interrupted "$nodeA" a_while sh -c 'exec superp batch </tmp/commands'
	local status=$?
	kill "$holds"
	return "$status"
}

# serves PORT: something listens there, at node A.
serves() { on "$nodeA" ss -Hltn "sport = :$1" | grep -q .; }
agent() { interrupted "$nodeA" 'serves 7779' superp-agent --state-dir /tmp/state --run-dir /tmp/agent; }
manager=(superp-cm serve --store /tmp/manager.db --listen 127.0.0.1:7778 --tls /tmp/ca/manager)
manager() { superp-cm init --dir /tmp/ca --address 127.0.0.1 >/dev/null && interrupted "$nodeA" 'serves 7778' "${manager[@]}"; }
# It waits for what the manager tells.
followed() {
	local server status=0
	superp-cm issue --dir /tmp/ca --role viewer --name viewer --out /tmp/viewer >/dev/null || return 1
	ip netns exec "$nodeA" "${manager[@]}" >/tmp/served 2>&1 & server=$!
	nodes_wait 20 serves 7778 || status=1
	SUPERP_MANAGER=https://127.0.0.1:7778 SUPERP_TLS=/tmp/viewer interrupted "$nodeA" a_while superp fabric events --follow || status=1
	kill "$server"
	wait "$server" || status=1
	return "$status"
}

nodes_up 9000
ports_up
connect sunh 1 ext on
tap_case "superp perf serve" interrupted "$nodeB" 'test -s /tmp/said' superp perf serve
tap_case "superp xfer serve" interrupted "$nodeB" 'test -s /tmp/said' superp xfer serve --size 1M
tap_case "superp ping" interrupted "$nodeA" 'test -s /tmp/said' superp ping 10.23.0.2
tap_case "superp events" interrupted "$nodeA" a_while superp events
tap_case "superp connect, which waits for its peer" interrupted "$nodeA" a_while superp connect 10.23.0.77
tap_case "superp doctor, whose peer does not answer" unanswered
tap_case "superp batch" batch_waits
tap_case "superp run" interrupted "$nodeA" a_while superp run -- sleep 1000
tap_case "superp-agent" agent
tap_case "superp-cm" manager
tap_case "superp fabric events --follow" followed
for kind in 'write bw' 'read lat' 'send rate'; do
	read -ra words <<<"$kind"
	tap_case "superp perf $kind" served "${words[@]}" 10.23.0.2 --duration 60
done
# At the end: what waited in the slow link is lost, and what comes next waits for it.
for operation in write read send; do
	tap_case "superp xfer $operation" moved "$operation"
done
tap_end
