# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# perftest by "superp run". It asks for a PCI bus, and for the clock of the processor, which it measures anyway:
# User Mode Linux has neither.

{ cat /proc/cpuinfo; echo 'cpu MHz : 1000.000'; } >/tmp/perftest-cpuinfo

# run PROGRAM…: in a node's mount namespace; with a poller if $polled is set.
run() {
	[ -e /sys/bus/pci ] || { mount -t tmpfs tmpfs /sys/bus && mkdir -p /sys/bus/pci/devices; }
	grep -q MHz /proc/cpuinfo || mount --bind /tmp/perftest-cpuinfo /proc/cpuinfo
	exec superp run ${polled:+--poller} -- "$@"
}
export -f run
