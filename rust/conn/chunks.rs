// SPDX-License-Identifier: GPL-2.0

//! A table that grows under a lock. Its memory is allocated outside of the lock, and entries never
//! move.

use kernel::{alloc::AllocError, prelude::*};

/// Entries of a chunk.
const CHUNK_LEN: usize = 16;

/// Entries by index, in chunks of [`CHUNK_LEN`].
///
/// # Invariants
///
/// Every chunk before the last one in use is full.
pub(super) struct Chunks<T> {
    chunks: KVVec<KVVec<T>>,
    len: usize,
}

/// Memory for more entries. What [`Chunks::grow`] leaves in it is freed outside of the lock.
pub(super) struct Growth<T> {
    /// A larger table of chunks, empty. It has no capacity if none is needed.
    table: KVVec<KVVec<T>>,
    /// New chunks, each empty.
    chunks: KVVec<KVVec<T>>,
}

/// The memory that a table needs to grow.
#[derive(Copy, Clone)]
pub(super) struct GrowthPlan {
    /// New chunks.
    chunks: usize,
    /// Capacity of a new table of chunks; 0: the old table has space.
    table_capacity: usize,
}

impl<T> Chunks<T> {
    /// An empty table, without memory.
    pub(super) const fn new() -> Self {
        Chunks {
            chunks: KVVec::new(),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Entries that the table has memory for.
    pub(super) fn capacity(&self) -> usize {
        self.chunks.len().saturating_mul(CHUNK_LEN)
    }

    pub(super) fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK_LEN)?.get(index % CHUNK_LEN)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.chunks
            .get_mut(index / CHUNK_LEN)?
            .get_mut(index % CHUNK_LEN)
    }

    /// Appends an entry and returns its index. `None`: the table has no memory for it.
    pub(super) fn push(&mut self, entry: T) -> Option<usize> {
        let index = self.len;
        let chunk = self.chunks.get_mut(index / CHUNK_LEN)?;
        chunk.push_within_capacity(entry).ok()?;
        self.len = index.saturating_add(1);
        Some(index)
    }

    /// The memory that the table needs for `entries` more entries than its capacity.
    pub(super) fn growth_plan(&self, entries: usize) -> GrowthPlan {
        let chunks = entries.div_ceil(CHUNK_LEN);
        let table_len = self.chunks.len().saturating_add(chunks);
        GrowthPlan {
            chunks,
            table_capacity: match table_len > self.chunks.capacity() {
                // Doubling makes moves rare. A move copies pointers to chunks, no entries.
                true => table_len.saturating_mul(2),
                false => 0,
            },
        }
    }

    /// Takes over the memory of `growth`. What the table cannot use stays there.
    pub(super) fn grow(&mut self, growth: &mut Growth<T>) {
        if growth.table.capacity() > self.chunks.capacity() {
            for chunk in self.chunks.drain_all() {
                // This cannot fail: the new table is larger.
                let _ = growth.table.push_within_capacity(chunk);
            }
            core::mem::swap(&mut self.chunks, &mut growth.table);
        }
        while self.chunks.len() < self.chunks.capacity() {
            let Some(chunk) = growth.chunks.pop() else {
                break;
            };
            // This cannot fail: the loop condition compares the capacity.
            let _ = self.chunks.push_within_capacity(chunk);
        }
    }
}

impl<T> Growth<T> {
    /// Allocates the memory of a plan. Process context; may sleep.
    pub(super) fn new(plan: GrowthPlan) -> Result<Self, AllocError> {
        let mut chunks = KVVec::with_capacity(plan.chunks, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..plan.chunks {
            let chunk = KVVec::with_capacity(CHUNK_LEN, GFP_KERNEL_ACCOUNT)?;
            // This cannot fail: the capacity is `plan.chunks`.
            let _ = chunks.push_within_capacity(chunk);
        }
        Ok(Growth {
            table: KVVec::with_capacity(plan.table_capacity, GFP_KERNEL_ACCOUNT)?,
            chunks,
        })
    }
}
