// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

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

/// A receive entry that has been taken out: a private copy.
pub(crate) struct SrqEntry {
    pub(crate) entry: Rqe,
    /// How many of the segments the entry has, as far as the ring has room for them.
    count: u32,
    segments: [Segment; uapi::SUPERP_MAX_SEGMENTS as usize],
}

impl SrqEntry {
    /// Segment `number`; `None` if the entry has not so many.
    pub(crate) fn segment(&self, number: u32) -> Option<Segment> {
        let segment = self.segments.get(number as usize)?;
        (number < self.count).then_some(*segment)
    }
}

/// One shared receive queue.
#[pin_data]
pub(crate) struct Srq {
    ring: Ring<Rqe>,
    /// Queue pairs that take entries from it.
    pub(crate) users: Users,
    /// Told when it runs low.
    eventfd: SetOnce<EventFd>,
    /// The next entry; what the program sees is a copy.
    #[pin]
    consumer: SpinLockBh<u32>,
}

impl Srq {
    /// An empty queue of `entries` entries with `segments` segments each. Process context.
    ///
    /// # Errors
    ///
    /// `EINVAL`: no power of two. `ENOMEM`.
    pub(crate) fn new(entries: u32, segments: u32) -> Result<Arc<Srq>> {
        let memory = Shared::new(Ring::<Rqe>::size(entries, segments))?;
        Arc::pin_init(
            try_pin_init!(Srq {
                ring: Ring::new(&memory, 0, entries, segments)?,
                users: Users::none(),
                eventfd: SetOnce::new(),
                consumer <- new_spinlock_bh!(0, "superp_srq"),
            }),
            GFP_KERNEL,
        )
    }

    /// Its ring.
    pub(crate) fn ring(&self) -> &Ring<Rqe> {
        &self.ring
    }

    /// Has `eventfd` told when it runs low. Any context.
    ///
    /// # Errors
    ///
    /// `EBUSY`: there is one already.
    pub(crate) fn set_eventfd(&self, eventfd: EventFd) -> Result {
        if self.eventfd.populate(eventfd) {
            Ok(())
        } else {
            Err(EBUSY)
        }
    }

    /// Whether there is no entry. Any context.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.producer() == *self.consumer.lock()
    }

    /// Whether the producer index is one that it cannot be. Any context.
    pub(crate) fn has_bad_producer(&self) -> bool {
        let consumer = *self.consumer.lock();
        self.ring.producer().wrapping_sub(consumer) > self.ring.entries()
    }

    /// Takes the oldest entry. Any context up to softirq.
    ///
    /// # Errors
    ///
    /// `NoBuffer`: there is none any more.
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
            // The program stores the limit, then looks at the consumer; here it is the other way round.
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
