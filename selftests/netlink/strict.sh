#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Requests that the command never makes; in a network namespace of its own.
ip link set lo up
exec "$(dirname "$0")/strict.py"
