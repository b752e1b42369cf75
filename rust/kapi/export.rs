// SPDX-License-Identifier: GPL-2.0

//! Rust functions that the C half calls.

use kernel::{error::Error, ffi::c_int, prelude::*};

/// Converts a result to what a C function returns: 0 or a negative error number.
pub(crate) fn errno(result: Result) -> c_int {
    result.map_or_else(Error::to_errno, |()| 0)
}

/// Defines functions with C linkage. Each must have the type of its declaration in the C header.
macro_rules! exported {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)? $body:block)*) => {
        $(
            const _: () = {
                // The two arms have one type: the compiler compares declaration and definition.
                if true { $crate::kapi::bindings::$name } else { $name };
            };

            $(#[$meta])*
            #[no_mangle]
            unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? $body
        )*
    };
}

pub(crate) use exported;
