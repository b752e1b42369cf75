#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# A host under systemd, whose agent and manager are started by their units, and another node.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/fabric.sh
trap fabric_down EXIT
nodes=(fx1 fx2)
export SUPERP_MANAGER=https://10.99.0.1:7778
units=(superp-agent superp-cm)
top=$(cd .. && pwd)
# The host's first program, seen from here.
init=''

# What runs in mounts and a process namespace of its own, and becomes the host's first program: "make install",
# on a root that can be written only here.
host_init() {
	local unit folders
	mount -t proc proc /proc
	mkdir "$folder/etc"
	cp -a /etc/. "$folder/etc"
	mkdir "$folder/etc/superp"
	cp -a "$folder/fx1" "$folder/etc/superp/tls"
	cp -a "$folder/ca/manager" "$folder/etc/superp/manager"
	printf 'SUPERP_AGENT_LISTEN=10.99.0.1:7779\nSUPERP_AGENT_TLS=/etc/superp/tls\n' >"$folder/etc/superp/agent.conf"
	echo 'SUPERP_CM_OPTIONS=--listen 10.99.0.1:7778 --tls /etc/superp/manager' >"$folder/etc/superp/manager.conf"
	: >"$folder/etc/machine-id"
	mount --bind "$folder/etc" /etc

	mkdir "$folder/modules"
	folders=/lib/modules/$(uname -r)
	find "$folders" \( -name 'modules.*' -o -name 'udp_tunnel.ko*' -o -name 'ip6_udp_tunnel.ko*' \) \
		-exec cp -t "$folder/modules" {} +
	cp "$SUPERP_MODULE" "$folder/modules/superp.ko"
	mount --bind "$folder/modules" "$folders"
	depmod

	mount -t tmpfs tmpfs /usr/local
	mkdir -p /usr/local/bin /usr/local/lib/systemd/system
	for unit in "${units[@]}"; do ln -s "$SUPERP_PROGRAMS/$unit" /usr/local/bin; done
	cp "$top/userspace/agent/superp-agent.service" "$top/userspace/manager/superp-cm.service" /usr/local/lib/systemd/system

	mount -t cgroup2 cgroup2 /sys/fs/cgroup
	# Of its own: systemd takes the console's mode away.
	mknod "$folder/console" c 1 3
	mount --bind "$folder/console" /dev/console
	for folders in /run /tmp /var/tmp /var/lib; do mount -t tmpfs tmpfs "$folders"; done
	exec env container=superp-test /lib/systemd/systemd --unit=basic.target --show-status=no
}

# host COMMAND…: runs it on the host under systemd.
host() { nsenter --target "$init" --all "$@"; }
# shown UNIT PROPERTY
shown() { host systemctl show -P "$2" "$1"; }
active() { [ "$(shown "$1" ActiveState)" = active ]; }
restarts() { [ "$(shown "$1" NRestarts)" -ge "$2" ]; }
# again UNIT COUNT: systemd has started it so many times again, and it is ready.
again() {
	nodes_wait 60 restarts "$1" "$2" || { log "$1"; return 1; }
	nodes_wait 20 active "$1" || { log "$1"; return 1; }
}
log() { host journalctl -q -o cat -n 30 -u "$1"; }

# started_by PID: whether it has started the host's first program.
started_by() { init=$(nodes_unshared "$1"); }

host_boots() {
	local shell
	network_up || return 1
	superp-cm init --dir "$folder/ca" --address 10.99.0.1 >/dev/null || return 1
	issue agent fx1 --address 10.99.0.1 && issue agent fx2 --address 10.99.0.2 && issue operator operator || return 1
	# systemd has a part of the control groups to itself.
	mkdir "/sys/fs/cgroup/$$" || return 1
	export folder top SUPERP_MODULE units_exported="${units[*]}"
	export -f host_init
	# shellcheck disable=SC2016 # for the inner shells
	ip netns exec fx1 bash -c '
		mount -t cgroup2 cgroup2 /sys/fs/cgroup && echo $$ >"/sys/fs/cgroup/$0/cgroup.procs" || exit
		exec unshare --mount --pid --uts --ipc --cgroup --fork --kill-child bash -euc "units=($units_exported); host_init"
	' $$ >"$folder/systemd" 2>&1 </dev/null &
	shell=$!
	nodes_wait 20 started_by "$shell" || { cat "$folder/systemd"; return 1; }
	nodes_wait 100 eval 'host systemctl is-active -q basic.target 2>/dev/null' || { cat "$folder/systemd"; return 1; }
}

# Type=notify: the command comes back when both have said that they are ready.
units_start() {
	local unit
	host systemctl enable --now "${units[@]}" || { log superp-agent; log superp-cm; return 1; }
	for unit in "${units[@]}"; do
		tap_equal "active enabled" "$(shown "$unit" ActiveState) $(shown "$unit" UnitFileState)" "$unit" || return 1
	done
	tap_equal 700 "$(host stat -c %a /var/lib/superp)" "mode of /var/lib/superp"
}

# field FILE NAME: what /proc/PID/status says.
field() { sed -n "s/^$2:\t//p" <<<"$1"; }

