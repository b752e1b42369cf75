// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Rings in memory that is shared with the kernel: both ends of the program.
//!
//! An index is stored with release after the entries before it, and loaded with acquire before the
//! entries behind it, so that an entry is never seen half written and never overwritten while it is
//! read. Every slot is the index modulo the entries: whatever an index says, nothing outside of the
//! ring is touched.

use crate::mapping::{Mapping, Plain};
use crate::uapi::{self, superp_ring, superp_segment};
use std::io::{Error, ErrorKind, Result};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// How large a ring is.
#[derive(Clone, Copy, Debug)]
pub struct RingSize {
    /// Entries, a power of two.
    pub entries: u32,
    /// Segments that an entry may have, 0 to 16.
    pub segments: u32,
}

impl RingSize {
    /// No ring.
    pub const NONE: Self = Self {
        entries: 0,
        segments: 0,
    };
}

/// The flags of a submission ring.
#[derive(Debug)]
pub(crate) struct Flags {
    mapping: Arc<Mapping>,
    offset: usize,
}

impl Flags {
    pub(crate) fn new(mapping: Arc<Mapping>, ring: &superp_ring) -> Result<Self> {
        let offset = ring.flags as usize;
        if mapping.word(offset).is_none() {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(Self { mapping, offset })
    }

    /// As they are after all that was stored.
    fn load(&self) -> u32 {
        std::sync::atomic::fence(Ordering::SeqCst);
        let word = self.mapping.word(self.offset);
        word.map_or(0, |word: &AtomicU32| word.load(Ordering::Relaxed))
    }

    /// Whether the queue pair is in the error state.
    pub(crate) fn failed(&self) -> bool {
        self.load() & uapi::SUPERP_RING_ERROR != 0
    }
}

/// Where the parts of a ring are.
///
/// # Invariants
///
/// All of it is inside the mapping; the number of entries is a power of two.
#[derive(Debug)]
struct Place {
    mapping: Arc<Mapping>,
    entries: u32,
    producer: usize,
    consumer: usize,
    flags: usize,
    array: usize,
    segments: usize,
    per_entry: u32,
}

impl Place {
    fn new<T: Plain>(mapping: Arc<Mapping>, ring: &superp_ring, per_entry: u32) -> Result<Self> {
        let at = |offset: u32| offset as usize;
        let inside = [ring.producer, ring.consumer, ring.flags]
            .into_iter()
            .all(|offset| mapping.word(at(offset)).is_some());
        let array = mapping.holds::<T>(at(ring.array), at(ring.entries));
        let segments = (ring.entries as usize).saturating_mul(per_entry as usize);
        let segments = mapping.holds::<superp_segment>(at(ring.segments), segments);
        if !inside || !array || !segments || !ring.entries.is_power_of_two() {
            return Err(Error::new(
                ErrorKind::InvalidData,
                "the kernel describes a ring that is not in its mapping",
            ));
        }
        Ok(Self {
            mapping,
            entries: ring.entries,
            producer: at(ring.producer),
            consumer: at(ring.consumer),
            flags: at(ring.flags),
            array: at(ring.array),
            segments: at(ring.segments),
            per_entry,
        })
    }

    /// The word at an offset that `new` has checked.
    #[inline]
    fn word(&self, offset: usize) -> &AtomicU32 {
        self.mapping.word(offset).expect("checked by new()")
    }

    #[inline]
    fn slot<T>(&self, index: u32) -> usize {
        self.array + (index & (self.entries - 1)) as usize * size_of::<T>()
    }

    /// The first segment of the slot of `index`.
    fn segment(&self, index: u32) -> usize {
        let slot = (index & (self.entries - 1)) as usize;
        self.segments + slot * self.per_entry as usize * size_of::<superp_segment>()
    }
}

/// The end that puts entries in.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    place: Place,
    /// Index of the next entry.
    next: u32,
    /// The consumer index as it was seen last.
    consumer: u32,
    entry: PhantomData<T>,
}

