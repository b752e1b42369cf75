// SPDX-License-Identifier: GPL-2.0

//! Safe Rust abstractions over kernel interfaces that the `kernel` crate lacks, each beside its C
//! half.
//!
//! What the kernel calls is a trait: [`net::PernetOps`], [`rx::PacketOps`], [`sock::ProtoOps`],
//! [`ring::RingOps`]. A macro beside the trait (`pernet_ops!`, `packet_ops!`, `proto_ops!`,
//! `ring_ops!`) defines the functions that the C half calls, for the one type that implements the
//! trait. Only these macros use `bindings` outside of this directory. The abstractions use no other
//! module of the crate.

pub(crate) mod bindings;
pub(crate) mod compat;
pub(crate) mod defer;
pub(crate) mod errno;
pub(crate) mod event;
pub(crate) mod export;
pub(crate) mod fastpath;
pub(crate) mod lock;
pub(crate) mod map;
pub(crate) mod msg;
pub(crate) mod net;
pub(crate) mod nl;
pub(crate) mod pages;
pub(crate) mod params;
pub(crate) mod path;
pub(crate) mod process;
pub(crate) mod range;
pub(crate) mod registration;
pub(crate) mod ring;
pub(crate) mod rx;
pub(crate) mod skb;
pub(crate) mod sock;
pub(crate) mod timer;
pub(crate) mod uaccess;
pub(crate) mod uapi;

pub(crate) use export::exported;
