# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# kselftest results (TAP version 13) for shell tests; sourced. The plan comes last, so that a test
# that ends early is seen as incomplete. A test is a list of cases and then "tap_end":
#
#	tap_case "write 16 bytes" my_function argument…
#	tap_skip "write on rxe" "no rxe device"
#	tap_end

tap_number=0
tap_failed=0
echo 'TAP version 13'

# tap_note TEXT…: a line for people.
tap_note() { printf '# %s\n' "$*"; }

# tap_case NAME COMMAND…: passes if the command returns 0; its output is printed as notes if not.
# As with kselftest_harness.h, notes come before the result that they explain.
# The command runs in this shell with "set -e" and "set -x" as the caller has them, but as a
# condition: use "|| return 1" where a step must not fail, or "tap_do".
tap_case() {
	local name=$1 output status=0
	shift
	tap_number=$((tap_number + 1))
	output=$(mktemp)
	"$@" >"$output" 2>&1 || status=$?
	if [ "$status" = 0 ]; then
		echo "ok $tap_number $name"
	else
		tap_failed=$((tap_failed + 1))
		tail -n 40 "$output" | sed 's/^/# /'
		tap_note "status $status"
		echo "not ok $tap_number $name"
	fi
	rm -f "$output"
}

# tap_skip NAME REASON
tap_skip() {
	tap_number=$((tap_number + 1))
	echo "ok $tap_number $1 # SKIP $2"
}

# tap_equal WANTED FOUND [WHAT]: compares two texts; for use inside a case.
tap_equal() {
	[ "$1" = "$2" ] || { echo "${3:-value}: wanted '$1', found '$2'"; return 1; }
}

# tap_refused TEXT COMMAND…: the command must fail and its output contain the text.
tap_refused() {
	local text=$1 output
	shift
	if output=$("$@" 2>&1); then
		echo "was not refused: $*"
		return 1
	fi
	grep -qF -- "$text" <<<"$output" || { echo "refused, but without '$text': $output"; return 1; }
}

tap_end() {
	echo "1..$tap_number"
	[ "$tap_failed" = 0 ]
	exit
}
