#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# A node's connection with itself, over UDP and lo: two programs of one host, without a second node.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
ready=$(mktemp -u)
mkfifo "$ready"
trap 'rm -f "$ready"' EXIT
ip link set lo up

# Both ends are connections of this node: what one sends, the other receives.
ends() {
	superp dev add lo || return 1
	superp conn add 1 peer 127.0.0.1 peer-cid 2 encap udp4 dev lo local 127.0.0.1 ext on || return 1
	superp conn add 2 peer 127.0.0.1 peer-cid 1 encap udp4 dev lo local 127.0.0.1 ext on || return 1
	superp conn add 3 peer ::1 peer-cid 4 encap udp6 dev lo local ::1 ext on || return 1
	superp conn add 4 peer ::1 peer-cid 3 encap udp6 dev lo local ::1 ext on || return 1
	superp conn start 1 2 3 4
}

answers() { superp ping "$1" --count 5 --interval 0.01; }

# moves OPERATION ADDRESS: bytes, compared.
moves() {
	tap_equal 'true 100' "$(superp -j perf "$1" bw "$2" --size 256K --count 100 --verify |
		jq -r '"\(.verified) \(.operations)"')" "what was moved"
}

tap_case "connections of a node with itself" ends
superp perf serve >"$ready" &
server=$!
read -r _ <"$ready"
for address in 127.0.0.1 ::1; do
	tap_case "round trips to $address" answers "$address"
	for operation in write read send; do
		tap_case "$operation, $address" moves "$operation" "$address"
	done
done
tap_case "round trips to localhost" answers localhost
kill "$server"
wait "$server" || true
tap_end
