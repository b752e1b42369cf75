// SPDX-License-Identifier: GPL-2.0

//! Completion queues of contexts.

use kernel::{
    prelude::*,
    sync::{Arc, SetOnce},
};

use super::{page::Page, users::Users};
use crate::kapi::{
    compat::smp_mb,
    event::EventFd,
    lock::{new_spinlock_bh, GuardBh, SpinLockBh},
    ring::{Cqe, Ring, Shared},
};

struct State {
    /// Index of the next entry to write. The word in the ring is a copy for the program.
    producer: u32,
    /// Entries that are reserved for requests under way.
    reserved: u32,
}

/// One completion queue. Every entry is reserved before its request starts, so that a completion
/// always finds a free entry and never overwrites one.
#[pin_data]
pub(crate) struct Cq {
    id: u32,
    page: Arc<Page>,
    ring: Ring<Cqe>,
    /// If set, events go here and not to the event bits of the context.
    eventfd: SetOnce<EventFd>,
    /// Queue pairs that complete here.
    pub(crate) users: Users,
    #[pin]
    state: SpinLockBh<State>,
}

impl Cq {
    /// Returns an empty queue of `entries` entries. Process context.
    ///
    /// # Errors
    ///
    /// `EINVAL`: `entries` is not a power of two. `ENOMEM`: out of memory, or over RLIMIT_MEMLOCK.
    pub(crate) fn new(page: &Arc<Page>, id: u32, entries: u32) -> Result<Arc<Cq>> {
        let memory = Shared::new(Ring::<Cqe>::size(entries, 0))?;
        Arc::pin_init(
            try_pin_init!(Cq {
                id,
                page: page.clone(),
                ring: Ring::new(&memory, 0, entries, 0)?,
                eventfd: SetOnce::new(),
                users: Users::none(),
                state <- new_spinlock_bh!(State { producer: 0, reserved: 0 }, "superp_cq"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    pub(crate) fn ring(&self) -> &Ring<Cqe> {
        &self.ring
    }

    /// Sends the events of this queue to `eventfd`. Any context.
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

    /// Wakes the waiters of this queue. Any context up to softirq.
    fn notify(&self) {
        match self.eventfd.as_ref() {
            Some(eventfd) => eventfd.signal(),
            None => self.page.event(self.id),
        }
    }

    fn free_entries(&self, state: &State) -> u32 {
        let used = state.producer.wrapping_sub(self.ring.consumer());
        // The program writes the consumer index. If it is out of bounds, `used` exceeds the size of
        // the ring and nothing is free.
        let used = used.saturating_add(state.reserved);
        self.ring.entries().saturating_sub(used)
    }

    /// Whether an entry could be reserved now. Any context up to softirq.
    pub(crate) fn has_free_entry(&self) -> bool {
        self.free_entries(&self.state.lock()) > 0
    }

    /// Reserves up to `count` entries and returns how many. Any context up to softirq.
    pub(crate) fn reserve(&self, count: u32) -> u32 {
        let mut state = self.state.lock();
        let granted = self.free_entries(&state).min(count);
        state.reserved = state.reserved.saturating_add(granted);
        granted
    }

    /// Locks the queue to use up reservations. Any context up to softirq.
    pub(crate) fn writer(&self) -> CqWriter<'_> {
        CqWriter {
            cq: self,
            state: self.state.lock(),
            published: true,
            solicited: false,
        }
    }
}

/// A locked completion queue. Each reservation is used up by [`CqWriter::post`] or returned by
/// [`CqWriter::release`]. The owner calls [`CqWriter::finish`] after the last completion.
pub(crate) struct CqWriter<'a> {
    cq: &'a Cq,
    state: GuardBh<'a, State>,
    /// Nothing was written since the producer index was last published.
    published: bool,
    /// A written completion is solicited or reports an error.
    solicited: bool,
}

impl CqWriter<'_> {
    /// Returns one reservation.
    pub(crate) fn release(&mut self) {
        self.state.reserved = self.state.reserved.saturating_sub(1);
    }

    /// Writes a completion and uses up one reservation. `solicited`: the sender marked the message
    /// so.
    pub(crate) fn post(&mut self, entry: &Cqe, solicited: bool) {
        self.cq.ring.write(self.state.producer, entry);
        self.state.producer = self.state.producer.wrapping_add(1);
        self.published = false;
        self.solicited |= solicited || entry.major != 0;
        self.release();
    }

    /// Publishes the written completions and unlocks the queue. Wakes the waiters if the queue is
    /// armed.
    pub(crate) fn finish(self) {
        let CqWriter {
            cq,
            state,
            published,
            solicited,
        } = self;
        if published {
            return;
        }
        cq.ring.set_producer(state.producer);
        drop(state);
        // Pairs with the barrier of the program, which stores the arm word before it loads the
        // producer index. One of the two sees the other's store, so that no event is lost.
        smp_mb();
        if cq.ring.disarm(solicited) {
            cq.notify();
        }
    }
}
