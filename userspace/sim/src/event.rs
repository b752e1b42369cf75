// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Virtual time: what happens when, in one queue.

use crate::fabric::Packet;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that happens.
#[derive(Debug)]
pub(crate) enum Event {
    /// A packet has crossed a link.
    Arrive(Box<Packet>),
    /// A node's CPU takes the next packet.
    Run {
        /// The node.
        node: usize,
    },
    /// A connection's timer.
    Timer {
        /// The end.
        end: usize,
    },
    /// An end looks for work after a rest.
    Kick {
        /// The end.
        end: usize,
    },
    /// An end begins this life, counted from 0.
    Renew {
        /// The end.
        end: usize,
        /// Which.
        life: usize,
    },
    /// A node's CPU stands still.
    Pause {
        /// The node.
        node: usize,
        /// Until then.
        until: u64,
    },
}

#[derive(Debug)]
struct Entry {
    at: u64,
    number: u64,
    event: Event,
}

impl Ord for Entry {
    /// The earliest is the greatest; of two at a time the one that was entered first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

/// Events in the order of their time, those of one time in the order in which they were entered.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Entry>,
    number: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: u64, event: Event) {
        self.number += 1;
        let number = self.number;
        self.heap.push(Entry { at, number, event });
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}