impl<T: Plain> Producer<T> {
    /// The producer of a ring that is new, whose slots have `per_entry` segments.
    pub(crate) fn new(mapping: Arc<Mapping>, ring: &superp_ring, per_entry: u32) -> Result<Self> {
        let place = Place::new::<T>(mapping, ring, per_entry)?;
        let next = place.word(place.producer).load(Ordering::Relaxed);
        let consumer = place.word(place.consumer).load(Ordering::Acquire);
        Ok(Self {
            place,
            next,
            consumer,
            entry: PhantomData,
        })
    }

    /// Entries of the ring.
    pub(crate) fn entries(&self) -> u32 {
        self.place.entries
    }

    /// Segments that an entry may have.
    pub(crate) fn per_entry(&self) -> u32 {
        self.place.per_entry
    }

    #[inline]
    fn room_seen(&self) -> u32 {
        let used = self.next.wrapping_sub(self.consumer);
        self.place.entries.saturating_sub(used)
    }

    /// How many entries can be put in now.
    pub(crate) fn room(&mut self) -> u32 {
        self.consumer = self.place.word(self.place.consumer).load(Ordering::Acquire);
        self.room_seen()
    }

    /// The slot of the next entry. `None`: the ring is full.
    #[inline]
    pub(crate) fn next_slot(&mut self) -> Option<u32> {
        // Loading the other side's line costs; what was seen last is enough as long as there is room.
        let full = self.room_seen() == 0 && self.room() == 0;
        (!full).then_some(self.next & (self.place.entries - 1))
    }

    /// Writes an entry with its segments, as far as a slot has room for them, which the consumer does
    /// not see before [`publish`](Self::publish). `false`: the ring is full.
    #[inline]
    pub(crate) fn push(
        &mut self,
        entry: T,
        segments: impl IntoIterator<Item = superp_segment>,
    ) -> bool {
        if self.next_slot().is_none() {
            return false;
        }
        self.place
            .mapping
            .write(self.place.slot::<T>(self.next), entry);
        let mut at = self.place.segment(self.next);
        for segment in segments.into_iter().take(self.place.per_entry as usize) {
            self.place.mapping.write(at, segment);
            at += size_of::<superp_segment>();
        }
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Lets the consumer see all entries that were pushed.
    pub(crate) fn publish(&self) {
        self.place
            .word(self.place.producer)
            .store(self.next, Ordering::Release);
    }

    /// Stores the limit word. `true`: fewer entries are left already, so that nothing is told.
    pub(crate) fn set_limit(&self, limit: u32) -> bool {
        let word = self.place.word(self.place.flags);
        word.store(limit, Ordering::Relaxed);
        std::sync::atomic::fence(Ordering::SeqCst);
        let index = |at| self.place.word(at).load(Ordering::Acquire);
        let left = index(self.place.producer).wrapping_sub(index(self.place.consumer));
        left < limit && word.swap(0, Ordering::Relaxed) != 0
    }

    /// The limit word: 0 when it was told.
    pub(crate) fn limit(&self) -> u32 {
        self.place.word(self.place.flags).load(Ordering::Relaxed)
    }

    /// The flags of the ring, as they are after all that was published.
    pub(crate) fn flags(&self) -> u32 {
        std::sync::atomic::fence(Ordering::SeqCst);
        self.place.word(self.place.flags).load(Ordering::Relaxed)
    }
}

/// The end that takes entries out.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    place: Place,
    /// Index of the next entry.
    next: u32,
    entry: PhantomData<T>,
}

impl<T: Plain> Consumer<T> {
    /// The consumer of a ring that is new.
    pub(crate) fn new(mapping: Arc<Mapping>, ring: &superp_ring) -> Result<Self> {
        let place = Place::new::<T>(mapping, ring, 0)?;
        let next = place.word(place.consumer).load(Ordering::Relaxed);
        Ok(Self {
            place,
            next,
            entry: PhantomData,
        })
    }

