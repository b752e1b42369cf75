#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The packages on a Debian machine under systemd: installed, used, upgraded, removed and purged. The guest has no
# compilers; that dkms builds is tested on the host (run).
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/machine.sh
debs=/superp/build/packages
# The machine's first program, seen from here.
init=''
units=(superp-agent superp-cm)
packages=(superp superp-dkms superp-manager libsuperp1 libsuperp-dev)
trap '[ -z "$init" ] || kill -KILL "$init"' EXIT

# What runs in mounts and a process namespace of its own, and becomes the machine's first program.
machine_init() {
	machine_mounts
	mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
	# Of its own: systemd takes the console's mode away.
	mknod "$folder/console" c 1 3
	mount --bind "$folder/console" "$root/dev/console"
	cd "$root"
	pivot_root . mnt
	umount -l /mnt
	exec env -i PATH=/usr/sbin:/usr/bin container=superp-test /lib/systemd/systemd --unit=multi-user.target --show-status=no
}

host() { nsenter --target "$init" --all --root --wd env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
shown() { host systemctl show -P "$2" "$1"; }
state() { shown "$1" ActiveState; }
log() { host journalctl -q -o cat -n 30 -u "$1"; }
started_by() { init=$(nodes_unshared "$1"); }
version() { dpkg-deb -f "$(echo "$debs/$1"/superp_*.deb)" Version; }

boots() {
	local shell
	[ -e "$debs"/1/superp.changes ] || { echo "$debs is not there: run selftests/packages/build"; return 1; }
	machine_made || return 1
	mkdir "/sys/fs/cgroup/$$" && export folder root && export -f machine_init machine_mounts || return 1
	# shellcheck disable=SC2016 # for the inner shells
	bash -c '
		echo $$ >"/sys/fs/cgroup/$0/cgroup.procs" || exit
		exec unshare --mount --pid --uts --ipc --cgroup --fork --kill-child bash -euc machine_init
	' $$ >"$folder/systemd" 2>&1 </dev/null &
	shell=$!
	nodes_wait 20 started_by "$shell" || { cat "$folder/systemd"; return 1; }
	nodes_wait 200 eval 'host systemctl is-active -q multi-user.target 2>/dev/null' || { cat "$folder/systemd"; return 1; }
}

installed() {
	local name unit
	host dpkg -i "$debs"/0/*.deb || return 1
	for name in "${packages[@]}"; do
		tap_equal "installed $(version 0)" "$(host dpkg-query -W -f '${db:Status-Status} ${Version}' "$name")" "$name" || return 1
	done
	tap_equal "superp/$(version 0): added" "$(host dkms status superp)" 'dkms status' || return 1
	host depmod && host man -w superp superp-conn-add superp-agent superp-cm superp_post_send || return 1
	# Who installs them says when they run.
	for unit in "${units[@]}"; do
		tap_equal 'inactive disabled' "$(state "$unit") $(shown "$unit" UnitFileState)" "$unit" || return 1
	done
}

server_gone() { ! host sh -c 'kill -0 $(cat /tmp/server.pid)' 2>/dev/null; }
# Verified bytes from this machine to itself.
moves_data() {
	local remote
	host rm -f /tmp/server
	host sh -c 'superp -j xfer serve --size 1M >/tmp/server & echo $! >/tmp/server.pid'
	nodes_wait 40 host test -s /tmp/server || return 1
	read -r remote < <(host head -n 1 /tmp/server | jq -r .remote)
	host superp xfer write 127.0.0.1 --remote "$remote" --length 1M --verify || return 1
	host sh -c 'kill $(cat /tmp/server.pid)' && nodes_wait 10 server_gone
}
used() {
	tap_equal "superp $(version 0)" "$(host superp --version)" 'what it says of itself' || return 1
	ip link set lo up
	host modprobe superp && host superp dev add lo || return 1
	host superp conn add 1 peer 127.0.0.1 peer-cid 2 encap udp4 dev lo local 127.0.0.1 ext on || return 1
	host superp conn add 2 peer 127.0.0.1 peer-cid 1 encap udp4 dev lo local 127.0.0.1 ext on || return 1
	host superp conn start 1 2 && host superp ping -c 3 -i 0.1 127.0.0.1 && moves_data
}
run_under_systemd() {
	local unit
	host systemctl enable --now "${units[@]}" || { log superp-agent; log superp-cm; return 1; }
	for unit in "${units[@]}"; do
		tap_equal 'active enabled' "$(state "$unit") $(shown "$unit" UnitFileState)" "$unit" || { log "$unit"; return 1; }
	done
	host superp fabric || return 1
	host test -e /var/lib/superp/manager.db
}

upgraded() {
	local name unit
	local -A before
	for unit in "${units[@]}"; do before[$unit]=$(shown "$unit" MainPID); done
	host dpkg -i "$debs"/1/*.deb || return 1
	for name in "${packages[@]}"; do
		tap_equal "installed $(version 1)" "$(host dpkg-query -W -f '${db:Status-Status} ${Version}' "$name")" "$name" || return 1
	done
	tap_equal "superp/$(version 1): added" "$(host dkms status superp)" 'dkms status' || return 1
	for unit in "${units[@]}"; do
		tap_equal 'active enabled' "$(state "$unit") $(shown "$unit" UnitFileState)" "$unit" || { log "$unit"; return 1; }
		[ "$(shown "$unit" MainPID)" != "${before[$unit]}" ] || { echo "$unit is still the old program"; return 1; }
	done
	moves_data
}

# Connections are the kernel's, and what was kept is kept.
removed() {
	local unit
	host dpkg -r "${packages[@]}" || return 1
	for unit in "${units[@]}"; do tap_equal inactive "$(state "$unit")" "$unit" || return 1; done
	tap_equal '' "$(host sh -c 'ls -d /usr/bin/superp* /usr/src/superp* /usr/lib/superp /usr/include/superp /usr/share/superp 2>/dev/null')" \
		'files that are left' || return 1
	host test -e /var/lib/superp/manager.db
}
purged() {
	host dpkg -P "${packages[@]}" || return 1
	tap_equal '' "$(host find /etc /usr /var -xdev -path /var/log -prune -o -iname '*superp*' -print)" 'files that are left' || return 1
	tap_equal '' "$(host dpkg-query -W -f '${db:Status-Status} ${Package}\n' '*superp*' 2>/dev/null | grep -v '^not-installed')" \
		'packages that dpkg remembers'
}
again() {
	host dpkg -i "$debs"/1/*.deb && moves_data && nodes_wait 10 host rmmod superp
}

tap_case "a machine boots systemd" boots
tap_case "packages are installed, and start nothing" installed
tap_case "the command moves data" used
tap_case "agent and manager run by their units" run_under_systemd
tap_case "upgraded, agent and manager are the new ones, and connections go on" upgraded
tap_case "removed, they leave what they keep" removed
tap_case "purged, they leave nothing" purged
tap_case "installed again, they find the connections" again
# The next test finds the module that is to be tested.
[ -e /sys/module/superp ] || insmod "$SUPERP_MODULE"
tap_end
