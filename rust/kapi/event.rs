// SPDX-License-Identifier: GPL-2.0

//! Eventfds of programs.

use core::ptr::NonNull;
use kernel::prelude::*;

use super::bindings as c;

/// An eventfd. It stays alive when the program closes its descriptor.
///
/// # Invariants
///
/// The pointer is an eventfd to which this type owns a reference.
pub(crate) struct EventFd(NonNull<c::eventfd_ctx>);

// SAFETY: An eventfd is not bound to a thread.
unsafe impl Send for EventFd {}
// SAFETY: The only operation on a shared reference is `eventfd_signal()`, which takes the lock.
unsafe impl Sync for EventFd {}

impl EventFd {
    /// The eventfd behind descriptor `fd` of the calling process. Process context.
    ///
    /// # Errors
    ///
    /// - `EBADF`: there is no such descriptor.
    /// - `EINVAL`: the file is no eventfd.
    pub(crate) fn of(fd: i32) -> Result<EventFd> {
        let mut err = 0;
        // SAFETY: `err` is valid for the call.
        let event = unsafe { c::superp_event_get(fd, &mut err) };
        // INVARIANT: `superp_event_get()` took the reference for the caller.
        NonNull::new(event)
            .map(EventFd)
            .ok_or_else(|| Error::from_errno(err))
    }

    /// Adds 1 to the counter and wakes the waiters. Any context up to softirq.
    pub(crate) fn signal(&self) {
        // SAFETY: By the type invariant the pointer is an eventfd.
        unsafe { c::superp_event_signal(self.0.as_ptr()) }
    }
}

impl Drop for EventFd {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this type owns a reference, which nobody uses afterwards.
        unsafe { c::superp_event_put(self.0.as_ptr()) }
    }
}
