// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Where the bytes of a request are, and what they are when they are compared.

use crate::xfer::Pattern;
use std::ops::Range;
use superp_verbs::Memory;

/// Bytes at either end of a slot that change with each request that is verified.
const STAMP: usize = 8;

/// Memory for the requests of all queue pairs, a slot for each that may be under way: request number n
/// of queue pair q uses slot n modulo the depth of those of q. It begins as a pattern, of which each
/// request changes both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slots {
    /// Bytes of a request.
    pub(super) size: u32,
    /// Requests of a queue pair under way at once.
    pub(super) depth: u32,
    pub(super) queues: u32,
    /// Makes the bytes of a run those of no other.
    pub(super) salt: u64,
}

impl Slots {
    /// Bytes of all slots.
    pub(super) fn span(&self) -> Option<usize> {
        let slots = u64::from(self.depth) * u64::from(self.queues);
        let bytes = slots.checked_mul(self.size.into())?;
        usize::try_from(bytes).ok()
    }

    /// The place of a request.
    pub(super) fn place(&self, queue: usize, number: u64) -> usize {
        let slot = queue as u64 * u64::from(self.depth) + number % u64::from(self.depth);
        (slot * u64::from(self.size)) as usize
    }

    /// Fills memory from its start.
    pub(super) fn fill(&self, memory: &Memory) -> std::io::Result<()> {
        memory.fill(&mut Pattern::new(self.salt)).map(drop)
    }

    /// The parts of a slot that change with each request.
    pub(super) fn stamps(&self) -> [Range<usize>; 2] {
        let size = self.size as usize;
        let len = size.min(STAMP);
        [0..len, size - len..size]
    }

    /// What is there in request `number`; the stamp at the start comes first.
    pub(super) fn stamp(&self, number: u64) -> [u8; STAMP] {
        (number ^ self.salt).to_le_bytes()
    }

    /// The number of the request whose bytes these are, of 8 or more.
    pub(super) fn number(&self, bytes: &[u8]) -> Option<u64> {
        let stamp = bytes.first_chunk::<STAMP>()?;
        Some(u64::from_le_bytes(*stamp) ^ self.salt)
    }
}

/// Where bytes begin to differ from others, as many.
pub(super) fn first_difference(left: &[u8], right: &[u8]) -> Option<usize> {
    // One after the other they take many times as long, in which no message is taken.
    if left == right {
        return None;
    }
    left.iter().zip(right).position(|(l, r)| l != r)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_of_the_bytes_that_differ_is_found() {
        let bytes = [7; 100];
        assert_eq!(first_difference(&bytes, &bytes), None);
        for at in 0..100 {
            let mut others = bytes;
            others[at..].fill(8);
            assert_eq!(first_difference(&bytes, &others), Some(at));
        }
    }

    fn slots(size: u32) -> Slots {
        Slots {
            size,
            depth: 4,
            queues: 3,
            salt: 0x1234_5678_9abc_def0,
        }
    }

    #[test]
    fn each_request_under_way_has_bytes_of_its_own() {
        let slots = slots(100);
        let mut places: Vec<_> = (0..3)
            .flat_map(|queue| (7..11).map(move |number| slots.place(queue, number)))
            .collect();
        places.sort_unstable();
        let all: Vec<_> = (0..12).map(|slot| slot * 100).collect();
        assert_eq!(places, all);
        assert_eq!(slots.span(), Some(1200));
        assert_eq!(slots.place(2, 3), slots.place(2, 3 + 4));
    }

    #[test]
    fn stamps_are_at_both_ends_and_tell_the_number() {
        let long = slots(100);
        assert_eq!(long.stamps(), [0..8, 92..100]);
        assert_eq!(slots(5).stamps(), [0..5, 0..5]);
        assert_ne!(long.stamp(5), long.stamp(6));
        assert_eq!(long.number(&long.stamp(77)), Some(77));
        assert_eq!(long.number(&[0; 7]), None);
    }

    #[test]
    fn a_span_that_no_address_space_has_is_none() {
        let slots = Slots {
            size: u32::MAX,
            depth: u32::MAX,
            queues: u32::MAX,
            salt: 0,
        };
        assert_eq!(slots.span(), None);
    }
}
