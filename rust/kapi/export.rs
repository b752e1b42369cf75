// SPDX-License-Identifier: GPL-2.0

//! Functions of Rust that the C half calls.

use kernel::{error::Error, ffi::c_int, prelude::*};

/// What a C function returns: 0 or a negative error number.
pub(crate) fn errno(result: Result) -> c_int {
    result.map_or_else(Error::to_errno, |()| 0)
}

/// Defines functions that C calls, and compares each with its declaration in the header.
macro_rules! exported {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)? $body:block)*) => {
        $(
            const _: () = {
                // Both arms have one type.
                if true { $crate::kapi::bindings::$name } else { $name };
            };

            $(#[$meta])*
            #[no_mangle]
            unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? $body
        )*
    };
}

pub(crate) use exported;
