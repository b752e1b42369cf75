// SPDX-License-Identifier: GPL-2.0

//! Use count of a queue that several queue pairs may share.

use kernel::sync::atomic::{Atomic, Relaxed};

/// Number of queue pairs that use a completion queue or a shared receive queue. A queue with users
/// cannot be destroyed.
pub(crate) struct Users(Atomic<u32>);

impl Users {
    pub(crate) fn none() -> Self {
        Self(Atomic::new(0))
    }

    /// Counts one more queue pair. The caller holds `Context::config`, so that the queue cannot be
    /// destroyed at the same time.
    pub(crate) fn join(&self) {
        self.0.add(1, Relaxed);
    }

    /// Counts one queue pair less.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    /// Whether any queue pair uses the queue.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Relaxed) != 0
    }
}
