// SPDX-License-Identifier: GPL-2.0

//! Completions of works in batches.

use kernel::{list::ListArc, prelude::*, sync::Arc};

use super::{
    queue::CompletedRange,
    work::{Pool, Recycled, Ticket, Work},
    Queue,
};
use crate::proto::Code;

/// Largest number of works in a batch.
const RANGES_MAX: usize = 16;

/// Completes works of one queue pair together, under one hold of its lock. It flushes itself when
/// it is full, when a work of another queue pair is added, and when it is dropped.
pub(crate) struct CompletionBatch {
    queue: Option<(Arc<Queue>, Arc<Pool>)>,
    ranges: [CompletedRange; RANGES_MAX],
    recycled: [Option<Recycled>; RANGES_MAX],
    count: usize,
}

impl CompletionBatch {
    /// Returns an empty batch.
    pub(crate) fn new() -> Self {
        CompletionBatch {
            queue: None,
            ranges: [CompletedRange::NONE; RANGES_MAX],
            recycled: [const { None }; RANGES_MAX],
            count: 0,
        }
    }

    /// Completes a work as part of the batch, which completes works of one ring together. A second
    /// completion does nothing. Any context up to softirq. A connection's lock may be held.
    pub(crate) fn complete(&mut self, work: ListArc<Work>, outcome: Result<(), Code>) {
        match &work.ticket {
            Ticket::Ring(..) if work.cut_code().is_none() => self.add(work, outcome),
            _ => work.complete(outcome),
        }
    }

    /// Completes a work alone, with success. Any context up to softirq. A connection's lock may be
    /// held.
    pub(crate) fn complete_done(work: ListArc<Work>) {
        match &work.ticket {
            Ticket::Ring(ticket, pool) if work.cut_code().is_none() => {
                if let Some(range) = ticket.pop_range(u32::MAX, Ok(())) {
                    let (queue, pool) = (ticket.queue().clone(), pool.clone());
                    let recycled = Work::recycle(work);
                    queue.complete(&[range]);
                    pool.put(&mut [recycled]);
                }
            }
            _ => work.complete(Ok(())),
        }
    }

    /// Adds a ring work, which completes by the time the batch is dropped.
    fn add(&mut self, work: ListArc<Work>, outcome: Result<(), Code>) {
        let Ticket::Ring(ticket, pool) = &work.ticket else {
            return;
        };
        let Some(range) = ticket.pop_range(u32::MAX, outcome) else {
            return;
        };
        let same = |(queue, _): &(Arc<Queue>, _)| Arc::ptr_eq(queue, ticket.queue());
        if self.count >= RANGES_MAX || !self.queue.as_ref().is_some_and(same) {
            self.flush();
            self.queue = Some((ticket.queue().clone(), pool.clone()));
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

    /// Completes the works in the batch.
    fn flush(&mut self) {
        let count = self.count;
        let batch = (self.ranges.get(..count), self.recycled.get_mut(..count));
        if let (Some((queue, pool)), (Some(ranges @ [_, ..]), Some(recycled))) =
            (&self.queue, batch)
        {
            queue.complete(ranges);
            pool.put(recycled);
            // Frees the works that a closed queue pair did not take.
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
