// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues of contexts.

use kernel::{
    prelude::*,
    sync::{Arc, SetOnce},
};

use super::{users::Users, RecvError};
use crate::kapi::{
    compat::smp_mb,
    event::EventFd,
    lock::{new_spinlock_bh, SpinLockBh},
    ring::{Ring, Rqe, Segment, Shared},
    uapi,
};

/// Private copy of a receive entry that was taken from the queue.
pub(crate) struct SrqEntry {
    pub(crate) entry: Rqe,
    /// Number of valid `segments`: those of the entry, at most as many as a slot of the ring has.
    count: u32,
    segments: [Segment; uapi::SUPERP_MAX_SEGMENTS as usize],
}

impl SrqEntry {
    /// Segment `number`, or `None` if the entry has fewer.
    pub(crate) fn segment(&self, number: u32) -> Option<Segment> {
        let segment = self.segments.get(number as usize)?;
        (number < self.count).then_some(*segment)
    }
}

/// One shared receive queue.
#[pin_data]
pub(crate) struct Srq {
    ring: Ring<Rqe>,
    /// Queue pairs that take entries from this queue.
    pub(crate) users: Users,
    /// Signalled when fewer entries are left than the limit word says.
    eventfd: SetOnce<EventFd>,
    /// Index of the next entry to take. The word in the ring is a copy for the program. The lock
    /// nests inside `Queue::receiving`.
    #[pin]
    consumer: SpinLockBh<u32>,
}

impl Srq {
    /// Returns an empty queue of `entries` entries with `segments` segments each. Process context.
    ///
    /// # Errors
    ///
    /// `EINVAL`: `entries` is not a power of two. `ENOMEM`: out of memory, or over RLIMIT_MEMLOCK.
    pub(crate) fn new(entries: u32, segments: u32) -> Result<Arc<Srq>> {
        let memory = Shared::new(Ring::<Rqe>::size(entries, segments))?;
        Arc::pin_init(
            try_pin_init!(Srq {
                ring: Ring::new(&memory, 0, entries, segments)?,
                users: Users::none(),
                eventfd: SetOnce::new(),
                consumer <- new_spinlock_bh!(0, "superp_srq"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    pub(crate) fn ring(&self) -> &Ring<Rqe> {
        &self.ring
    }

    /// Signals `eventfd` when the queue runs low. Any context.
    ///
    /// # Errors
    ///
    /// `EBUSY`: the queue has an eventfd already.
    pub(crate) fn set_eventfd(&self, eventfd: EventFd) -> Result {
        if self.eventfd.populate(eventfd) {
            Ok(())
        } else {
            Err(EBUSY)
        }
    }

    /// Whether the queue has no entry. Any context up to softirq.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.producer() == *self.consumer.lock()
    }

    /// Whether the producer index is out of bounds. Any context up to softirq.
    pub(crate) fn has_bad_producer(&self) -> bool {
        let consumer = *self.consumer.lock();
        self.ring.producer().wrapping_sub(consumer) > self.ring.entries()
    }

    /// Takes the oldest entry. Any context up to softirq.
    ///
    /// # Errors
    ///
    /// `NoBuffer`: the queue is empty, or its producer index is out of bounds.
    pub(crate) fn take(&self) -> Result<SrqEntry, RecvError> {
        let mut consumer = self.consumer.lock();
        let index = *consumer;
        let ready = self.ring.producer().wrapping_sub(index);
        if ready == 0 || ready > self.ring.entries() {
            return Err(RecvError::NoBuffer);
        }
        let entry = self.ring.read(index);
        let mut segments = [Segment::default(); uapi::SUPERP_MAX_SEGMENTS as usize];
        let mut count = 0;
        for (number, slot) in (0..entry.segments).zip(&mut segments) {
            let Some(segment) = self.ring.segment(index, number) else {
                break;
            };
            *slot = segment;
            count = number.wrapping_add(1);
        }
        let next = index.wrapping_add(1);
        *consumer = next;
        self.ring.set_consumer(next);
        drop(consumer);
        if let Some(eventfd) = self.eventfd.as_ref() {
            // Pairs with the barrier of the program, which stores the limit word before it loads
            // the consumer index. One of the two sees the other's store, so that no event is lost.
            smp_mb();
            if self.ring.take_limit(next) {
                eventfd.signal();
            }
        }
        Ok(SrqEntry {
            entry,
            count,
            segments,
        })
    }
}