    /// Entries of the ring.
    pub(crate) fn entries(&self) -> u32 {
        self.place.entries
    }

    /// How many entries wait.
    pub(crate) fn waiting(&self) -> u32 {
        let producer = self.place.word(self.place.producer).load(Ordering::Acquire);
        producer.wrapping_sub(self.next).min(self.place.entries)
    }

    /// Takes at most `most` entries out, and gives them their room back.
    pub(crate) fn pop(&mut self, most: u32, mut each: impl FnMut(T)) -> u32 {
        let count = self.waiting().min(most);
        for _ in 0..count {
            if let Some(entry) = self.place.mapping.read(self.place.slot::<T>(self.next)) {
                each(entry);
            }
            self.next = self.next.wrapping_add(1);
        }
        if count > 0 {
            self.place
                .word(self.place.consumer)
                .store(self.next, Ordering::Release);
        }
        count
    }

    /// Stores the arm word. `false`: entries wait already.
    pub(crate) fn arm(&self, value: u32) -> bool {
        let word = self.place.word(self.place.flags);
        word.store(value, Ordering::Relaxed);
        self.is_empty()
    }

    /// As [`arm`](Self::arm), but what is stored already stays.
    pub(crate) fn arm_weakly(&self, value: u32) -> bool {
        let word = self.place.word(self.place.flags);
        let _ = word.compare_exchange(0, value, Ordering::Relaxed, Ordering::Relaxed);
        self.is_empty()
    }

