// SPDX-License-Identifier: GPL-2.0

//! A table that grows under a lock: nothing in it is moved, and its memory comes from outside.

use kernel::{alloc::AllocError, prelude::*};

/// Entries of a piece.
const PIECE: usize = 16;

/// Entries by index, in pieces of [`PIECE`].
///
/// # Invariants
///
/// Every piece but the last one in use is full.
pub(super) struct Chunks<T> {
    pieces: KVVec<KVVec<T>>,
    len: usize,
}

/// Memory for more entries. What is in it after [`Chunks::grow`] is to be freed outside the lock.
pub(super) struct Growth<T> {
    /// Empty; a larger table of pieces, if that was wanted.
    pieces: KVVec<KVVec<T>>,
    fresh: KVVec<KVVec<T>>,
}

/// How much a table wants to grow.
#[derive(Copy, Clone)]
pub(super) struct Wanted {
    fresh: usize,
    /// Room in a new table of pieces; 0: none is needed.
    pieces: usize,
}

impl<T> Chunks<T> {
    /// An empty table, without memory.
    pub(super) const fn new() -> Self {
        Chunks {
            pieces: KVVec::new(),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Entries that there is memory for.
    pub(super) fn capacity(&self) -> usize {
        self.pieces.len().saturating_mul(PIECE)
    }

    pub(super) fn get(&self, index: usize) -> Option<&T> {
        self.pieces.get(index / PIECE)?.get(index % PIECE)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.pieces.get_mut(index / PIECE)?.get_mut(index % PIECE)
    }

    /// Adds an entry, where there is memory, and gives its index.
    pub(super) fn push(&mut self, entry: T) -> Option<usize> {
        let index = self.len;
        let piece = self.pieces.get_mut(index / PIECE)?;
        piece.push_within_capacity(entry).ok()?;
        self.len = index.saturating_add(1);
        Some(index)
    }

    /// What makes room for `more` entries.
    pub(super) fn wanted(&self, more: usize) -> Wanted {
        let fresh = more.div_ceil(PIECE);
        let pieces = self.pieces.len().saturating_add(fresh);
        Wanted {
            fresh,
            pieces: match pieces > self.pieces.capacity() {
                // Only pointers are moved, and seldom.
                true => pieces.saturating_mul(2),
                false => 0,
            },
        }
    }

    /// Takes memory over. What it cannot use stays in `growth`.
    pub(super) fn grow(&mut self, growth: &mut Growth<T>) {
        if growth.pieces.capacity() > self.pieces.capacity() {
            for piece in self.pieces.drain_all() {
                // There is room: the capacity was compared.
                let _ = growth.pieces.push_within_capacity(piece);
            }
            core::mem::swap(&mut self.pieces, &mut growth.pieces);
        }
        while self.pieces.len() < self.pieces.capacity() {
            let Some(piece) = growth.fresh.pop() else {
                break;
            };
            // There is room.
            let _ = self.pieces.push_within_capacity(piece);
        }
    }
}

impl<T> Growth<T> {
    /// Allocates what is wanted. Process context.
    pub(super) fn new(wanted: Wanted) -> Result<Self, AllocError> {
        let mut fresh = KVVec::with_capacity(wanted.fresh, GFP_KERNEL)?;
        for _ in 0..wanted.fresh {
            let piece = KVVec::with_capacity(PIECE, GFP_KERNEL_ACCOUNT)?;
            // There is room: it was just allocated.
            let _ = fresh.push_within_capacity(piece);
        }
        Ok(Growth {
            pieces: KVVec::with_capacity(wanted.pieces, GFP_KERNEL_ACCOUNT)?,
            fresh,
        })
    }
}
