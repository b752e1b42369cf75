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

use super::Queue;
use crate::{
    proto::Code,
    qp::work::{self, Recycled, RetryPolicy, Work},
};

/// Submissions that follow each other, and their outcome.
#[derive(Copy, Clone)]
pub(crate) struct CompletedRange {
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) outcome: Result<(), Code>,
}

impl CompletedRange {
    const NONE: CompletedRange = CompletedRange {
        first: 0,
        count: 0,
        outcome: Ok(()),
    };

    /// One submission.
    pub(crate) fn one(first: u32, outcome: Result<(), Code>) -> CompletedRange {
        CompletedRange {
            first,
            count: 1,
            outcome,
        }
    }
}

/// The obligation to complete submissions that follow each other, exactly once; dropped before, they complete
/// as aborted. Only who has the work ends them, nobody else meanwhile.
pub(crate) struct Ticket {
    queue: Arc<Queue>,
    /// The first that has not completed, and how many there are.
    first: Atomic<u32>,
    count: Atomic<u32>,
}

impl Ticket {
    /// For entry `index` of a ring.
    pub(crate) fn new(queue: &Arc<Queue>, index: u32) -> Self {
        Ticket {
            queue: queue.clone(),
            first: Atomic::new(index),
            count: Atomic::new(1),
        }
    }

    /// For another submission; those before have completed.
    pub(crate) fn reset(&mut self, index: u32) {
        self.first.store(index, Relaxed);
        self.count.store(1, Relaxed);
    }

    /// For the next submission, too.
    pub(crate) fn extend(&mut self) {
        let count = self.count.load(Relaxed);
        self.count.store(count.saturating_add(1), Relaxed);
    }

    /// Ends up to `n` of the submissions, if there are any.
    fn pop_range(&self, n: u32, outcome: Result<(), Code>) -> Option<CompletedRange> {
        let (first, remaining) = (self.first.load(Relaxed), self.count.load(Relaxed));
        let count = remaining.min(n);
        self.first.store(first.wrapping_add(count), Relaxed);
        self.count.store(remaining.saturating_sub(count), Relaxed);
        (count > 0).then_some(CompletedRange {
            first,
            count,
            outcome,
        })
    }

    /// Completes the submissions; a second time does nothing. Any context up to softirq, a
    /// connection's lock may be held.
    pub(crate) fn complete(&self, outcome: Result<(), Code>) {
        self.complete_first(u32::MAX, outcome);
    }

    /// Completes the first `n` submissions, as [`Ticket::complete`].
    pub(crate) fn complete_first(&self, n: u32, outcome: Result<(), Code>) {
        if let Some(range) = self.pop_range(n, outcome) {
            self.queue.complete(&[range], &mut []);
        }
    }

    /// Tells the queue pair from others that have something under way. Any context.
    pub(crate) fn source(&self) -> usize {
        Arc::as_ptr(&self.queue).addr()
    }

    /// What was submitted behind number `n` of these is not to begin. Any context up to softirq, a
    /// connection's lock may be held.
    pub(crate) fn flush_after(&self, n: u32) {
        self.queue
            .flush_after(self.first.load(Relaxed).wrapping_add(n));
    }

    /// As [`Work::is_flushed`].
    pub(crate) fn is_flushed(&self) -> bool {
        self.queue.is_flushed(self.first.load(Relaxed))
    }

    /// As [`crate::qp::work::Ticket::retry_policy`].
    pub(crate) fn retry_policy(&self) -> RetryPolicy {
        self.queue.retry_policy()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.complete(Err(Code::ABORTED));
    }
}

/// Most works that end together.
const RANGES_MAX: usize = 16;

/// Submissions that end, so that those of one queue pair in a row end together. Dropping it sees to it.
pub(crate) struct CompletionBatch {
    queue: Option<Arc<Queue>>,
    ranges: [CompletedRange; RANGES_MAX],
    recycled: [Option<Recycled>; RANGES_MAX],
    count: usize,
}

impl CompletionBatch {
    /// None so far.
    pub(crate) fn new() -> Self {
        CompletionBatch {
            queue: None,
            ranges: [CompletedRange::NONE; RANGES_MAX],
            recycled: [const { None }; RANGES_MAX],
            count: 0,
        }
    }

    /// Completes a work of a ring of which there are no others; as [`Ticket::complete`].
    pub(crate) fn complete_one(work: ListArc<Work>, outcome: Result<(), Code>) {
        let work::Ticket::Ring(ticket) = &work.ticket else {
            return;
        };
        if let Some(range) = ticket.pop_range(u32::MAX, outcome) {
            let queue = ticket.queue.clone();
            queue.complete(&[range], &mut [Work::recycle(work)]);
        }
    }

    /// One more, of a ring; as [`Ticket::complete`].
    pub(crate) fn add(&mut self, work: ListArc<Work>, outcome: Result<(), Code>) {
        let work::Ticket::Ring(ticket) = &work.ticket else {
            return;
        };
        let Some(range) = ticket.pop_range(u32::MAX, outcome) else {
            return;
        };
        let queue = self.queue.as_ref();
        if self.count >= RANGES_MAX || !queue.is_some_and(|queue| Arc::ptr_eq(queue, &ticket.queue))
        {
            self.flush();
            self.queue = Some(ticket.queue.clone());
        }
        let slots = (
            self.ranges.get_mut(self.count),
            self.recycled.get_mut(self.count),
        );
        if let (Some(slot), Some(recycled)) = slots {
            *slot = range;
            *recycled = Work::recycle(work);
            self.count = self.count.saturating_add(1);
        }
    }

    fn flush(&mut self) {
        let count = self.count;
        let batch = (self.ranges.get(..count), self.recycled.get_mut(..count));
        if let (Some(queue), (Some(ranges @ [_, ..]), Some(recycled))) = (&self.queue, batch) {
            queue.complete(ranges, recycled);
            // Those that it has not taken are of no use.
            recycled.fill_with(|| None);
        }
        self.count = 0;
    }
}

impl Drop for CompletionBatch {
    fn drop(&mut self) {
        self.flush();
    }
}
