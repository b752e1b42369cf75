// SPDX-License-Identifier: GPL-2.0

//! Copying of ioctl arguments.

use kernel::{
    prelude::*,
    transmute::{AsBytes, FromBytes},
    uaccess::{UserPtr, UserSlice},
};

/// Copies the argument of an ioctl from user memory. Process context; may sleep.
///
/// # Errors
///
/// `EFAULT`: the memory cannot be read.
pub(crate) fn read_argument<T: FromBytes>(arg: usize) -> Result<T> {
    UserSlice::new(UserPtr::from_addr(arg), size_of::<T>())
        .reader()
        .read()
}

/// Copies the argument of an ioctl to user memory. Process context; may sleep.
///
/// # Errors
///
/// `EFAULT`: the memory cannot be written.
pub(crate) fn write_argument<T: AsBytes>(arg: usize, value: &T) -> Result {
    UserSlice::new(UserPtr::from_addr(arg), size_of::<T>())
        .writer()
        .write(value)
}
