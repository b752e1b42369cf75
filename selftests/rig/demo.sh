#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# demo.sh: on the host, "make demo" and "make demo-fabric" as users type them: QEMU boots the newest kernel that
# there is, all that they show is right, and their exit status says so. A part of "make check-long".
set -euo pipefail
cd "$(dirname "$0")/../.."
. selftests/vm/env.sh
. selftests/lib/tap.sh
report=$(mktemp)
trap 'rm -f "$report"' EXIT

# A guest ends its lines as terminals want them.
shows() { make "$1" 2>&1 | tr -d '\r' >"$report" || { tail -n 30 "$report"; return 1; }; }
newest() {
	local kernel series
	kernel=$("$vm/kernel-fetch")
	read -r series < <("$vm/kernel-fetch" --series)
	tap_equal "$series" "$(grep -oE '^[0-9]+\.[0-9]+' "$kernel/RELEASE")" series || return 1
	tap_equal "superp.ko on Linux $(cat "$kernel/RELEASE")" "$(grep -o 'superp\.ko on Linux [^ ]*' "$report")" kernel
}
# The last line that it prints says how much was compared.
verified() {
	local said
	said=$(sed -nE 's/^ *([0-9]+ of [0-9]+) verified$/\1/p' "$report")
	tail -n 5 "$report"
	[ -n "$said" ] && tap_equal "${said#* of }" "${said% of *}" verified && ! grep -F WRONG "$report"
}

for demo in demo demo-fabric; do
	tap_case "make $demo" shows "$demo"
	tap_case "make $demo: on the newest kernel" newest
	tap_case "make $demo: all is verified" verified
	sed -n 's/^ *\([0-9]* of [0-9]* verified\)$/# \1/p' "$report"
done
tap_end
