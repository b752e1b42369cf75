// SPDX-License-Identifier: GPL-2.0

//! Storage of the protocol core in kernel memory.

use crate::proto;
use kernel::prelude::*;

/// See the module.
pub(crate) struct Kernel;

impl proto::Slabs for Kernel {
    type Slab<T> = KVVec<T>;

    fn slab<T: Clone + Default>(n: usize) -> Option<KVVec<T>> {
        KVVec::from_elem(T::default(), n, GFP_KERNEL).ok()
    }
}
