#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# rdma-core's own tests, as Debian's python3-pyverbs has them, by "superp run": on a node's connection with
# itself. What of them passes is in rdma_core.expect.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/nodes.sh
. lib/superp.sh
ip link set lo up
# A device of the kernel is looked for on its bus.
mount -t tmpfs tmpfs /sys/bus
mkdir -p /sys/bus/pci/devices
superp dev add lo
superp conn add 1 peer 127.0.0.1 peer-cid 2 encap udp4 dev lo local 127.0.0.1 ext on
superp conn add 2 peer 127.0.0.1 peer-cid 1 encap udp4 dev lo local 127.0.0.1 ext on
superp conn start 1 2
exec superp run -- python3 verbs/rdma_core.py
