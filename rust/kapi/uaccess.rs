// SPDX-License-Identifier: GPL-2.0

//! Arguments of ioctl commands.

use kernel::{
    prelude::*,
    transmute::{AsBytes, FromBytes},
    uaccess::{UserPtr, UserSlice},
};

/// Copies the argument of an ioctl from the program. Process context.
///
/// Errors: `EFAULT`.
pub(crate) fn read_argument<T: FromBytes>(arg: usize) -> Result<T> {
    UserSlice::new(UserPtr::from_addr(arg), size_of::<T>())
        .reader()
        .read()
}

/// Copies the argument of an ioctl to the program. Process context.
///
/// Errors: `EFAULT`.
pub(crate) fn write_argument<T: AsBytes>(arg: usize, value: &T) -> Result {
    UserSlice::new(UserPtr::from_addr(arg), size_of::<T>())
        .writer()
        .write(value)
}
