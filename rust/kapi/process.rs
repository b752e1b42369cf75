// SPDX-License-Identifier: GPL-2.0

//! Processes, for people who look whose an object is.

use super::bindings as c;
use core::ptr::NonNull;
use kernel::{prelude::*, str::CStr};

/// A process, which may have ended. Its number is not kept: another one could get it.
///
/// # Invariants
///
/// The pointer is a `struct pid`, to which this owns a reference.
pub(crate) struct Process(NonNull<c::pid>);

// SAFETY: The reference count is atomic; the rest is read under RCU.
unsafe impl Send for Process {}

// SAFETY: As above.
unsafe impl Sync for Process {}

impl Process {
    /// The calling process. Process context.
    ///
    /// Errors: `ESRCH`, of a process that has ended.
    pub(crate) fn current() -> Result<Self> {
        // SAFETY: No requirements.
        let process = unsafe { c::superp_process_current() };
        // INVARIANT: The reference was just taken.
        NonNull::new(process).map(Self).ok_or(ESRCH)
    }

    /// Calls `tell` with the number of the process, as the pid namespace of the current process
    /// knows it, and with the name of its command; not if there is no such number, or the process
    /// has ended. Process context.
    pub(crate) fn look<T>(&self, tell: impl FnOnce(u32, &CStr) -> T) -> Option<T> {
        let mut command = [0; c::SUPERP_COMMAND_LEN as usize];
        // SAFETY: By the type invariant; the buffer is valid for the call.
        let number = unsafe { c::superp_process_look(self.0.as_ptr(), command.as_mut_ptr()) };
        let command = CStr::from_bytes_until_nul(&command).ok()?;
        (number != 0).then(|| tell(number, command))
    }
}

impl Clone for Process {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariant.
        unsafe { c::superp_process_get(self.0.as_ptr()) };
        // INVARIANT: A reference was just taken.
        Self(self.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the reference is given up.
        unsafe { c::superp_process_put(self.0.as_ptr()) }
    }
}
