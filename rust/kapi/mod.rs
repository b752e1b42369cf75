// SPDX-License-Identifier: GPL-2.0

//! Safe Rust over the kernel interfaces that the `kernel` crate lacks, with the C half beside it.
//!
//! It uses no other room. What the kernel calls is a trait here, which the room that is called
//! implements. A macro beside the trait (`pernet_ops!`, `proto_ops!`, …) defines the functions that
//! the C half calls, for the one type that it is given; only these macros use `bindings` from
//! outside of this room.

pub(crate) mod bindings;
pub(crate) mod compat;
pub(crate) mod defer;
pub(crate) mod errno;
pub(crate) mod event;
pub(crate) mod export;
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
pub(crate) mod uaccess;
pub(crate) mod uapi;

pub(crate) use export::exported;