    /// Whether no entries wait, after the arm word is stored.
    fn is_empty(&self) -> bool {
        std::sync::atomic::fence(Ordering::SeqCst);
        self.waiting() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::tests::pair;
    use crate::uapi::superp_cqe;

    const RING: superp_ring = superp_ring {
        entries: 8,
        producer: 0,
        consumer: 64,
        flags: 128,
        array: 192,
        segments: 0,
    };

    /// Both ends of one ring, in two mappings of the same memory, with this index to start from.
    fn ends(start: u32) -> (Producer<superp_cqe>, Consumer<superp_cqe>) {
        let (a, b) = pair(4096);
        for offset in [0, 64] {
            a.word(offset).unwrap().store(start, Ordering::Relaxed);
        }
        let producer = Producer::new(Arc::new(a), &RING, 0).unwrap();
        (producer, Consumer::new(Arc::new(b), &RING).unwrap())
    }

    fn entry(number: u64) -> superp_cqe {
        superp_cqe {
            token: number,
            error: number as u32,
            ..Default::default()
        }
    }

    #[test]
    fn full_ring_takes_nothing_and_indices_wrap() {
        let (mut producer, mut consumer) = ends(u32::MAX - 3);
        for round in 0..10 {
            for number in 0..8 {
                assert!(producer.push(entry(round * 8 + number), []));
            }
            assert_eq!(consumer.waiting(), 0, "not published");
            producer.publish();
            assert!(!producer.push(entry(0), []));
            assert_eq!(producer.next_slot(), None);
            assert_eq!(consumer.waiting(), 8);
            let mut seen = Vec::new();
            assert_eq!(consumer.pop(3, |e| seen.push(e.token)), 3);
            assert_eq!(producer.room(), 3);
            assert_eq!(producer.next_slot(), Some(4));
            assert_eq!(consumer.pop(100, |e| seen.push(e.token)), 5);
            let expected: Vec<u64> = (round * 8..round * 8 + 8).collect();
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn arming_tells_of_entries_that_wait_already() {
        let (mut producer, mut consumer) = ends(0);
        assert!(consumer.arm(1));
        assert_eq!(producer.flags(), 1);
        assert!(producer.push(entry(1), []));
        producer.publish();
        assert!(!consumer.arm(1));
        assert_eq!(consumer.pop(1, drop), 1);
        assert!(consumer.arm(1));
    }

    #[test]
    fn limit_below_what_is_left_is_told_at_once() {
        let (mut producer, mut consumer) = ends(0);
        for _ in 0..4 {
            assert!(producer.push(entry(1), []));
        }
        // What is not published is not there.
        assert!(producer.set_limit(1));
        producer.publish();
        assert!(!producer.set_limit(4));
        assert_eq!(producer.limit(), 4);
        assert_eq!(consumer.pop(1, drop), 1);
        assert!(producer.set_limit(4));
        assert_eq!(producer.limit(), 0);
        assert!(!producer.set_limit(0));
    }

    #[test]
    fn arming_for_some_does_not_end_arming_for_all() {
        let (producer, consumer) = ends(0);
        assert!(consumer.arm_weakly(2));
        assert_eq!(producer.flags(), 2);
        assert!(consumer.arm(1));
        assert!(consumer.arm_weakly(2));
        assert_eq!(producer.flags(), 1);
    }

    #[test]
    fn indices_of_a_broken_other_side_give_neither_a_panic_nor_endless_entries() {
        let (mut producer, mut consumer) = ends(0);
        consumer
            .place
            .word(RING.consumer as usize)
            .store(77, Ordering::Relaxed);
        assert_eq!(producer.room(), 0);
        consumer
            .place
            .word(RING.producer as usize)
            .store(u32::MAX, Ordering::Relaxed);
        let mut count = 0;
        assert_eq!(consumer.pop(1000, |_| count += 1), 8);
        assert_eq!(count, 8);
    }

    #[test]
    fn rings_outside_of_their_mapping_are_refused() {
        for wrong in [
            superp_ring { entries: 0, ..RING },
            superp_ring { entries: 7, ..RING },
            superp_ring {
                entries: 128,
                ..RING
            },
            superp_ring {
                entries: 1 << 31,
                ..RING
            },
            superp_ring {
                producer: 4096,
                ..RING
            },
            superp_ring {
                consumer: 66,
                ..RING
            },
            superp_ring {
                flags: u32::MAX,
                ..RING
            },
            superp_ring {
                array: 4000,
                ..RING
            },
        ] {
            let (mapping, _) = pair(4096);
            assert!(Producer::<superp_cqe>::new(Arc::new(mapping), &wrong, 0).is_err());
        }
    }

    #[test]
    fn segments_stay_in_their_slots() {
        let (a, b) = pair(4096);
        let ring = superp_ring {
            segments: 1024,
            ..RING
        };
        let per_entry = 3;
        let mut producer = Producer::<superp_cqe>::new(Arc::new(a), &ring, per_entry).unwrap();
        let segment = |key| superp_segment {
            key,
            ..Default::default()
        };
        assert!(producer.push(entry(0), [1, 2, 3, 4].map(segment)));
        assert!(producer.push(entry(1), [5].map(segment)));
        let found: Vec<u32> = (0..7)
            .map(|index| b.read::<superp_segment>(1024 + index * 16).unwrap().key)
            .collect();
        assert_eq!(found, [1, 2, 3, 5, 0, 0, 0]);
        let (mapping, _) = pair(4096);
        let too_many = Producer::<superp_cqe>::new(Arc::new(mapping), &ring, 25);
        assert!(too_many.is_err());
    }

    #[test]
    fn entries_of_two_threads_arrive_whole_and_in_order() {
        let (mut producer, mut consumer) = ends(0);
        let total = 300_000;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut number = 0;
                while number < total {
                    while number < total && producer.push(entry(number), []) {
                        number += 1;
                    }
                    producer.publish();
                    std::thread::yield_now();
                }
            });
            let mut expected = 0;
            while expected < total {
                let popped = consumer.pop(5, |e| {
                    assert_eq!((e.token, e.error), (expected, expected as u32));
                    expected += 1;
                });
                if popped == 0 {
                    std::thread::yield_now();
                }
            }
        });
    }
}
