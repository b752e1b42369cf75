// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Intrusive lists of slots.

use super::super::slab::{Slabs, Slots};

/// Index that stands for no slot.
const NIL: u16 = u16::MAX;

/// The list that a slot is in. Each transmission puts the packet into `Sent`; an acknowledgement of
/// any kind moves it to `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Membership {
    /// Acknowledged, or not in use.
    #[default]
    None,
    /// In flight, and not suspected to be lost.
    Sent,
    /// Suspected, weakly: an acknowledgement named the packet as missing, and a later transmission
    /// of another lane arrived, but none of its own lane. Lost when its age exceeds
    /// `Rtt::base_rto`.
    Overtaken,
    /// Suspected: an acknowledgement named the packet as missing, and a later transmission of its
    /// own lane arrived. Lost when its age exceeds `Rtt::guard`.
    Missing,
    /// Declared lost, by evidence or by the timer. The packet waits for its retransmission.
    Lost,
}

impl Membership {
    /// Whether the packet may be on the network.
    pub(crate) fn in_flight(self) -> bool {
        matches!(self, Self::Sent | Self::Overtaken | Self::Missing)
    }
}

/// Indices of the slots before and after a slot in its list, or `NIL`.
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

/// A slot that can be in a list.
pub(crate) trait Linked: Clone + Default {
    fn link(&mut self) -> &mut Link;
}

/// A doubly linked list of slots. The links are in the slots.
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

    /// Index of the last slot.
    pub(crate) fn tail(&self) -> Option<u16> {
        (self.tail != NIL).then_some(self.tail)
    }

    /// Appends slot `index`, which is in no list.
    pub(crate) fn push_back<A: Slabs, T: Linked>(&mut self, slots: &mut Slots<A, T>, index: u16) {
        let link = Link {
            prev: self.tail,
            next: NIL,
        };
        self.insert(slots, index, link);
    }

    /// Prepends slot `index`, which is in no list.
    pub(crate) fn push_front<A: Slabs, T: Linked>(&mut self, slots: &mut Slots<A, T>, index: u16) {
        let link = Link {
            prev: NIL,
            next: self.head,
        };
        self.insert(slots, index, link);
    }

    /// Removes slot `index`, which is in this list.
    pub(crate) fn unlink<A: Slabs, T: Linked>(&mut self, slots: &mut Slots<A, T>, index: u16) {
        let Some(slot) = slots.get_mut(index.into()) else {
            return;
        };
        let link = core::mem::take(slot.link());
        self.join(slots, link.prev, link.next);
    }

    /// Inserts slot `index` between the slots that `link` names.
    fn insert<A: Slabs, T: Linked>(&mut self, slots: &mut Slots<A, T>, index: u16, link: Link) {
        self.join(slots, link.prev, index);
        self.join(slots, index, link.next);
        if let Some(slot) = slots.get_mut(index.into()) {
            *slot.link() = link;
        }
    }

    /// Links `prev` and `next` to each other. A `NIL` stands for the end of the list on that side.
    fn join<A: Slabs, T: Linked>(&mut self, slots: &mut Slots<A, T>, prev: u16, next: u16) {
        match prev {
            NIL => self.head = next,
            _ => {
                if let Some(slot) = slots.get_mut(prev.into()) {
                    slot.link().next = next;
                }
            }
        }
        match next {
            NIL => self.tail = prev,
            _ => {
                if let Some(slot) = slots.get_mut(next.into()) {
                    slot.link().prev = prev;
                }
            }
        }
    }
}
