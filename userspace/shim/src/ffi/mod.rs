// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The functions of libibverbs and librdmacm, and the objects they give.
//!
//! Each function looks whose object its first argument is. Own objects are structs that begin with the
//! public one of infiniband/verbs.h, from `Box::into_raw`. By the contract of verbs, which every `unsafe`
//! here relies on:
//!
//! * pointers that a function is given are objects that verbs gave, not destroyed, nor destroyed meanwhile;
//! * attributes, lists, arrays and the memory of registered regions are valid for the call, or for the
//!   life of the region.

pub(crate) mod abi;
mod batch;
mod chain;
mod cm;
mod completion;
mod context;
mod cq;
mod device;
mod domain;
mod eventfd;
mod events;
mod extended;
mod open;
mod polling;
mod post;
mod qp;
mod query;
mod queue;
mod router;
mod shared;
mod srq;

use libc::c_int;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock. What it guards is whole also after a panic: one would have ended the process.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `errno`, as it is.
fn errno_now() -> c_int {
    // SAFETY: The place is the thread's own.
    unsafe { *libc::__errno_location() }
}

fn set_errno(errno: c_int) {
    // SAFETY: The place is the thread's own.
    unsafe { *libc::__errno_location() = errno };
}

/// Waits until there is something to read, or `EAGAIN` where the program has made the descriptor one that does
/// not wait.
fn wait_readable(fd: c_int) -> Result<(), c_int> {
    // SAFETY: No pointers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags & libc::O_NONBLOCK != 0 {
        return Err(libc::EAGAIN);
    }
    let mut one = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: One descriptor, valid for the call.
    match unsafe { libc::poll(&mut one, 1, -1) } < 0 {
        true => Err(errno_now()),
        false => Ok(()),
    }
}

/// What a function returns when it fails.
trait Failure {
    fn failure(errno: c_int) -> Self;
}

impl<T> Failure for *mut T {
    fn failure(errno: c_int) -> Self {
        set_errno(errno);
        ptr::null_mut()
    }
}

/// Most functions return the number itself; those that return -1 say so where they are.
impl Failure for c_int {
    fn failure(errno: c_int) -> Self {
        set_errno(errno);
        errno
    }
}

/// A new object, or NULL and errno. `P` is the public struct that `T` begins with.
fn give<T, P>(made: Result<T, c_int>) -> *mut P {
    match made {
        Ok(object) => Box::into_raw(Box::new(object)).cast(),
        Err(errno) => Failure::failure(errno),
    }
}

/// 0, or an error number.
fn code(result: Result<(), c_int>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => Failure::failure(errno),
    }
}

/// 0, or -1 and errno.
fn minus_one(result: Result<(), c_int>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

/// Tells the user what no error number says. A program without standard error goes on without being told.
fn tell(text: impl std::fmt::Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "superp: {text}");
}

/// The error number of the library's error.
fn errno(error: superp_verbs::Error) -> c_int {
    error.errno()
}

/// The immediate data of a completion.
pub(crate) fn imm_data(wc: &abi::ibv_wc) -> u32 {
    // SAFETY: Any bytes are a number.
    unsafe { wc.__bindgen_anon_1.imm_data }
}
