# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034
# Paths and helpers shared by the scripts of this folder; sourced, never run.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
vm=$top/selftests/vm
cache=${SUPERP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/superp}
cores=${SUPERP_JOBS:-$(nproc)}
export SUPERP_CACHE=$cache
# Cargo's profile of the programs of userspace/, and where they are: what is measured asks for "release".
profile=${SUPERP_PROFILE:-dev}
programs=build/userspace/${profile/#dev/debug}
programs_arm64=build/userspace/aarch64-unknown-linux-gnu/${profile/#dev/debug}
. "$top/scripts/steps.sh"
mkdir -p "$cache/log"

need_root() { [ "$(id -u)" = 0 ] || die "$1 needs root (it makes mounts and a Debian folder)"; }

# packages_of host|root|rust|arm64|secureboot: the names of that section of the package list.
packages_of() { awk -v where="$1" '$1 == where { print $2 }' "$vm/packages"; }

# recipe: a short hash of what it is given to read; names what is built from it in the cache.
recipe() { sha256sum | cut -c1-12; }
