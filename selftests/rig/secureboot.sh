#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# secureboot.sh: on the host, what Documentation/packages.md says of Secure Boot. A machine with
# Microsoft's keys in its firmware starts the distribution's own chain in QEMU: shim, GRUB and the
# kernel, all signed. There the module is refused until its key is enrolled, by the commands and
# at the console, as users do it. A part of "make check-long".
# secureboot.sh boot …: what selftests/vm/boot-qemu calls.
set -euo pipefail
cd "$(dirname "$0")/.."
. vm/env.sh

fetch_chain() {
	local names package
	mapfile -t names < <(packages_of secureboot)
	# A new build root has no lists.
	"$vm/in-root" apt-get update -q
	"$vm/in-root" sh -euc 'cd "$1"; shift
		exec apt-get download -q -o APT::Sandbox::User=root "$@"' \
		sh "/cache/${chain##*/}.new" "${names[@]}"
	for package in "$chain.new"/*.deb; do dpkg -x "$package" "$chain.new"; done
	rm "$chain.new"/*.deb
}
chain=$cache/secureboot-$({ packages_of secureboot; declare -f fetch_chain; } | recipe)
ovmf=$chain/usr/share/OVMF

# machine WORK KERNEL INITRAMFS LINE: makes the disk, and prints QEMU's options for firmware and
# disk. The firmware keeps its variables in WORK/variables. The disk is not a virtio one: the
# first of those is the guest's root.
machine() {
	local work=$1 disk=$1/disk flash=if=pflash,format=raw
	rm -rf "$disk"
	mkdir -p "$disk"/EFI/{BOOT,debian}
	cp "$chain/usr/lib/shim/shimx64.efi.signed" "$disk/EFI/BOOT/BOOTX64.EFI"
	cp "$chain/usr/lib/shim/mmx64.efi.signed" "$disk/EFI/BOOT/mmx64.efi"
	cp "$chain/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed" "$disk/EFI/BOOT/grubx64.efi"
	cp "$2" "$disk/vmlinuz"
	cp "$3" "$disk/initramfs"
	printf '%s\n' "linux /vmlinuz $4" 'initrd /initramfs' boot >"$disk/EFI/debian/grub.cfg"
	rm -f "$work/disk.image"
	truncate -s 64M "$work/disk.image"
	"$vm/in-root" --bind "$work" /mnt sh -euc '
		export PATH="$1/usr/bin:$PATH"
		mformat -i /mnt/disk.image ::
		mcopy -s -i /mnt/disk.image /mnt/disk/* ::' sh "/cache/${chain##*/}" >&2
	printf '%s\n' -machine smm=on -global driver=cfi.pflash01,property=secure,value=on \
		-drive "$flash,unit=0,readonly=on,file=$ovmf/OVMF_CODE_4M.secboot.fd" \
		-drive "$flash,unit=1,file=$work/variables" \
		-drive "if=none,id=esp,format=raw,file=$work/disk.image" \
		-device ide-hd,drive=esp,bootindex=0 | tee "$work/options"
}
if [ "${1:-}" = boot ]; then
	machine "${@:2}"
	exit
fi

need_root "booting a guest"
"$vm/host-setup"
if [ ! -e "$chain" ]; then
	lock secureboot
	if [ ! -e "$chain" ]; then
		rm -rf "$chain.new"
		mkdir "$chain.new"
		step "the signed boot loaders" 5 fetch_chain
		mv "$chain.new" "$chain"
	fi
fi
"$vm/modules" stock >&2
"$vm/cargo" build --locked --quiet --package superp --no-default-features
kernel=$("$vm/kernel-build" stock)
. lib/tap.sh
work=$(mktemp -d) manager=''
ended() {
	[ -z "$manager" ] || kill "$manager" 2>/dev/null || true
	rm -rf "$work"
}
trap ended EXIT

