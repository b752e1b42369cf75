// SPDX-License-Identifier: GPL-2.0

//! Deferral of work to process context.

use super::bindings as c;
use kernel::workqueue::Queue;

/// The workqueue of the module. Unloading the module waits for the work on it. Any context.
pub(crate) fn queue() -> &'static Queue {
    // SAFETY: `superp_net_register()` allocates the workqueue before anything else of the module
    // runs, and `superp_net_unregister()` destroys it after all that queues work has ended.
    unsafe { Queue::from_raw(c::superp_wq.cast()) }
}

/// Lets others run between two steps of a long loop. Process context, no lock held.
pub(crate) fn resched() {
    // SAFETY: The function may be called in the context that this one requires.
    unsafe { c::superp_defer_resched() }
}
