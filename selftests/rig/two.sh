#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# two.sh: on the host, the README's "Two hosts": two Debian machines on one wire, in QEMU with the distribution's kernel,
# on each of which the README's own commands are typed, in its order. Only the module is there before, as dkms puts it.
set -euo pipefail
cd "$(dirname "$0")/.."
. vm/env.sh
[ -e "$top/build/packages/0/superp.changes" ] || packages/build >&2
. lib/tap.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

machine() {
	local wire=(-netdev "stream,id=wire,server=$2,addr.type=unix,addr.path=$work/wire"
		-device "virtio-net-pci,netdev=wire,mac=52:54:00:00:ff:0$1,romfile=")
	SUPERP_QEMU_OPTIONS="${wire[*]}" vm/run --timeout 900 --results "$work/$1" qemu -- \
		selftests/rig/two-guest.sh "$1" >"$work/$1.output" 2>&1
}
# Who listens must be there first; a QEMU that finds nobody ends.
there() { until [ -S "$work/wire" ]; do sleep 0.2; kill -0 "$1" || return 1; done; }
# What the second says it has typed, the first waits for; and the other way round.
told() {
	until [ -e "$work/2/serving" ]; do sleep 0.2; kill -0 "$1" "$2" || return 1; done
	: >"$work/1/serving"
	wait "$1" || return 1
	: >"$work/2/done"
	wait "$2"
}
two() {
	local first second
	mkdir "$work"/{1,2}
	machine 1 on & first=$!
	there "$first" || { cat "$work/1.output"; return 1; }
	machine 2 off & second=$!
	told "$first" "$second" 2>/dev/null || { tail -n 30 "$work"/?.output; return 1; }
	cat "$work"/?.output
}
said() { grep -E "$1" "$work/1.output"; }

tap_case "two machines on one wire type what the README says" two
tap_case "they are connected" said '^connected to 10\.23\.0\.2: .*extensions on'
tap_case "the peer answers" said '^3 sent, 3 answered'
tap_case "what is measured is compared" said '^[0-9]+ x write .*all bytes compared'
tap_note "what the first host showed:"
sed -n '/^first# modprobe/,$ s/^/# /p' "$work/1.output"
tap_end
