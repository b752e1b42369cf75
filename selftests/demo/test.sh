#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The demonstrations: all that they show is right.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
report=$(mktemp)
trap 'rm -f "$report"' EXIT

verified() {
	"$1" >"$report" 2>&1 && return
	tail -n 25 "$report"
	grep -F WRONG "$report"
	return 1
}

tap_case "make demo" verified demo/demo.sh
tap_case "make demo-fabric" verified demo/fabric.sh
tap_end
