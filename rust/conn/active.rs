// SPDX-License-Identifier: GPL-2.0

//! Active works: those that were started and have not ended.

use core::iter;

use kernel::{
    list::{List, ListArc},
    sync::ArcBorrow,
};

use crate::{proto::Code, qp::work::Work};

/// An active work. Its transactions are being submitted, or are under way.
pub(super) struct Active {
    pub(super) work: ListArc<Work>,
    /// More works that share the only transaction of `work`. All have the same [`PackKey`] and are
    /// in one packet. They may belong to other flows.
    pub(super) packed: List<Work>,
    /// Requests of `work` and `packed` together.
    pub(super) request_count: u16,
    /// Index of the flow of `work`.
    pub(super) flow: u32,
    /// Bytes of `work` that were submitted.
    pub(super) submitted: u64,
    /// No more transactions will be submitted: every byte was, or the work has failed.
    pub(super) closed: bool,
    /// Transactions under way.
    pub(super) transactions: u32,
    /// First error of a transaction. Any other error replaces a refusal for want of a buffer.
    pub(super) error: Option<Code>,
    /// The message carries `start` [proto 7].
    pub(super) start: bool,
    /// A transaction with the write's immediate was submitted.
    pub(super) imm_submitted: bool,
}

impl Active {
    /// The works, in the order of their operations.
    pub(super) fn works(&self) -> impl Iterator<Item = ArcBorrow<'_, Work>> {
        Iterator::chain(iter::once(self.work.as_arc_borrow()), self.packed.iter())
    }

    /// Each request: its work, and its number in that. The order is that of the operations.
    pub(super) fn requests(&self) -> impl Iterator<Item = (ArcBorrow<'_, Work>, u16)> {
        let mut packed = self.packed.iter();
        let (mut work, mut number) = (self.work.as_arc_borrow(), 0);
        iter::from_fn(move || {
            if number == work.count() {
                (work, number) = (packed.next()?, 0);
            }
            let request = (work, number);
            number = number.saturating_add(1);
            Some(request)
        })
    }

    /// The request of operation `op`: its work, and its number in that.
    pub(super) fn request(&self, mut op: u32) -> Option<(ArcBorrow<'_, Work>, u16)> {
        for work in self.works() {
            match op.checked_sub(work.count().into()) {
                Some(rest) => op = rest,
                // CAST: `op` is below `work.count()`, a `u16`.
                None => return Some((work, op as u16)),
            }
        }
        None
    }
}
