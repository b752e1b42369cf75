// SPDX-License-Identifier: GPL-2.0

//! Identities of processes, so that users can see which process owns an object.

use super::bindings as c;
use core::ptr::NonNull;
use kernel::prelude::*;

/// Identity of a process, which may have ended. It is not the number, which another process may
/// get.
///
/// # Invariants
///
/// The pointer is a `struct pid` to which this type owns a reference.
pub(crate) struct Process(NonNull<c::pid>);

// SAFETY: The reference count is atomic, and the rest is read under RCU.
unsafe impl Send for Process {}

// SAFETY: The reference count is atomic, and the rest is read under RCU.
unsafe impl Sync for Process {}

impl Process {
    /// Identity of the calling process. Process context.
    ///
    /// # Errors
    ///
    /// `ESRCH`: the process has ended.
    pub(crate) fn current() -> Result<Self> {
        // SAFETY: `superp_process_current()` has no requirements.
        let process = unsafe { c::superp_process_current() };
        // INVARIANT: `superp_process_current()` took the reference for the caller.
        NonNull::new(process).map(Self).ok_or(ESRCH)
    }

    /// Calls `f` with the number of the process in the pid namespace of the calling process, and
    /// with the name of its command. `None` if the process has no number there, or has ended.
    /// Process context.
    pub(crate) fn look<T>(&self, f: impl FnOnce(u32, &[u8]) -> T) -> Option<T> {
        let mut command = [0; c::SUPERP_COMMAND_LEN as usize];
        // SAFETY: By the type invariant the pointer is a `struct pid`; `command` has the size that
        // the C half writes.
        let number = unsafe { c::superp_process_look(self.0.as_ptr(), command.as_mut_ptr()) };
        let command = command.split(|byte| *byte == 0).next()?;
        (number != 0).then(|| f(number, command))
    }
}

impl Clone for Process {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariant the pointer is a `struct pid`.
        unsafe { c::superp_process_get(self.0.as_ptr()) };
        // INVARIANT: `superp_process_get()` took the reference of the new value.
        Self(self.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this type owns a reference, which nobody uses afterwards.
        unsafe { c::superp_process_put(self.0.as_ptr()) }
    }
}
