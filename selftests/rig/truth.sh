#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The rig itself, on the host: whatever goes wrong in a guest must be seen outside. Part of
# "make check"; guests are User Mode Linux, without the module.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# ends STATUS SECONDS COMMAND…: a guest that runs the command for at most SECONDS ends with STATUS.
ends() {
	local wanted=$1 limit=$2 status=0
	shift 2
	vm/run --module none --timeout "$limit" --results "$results" uml -- "$@" || status=$?
	tap_equal "$wanted" "$status" 'exit status'
}
no_module() {
	local status=0
	vm/run --module /superp/README --timeout 60 --results "$results" uml -- true || status=$?
	tap_equal 125 "$status" 'exit status'
}
arguments() {
	vm/run --module none --timeout 60 --results "$results" uml -- printf '%s|' 'a b' "c'd" '$e' | grep -qxF "a b|c'd|\$e|"
}

# But for what the host runs, and a part of another test.
listed() {
	local path
	grep -lE '^(SUPERP_TEST_MAIN|TEST_HARNESS_MAIN)$|^tap_end$|^results\.end\(' -r --include=*.c --include=*.sh --include=*.py . |
		while read -r path; do
			path=${path#./}
			case $path in rig/truth.sh | rig/tree.sh | rig/newcomer.sh | rig/two.sh | rig/secureboot.sh | rig/demo.sh | web/page.py) continue ;; esac
			# A program in C may be run by a script of its name.
			grep -qE "^($path|${path%.c}.sh)( |\$)" TESTS || echo "selftests/TESTS has not $path"
		done | tee "$results/missing"
	[ ! -s "$results/missing" ]
}

# The summary tells of a case that fails what that case printed, and not what the next one did; and of
# a kernel log with a report what the kernel reported. A table's name has the kernel that was booted.
explained() {
	local folder
	folder=$(mktemp -d -p ../build/results) && mkdir "$folder/host" "$folder/uml" "$folder/uml/tests" || return 1
	(
		. lib/tap.sh
		tap_case 'the first' sh -c 'echo cause of the first; false'
		tap_case 'the second' sh -c 'echo cause of the second; false'
		tap_end
	) >"$folder/uml/tests/a:test.sh.tap" || true
	echo 'status=1 seconds=1 optional=no' >"$folder/uml/tests/a:test.sh.status"
	echo 'status=1 seconds=1' >"$folder/uml/run"
	printf '%s\n' '[ 0.0] Linux version 7.9.1-test (root@vm) 1' '[ 0.1] Run /init as init process' '[ 0.2] superp: test b/test.sh begins' '[ 0.2] superp: test b/test.sh ends' \
		'[ 0.3] superp: test a/test.sh begins' '[ 0.4] WARNING: a test' '[ 0.5] by whom' >"$folder/uml/kernel.log"
	vm/kernel-log-check "$folder/uml" && return 1
	echo 0 >"$folder/host/cargo.status"
	: >"$folder/host/cargo.log"
	vm/in-root lib/summary "/superp/build/results/${folder##*/}" >"$results/summary" || true
	rm -r "$folder"
	tap_equal 'uml (Linux 7.9.1-test), 1 s' "$(grep '^uml (' "$results/summary")" 'the name of the table' &&
		tap_equal 'uml a/test.sh: the second:     # cause of the second     # status 1' \
			"$(grep -A 2 '^uml a/test.sh: the second:' "$results/summary" | paste -sd ' ')" 'what is told of a case' &&
		tap_equal 'uml guest: the kernel log has a report:     a/test.sh: line 6: WARNING: a test     by whom' \
			"$(grep -A 2 '^uml guest: the kernel log has a report:' "$results/summary" | paste -sd ' ')" 'what is told of the kernel'
}

tap_case 'success is success' ends 0 60 true
tap_case 'the exit status of the command comes through' ends 7 60 sh -c 'exit 7'
tap_case 'arguments and output come through unchanged' arguments
tap_case 'a guest that ends early is a failure' ends 123 60 busybox poweroff -f
tap_case 'a guest that hangs is a failure' ends 124 5 sleep 1000
tap_case 'a warning in the kernel log is a failure' ends 122 60 sh -c 'echo "WARNING: a test" >/dev/kmsg'
tap_case 'a module that cannot be loaded is a failure' no_module
tap_case 'a failure is told with its own notes' explained
tap_case 'a test that does not exist is a failure' ends 1 60 /superp/selftests/lib/run-tests ring/nothing.c
tap_case 'every test that guests have is in TESTS' listed
tap_end
