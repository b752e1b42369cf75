// SPDX-License-Identifier: GPL-2.0

//! What is not the same in the kernel crates of the kernels that this module builds for. Kbuild
//! looks into the kernel's tree and sets the `superp_…` configuration options.

use kernel::bindings;

/// Orders all memory accesses before it against all behind it, between processors.
///
/// Context: any.
#[inline(always)]
pub(crate) fn smp_mb() {
    // Until 7.2 the function had no parameter.
    #[cfg(not(superp_smp_mb_ordering))]
    kernel::sync::barrier::smp_mb();
    #[cfg(superp_smp_mb_ordering)]
    kernel::sync::barrier::smp_mb(kernel::sync::barrier::Full);
}

/// What a callback of an hrtimer returns that does not start it again. Until 7.2 bindgen made
/// plain integers of this C enumeration.
#[cfg(not(superp_hrtimer_restart_newtype))]
pub(super) const HRTIMER_NORESTART: bindings::hrtimer_restart =
    bindings::hrtimer_restart_HRTIMER_NORESTART;
#[cfg(superp_hrtimer_restart_newtype)]
pub(super) const HRTIMER_NORESTART: bindings::hrtimer_restart =
    bindings::hrtimer_restart::HRTIMER_NORESTART;
