# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # variables of env.sh, and of those who source this
# A Debian machine that has nothing of ours, in the folder $root; sourced, after vm/env.sh.

# machine COMMAND…: runs it there. The checkout is /superp, but for what it has for tests.
machine() { "$vm/in-root" --root "$root" env -u SUPERP_CACHE DEBIAN_FRONTEND=noninteractive "$@"; }

# bare SUITE PACKAGE…: makes it, with these packages. trixie has its backports, too. A mirror may
# keep a state of the suite that is no longer valid for apt.
bare() {
	local main security suite=$1 sources proxies packages
	shift
	read -r main security < <("$vm/debian-mirror") || return 1
	sources=("deb $main $suite main")
	[ "$suite" != trixie ] || sources+=("deb $main trixie-backports main" "deb $security trixie-security main")
	mapfile -t proxies < <(apt-config dump --format '%F "%v";%n' | sed -nE 's/^Acquire::https?::Proxy/--aptopt=&/p')
	packages=$(IFS=,; echo "ca-certificates,$*")
	mmdebstrap --variant=minbase --mode=root --include="$packages" --aptopt='APT::Install-Recommends "false"' \
		--aptopt='Acquire::Check-Valid-Until "false"' \
		"${proxies[@]}" --dpkgopt='path-exclude=/usr/share/doc/*' "$suite" "$root" "${sources[@]}" || return 1
	mkdir -p "$root"/{superp,cache,.cargo} && touch "$root/.cargo/config.toml" "$root/etc/resolv.conf" || return 1
	machine apt-get update -q
}
