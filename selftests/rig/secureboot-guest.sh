#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# secureboot-guest.sh CHAIN import|use|look: in a guest of secureboot.sh, what its administrator
# types. Every line of the output begins with who says it. CHAIN has mokutil; "import" asks for the
# owner's key to be enrolled, "use" works with the module that is signed with it, and then asks for
# the key to be withdrawn.
set -euo pipefail
cd "$(dirname "$0")/.."
chain=$1 task=$2
release=$(uname -r)

says() { sed "s/^/$1: /"; }
mokutil() { LD_LIBRARY_PATH=$chain/usr/lib/x86_64-linux-gnu "$chain/usr/bin/mokutil" "$@" 2>&1; }

# try WHO: loads the module with WHO's signature, by modprobe, as users do.
try() {
	local root=/tmp/$1 modules=/tmp/$1/lib/modules/$release status=0
	mkdir -p "$modules"
	cp "/results/modules/$1.ko" "$modules/superp.ko"
	find "/lib/modules/$release/" -name '*udp_tunnel.ko*' -exec cp -t "$modules" {} +
	touch "$modules"/modules.{order,builtin,builtin.modinfo}
	depmod -b "$root"
	dmesg --clear
	modprobe -d "$root" superp 2>&1 | says "$1" || status=$?
	dmesg --notime | says "$1, kernel"
	[ "$status" != 0 ] || echo "$1: loaded, taint $(cat /sys/module/superp/taint)"
	return "$status"
}

# What the firmware wrote to this terminal has no end of a line.
echo
mount -t securityfs securityfs /sys/kernel/security
mount -t efivarfs efivarfs /sys/firmware/efi/efivars
mokutil --sb-state | says mokutil
says lockdown </sys/kernel/security/lockdown
dmesg --notime | grep -iE 'secure ?boot|locked down|lockdown' | says kernel
mokutil --test-key /results/owner.pub | says mokutil || true

for who in nobody stranger owner; do
	! try "$who" || [ "$task $who" = 'use owner' ] || rmmod superp
done
# change OPTION: the password is asked for twice.
change() { printf '%s\n' superp-mok superp-mok | mokutil "$1" /results/owner.pub | says mokutil; }
case $task in
import) change --import ;;
use)
	# In a network of its own, with which its connections go.
	{ unshare --net datapath/loopback.sh && echo passed; } | says loopback || true
	change --delete
	;;
esac
