#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# two-guest.sh 1|2: in a guest of two.sh, the first or the second of the README's two hosts. Its address is what an
# administrator has given it; the rest is typed from the README.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/nodes.sh
. lib/machine.sh
number=$1
case $number in 1) me=first ;; 2) me=second ;; esac

modprobe virtio_net
device=$(basename "$(dirname "$(grep -l "52:54:00:00:ff:0$number" /sys/class/net/*/address)")")
ip link set "$device" up
ip address add "10.23.0.$number/24" dev "$device"
machine_made
machine_mounts
depmod -b "$root"
cp /superp/build/packages/0/*.deb "$root/root"
type_in() {
	echo "$me# $1"
	chroot "$root" env -i HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		DEBIAN_FRONTEND=noninteractive bash -c "cd && $1"
}

# Lines "both COMMAND", "first COMMAND", "second COMMAND", in the README's order.
commands() {
	awk '/^## / { here = $0 == "## Two hosts" }
		!here { next }
		/^```/ { inside = !inside; next }
		inside { print who, $0 }
		!inside && /On both hosts:$/ { who = "both" }
		!inside && /On the first host:$/ { who = "first" }
		!inside && /On the second host:$/ { who = "second" }' /superp/README.md
}
mapfile -t lines < <(commands)
[ "${#lines[@]}" -ge 7 ] || { echo "the README's two hosts have ${#lines[@]} commands"; exit 1; }
for line in "${lines[@]}"; do
	case $line in
	'second superp perf serve')
		case $me in
		first) nodes_wait 60 test -e /results/serving ;;
		second)
			type_in "${line#* }" & serving=$!
			sleep 1
			: >/results/serving
			;;
		esac
		;;
	"both "* | "$me "*) type_in "${line#* }" ;;
	esac
done
if [ "$me" = second ]; then
	nodes_wait 60 test -e /results/done
	kill -0 "$serving"
	pkill -INT -x superp
	wait "$serving"
fi
