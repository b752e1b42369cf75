#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What "make demo-fabric" runs in the guest: four nodes become a fabric from a file, every node moves data
# into every other one; then a link is cut, a node is killed, a connection restarts under traffic, a node is
# drained, and the system is shut down. What the manager says of it is shown, and what came of it
# checked. Fails if anything is not as it should be.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/nodes.sh
. lib/fabric.sh
. lib/report.sh
ended() {
	local status=$?
	# Whoever reads that something is wrong wants to know why.
	[ "$status" = 0 ] || why || true
	fabric_down
	exit "$status"
}
trap ended EXIT

size=$((4 << 20))

# begin: a step begins: sets start, and seen, the last event before it.
begin() {
	start=$EPOCHREALTIME
	seen=$(last_event)
}
# since: sets taken: seconds since start.
since() { taken=$(awk -v from="$start" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.2f", to - from }'); }

# row WHAT: a row of the table: the step, the time it took, and the verdict.
row() { printf '  %-45s %7s   %s\n' "$1" "$taken" "$verdict"; }
# row_is WHAT WANTED FOUND TEXT: a row that is right if both are equal.
row_is() {
	if [ "$2" = "$3" ]; then judge yes "$4"; else judge no "wanted '$2', found '$3'"; fi
	row "$1"
}

# events PATTERN: what the manager said since the step began and the pattern matches.
events() { superp fabric events --after "$seen" | grep -E -- "$1"; }
# excerpt PATTERN: the same for people, up to five lines.
excerpt() { events "$1" | head -n 5 | cut -c 8-150 | sed 's/^/    | /'; }
# within COMMAND…: waits until it succeeds; the rows that follow say if it did not.
within() { nodes_wait 60 "$@" >"$folder/within" 2>&1 || true; }

quiet() { "$@" >/dev/null 2>&1; }

# lives_but PART: the lives of all connections but those whose ends or name have the part.
lives_but() {
	superp -j fabric conns | jq -r --arg part "$1" \
		'map(select(.connection != $part and all(.ends[]; .node != $part)) | "\(.connection) \(.life)") | join(", ")'
}

# sum FILE [OFFSET LENGTH]: the beginning of the SHA-256 of a file or a part of it.
sum() {
	if [ $# = 1 ]; then sha256sum <"$1"; else tail -c "+$(($2 + 1))" "$1" | head -c "$3" | sha256sum; fi | cut -c 1-12
}

# transfers BYTES: every node writes other random bytes into each other node's memory, all at the same time.
# Sets good, how many arrived as they were, and sums, a line for each node of what it sent.
transfers() {
	local bytes=$1 from to place server remote qpn writers=() servers=()
	good=0 sums=''
	declare -A remotes=()
	for to in "${nodes[@]}"; do
		serve "$to" --size $((4 * bytes)) --out "$folder/memory-$to" || return 1
		remotes[$to]=$remote servers+=("$server")
	done
	for from in "${nodes[@]}"; do
		for to in "${nodes[@]}"; do
			[ "$from" != "$to" ] || continue
			head -c "$bytes" /dev/urandom >"$folder/$from-$to"
			place=$((remotes[$to] + ($(number "$from") - 1) * bytes))
			ip netns exec "$from" superp xfer write "10.23.0.$(number "$to")" --remote "$(printf '0x%x' "$place")" \
				--file "$folder/$from-$to" >"$folder/write-$from-$to" 2>&1 &
			writers+=($!)
		done
	done
	# What failed is seen by the sums.
	for writer in "${writers[@]}"; do wait "$writer" || true; done
	kill "${servers[@]}"
	for server in "${servers[@]}"; do wait "$server" || true; done
	for from in "${nodes[@]}"; do
		sums+="    | from $from  "
		for to in "${nodes[@]}"; do
			if [ "$from" = "$to" ]; then
				sums+=$(printf '%-20s' -)
			elif [ "$(sum "$folder/$from-$to")" = "$(sum "$folder/memory-$to" $((($(number "$from") - 1) * bytes)) "$bytes")" ]; then
				good=$((good + 1))
				sums+=$(printf '%-20s' "$(sum "$folder/$from-$to")")
			else
				sums+=$(printf '%-20s' different)
			fi
		done
		sums+=$'\n'
	done
	rm -f "$folder"/memory-* "$folder"/fx?-fx?
}
# all_to_all: a row of small ones.
all_to_all() {
	start=$EPOCHREALTIME
	transfers 65536
	since
	row_is '  all to all again, 64 KiB each' 12 "$good" '12 of 12 sums are equal at both ends'
}

boot() {
	local node up=0
	begin
	fabric sunh
	superp fabric apply "$folder/fabric.toml" --wait 120 >"$folder/apply" 2>&1 || true
	since
	for node in "${nodes[@]}"; do up=$((up + $(superp_states "$node" established))); done
	row_is 'superp fabric apply: the fabric boots' 'running, 4 nodes, 6 connections, 12 ends' \
		"$(state '"\(.phase), \(.nodes_ready) nodes, \(.connections_running) connections"'), $up ends" \
		'running: 4 nodes, 6 connections, in every kernel'
	{ superp fabric && superp fabric nodes; } | sed 's/^/    | /'
}

first_transfers() {
	start=$EPOCHREALTIME
	transfers "$size"
	since
	row_is "all to all at once: 12 writes of $((size >> 20)) MiB" 12 "$good" '12 of 12 sums are equal at both ends'
	printf '    | %-10s%-20s%-20s%-20s%s\n' 'SHA-256' 'into fx1' 'into fx2' 'into fx3' 'into fx4'
	printf %s "$sums" | sed 's/ *$//'
}

# ping_on NODE NUMBER INTERVAL: round trips under way from the node to node NUMBER, until they are ended or
# fail; sets pinger.
ping_on() {
	ip netns exec "$1" superp -j ping "10.23.0.$2" -W 60 -i "$3" >"$folder/ping" 2>&1 &
	pinger=$!
	within talks "$1" "10.23.0.$2"
}
# row_failed WHAT: a row that is right if they fail with an error that says why.
row_failed() {
	local said
	if wait "$pinger"; then
		said='they did not fail'
	else
		said=$(tail -n 1 "$folder/ping" | jq -r .message)
	fi
	since
	case $said in *'(7.2), ETIMEDOUT' | *'(7.2), ECONNRESET') judge yes "${said#ping * failed: }" ;; *) judge no "$said" ;; esac
	row "$1"
}

link_cut() {
	local conn others
	conn=$(connection fx1 fx3)
	others=$(lives_but "$conn")
	ping_on fx1 3 0.05
	begin
	ip link set f-fx3 down
	within events "connection $conn: hard error"
	since
	row_is 'link of fx3 cut under traffic to fx1' "$conn" \
		"$(events 'hard error' | sed -n 's/.* connection \([^ ]*\): hard error.*/\1/p' | sort -u)" "the manager names $conn"
	excerpt 'hard error'
	row_failed '  the request under way there ends with'
	start=$EPOCHREALTIME
	ip link set f-fx3 up
	within healed
	since
	row_is 'link is back: until the connection works' "healed, $others" "$(quiet healed && echo healed), $(lives_but "$conn")" \
		"healed: life $(life "$conn"); the other 5 untouched"
	all_to_all
}
healed() { all_run && on fx1 superp ping 10.23.0.3 -c 1 -W 5 -q && on fx3 superp ping 10.23.0.1 -c 1 -W 5 -q; }

node_kill() {
	local others
	others=$(lives_but fx4)
	ping_on fx2 4 0.05
	begin
	# The shell is not to tell of it.
	{ kill -KILL "${agents[fx4]}"; wait "${agents[fx4]}" || true; } 2>/dev/null
	node_delete fx4
	within node_gone fx4
	within named_away
	since
	row_is 'fx4 killed: agent, programs, namespace' named "$(quiet named_away && echo named)" 'the manager names it, and waits for it'
	echo "    | $(state '.waiting[]')"
	row_failed '  the request under way to it ends with'
	start=$EPOCHREALTIME
	node_add fx4
	node_running fx4
	agent fx4
	within back
	since
	row_is 'fx4 starts again: until all runs' "back, 3, $others" \
		"$(quiet back && echo back), $(superp_states fx4 established), $(lives_but fx4)" \
		'configured and started again; others untouched'
	excerpt ' fx4: | fx4|lost its state'
	all_to_all
}
named_away() { state '.waiting[]' | grep '^node fx4: waiting for '; }
back() { [ "$(state '.waiting | length')" = 0 ] && all_run; }

# send_messages COUNT: a program of fx2 sends messages to one of fx4; sets sender and server.
send_messages() {
	rm -f "$folder/received"
	serve fx4 --size 4096 --messages "$1" --messages-out "$folder/received"
	ip netns exec fx2 superp -j xfer send 10.23.0.4 --qpn "$qpn" --file "$folder/messages" --count "$1" >"$folder/sent" 2>&1 &
	sender=$!
}
messages_end() { wait "$sender" || true; within holds "$folder/received"; kill "$server" 2>/dev/null || true; wait "$server" || true; }
holds() { [ "$(stat -c %s "$1")" = "$(stat -c %s "$folder/messages")" ]; }

soft_restart() {
	local conn before count sender answered sent
	conn=$(connection fx2 fx4)
	before=$(life "$conn")
	# As many as take about 6 s, so that the restart comes amid them.
	head -c $((2 << 20)) /dev/urandom >"$folder/messages"
	send_messages 2000
	messages_end
	count=$(jq '[2000 * 6 / .seconds, 1000000] | min | floor' "$folder/sent")
	head -c $((16 << 20)) /dev/urandom >"$folder/messages"
	send_messages "$count"
	ping_on fx2 4 0.005
	within test -s "$folder/received"
	begin
	superp fabric restart "$conn" --wait 60 >"$folder/restart" 2>&1 || true
	since
	row_is "soft restart of $conn" "$((before + 1)), under traffic" \
		"$(life "$conn"), $(kill -0 "$sender" && kill -0 "$pinger" && echo under traffic)" \
		"life $before before, $(life "$conn") now, fx2 sends on"
	excerpt "$conn"
	messages_end
	since
	row_is '  messages meanwhile' "$count, $(sum "$folder/messages")" "$(jq -r .messages "$folder/sent"), $(sum "$folder/received")" \
		"$count sent, 0 lost, sums are equal"
	kill "$pinger" || true
	wait "$pinger" || true
	read -r answered sent < <(jq -r 'select(.sent > 0) | "\(.received) \(.sent)"' "$folder/ping") || answered=none sent=all
	row_is '  round trips meanwhile' "$sent of $sent" "$answered of $sent" \
		"$answered of $sent answered, the longest took $(jq -r '."max-ns" / 1e6 | round' "$folder/ping") ms"
}

drain() {
	begin
	superp fabric drain fx3 --wait 60 >"$folder/drain" 2>&1 || true
	since
	row_is 'fx3 is drained' '3 stopped, 3 run' "$(superp_states fx3 stopped) stopped, $(state .connections_running) run" \
		'its 3 connections are stopped, the other 3 run'
	start=$EPOCHREALTIME
	superp fabric restart fx3 --wait 60 >"$folder/restart" 2>&1 || true
	since
	row_is 'fx3 is taken in again' '3, 6' "$(superp_states fx3 established), $(state .connections_running)" 'all 6 connections run'
	all_to_all
}

shutdown() {
	local node left=0
	serve fx1 --size 4096
	begin
	superp fabric shutdown --wait 60 >"$folder/shutdown" 2>&1 || true
	since
	for node in "${nodes[@]}"; do left=$((left + $(on "$node" superp -j conn show | jq length))); done
	kill -0 "$server" 2>/dev/null && left="$left, and a program"
	row_is 'superp fabric shutdown' "down, 4 of 4, 0 left" \
		"$(state .phase), $(events ' fx[1-4]: node shutdown complete' | wc -l) of 4, $left left" \
		'4 of 4 nodes report it, no connection is left'
	excerpt 'shutdown complete'
}

cat <<TEXT

  ${bold}SUPERp for Linux: a fabric${plain}   superp.ko on $(uname -sr)

     superp-cm 10.99.0.254 --- bridge --- mg0   10.99.0.1 … 10.99.0.4    agents, by mutual TLS
                               bridge --- eth0  10.23.0.1 … 10.23.0.4    SUPERp over SUNH
                                          fx1   …   fx4                  nodes, a network namespace each

  ${bold}step                                          seconds   verdict${plain}
TEXT
start=$EPOCHREALTIME
network_up
certificates
for node in "${nodes[@]}"; do agent "$node"; done
manager
since
row_is 'network, certificates, 4 agents, the manager' empty "$(state .phase)" 'the manager answers; there is no fabric yet'
boot
first_transfers
link_cut
node_kill
soft_restart
drain
shutdown
report_end
