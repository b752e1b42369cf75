// SPDX-License-Identifier: GPL-2.0

//! The ends of submissions.

use kernel::{
    list::ListArc,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use super::queue::Queue;
use crate::{
    proto::Code,
    work::{self, Patience, Spent, Work},
};

/// The obligation to complete a submission exactly once; dropped before, it completes as aborted.
pub(crate) struct Ticket {
    queue: Arc<Queue>,
    index: u32,
    done: Atomic<bool>,
}

impl Ticket {
    /// For entry `index` of a ring.
    pub(super) fn new(queue: &Arc<Queue>, index: u32) -> Self {
        Ticket {
            queue: queue.clone(),
            index,
            done: Atomic::new(false),
        }
    }

    /// For another submission; this one has completed.
    pub(crate) fn renew(&mut self, index: u32) {
        self.index = index;
        self.done.store(false, Relaxed);
    }

    /// Whether this is the end of the submission. Only who has the work ends it, nobody else meanwhile.
    fn end(&self) -> bool {
        let first = !self.done.load(Relaxed);
        self.done.store(true, Relaxed);
        first
    }

    /// Completes the submission; a second time does nothing. Any context up to softirq, a
    /// connection's lock may be held.
    pub(crate) fn complete(&self, outcome: Result<(), Code>) {
        if self.end() {
            self.queue.complete(&[(self.index, outcome)], &mut []);
        }
    }

    /// Tells the queue pair from others that have something under way. Any context.
    pub(crate) fn source(&self) -> usize {
        Arc::as_ptr(&self.queue).addr()
    }

    /// As [`crate::work::Ticket::patience`].
    pub(crate) fn patience(&self) -> Patience {
        self.queue.patience()
    }
}

/// Most submissions that end together.
const ENDINGS_MAX: usize = 16;

/// Submissions that end, so that those of one queue pair in a row end together. Dropping it sees to it.
pub(crate) struct Endings {
    queue: Option<Arc<Queue>>,
    ended: [(u32, Result<(), Code>); ENDINGS_MAX],
    spent: [Option<Spent>; ENDINGS_MAX],
    count: usize,
}

impl Endings {
    /// None so far.
    pub(crate) fn new() -> Self {
        Endings {
            queue: None,
            ended: [(0, Ok(())); ENDINGS_MAX],
            spent: [const { None }; ENDINGS_MAX],
            count: 0,
        }
    }

    /// One more, of a ring; as [`Ticket::complete`].
    pub(crate) fn add(&mut self, work: ListArc<Work>, outcome: Result<(), Code>) {
        let work::Ticket::Ring(ticket) = &work.ticket else {
            return;
        };
        if !ticket.end() {
            return;
        }
        let queue = self.queue.as_ref();
        if self.count >= ENDINGS_MAX
            || !queue.is_some_and(|queue| Arc::ptr_eq(queue, &ticket.queue))
        {
            self.flush();
            self.queue = Some(ticket.queue.clone());
        }
        let index = ticket.index;
        let places = (
            self.ended.get_mut(self.count),
            self.spent.get_mut(self.count),
        );
        if let (Some(ended), Some(spent)) = places {
            *ended = (index, outcome);
            *spent = Work::spend(work);
            self.count = self.count.saturating_add(1);
        }
    }

    fn flush(&mut self) {
        let count = self.count;
        let ends = (self.ended.get(..count), self.spent.get_mut(..count));
        if let (Some(queue), (Some(ended @ [_, ..]), Some(spent))) = (&self.queue, ends) {
            queue.complete(ended, spent);
            // Those that it has not taken are of no use.
            spent.fill_with(|| None);
        }
        self.count = 0;
    }
}

impl Drop for Endings {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.complete(Err(Code::ABORTED));
    }
}
