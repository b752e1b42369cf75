// SPDX-License-Identifier: GPL-2.0

//! Safe Rust over the kernel interfaces that the `kernel` crate lacks, with the C half beside it.

mod bindings;
pub(crate) mod compat;
pub(crate) mod defer;
pub(crate) mod errno;
pub(crate) mod event;
pub(crate) mod lock;
pub(crate) mod map;
pub(crate) mod net;
pub(crate) mod nl;
pub(crate) mod pages;
pub(crate) mod params;
pub(crate) mod path;
pub(crate) mod process;
pub(crate) mod range;
pub(crate) mod ring;
pub(crate) mod run;
pub(crate) mod rx;
pub(crate) mod skb;
pub(crate) mod sock;
pub(crate) mod timer;
pub(crate) mod uapi;
