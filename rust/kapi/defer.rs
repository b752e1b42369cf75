// SPDX-License-Identifier: GPL-2.0

//! What has to happen in process context and comes up elsewhere.

use super::bindings as c;
use kernel::workqueue::Queue;

/// The module's workqueue: when the module goes, it waits for what is on it. Any context.
pub(crate) fn queue() -> &'static Queue {
    // SAFETY: It is made before anything of the module is used, and ends after everything that puts
    // work on it has ended.
    unsafe { Queue::from_raw(c::superp_wq.cast()) }
}

/// Lets others run, between two of many steps. Process context, no lock held.
pub(crate) fn resched() {
    // SAFETY: No requirements but the context, which is this function's.
    unsafe { c::superp_defer_resched() }
}
