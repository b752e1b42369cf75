// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The SUPERp protocol core, compiled for the host from the kernel module's own files.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[path = "../../../rust/proto/mod.rs"]
pub mod proto;

pub use proto::*;

/// Storage of connections on the host's heap.
#[derive(Clone, Copy, Debug)]
pub struct Heap;

impl Slabs for Heap {
    type Slab<T> = alloc::vec::Vec<T>;

    fn slab<T: Clone + Default>(n: usize) -> Option<Self::Slab<T>> {
        let mut slab = alloc::vec::Vec::new();
        slab.try_reserve_exact(n).ok()?;
        slab.resize(n, T::default());
        Some(slab)
    }
}
