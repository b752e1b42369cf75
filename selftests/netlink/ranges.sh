#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Ranges of parameters and of what a connection is made of; in a network namespace of its own.
set -e
ip link set lo up
ip link add port mtu 9000 type dummy
ip address add 10.23.0.1/16 dev port
ip address add fd23::1/64 dev port nodad
ip link set port up
exec "$(dirname "$0")/ranges.py"
