// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Lists threaded through the slots of the send window.

use super::super::slab::{Slabs, Slots};
use super::send::SendSlot;

/// No slot.
const NIL: u16 = u16::MAX;

/// Which list a slot is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Membership {
    /// Acknowledged, or not in use.
    #[default]
    None,
    /// Sent, and neither acknowledged nor suspected nor taken for lost.
    Sent,
    /// Named as missing when something later had arrived, but nothing later of its lane.
    Overtaken,
    /// Named as missing when something later of its lane had arrived, and not yet taken for lost.
    Missing,
    /// To be retransmitted.
    Lost,
}

/// Neighbours of a slot in its list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    prev: u16,
    next: u16,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            prev: NIL,
            next: NIL,
        }
    }
}

/// A doubly linked list of slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u16,
    tail: u16,
}

impl List {
    pub(crate) const EMPTY: Self = Self {
        head: NIL,
        tail: NIL,
    };

    /// Index of the first slot.
    pub(crate) fn head(&self) -> Option<u16> {
        (self.head != NIL).then_some(self.head)
    }

    /// Appends slot `index`, which is in no list.
    pub(crate) fn push_back<A: Slabs>(&mut self, slots: &mut Slots<A, SendSlot>, index: u16) {
        let link = Link {
            prev: self.tail,
            next: NIL,
        };
        self.insert(slots, index, link);
    }

    /// Prepends slot `index`, which is in no list.
    pub(crate) fn push_front<A: Slabs>(&mut self, slots: &mut Slots<A, SendSlot>, index: u16) {
        let link = Link {
            prev: NIL,
            next: self.head,
        };
        self.insert(slots, index, link);
    }

    /// Removes slot `index`, which is in this list.
    pub(crate) fn unlink<A: Slabs>(&mut self, slots: &mut Slots<A, SendSlot>, index: u16) {
        let Some(slot) = slots.get_mut(index.into()) else {
            return;
        };
        let link = core::mem::take(&mut slot.link);
        self.join(slots, link.prev, link.next);
    }

    fn insert<A: Slabs>(&mut self, slots: &mut Slots<A, SendSlot>, index: u16, link: Link) {
        self.join(slots, link.prev, index);
        self.join(slots, index, link.next);
        if let Some(slot) = slots.get_mut(index.into()) {
            slot.link = link;
        }
    }

    /// Makes `prev` and `next` neighbours; `NIL` stands for the end of the list on its side.
    fn join<A: Slabs>(&mut self, slots: &mut Slots<A, SendSlot>, prev: u16, next: u16) {
        match prev {
            NIL => self.head = next,
            _ => {
                if let Some(slot) = slots.get_mut(prev.into()) {
                    slot.link.next = next;
                }
            }
        }
        match next {
            NIL => self.tail = prev,
            _ => {
                if let Some(slot) = slots.get_mut(next.into()) {
                    slot.link.prev = prev;
                }
            }
        }
    }
}
