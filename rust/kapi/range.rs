// SPDX-License-Identifier: GPL-2.0

//! A map from ranges of 64-bit numbers, which do not overlap, to 32-bit values. Lookups take no
//! lock.

use super::bindings as c;
use core::ptr::NonNull;
use kernel::{error::to_result, prelude::*};

/// A map from ranges of 64-bit numbers to values other than 0.
///
/// # Invariants
///
/// The pointer is a maple tree that this type owns.
pub(crate) struct Ranges(NonNull<c::maple_tree>);

// SAFETY: The tree's lock serialises changes, and RCU protects lookups. A tree is not bound to a
// thread.
unsafe impl Send for Ranges {}

// SAFETY: The tree's lock serialises changes, and RCU protects lookups.
unsafe impl Sync for Ranges {}

impl Ranges {
    /// An empty map. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: `superp_range_new()` has no requirements.
        let ranges = unsafe { c::superp_range_new() };
        // INVARIANT: `superp_range_new()` passes ownership of the tree to the caller.
        NonNull::new(ranges).map(Self).ok_or(ENOMEM)
    }

    /// The value of the range that contains `at`. Any context.
    pub(crate) fn find(&self, at: u64) -> Option<u32> {
        // SAFETY: By the type invariant the pointer is a valid tree.
        let number = unsafe { c::superp_range_find(self.0.as_ptr(), at) };
        (number != 0).then_some(number)
    }

    /// Inserts the range from `first` to `last`, inclusive. Process context.
    ///
    /// # Errors
    ///
    /// - `EEXIST`: it overlaps another range.
    /// - `ENOMEM`
    pub(crate) fn insert(&self, first: u64, last: u64, number: u32) -> Result {
        // SAFETY: By the type invariant the pointer is a valid tree.
        to_result(unsafe { c::superp_range_insert(self.0.as_ptr(), first, last, number) })
    }

    /// Inserts a range of length `size`, at least 1, at the lowest free place from `min` to `max`,
    /// inclusive. Returns its first number. Process context.
    ///
    /// # Errors
    ///
    /// - `EBUSY`: no place is large enough.
    /// - `ENOMEM`
    pub(crate) fn place(&self, min: u64, max: u64, size: u64, number: u32) -> Result<u64> {
        let mut first = 0;
        // SAFETY: By the type invariant the pointer is a valid tree; `first` is valid for writes.
        to_result(unsafe {
            c::superp_range_place(self.0.as_ptr(), min, max, size, number, &mut first)
        })?;
        Ok(first)
    }

    /// Removes the range that contains `at`. Process context.
    pub(crate) fn erase(&self, at: u64) {
        // SAFETY: By the type invariant the pointer is a valid tree.
        unsafe { c::superp_range_erase(self.0.as_ptr(), at) }
    }
}

impl Drop for Ranges {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this type owns the tree, which nobody uses afterwards.
        unsafe { c::superp_range_free(self.0.as_ptr()) }
    }
}
