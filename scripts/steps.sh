# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # $cache
# Long steps that leave something in a cache; sourced, with $cache set and $cache/log there, never
# run.

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# lock NAME: waits until no other process of this cache holds NAME; released at exit.
lock() {
	exec 9>"$cache/.lock-$1"
	flock --nonblock 9 || { say "waiting for another build of: $1"; flock 9; }
}

# step TEXT EXPECTED COMMAND…: runs a long command with its output in a log; says what it does and
# how many seconds that takes on two idle processors, a sign of life every 20 s, how long it took,
# and the end of the log when it fails.
step() {
	local text=$1 expected=$2 log start=$SECONDS ticker status=0
	shift 2
	log=$cache/log/$(tr -cs '[:alnum:].\n' '-' <<<"$text").log
	say "==> $text: about $expected s"
	(
		while sleep 20 && kill -0 $$ 2>/dev/null; do
			say "    $text, $((SECONDS - start)) s: $(tail -n 1 "$log" | cut -c1-90)"
		done
	) 9>&- &
	ticker=$!
	# Not left of "||", where "set -e" would be off in a function.
	set +e
	( set -e; "$@" ) >"$log" 2>&1 9>&-
	status=$?
	set -e
	{ kill "$ticker" && wait "$ticker"; } 2>/dev/null || true
	if [ "$status" != 0 ]; then
		tail -n 30 "$log" >&2
		die "$text failed with status $status, see $log"
	fi
	say "    $text: done in $((SECONDS - start)) s"
}
