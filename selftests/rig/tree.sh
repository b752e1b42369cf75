#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# tree.sh [--build]: on the host, the module as a part of a kernel's source tree, which
# scripts/kernel-tree makes. With --build that tree is built, with the module built in and as a
# module, and both kernels, of User Mode Linux, are booted.
set -euo pipefail
cd "$(dirname "$0")/.."
. vm/env.sh
. lib/tap.sh
linux=$(vm/kernel-fetch)
# A folder for each checkout.
work=$linux/tree-$(recipe <<<"$top")
inside=/cache/${work#"$cache/"}
results=$(mktemp -d)
trap 'rm -rf "$results" "$work"' EXIT

lay() { "$top/scripts/kernel-tree" "$work/src"; }
sums() { (cd "$work/src" && find net include/uapi Documentation MAINTAINERS -type f -exec sha256sum {} + | sort -k 2); }
# The copy shares its files with the cached source, as copies of trees often do; but what is to
# change with others, so that it is seen when it is written into instead of being replaced.
changed=(net/Kconfig net/Makefile MAINTAINERS)
laid() {
	local file
	rm -rf "$work"
	mkdir -p "$work/shared"
	cp -al "$linux/src" "$work/src"
	for file in "${changed[@]}"; do
		cp -p --remove-destination "$linux/src/$file" "$work/src/$file"
		ln "$work/src/$file" "$work/shared/${file////-}"
	done
	# The cached source has no documents.
	printf '.. toctree::\n\n   seg6-sysctl\n   switchdev\n' >"$work/src/Documentation/networking/index.rst"
	lay || return 1
	for file in net/superp/{Kconfig,Makefile,rust/superp.rs,rust/kapi/compat.rs,rust/proto/mod.rs} include/uapi/linux/superp{,_netlink}.h \
		Documentation/networking/superp.rst Documentation/netlink/specs/superp.yaml; do
		[ -s "$work/src/$file" ] || { echo "no $file"; return 1; }
	done
}
hooked() {
	local file
	for file in "${changed[@]}" Documentation/networking/index.rst; do
		tap_equal 1 "$(grep -ciE '^(source "net/superp/Kconfig"|obj-\$\(CONFIG_SUPERP\).*|SUPERP, .*|   superp)$' "$work/src/$file")" "lines of ours in $file" || return 1
	done
	# Between the entries that it belongs between.
	tap_equal 'SUPERH SUPERP, SUSPEND' "$(grep -E '^(SUPERH|SUPERP,|SUSPEND TO RAM)' "$work/src/MAINTAINERS" | cut -d' ' -f1 | paste -sd' ')" entries
}
untouched() {
	local file
	for file in "${changed[@]}"; do
		cmp "$linux/src/$file" "$work/shared/${file////-}" || return 1
	done
}
twice() {
	sums >"$results/first"
	# What the checkout no longer has must go.
	touch "$work/src/net/superp/rust/gone.rs"
	lay || return 1
	sums | diff "$results/first" -
}
own_words() { ! grep -rnE 'Documentation/(uapi\.md|netlink/regenerate)' "$work"/src/{include/uapi/linux/superp*,net/superp/rust/kapi/superp-nl-gen.*}; }
maintained() {
	rm "$work/src/MAINTAINERS"
	cp "$linux/src/MAINTAINERS" "$work/src/"
	MAINTAINER='A Name <name@example.org>' lay || return 1
	tap_equal 'M:	A Name <name@example.org>|S:	Maintained' \
		"$(sed -n '/^SUPERP, /,/^$/p' "$work/src/MAINTAINERS" | grep '^[MS]:' | paste -sd'|')" entry
}
no_tree() { tap_refused 'is no kernel source tree with Rust: it has no net/Kconfig' "$top/scripts/kernel-tree" "$results"; }
no_folder() { tap_refused 'which kernel source tree? make kernel-tree DIR=' make -s -C "$top" kernel-tree; }
others() {
	local status=0
	mv "$work/src/net/superp" "$work/superp"
	mkdir "$work/src/net/superp"
	tap_refused "$work/src/net/superp is something else" lay || status=1
	rmdir "$work/src/net/superp"
	mv "$work/superp" "$work/src/net/superp"
	return "$status"
}
too_old() {
	local status=0
	mv "$work/src/Makefile" "$work/Makefile"
	sed 's/^PATCHLEVEL = .*/PATCHLEVEL = 1/' "$work/Makefile" >"$work/src/Makefile"
	tap_refused 'is Linux 7.1; the module is for 7.2 and later' lay || status=1
	mv "$work/Makefile" "$work/src/Makefile"
	return "$status"
}

kmake() {
	vm/in-root sh -euc 'export RUST_LIB_SRC=$(echo /usr/src/rustc-*/library); exec make "$@"' sh -C "$inside/src" "O=$inside/build" \
		ARCH=um CC=x86_64-linux-gnu-gcc-14 HOSTCC=x86_64-linux-gnu-gcc-14 -s -j"$cores" "$@"
}
# configured y|m: as the uml home, and the module.
configured() {
	mkdir -p "$work/build"
	{
		grep -v '^CONFIG_NET_UDP_TUNNEL=' vm/config.uml
		echo "CONFIG_SUPERP=$1"
	} >"$work/build/wanted"
	kmake "KCONFIG_ALLCONFIG=$inside/build/wanted" allnoconfig || return 1
	tap_equal "CONFIG_SUPERP=$1" "$(grep '^CONFIG_SUPERP=' "$work/build/.config")" option &&
		tap_equal "CONFIG_NET_UDP_TUNNEL=$1" "$(grep '^CONFIG_NET_UDP_TUNNEL=' "$work/build/.config")" 'what it selects'
}
without_rust() {
	sed 's/^CONFIG_RUST=y$/CONFIG_RUST=n/' "$work/build/wanted" >"$work/build/wanted.c"
	kmake "KCONFIG_ALLCONFIG=$inside/build/wanted.c" allnoconfig || return 1
	! grep '^CONFIG_SUPERP=' "$work/build/.config"
}
# Built without a word of a compiler, Kbuild's own aside.
built() {
	kmake all 2>&1 | tee "$results/built" || return 1
	kmake "INSTALL_MOD_PATH=$inside/build/root" modules_install || return 1
	! grep -i 'warning.*superp\|superp.*warning' "$results/built"
}
programs() { vm/cargo build --profile "$profile" --workspace --locked --quiet && vm/selftests; }
# boots MODULE: what shows in minutes that it works.
boots() {
	vm/run --kernel "$work/build" --module "$1" --results "$results" uml -- \
		selftests/lib/run-tests rig/smoke.sh datapath/transfers.sh netlink/objects.sh ring/rings.c
}
built_in() { [ -n "$(find "$work/build/net/superp" -name superp.o)" ] && ! find "$work/build/root" -name superp.ko | grep .; }

tap_case 'the module is laid into a source tree' laid
tap_case 'once into each list of the tree' hooked
tap_case 'files of the tree are replaced, not written into' untouched
tap_case 'again is the same' twice
tap_case 'it points to documents that the tree has' own_words
tap_case 'whoever asks for it maintains it' maintained
tap_case 'without a folder it is refused' no_folder
tap_case 'a folder that is no tree is refused' no_tree
tap_case 'a tree with another net/superp is refused' others
tap_case 'a tree of an older kernel is refused' too_old
tap_case 'CONFIG_SUPERP=m' configured m
tap_case 'CONFIG_SUPERP=y' configured y
if [ "${1:-}" = --build ]; then
	tap_case 'what the tests need is built' programs
	tap_case 'a kernel with it built in is built' built
	tap_case 'it is built in' built_in
	tap_case 'that kernel boots, and SUPERP works' boots none
	tap_case 'CONFIG_SUPERP=m again' configured m
	tap_case 'the kernel and the module are built' built
	release=$(cat "$work/build/include/config/kernel.release")
	tap_case 'that kernel boots, and the module works' boots "/lib/modules/$release/kernel/net/superp/superp.ko"
fi
tap_case 'without Rust there is no CONFIG_SUPERP' without_rust
tap_end
