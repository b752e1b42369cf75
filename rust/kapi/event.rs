// SPDX-License-Identifier: GPL-2.0

//! Eventfds of programs.

use core::ptr::NonNull;
use kernel::prelude::*;

use super::bindings as c;

/// An eventfd, which outlives the program's descriptor.
///
/// # Invariants
///
/// It holds a reference to the eventfd.
pub(crate) struct EventFd(NonNull<c::eventfd_ctx>);

// SAFETY: Not bound to a thread.
unsafe impl Send for EventFd {}
// SAFETY: The kernel's eventfds lock themselves.
unsafe impl Sync for EventFd {}

impl EventFd {
    /// That of descriptor `fd` of the calling process. Process context.
    ///
    /// # Errors
    ///
    /// `EBADF`: no such descriptor. `EINVAL`: another kind of file.
    pub(crate) fn of(fd: i32) -> Result<EventFd> {
        let mut err = 0;
        // SAFETY: `err` is valid for the call.
        let event = unsafe { c::superp_event_get(fd, &mut err) };
        // INVARIANT: The reference is ours.
        NonNull::new(event)
            .map(EventFd)
            .ok_or_else(|| Error::from_errno(err))
    }

    /// Adds one, and wakes who waits. Any context up to softirq.
    pub(crate) fn signal(&self) {
        // SAFETY: By the type invariant.
        unsafe { c::superp_event_signal(self.0.as_ptr()) }
    }
}

impl Drop for EventFd {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; it is not used afterwards.
        unsafe { c::superp_event_put(self.0.as_ptr()) }
    }
}
