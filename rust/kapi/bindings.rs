// SPDX-License-Identifier: GPL-2.0

//! Rust declarations that bindgen generates from `superp_kapi.h`, and with it from
//! `uapi/linux/superp.h`, when the module is built.

// Older compilers do not know the lint.
#![cfg_attr(not(CONFIG_RUSTC_HAS_UNNECESSARY_TRANSMUTES), allow(unknown_lints))]
#![allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unnecessary_transmutes,
    unreachable_pub,
    unused_imports,
    unsafe_op_in_unsafe_fn
)]
#![allow(
    clippy::all,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks
)]

use kernel::{ffi, prelude::*};
use pin_init::MaybeZeroable;

include!(concat!(env!("SUPERP_OUT"), "/bindings_generated.rs"));
