// SPDX-License-Identifier: GPL-2.0

//! Memory of the protocol core.

use crate::proto;
use kernel::prelude::*;

/// Allocates the tables of the protocol core from kernel memory. Process context.
pub(crate) struct Kernel;

impl proto::Slabs for Kernel {
    type Slab<T> = KVVec<T>;

    fn slab<T: Clone + Default>(n: usize) -> Option<KVVec<T>> {
        KVVec::from_elem(T::default(), n, GFP_KERNEL_ACCOUNT).ok()
    }
}
