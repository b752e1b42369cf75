// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

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
    /// The next entry. What the program sees is a copy.
    producer: u32,
    /// Entries that are granted to requests under way.
    reserved: u32,
}

/// One completion queue. An entry is written only where there was room for it before.
#[pin_data]
pub(crate) struct Cq {
    id: u32,
    page: Arc<Page>,
    ring: Ring<Cqe>,
    /// Where its events go instead of the context's page.
    eventfd: SetOnce<EventFd>,
    /// Queue pairs that complete here.
    pub(crate) users: Users,
    #[pin]
    state: SpinLockBh<State>,
}

impl Cq {
    /// An empty queue of `entries` entries. Process context.
    ///
    /// # Errors
    ///
    /// `EINVAL`: no power of two. `ENOMEM`.
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
            GFP_KERNEL,
        )
    }

    /// Its ring.
    pub(crate) fn ring(&self) -> &Ring<Cqe> {
        &self.ring
    }

    /// Has its events go to `eventfd`. Any context.
    ///
    /// # Errors
    ///
    /// `EBUSY`: they go to one already.
    pub(crate) fn set_eventfd(&self, eventfd: EventFd) -> Result {
        if self.eventfd.populate(eventfd) {
            Ok(())
        } else {
            Err(EBUSY)
        }
    }

    /// Tells who waits. Any context up to softirq.
    fn notify(&self) {
        match self.eventfd.as_ref() {
            Some(eventfd) => eventfd.signal(),
            None => self.page.event(self.id),
        }
    }

    fn free_entries(&self, state: &State) -> u32 {
        let used = state.producer.wrapping_sub(self.ring.consumer());
        // A consumer index that is out of bounds leaves no room.
        let used = used.saturating_add(state.reserved);
        self.ring.entries().saturating_sub(used)
    }

    /// Whether a completion would have room now. Any context.
    pub(crate) fn has_free_entry(&self) -> bool {
        self.free_entries(&self.state.lock()) > 0
    }

    /// Promises room for completions, `count` at most; gives how many. Any context.
    pub(crate) fn reserve(&self, count: u32) -> u32 {
        let mut state = self.state.lock();
        let granted = self.free_entries(&state).min(count);
        state.reserved = state.reserved.saturating_add(granted);
        granted
    }

    /// Begins to redeem promises. Any context up to softirq.
    pub(crate) fn writer(&self) -> CqWriter<'_> {
        CqWriter {
            cq: self,
            state: self.state.lock(),
            published: true,
            solicited: false,
        }
    }
}

/// Promises are being redeemed: by completions, or by giving them back.
pub(crate) struct CqWriter<'a> {
    cq: &'a Cq,
    state: GuardBh<'a, State>,
    /// The program knows of all completions.
    published: bool,
    /// One of them wakes who waits for such ones alone.
    solicited: bool,
}

impl CqWriter<'_> {
    /// Gives a promise back.
    pub(crate) fn release(&mut self) {
        self.state.reserved = self.state.reserved.saturating_sub(1);
    }

    /// Writes a completion for which there was a promise. `solicited`: its sender says so.
    pub(crate) fn post(&mut self, entry: &Cqe, solicited: bool) {
        self.cq.ring.write(self.state.producer, entry);
        self.state.producer = self.state.producer.wrapping_add(1);
        self.published = false;
        self.solicited |= solicited || entry.major != 0;
        self.release();
    }

    /// Tells the program of what has been written.
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
        // The program arms, then looks at the producer; here it is the other way round.
        smp_mb();
        if cq.ring.disarm(solicited) {
            cq.notify();
        }
    }
}
