// SPDX-License-Identifier: GPL-2.0

//! Builds works from submissions. Consecutive submissions that are alike are merged into one work.

use kernel::list::{List, ListArc};

use super::entry;
use crate::{
    conn::Conn,
    kapi::ring::Sqe,
    qp::{
        work::{PackKey, UnpostedWork, Work},
        Lookup,
    },
};

/// Number of works that are posted together, unless the ring has fewer. It is the number of packets
/// in a burst, so that a larger number would not make a larger burst.
const POST_MIN: usize = 16;

/// The last work, to which more submissions can be added.
struct OpenWork {
    work: UnpostedWork,
    /// Its first submission.
    first: Sqe,
    /// Number of submissions that the packet of the work can take in addition.
    free: u32,
}

/// Works in the order of their submissions.
///
/// 1. [`WorkBuilder::try_merge`] adds a submission to the last work.
/// 2. If it returns `false`, the caller parses the submission and calls [`WorkBuilder::begin`], or
///    [`WorkBuilder::push`] if no other one can be merged with it.
/// 3. After each batch, [`WorkBuilder::take_works`] returns the works to post.
pub(super) struct WorkBuilder {
    /// Index behind the last submission in the ring.
    end: u32,
    /// The last result of [`Conn::per_packet`], which takes the connection's lock.
    per_packet: Option<(PackKey, u32)>,
    works: List<Work>,
    /// Length of `works`.
    count: usize,
    /// The work that follows `works`, while submissions can be added to it.
    open: Option<OpenWork>,
}

impl WorkBuilder {
    /// Returns a builder for submissions before index `end`.
    pub(super) fn new(end: u32) -> Self {
        Self {
            end,
            per_packet: None,
            works: List::new(),
            count: 0,
            open: None,
        }
    }

    /// Adds a work that nothing is merged with.
    pub(super) fn push(&mut self, work: UnpostedWork) {
        self.close_open();
        self.append(work);
    }

    /// Adds the work of submission `index`. Submissions with the same `key` can be merged with it,
    /// as many as a packet of `conn` takes.
    pub(super) fn begin(
        &mut self,
        work: UnpostedWork,
        index: u32,
        entry: &Sqe,
        key: PackKey,
        conn: &Conn,
    ) {
        if index.wrapping_add(1) == self.end {
            return self.push(work);
        }
        let (_, per_packet) = match self.per_packet {
            Some(found) if found.0 == key => found,
            _ => *self.per_packet.insert((key, conn.per_packet(key))),
        };
        if per_packet <= 1 {
            return self.push(work);
        }
        self.close_open();
        self.open = Some(OpenWork {
            work,
            first: *entry,
            free: per_packet.saturating_sub(1),
        });
    }

    /// Adds a submission to the last work. Returns `false` if it cannot be merged or its bytes are
    /// not in the region of that work. The last lookup of `regions` is that of the work's region.
    pub(super) fn try_merge(&mut self, entry: &Sqe, regions: &Lookup<'_>) -> bool {
        let Some(open) = &mut self.open else {
            return false;
        };
        if open.free == 0 || !entry::can_merge(entry, &open.first) {
            return false;
        }
        let Some(offset) = regions.offset_in_last(entry.operands().local_addr, entry.length) else {
            return false;
        };
        open.free = open.free.saturating_sub(1);
        open.work.merge(entry.remote_addr, offset)
    }

    /// Returns the works to post: all of them if `is_last`, else those before the last one, and
    /// none if they are fewer than [`POST_MIN`].
    pub(super) fn take_works(&mut self, is_last: bool) -> List<Work> {
        if is_last {
            self.close_open();
        }
        if !is_last && self.count < POST_MIN {
            return List::new();
        }
        self.count = 0;
        core::mem::replace(&mut self.works, List::new())
    }

    /// Nothing is merged with the last work any more.
    fn close_open(&mut self) {
        if let Some(open) = self.open.take() {
            self.append(open.work);
        }
    }

    fn append(&mut self, work: UnpostedWork) {
        self.count = self.count.saturating_add(1);
        self.works.push_back(ListArc::from(work));
    }
}
