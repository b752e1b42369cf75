// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Storage that the owner provides, as a window of slots and as a queue.

use core::ops::DerefMut;

/// The owner's allocator.
///
/// [`super::Connection::new`], [`super::TimeWait::new`] and [`super::Quarantine::make_room`] call
/// it. In the module these run in process context, and the allocation may sleep.
pub trait Slabs {
    /// A slice on the heap. Its length never changes.
    type Slab<T>: DerefMut<Target = [T]>;

    /// Allocates `n` default values. Returns `None` if there is no memory.
    fn slab<T: Clone + Default>(n: usize) -> Option<Self::Slab<T>>;
}

/// Slots of a window, indexed by sequence number modulo their count. The count is a power of two.
pub(super) struct Slots<A: Slabs, T> {
    slab: A::Slab<T>,
    mask: u32,
}

impl<A: Slabs, T: Clone + Default> Slots<A, T> {
    /// Allocates slots for a window of `window` numbers: the next power of two.
    pub(super) fn new(window: u32) -> Option<Self> {
        let size = window.checked_next_power_of_two()?;
        Some(Self {
            slab: A::slab(size as usize)?,
            mask: size.wrapping_sub(1),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Index of the slot of `seq`. It fits 16 bits, because windows are at most 1024.
    pub(super) fn index(&self, seq: u32) -> u16 {
        (seq & self.mask) as u16
    }

    /// The slot of `seq`. It always exists; `Option` avoids a panic that the compiler cannot rule
    /// out.
    pub(super) fn get(&self, seq: u32) -> Option<&T> {
        self.slab.get((seq & self.mask) as usize)
    }

    /// The slot of `seq`, mutable. It always exists, see [`Self::get`].
    pub(super) fn get_mut(&mut self, seq: u32) -> Option<&mut T> {
        self.slab.get_mut((seq & self.mask) as usize)
    }
}

/// A first-in, first-out queue of XIDs. An XID is in it at most once, so a queue for a whole window
/// never overflows.
pub(super) struct Ring<A: Slabs> {
    slots: Slots<A, u16>,
    head: u32,
    tail: u32,
}

impl<A: Slabs> Ring<A> {
    /// Allocates a queue for `window` entries.
    pub(super) fn new(window: u32) -> Option<Self> {
        Some(Self {
            slots: Slots::new(window)?,
            head: 0,
            tail: 0,
        })
    }

    pub(super) fn push(&mut self, xid: u16) {
        if let Some(slot) = self.slots.get_mut(self.tail) {
            *slot = xid;
            self.tail = self.tail.wrapping_add(1);
        }
    }

    pub(super) fn peek(&self) -> Option<u16> {
        if self.head == self.tail {
            return None;
        }
        self.slots.get(self.head).copied()
    }

    pub(super) fn pop(&mut self) -> Option<u16> {
        let xid = self.peek()?;
        self.head = self.head.wrapping_add(1);
        Some(xid)
    }
}

#[cfg(test)]
pub(super) mod test {
    use alloc::vec::Vec;

    /// Storage for unit tests.
    pub(in super::super) struct Heap;

    impl super::Slabs for Heap {
        type Slab<T> = Vec<T>;

        fn slab<T: Clone + Default>(n: usize) -> Option<Vec<T>> {
            Some(alloc::vec![T::default(); n])
        }
    }
}