privileges() {
	local unit pid wanted status
	for unit in "${units[@]}"; do
		pid=$(shown "$unit" MainPID)
		status=$(host cat "/proc/$pid/status")
		wanted=0000000000000000
		# CAP_KILL and CAP_NET_ADMIN.
		[ "$unit" != superp-agent ] || wanted=0000000000001020
		for set in CapInh:0000000000000000 CapPrm:$wanted CapEff:$wanted CapBnd:$wanted CapAmb:0000000000000000 NoNewPrivs:1 Seccomp:2; do
			tap_equal "${set#*:}" "$(field "$status" "${set%:*}")" "${set%:*} of $unit" || return 1
		done
		tap_refused 'Read-only file system' host nsenter --target "$pid" --mount touch /etc/superp/written || return 1
	done
	host touch /etc/superp/written
}

boots() {
	cat >"$folder/fabric.toml" <<-FILE
		fabric = "two"

		[[nodes]]
		hosts = "fx[1-2]"
		agent = "10.99.0.{n}:7779"
		address = "10.23.0.{n}"
		ports = [{ dev = "eth0" }]

		[[connections]]
		mesh = "fx[1-2]"
		ext = true
	FILE
	agent fx2
	superp fabric apply "$folder/fabric.toml" --wait 60 || { why; log superp-cm; log superp-agent; return 1; }
	transfer
}

# On the host in its own process namespace.
transfer() {
	rm -f "$folder/server"
	host superp -j xfer serve --size 1M >"$folder/server" &
	nodes_wait 20 test -s "$folder/server" || return 1
	read -r remote < <(head -n 1 "$folder/server" | jq -r .remote)
	on fx2 superp xfer write 10.23.0.1 --remote "$remote" --length 1M --verify || return 1
	host pkill -TERM -x superp
	wait $!
}
runs() { [ "$(state .connections_running)" = 1 ]; }

killed() {
	local before unit
	before=$(lives)
	for unit in "${units[@]}"; do
		host kill -KILL "$(shown "$unit" MainPID)" || return 1
		again "$unit" 1 || return 1
	done
	nodes_wait 30 runs || { why; return 1; }
	tap_equal "$before" "$(lives)" "lives of connections" && transfer
}

# A process that hangs says nothing any more.
hangs() {
	local unit
	for unit in "${units[@]}"; do
		host mkdir -p "/run/systemd/system/$unit.service.d" || return 1
		printf '[Service]\nWatchdogSec=3\n' | host tee "/run/systemd/system/$unit.service.d/watchdog.conf" >/dev/null || return 1
	done
	host systemctl daemon-reload && host systemctl restart "${units[@]}" || return 1
	sleep 7
	for unit in "${units[@]}"; do
		tap_equal 0 "$(shown "$unit" NRestarts)" "restarts of $unit that does not hang" || return 1
		host kill -STOP "$(shown "$unit" MainPID)" || return 1
		again "$unit" 1 || return 1
		log "$unit" | grep -F 'Watchdog timeout' || { log "$unit"; return 1; }
	done
	nodes_wait 30 runs || { why; return 1; }
}

# More starts than systemd allows a unit by itself.
address_taken() {
	local taker
	host systemctl stop superp-agent || return 1
	ip netns exec fx1 socat TCP-LISTEN:7779,bind=10.99.0.1,reuseaddr,fork /dev/null &
	taker=$!
	host systemctl start --no-block superp-agent
	nodes_wait 60 restarts superp-agent 8 || { log superp-agent; kill "$taker"; return 1; }
	kill "$taker"
	log superp-agent | grep -F 'cannot serve 10.99.0.1:7779: Address already in use' || { log superp-agent; return 1; }
	nodes_wait 20 active superp-agent || { log superp-agent; return 1; }
	nodes_wait 30 runs || { why; return 1; }
}

module_unloaded() {
	local before
	before=$(shown superp-agent NRestarts)
	rmmod superp || return 1
	again superp-agent $((before + 1)) || return 1
	[ -d /sys/module/superp ] || { echo "the module is not loaded again"; return 1; }
	wait "${agents[fx2]}" && { echo "the agent of fx2 did not notice"; return 1; }
	agent fx2
	nodes_wait 60 runs || { why; return 1; }
	transfer
}

stops() {
	local unit
	host systemctl stop "${units[@]}" || return 1
	for unit in "${units[@]}"; do
		tap_equal "inactive success" "$(shown "$unit" ActiveState) $(shown "$unit" Result)" "$unit" || return 1
	done
	on fx1 superp ping 10.23.0.2 -c 3 -i 0.02 -W 20 -q || return 1
	host systemctl start "${units[@]}" && nodes_wait 30 runs
}

# For which the agent has CAP_KILL; the program ends in order.
programs_end() {
	local program
	rm -f "$folder/server"
	host setpriv --reuid=65534 --regid=65534 --clear-groups superp -j xfer serve --size 1M >"$folder/server" 2>&1 &
	program=$!
	nodes_wait 20 test -s "$folder/server" || return 1
	superp fabric shutdown --wait 60 || { why; log superp-agent; return 1; }
	wait "$program" || { cat "$folder/server"; return 1; }
	log superp-agent | grep -F 'ending an application' || { log superp-agent; return 1; }
	tap_equal '[]' "$(on fx1 superp -j conn show | jq -c .)" connections
}

tap_case "a host boots systemd" host_boots
tap_case "agent and manager start, and say that they are ready" units_start
tap_case "they have the privileges that they need, and no others" privileges
tap_case "so they boot a fabric" boots
tap_case "killed, they are started again, and connections go on" killed
tap_case "hanging, they are killed by the watchdog" hangs
tap_case "an agent that cannot start is tried again and again" address_taken
tap_case "the agent loads the module again" module_unloaded
tap_case "they stop, and connections go on" stops
tap_case "the agent ends programs of other users" programs_end
tap_end
