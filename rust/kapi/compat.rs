// SPDX-License-Identifier: GPL-2.0

//! Differences between the `kernel` crates of the supported kernels. Kbuild looks for them in the
//! kernel's tree and sets the `superp_…` configuration options.

use kernel::bindings;

/// A full memory barrier between processors. Any context.
#[inline(always)]
pub(crate) fn smp_mb() {
    // The function has no parameter up to 7.2.
    #[cfg(not(superp_smp_mb_ordering))]
    kernel::sync::barrier::smp_mb();
    #[cfg(superp_smp_mb_ordering)]
    kernel::sync::barrier::smp_mb(kernel::sync::barrier::Full);
}

/// Return value of an hrtimer callback that does not restart its timer. Up to 7.2 bindgen makes
/// plain integers of this C enumeration.
#[cfg(not(superp_hrtimer_restart_newtype))]
pub(super) const HRTIMER_NORESTART: bindings::hrtimer_restart =
    bindings::hrtimer_restart_HRTIMER_NORESTART;
#[cfg(superp_hrtimer_restart_newtype)]
pub(super) const HRTIMER_NORESTART: bindings::hrtimer_restart =
    bindings::hrtimer_restart::HRTIMER_NORESTART;