# Keys as dkms makes them, and the module as dkms strips and signs it: by nobody, by the owner of
# the machine, and by somebody else.
signed() {
	local who hash tree=/cache/${kernel#"$cache/"}
	hash=$(sed -n 's/^CONFIG_MODULE_SIG_HASH="\(.*\)"$/\1/p' "$kernel/.config")
	mkdir "$work/modules"
	for who in nobody owner stranger; do
		cp "$top/build/stock/superp.ko" "$work/modules/$who.ko"
		"$vm/in-root" --bind "$work/modules" /mnt strip -g "/mnt/$who.ko" || return 1
		[ "$who" != nobody ] || continue
		mkdir "$work/$who"
		"$vm/in-root" --bind "$work/$who" /var/lib/dkms dkms generate_mok || return 1
		"$vm/in-root" --bind "$work" /mnt "$tree/scripts/sign-file" "$hash" \
			"/mnt/$who/mok.key" "/mnt/$who/mok.pub" "/mnt/modules/$who.ko" || return 1
	done
}

# guest NAME TASK: boots the disk and types what secureboot-guest.sh has for TASK. The firmware
# writes to the guest's terminal, too.
guest() {
	local command=(selftests/rig/secureboot-guest.sh "/mnt/cache/${chain##*/}" "$2")
	mkdir "$work/$1"
	cp -r "$work/modules" "$work/$1"
	cp "$work/owner/mok.pub" "$work/$1/owner.pub"
	SUPERP_BOOT="$top/selftests/rig/secureboot.sh boot $work" vm/run --module none \
		--timeout 1800 --results "$work/$1" qemu -- "${command[@]}" 2>&1 |
		tr -cd '\t\n -~' >"$work/$1.output" || { cat "$work/$1.output"; return 1; }
}
# said NAME LINE…: each is a line of what that guest has said.
said() {
	local line
	for line in "${@:2}"; do
		grep -xF -- "$line" "$work/$1.output" && continue
		echo "not said: $line"
		cat "$work/$1.output"
		return 1
	done
}
# refused NAME WHO REASON: the module that WHO has signed, in the words of modprobe and the kernel.
refused() {
	said "$1" "$2: modprobe: ERROR: could not insert 'superp': Key was rejected by service" \
		"$2, kernel: Loading of $3 is rejected"
}
# As the document has it: what modinfo prints, without its colons, is what openssl prints.
modinfo_names() {
	local key serial
	key=$("$vm/in-root" --bind "$work" /mnt modinfo -F sig_key /mnt/modules/owner.ko) ||
		return 1
	serial=$(openssl x509 -inform der -in "$work/owner/mok.pub" -noout -serial) || return 1
	tap_equal "$serial" "serial=${key//:/}" 'key of the module'
}

# shows TEXT: until MokManager has it on its screen, which is a serial line here; what came before
# the last key does not count.
shows() {
	local end=$((SECONDS + 600))
	until tail -c "+$((before + 1))" "$work/screen" | grep -qaF -- "$1"; do
		kill -0 "$manager" || { echo "ended before '$1'"; return 1; }
		[ "$SECONDS" -lt "$end" ] || { echo "does not show '$1'"; return 1; }
		sleep 0.2
	done
}
# types KEYS: when the screen is whole.
types() {
	sleep 2
	before=$(stat -c %s "$work/screen")
	printf '%b' "$1" >&7
}
# managed Enroll|Delete: what a user does at the console after "mokutil --import" or "--delete", in
# the document's words. Arrow keys choose; what is wanted is the second entry of each menu, but of
# the last one the first.
managed() {
	local options accelerator before=0 down='\e[B'
	mapfile -t options <"$work/options"
	read -ra accelerator < <("$vm/qemu-accelerator")
	rm -f "$work/keys"
	mkfifo "$work/keys"
	exec 7<>"$work/keys"
	: >"$work/screen"
	qemu-system-x86_64 -machine q35 "${accelerator[@]}" "${options[@]}" -m 1024M \
		-nodefaults -no-user-config -display none -no-reboot \
		-serial stdio <"$work/keys" >"$work/screen" 2>&1 &
	manager=$!
	steps() {
		shows 'Press any key to perform MOK management' && types '\r' &&
			shows "$1 MOK" && types "$down\r" &&
			shows 'View key 0' && types "$down\r" &&
			shows "$1 the key(s)?" && types "$down\r" &&
			shows 'Password:' && types 'superp-mok\r' &&
			shows 'Reboot' && types '\r'
	}
	steps "$1" || { tail -c 3000 "$work/screen" | tr '\e\r' '^\n'; kill "$manager"; return 1; }
	# It ends where the machine would start again.
	timeout 300 tail --pid "$manager" -f /dev/null || return 1
	wait "$manager" || return 1
	manager=''
}

tap_case "the module is signed as dkms signs it" signed
cp "$ovmf/OVMF_VARS_4M.ms.fd" "$work/variables"
tap_case "with Microsoft's keys, firmware, shim, GRUB and the kernel start" guest before import
tap_case "Secure Boot is on, and the kernel locked down" said before \
	'mokutil: SecureBoot enabled' 'lockdown: none [integrity] confidentiality' \
	'kernel: Kernel is locked down from EFI Secure Boot; see man kernel_lockdown.7'
tap_case "the owner's key is not enrolled" said before 'mokutil: /results/owner.pub is not enrolled'
tap_case "an unsigned module is refused" refused before nobody 'unsigned module'
tap_case "a module signed with a key that is not enrolled is refused" \
	refused before owner 'module with unavailable key'
tap_case "mokutil and MOK Manager enrol the key" managed Enroll
tap_case "the machine starts again" guest after use
tap_case "Secure Boot is still on" said after 'mokutil: SecureBoot enabled' \
	'lockdown: none [integrity] confidentiality'
tap_case "the owner's key is enrolled" said after 'mokutil: /results/owner.pub is already enrolled'
tap_case "an unsigned module is still refused" refused after nobody 'unsigned module'
tap_case "a module signed with another key is still refused" \
	refused after stranger 'module with unavailable key'
tap_case "the module signed with the owner's key is loaded, and only taints as out of tree" \
	said after 'owner: loaded, taint O'
tap_case "modinfo names the owner's key" modinfo_names
tap_case "it moves data" said after 'loopback: passed'
tap_case "mokutil and MOK Manager withdraw the trust" managed Delete
tap_case "the machine starts once more" guest withdrawn look
tap_case "the module is refused again" refused withdrawn owner 'module with unavailable key'
cp "$ovmf/OVMF_VARS_4M.fd" "$work/variables"
tap_case "the same disk starts with Secure Boot off" guest off look
missing='signature and/or required key missing - tainting kernel'
tap_case "there each module is loaded, with a taint" said off 'mokutil: SecureBoot disabled' \
	'nobody: loaded, taint OE' 'stranger: loaded, taint OE' 'owner: loaded, taint OE' \
	"nobody, kernel: superp: module verification failed: $missing"
tap_end
