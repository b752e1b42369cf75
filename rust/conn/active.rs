// SPDX-License-Identifier: GPL-2.0

//! Works that have been started and not ended.

use core::iter;

use kernel::{
    list::{List, ListArc},
    sync::ArcBorrow,
};

use crate::{proto::Code, qp::work::Work};

/// The work whose transactions are being submitted or are under way.
pub(super) struct Active {
    pub(super) work: ListArc<Work>,
    /// More works of the same transaction, all [`PackKey`] and, as the first, in one packet. They
    /// may be of other flows.
    pub(super) more: List<Work>,
    /// Requests of the works in all.
    pub(super) count: u16,
    pub(super) flow: u32,
    /// Bytes submitted so far.
    pub(super) submitted: u64,
    /// Whether every byte has been submitted, or no more will be.
    pub(super) closed: bool,
    /// Transactions under way.
    pub(super) transactions: u32,
    /// First error of any of them.
    pub(super) error: Option<Code>,
    /// The message says `start`.
    pub(super) start: bool,
    /// The immediate of a write is submitted.
    pub(super) told: bool,
}

impl Active {
    /// The works in the order of their operations.
    pub(super) fn works(&self) -> impl Iterator<Item = ArcBorrow<'_, Work>> {
        Iterator::chain(iter::once(self.work.as_arc_borrow()), self.more.iter())
    }

    /// The works, and the numbers of their requests, in the order of their operations.
    pub(super) fn requests(&self) -> impl Iterator<Item = (ArcBorrow<'_, Work>, u16)> {
        let mut more = self.more.iter();
        let (mut work, mut number) = (self.work.as_arc_borrow(), 0);
        iter::from_fn(move || {
            if number == work.count() {
                (work, number) = (more.next()?, 0);
            }
            let request = (work, number);
            number = number.saturating_add(1);
            Some(request)
        })
    }

    /// The work of an operation, and its number among the requests of that.
    pub(super) fn request(&self, mut op: u32) -> Option<(ArcBorrow<'_, Work>, u16)> {
        for work in self.works() {
            match op.checked_sub(work.count().into()) {
                Some(rest) => op = rest,
                // CAST: It is smaller than the count.
                None => return Some((work, op as u16)),
            }
        }
        None
    }
}
