// SPDX-License-Identifier: GPL-2.0

//! Who uses a queue that several queue pairs may share.

use kernel::sync::atomic::{Atomic, Relaxed};

/// How many queue pairs use a queue.
pub(crate) struct Users(Atomic<u32>);

impl Users {
    pub(crate) fn none() -> Self {
        Self(Atomic::new(0))
    }

    /// A queue pair will use it. The caller serialises this with [`Users::any`].
    pub(crate) fn join(&self) {
        self.0.add(1, Relaxed);
    }

    /// A queue pair will not use it any more.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    /// Whether queue pairs use it.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Relaxed) != 0
    }
}
