# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # what the callers use and set
# How a build tree with Rust metadata is made for a kernel of Debian, whose headers have none;
# sourced by prepare-kernel and by the test rig's kernel-build.

# The first kernel with all of the kernel crate that the module uses.
oldest_kernel=7.2

# build_stock: makes $linux/$key of the source in $linux/src, and of the configuration (.config) and
# the exported symbols (Module.symvers) of the distribution's kernel in $linux/headers, by the
# caller's "kmake ARGUMENT…". $release is what uname -r prints of that kernel.
build_stock() {
	cp "$linux/headers/.config" "$linux/$key/.config"
	kmake olddefconfig
	# The image was built from exactly this configuration; so must the metadata be.
	diff <(grep -v '^#' "$linux/headers/.config") <(grep -v '^#' "$linux/$key/.config")
	kmake prepare modules_prepare
	cp "$linux/headers/Module.symvers" "$linux/$key/"
	[ "$(cat "$linux/$key/include/config/kernel.release")" = "$release" ]
}
