#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# newcomer.sh SUITE…: on the host, whether plain "make" does in a Debian machine of that suite
# (trixie, with its backports; forky; sid) with nothing installed but make. It is told what to
# install, installs just that, and has the module. That suite's kernel is then booted in QEMU with this
# module, and passes the short form of the kselftests. A part of "make check-long".
set -euo pipefail
cd "$(dirname "$0")/../.."
. selftests/vm/env.sh
. selftests/lib/debian.sh
. selftests/lib/tap.sh

# Which kernel that machine will run.
newest() {
	local target=
	[ "$suite" != trixie ] || target='-t trixie-backports'
	# shellcheck disable=SC2086
	release=$(machine apt-get install -s $target linux-headers-amd64 | sed -n 's/^Inst linux-headers-\([0-9][^ ]*-amd64\) .*/\1/p')
	[ -n "$release" ]
}
build() { machine make -j"$cores" "KDIR=/lib/modules/$release/build" "OUT=$out"; }
# What is wrong is told in one sentence, with what to install.
told() {
	local output status=0
	rm -rf "${top:?}/$out"
	output=$(build 2>&1) || status=$?
	echo "$output"
	advice=$(sed -n 's/^error: to prepare Linux .* for modules in Rust, apt install //p' <<<"$output")
	[ "$status" != 0 ] && [ -n "$advice" ] || return 1
	tap_equal 1 "$(grep -c . <<<"$(grep -v '^make' <<<"$output")")" 'lines'
}
names() { tap_equal "linux-headers-$release" "${advice%% *}" 'first package'; }
# The headers tell which compilers are needed.
follows() {
	local packages
	for _ in 1 2; do
		read -ra packages <<<"$advice"
		machine apt-get install -y -q "${packages[@]}" || return 1
		told || break
	done >"$root/tmp/installing" 2>&1
	[ -e "$top/$out/superp.ko" ] || { tail -n 30 "$root/tmp/installing"; return 1; }
}
progress() { grep -q '^==> Rust metadata of Linux .*: about' "$root/tmp/installing"; }
vermagic() {
	tap_equal "$release" "$(grep -aoE 'vermagic=[^ ]+' "$top/$out/superp.ko" | cut -d= -f2)" vermagic
}
symbols() {
	# Symbols of the kernel that are not there would be warnings.
	! grep -E 'warning:|WARNING:' "$root/tmp/installing"
}
again() {
	local output
	output=$(build 2>&1) || { echo "$output"; return 1; }
	! grep '^==>' <<<"$output" || return 1
}
# Where another user has prepared and built, as before "sudo make install".
installs() {
	local output status=0 made=$root/var/cache/superp/kernel-$release/made-of
	mv "$made" "$made.hidden"
	output=$(machine make "KDIR=/lib/modules/$release/build" "OUT=$out" INSTALL_MOD_PATH=/tmp/installed modules_install 2>&1) || status=$?
	mv "$made.hidden" "$made"
	echo "$output"
	[ "$status" = 0 ] && ! grep -q '^==>' <<<"$output" && ls "$root/tmp/installed/lib/modules/$release/updates/superp.ko"*
}
# What root has prepared serves everybody.
others() {
	tap_equal "/var/cache/superp/kernel-$release/build" "$(machine setpriv --reuid 1000 --regid 1000 --clear-groups scripts/prepare-kernel "$release")" tree
}
# A compiler of another version would make a module that does not load.
compiler() {
	local status=0
	mv "$root/usr/bin/rustc" "$root/usr/bin/rustc.real"
	printf '#!/bin/sh\necho "rustc 1.0.0"\n' >"$root/usr/bin/rustc"
	chmod +x "$root/usr/bin/rustc"
	tap_refused "for modules in Rust, apt install rustc" machine scripts/prepare-kernel "$release" || status=1
	mv "$root/usr/bin/rustc.real" "$root/usr/bin/rustc"
	return "$status"
}
older() { tap_refused 'Linux 6.12.1-amd64 is older than 7.2, the first that the module is for: apt install' machine scripts/prepare-kernel 6.12.1-amd64; }
unknown() { tap_refused 'no headers of Linux 9.9.9-custom' machine scripts/prepare-kernel 9.9.9-custom; }

# The suite's kernel, laid out as kernel-fetch does. Since 7.3 Debian has the image and its modules in two packages.
kernel() {
	local folder=$root/kernel packages file
	mkdir -p "$folder/lib/modules"
	mapfile -t packages < <(machine apt-cache pkgnames linux- | grep -xE "linux-(image|binary|modules)-${release//+/\\+}")
	machine sh -euc 'cd /kernel; exec apt-get download -q -o APT::Sandbox::User=root "$@"' sh "${packages[@]}" || return 1
	for file in "$folder"/*.deb; do
		dpkg -x "$file" "$folder/deb" || return 1
	done
	mv "$folder/deb/usr/lib/modules/$release" "$folder/lib/modules/" || return 1
	[ -e "$folder/lib/modules/$release/vmlinuz" ] || mv "$folder/deb/boot/vmlinuz-$release" "$folder/lib/modules/$release/vmlinuz" || return 1
	"$vm/in-root" depmod -b "/cache/${folder#"$cache/"}" "$release" && echo "$release" >"$folder/RELEASE"
}
runs() {
	local results=$top/build/results/newcomer-$suite
	rm -rf "$results"
	"$vm/run" --timeout 1800 --results "$results" --kernel "$root/kernel" --module "/superp/$out/superp.ko" qemu -- \
		selftests/lib/run-tests --short || return 1
	grep -F "Linux version $release " "$results/kernel.log" || return 1
	passed="$(cat "$results"/tests/*.tap | grep -c '^ok') cases of $(find "$results/tests" -name '*.tap' | wc -l) tests"
}

need_root 'a Debian folder'
"$vm/host-setup"
"$vm/cargo" build --profile "$profile" --workspace --locked --quiet
"$vm/selftests"
for suite; do
	root=$cache/newcomer-$suite out=build/newcomer-$suite advice='' passed=none
	rm -rf "$root"
	tap_case "$suite: a bare machine" bare "$suite" make
	[ "$tap_failed" = 0 ] || break
	tap_case "$suite: its newest kernel" newest
	tap_case "$suite: make tells what to install" told
	tap_case "$suite: the headers first" names
	tap_case "$suite: with that, make builds the module" follows
	tap_case "$suite: it tells how far it is" progress
	tap_case "$suite: for the kernel that was asked for" vermagic
	tap_case "$suite: without a warning" symbols
	tap_case "$suite: nothing is prepared twice" again
	tap_case "$suite: its kernel can be had" kernel
	tap_case "$suite: Linux $release boots, and passes the short form of the tests" runs
	tap_note "passed: $passed"
	tap_case "$suite: it is installed from the tree in which it was built" installs
	tap_case "$suite: other users take what root has prepared" others
	tap_case "$suite: rustc of another version is refused" compiler
	tap_case "$suite: a kernel that is too old is refused" older
	tap_case "$suite: a kernel that is not Debian's is refused" unknown
	rm -rf "$root"
done
tap_end
