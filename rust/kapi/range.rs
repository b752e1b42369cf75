// SPDX-License-Identifier: GPL-2.0

//! Ranges that do not overlap, each with a number; looked up without a lock.

use super::bindings as c;
use core::ptr::NonNull;
use kernel::{error::to_result, prelude::*};

/// Ranges of 64-bit places, each with a number other than 0.
///
/// # Invariants
///
/// The pointer is a set, which this owns.
pub(crate) struct Ranges(NonNull<c::maple_tree>);

// SAFETY: Changes are serialised by the set's lock, lookups by RCU; not bound to a thread.
unsafe impl Send for Ranges {}

// SAFETY: As above.
unsafe impl Sync for Ranges {}

impl Ranges {
    /// An empty set. Process context.
    ///
    /// Errors: `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: No requirements.
        let ranges = unsafe { c::superp_range_new() };
        // INVARIANT: It is new.
        NonNull::new(ranges).map(Self).ok_or(ENOMEM)
    }

    /// The number of the range that the place is in. Any context.
    pub(crate) fn find(&self, at: u64) -> Option<u32> {
        // SAFETY: By the type invariant.
        let number = unsafe { c::superp_range_find(self.0.as_ptr(), at) };
        (number != 0).then_some(number)
    }

    /// Puts the range from `first` to `last`, inclusive, in. Process context.
    ///
    /// Errors: `EEXIST` if it overlaps another, `ENOMEM`.
    pub(crate) fn insert(&self, first: u64, last: u64, number: u32) -> Result {
        // SAFETY: By the type invariant.
        to_result(unsafe { c::superp_range_insert(self.0.as_ptr(), first, last, number) })
    }

    /// Puts a range of `size` places, at least 1, in: where the first room is from `min` to `max`,
    /// inclusive. Gives its first place. Process context.
    ///
    /// Errors: `EBUSY` if there is no room, `ENOMEM`.
    pub(crate) fn place(&self, min: u64, max: u64, size: u64, number: u32) -> Result<u64> {
        let mut first = 0;
        // SAFETY: By the type invariant; `first` is valid for the call.
        to_result(unsafe {
            c::superp_range_place(self.0.as_ptr(), min, max, size, number, &mut first)
        })?;
        Ok(first)
    }

    /// Takes out the range that the place is in. Process context.
    pub(crate) fn erase(&self, at: u64) {
        // SAFETY: By the type invariant.
        unsafe { c::superp_range_erase(self.0.as_ptr(), at) }
    }
}

impl Drop for Ranges {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; it is not used afterwards.
        unsafe { c::superp_range_free(self.0.as_ptr()) }
    }
}
