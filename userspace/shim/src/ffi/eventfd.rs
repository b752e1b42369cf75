// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Descriptors that are readable while something waits.

use libc::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An eventfd.
pub(super) fn event_fd(flags: c_int) -> Result<OwnedFd, c_int> {
    // SAFETY: No pointers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | flags) };
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        return Err(error.raw_os_error().unwrap_or(libc::EIO));
    }
    // SAFETY: It was made just now and is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes an eventfd readable.
pub(super) fn add_one(fd: &OwnedFd) {
    let one: u64 = 1;
    let from: *const u64 = &one;
    // It fails only if 2^64 - 1 events wait.
    // SAFETY: Eight bytes.
    unsafe { libc::write(fd.as_raw_fd(), from.cast(), 8) };
}
