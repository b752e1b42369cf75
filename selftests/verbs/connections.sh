#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# A program for RDMA CM: verbs/connections.c, by "superp run".
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/nodes.sh
. lib/superp.sh
ip link set lo up
superp dev add lo
exec superp run -- /superp/build/selftests/verbs/connections
