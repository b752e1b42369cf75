#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What Debian's programs for libibverbs leave out: verbs/program.c, by "superp run".
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/nodes.sh
. lib/superp.sh
ip link set lo up
superp dev add lo
exec superp run -- /superp/build/selftests/verbs/program
