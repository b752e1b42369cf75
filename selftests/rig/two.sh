#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# two.sh: on the host, the README's "Two hosts". Two Debian 13 machines that have nothing of ours
# boot from disks in QEMU, on one wire, with systemd. What is typed is read from the README, and
# the kernel's installation from packages.md. What apt and dkms do is done before they boot, in the
# folder of the disk: an emulated machine takes an hour for it. A part of "make check-long".
set -euo pipefail
cd "$(dirname "$0")/../.."
. selftests/vm/env.sh
. selftests/lib/debian.sh
. selftests/lib/tap.sh
need_root 'a Debian folder'
"$vm/host-setup"
[ -e build/packages/0/superp.changes ] || selftests/packages/build >&2
root=$cache/two disk=$cache/two.image work=$(mktemp -d) seconds=0
declare -A machines=()
ended() {
	[ "${#machines[@]}" = 0 ] || kill "${machines[@]}" 2>/dev/null || true
	rm -rf "$work" "$root" "$disk"
}
trap ended EXIT

# fenced FILE HEADING: the lines of the code blocks below that heading; each with "both", "first"
# or "second" before it where the text in front of the block says on which host.
fenced() {
	awk -v heading="## $2" '/^## / { here = $0 == heading }
		!here { next }
		/^```/ { inside = !inside; next }
		inside { print who, $0 }
		!inside && /[Oo]n both hosts:$/ { who = "both" }
		!inside && /[Oo]n the first host:$/ { who = "first" }
		!inside && /[Oo]n the second host:$/ { who = "second" }' "$1"
}
mapfile -t lines < <(fenced README.md 'Two hosts')
kernel=$(fenced Documentation/packages.md Install | sed -n 's/^ *\(apt install -t .*\)/\1/p')

# typed COMMAND: in the folder, where root types it in /root. Questions of apt are answered yes.
typed() {
	local command=${1/#apt install/apt install -y -q}
	echo "# $1"
	machine sh -c "cd /root && $command"
}
bare_machine() {
	rm -rf "$root"
	bare trixie systemd-sysv udev kmod iproute2 procps apt-utils || return 1
	# As Debian's installer has it: what packages recommend is installed, too.
	rm -f "$root/etc/apt/apt.conf.d/99mmdebstrap"
	cp build/packages/0/*.deb "$root/root"
}
backports() { typed "$kernel" && ls "$root"/boot/vmlinuz-*; }
packages() {
	local line start=$SECONDS
	for line in "${lines[@]}"; do
		case $line in "both apt install "*) typed "${line#both }" || return 1 ;; esac
	done
	seconds=$((SECONDS - start))
	machine dkms status superp
}
built() {
	release=$(basename "$(echo "$root"/boot/vmlinuz-*)")
	release=${release#vmlinuz-}
	packages 2>&1 && tap_equal "installed" "$(machine dkms status superp -k "$release" | sed 's/.*: //')" "the module for $release"
}

# The program of each machine. Its administrator gives it an address. A line of its second serial
# port tells that the other one is as far.
disk() {
	local who number
	for who in first second; do
		case $who in first) number=1 ;; second) number=2 ;; esac
		{
			cat <<-END
				#!/bin/bash
				exec > >(cat >/dev/ttyS0) 2>&1 </dev/null
				modprobe virtio_net
				udevadm settle
				device=\$(basename "\$(dirname "\$(grep -l 52:54:00:00:ff:0$number /sys/class/net/*/address)")")
				ip link set "\$device" up
				ip address add 10.23.0.$number/24 dev "\$device"
				cd /root
				type_in() { echo "$who# \$1"; eval "\$1" || echo "status \$?"; }
			END
			for line in "${lines[@]}"; do
				case $line in
				"both apt install "*) ;;
				'second superp perf serve')
					case $who in
					first) echo 'read -r </dev/ttyS1' ;;
					second) printf '%s\n' 'type_in "superp perf serve" > >(tee /tmp/served) & serving=$!' \
						'until grep -q "^memory of" /tmp/served; do sleep 0.2; done; echo serving' ;;
					esac
					;;
				"both "* | "$who "*) printf 'type_in %q\n' "${line#* }" ;;
				esac
			done
			[ "$who" = first ] || echo 'read -r </dev/ttyS1; pkill -INT -x superp; wait "$serving"'
			echo 'echo "has typed all"'
		} >"$root/root/$who"
		chmod +x "$root/root/$who"
	done
	cp "$root/boot/vmlinuz-$release" "$work/vmlinuz"
	cp "$root/boot/initrd.img-$release" "$work/initrd"
	rm -f "$disk"
	truncate -s 12G "$disk"
	mke2fs -q -t ext4 -d "$root" "$disk"
}

# boots WHO NUMBER SERVER: one of the machines; what it writes stays in no disk.
boots() {
	local accelerator
	read -ra accelerator < <("$vm/qemu-accelerator")
	mkfifo "$work/$1.in" "$work/$1.out"
	cat "$work/$1.out" >/dev/null & machines[$1.out]=$!
	# One processor: an emulated one sometimes runs into an int3 of the kernel's text_poke() that another has put there.
	TMPDIR=$cache qemu-system-x86_64 -machine q35 "${accelerator[@]}" -smp 1 -m 2048M -nodefaults -no-user-config \
		-display none -no-reboot -kernel "$work/vmlinuz" -initrd "$work/initrd" \
		-append "root=/dev/vda rw console=ttyS0 panic=-1 loglevel=3 mitigations=off systemd.show_status=off systemd.run=/root/$1 systemd.run_success_action=poweroff systemd.run_failure_action=poweroff" \
		-drive "file=$disk,format=raw,if=virtio,snapshot=on" -device virtio-rng-pci,romfile= \
		-netdev "stream,id=wire,server=$3,addr.type=unix,addr.path=$work/wire" \
		-device "virtio-net-pci,netdev=wire,mac=52:54:00:00:ff:0$2,romfile=" \
		-serial "file:$work/$1.output" -serial "pipe:$work/$1" </dev/null >"$work/$1.qemu" 2>&1 & machines[$1]=$!
}
# until_said WHO PATTERN: a line of it, within half an hour.
until_said() {
	local end=$((SECONDS + 1800))
	until grep -qaE "$2" "$work/$1.output" 2>/dev/null; do
		if ! kill -0 "${machines[$1]}" 2>/dev/null; then
			grep -qaE "$2" "$work/$1.output" && return
			cat "$work/$1.qemu"
			return 1
		fi
		[ "$SECONDS" -lt "$end" ] || { echo "$1 does not say $2"; return 1; }
		sleep 0.5
	done
}
two() {
	local who
	boots first 1 on
	# Who listens must be there first; a QEMU that finds nobody ends.
	until [ -S "$work/wire" ]; do sleep 0.2; kill -0 "${machines[first]}" || return 1; done
	boots second 2 off
	until_said second '^serving' && echo >"$work/first.in" &&
		until_said first '^has typed all' && echo >"$work/second.in" &&
		until_said second '^has typed all' && return
	for who in first second; do tail -n 40 "$work/$who.output"; done
	return 1
}
# said PATTERN: a line that the first machine showed.
said() { grep -aE "$1" "$work/first.output"; }
no_fault() { ! grep -aE '^status |Oops|BUG:|Call Trace' "$work"/{first,second}.output; }

tap_case "the README has their commands" test "${#lines[@]}" -ge 7
tap_case "a bare Debian 13" bare_machine
tap_case "the kernel of its backports, as packages.md has it" backports
tap_case "superp-dkms prepares the kernel's metadata, and builds the module" built
tap_case "it is on a disk" disk
[ "$tap_failed" != 0 ] || tap_case "two machines on one wire type what the README says" two
tap_case "no command failed" no_fault
tap_case "they are connected" said '^connected to 10\.23\.0\.2: .*extensions on'
tap_case "the peer answers" said '^3 sent, 3 answered'
tap_case "what is measured is compared" said '[0-9]+ x write .*all bytes compared'
tap_note "apt and dkms took $seconds s; what the first host showed:"
sed -n '/first# modprobe/,$ s/^/# /p' "$work/first.output"
tap_end
