// SPDX-License-Identifier: GPL-2.0

//! Tickets of ring submissions.

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use super::Queue;
use crate::{proto::Code, qp::RetryPolicy};

/// Consecutive submissions that have ended with the same outcome.
#[derive(Copy, Clone)]
pub(crate) struct CompletedRange {
    /// Index of the first submission.
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) outcome: Result<(), Code>,
}

impl CompletedRange {
    pub(crate) const NONE: CompletedRange = CompletedRange {
        first: 0,
        count: 0,
        outcome: Ok(()),
    };

    /// A range of one submission.
    pub(crate) fn one(first: u32, outcome: Result<(), Code>) -> CompletedRange {
        CompletedRange {
            first,
            count: 1,
            outcome,
        }
    }
}

/// The obligation to complete consecutive submissions exactly once. A drop completes the remaining
/// ones as aborted. Only the owner of the work completes them, so that the two atomic fields need
/// not change together.
pub(crate) struct Ticket {
    queue: Arc<Queue>,
    /// Index of the first submission that has not completed, and how many have not.
    first: Atomic<u32>,
    count: Atomic<u32>,
}

impl Ticket {
    /// Returns the ticket of submission `index`.
    pub(crate) fn new(queue: &Arc<Queue>, index: u32) -> Self {
        Ticket {
            queue: queue.clone(),
            first: Atomic::new(index),
            count: Atomic::new(1),
        }
    }

    /// Makes this the ticket of submission `index`. The earlier ones have completed.
    pub(crate) fn reset(&mut self, index: u32) {
        self.first.store(index, Relaxed);
        self.count.store(1, Relaxed);
    }

    /// Adds the next submission.
    pub(crate) fn extend(&mut self) {
        let count = self.count.load(Relaxed);
        self.count.store(count.saturating_add(1), Relaxed);
    }

    /// Removes up to `n` submissions from the front, with their outcome. `None`: all have
    /// completed.
    pub(crate) fn pop_range(&self, n: u32, outcome: Result<(), Code>) -> Option<CompletedRange> {
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

    /// Completes the remaining submissions. A second call does nothing. Any context up to softirq.
    /// A connection's lock may be held.
    pub(crate) fn complete(&self, outcome: Result<(), Code>) {
        self.complete_first(u32::MAX, outcome);
    }

    /// Completes the first `n` of the remaining submissions. Any context up to softirq. A
    /// connection's lock may be held.
    pub(crate) fn complete_first(&self, n: u32, outcome: Result<(), Code>) {
        if let Some(range) = self.pop_range(n, outcome) {
            self.queue.complete(&[range]);
        }
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// A value that identifies the queue pair while it has works under way. Any context.
    pub(crate) fn source(&self) -> usize {
        Arc::as_ptr(&self.queue).addr()
    }

    /// Flushes the submissions behind number `n` of this ticket that have not started. Any context
    /// up to softirq. A connection's lock may be held.
    pub(crate) fn flush_after(&self, n: u32) {
        self.queue
            .flush_after(self.first.load(Relaxed).wrapping_add(n));
    }

    /// Whether an earlier submission has failed, see
    /// [`Work::is_flushed`](crate::qp::work::Work::is_flushed). Any context.
    pub(crate) fn is_flushed(&self) -> bool {
        self.queue.is_flushed(self.first.load(Relaxed))
    }

    /// See [`crate::qp::work::Ticket::retry_policy`]. Any context up to softirq.
    pub(crate) fn retry_policy(&self) -> RetryPolicy {
        self.queue.retry_policy()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.complete(Err(Code::ABORTED));
    }
}
