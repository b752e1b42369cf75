# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# A Debian machine in a guest that has none of our packages yet; sourced, after lib/nodes.sh.

folder=$(mktemp -d)
root=$folder/root

# machine_made: in $root the guest's own files below, which can only be read, and what is written in memory above them.
# The module lies where dkms puts it: a guest has no compilers. What is loaded now is unloaded.
machine_made() {
	local release
	modprobe overlay && mount -t tmpfs tmpfs "$folder" || return 1
	mkdir "$folder"/{upper,work,root} || return 1
	mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$root" || return 1
	# Documents are installed here.
	rm -f "$root/etc/dpkg/dpkg.cfg.d/99mmdebstrap"
	: >"$root/etc/machine-id"
	# Nobody searches manual pages by word; man finds them without an index.
	rm -f "$root/var/lib/man-db/auto-update"
	release=$(uname -r)
	mkdir -p "$folder/modules/$release/updates/dkms" || return 1
	find "/lib/modules/$release" \( -name 'modules.*' -o -name 'udp_tunnel.ko*' -o -name 'ip6_udp_tunnel.ko*' \) \
		-exec cp -t "$folder/modules/$release" {} + || return 1
	rmmod superp 2>/dev/null
	cp "$SUPERP_MODULE" "$folder/modules/$release/updates/dkms/superp.ko"
}
# machine_mounts: what it sees besides, in the mounts of the caller, who may have others.
machine_mounts() {
	local name
	mount -t proc proc "$root/proc"
	mount --rbind /dev "$root/dev"
	mount --rbind /sys "$root/sys"
	mount --bind /superp "$root/superp"
	mount --bind "$folder/modules" "$root/lib/modules"
	for name in run tmp; do mount -t tmpfs tmpfs "$root/$name"; done
}
