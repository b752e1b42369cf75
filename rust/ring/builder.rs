// SPDX-License-Identifier: GPL-2.0

//! Works that are made of submissions: those that follow each other and are alike become one.

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

/// Works that are posted at a go, at least: those that follow leave in another burst.
const POST_MIN: usize = 16;

/// A work to which submissions can be added.
struct OpenWork {
    work: UnpostedWork,
    /// The first submission.
    first: Sqe,
    /// How many more have room in its packet.
    free: u32,
}

/// Works, in the order of their submissions.
pub(super) struct WorkBuilder {
    /// Index behind the last submission.
    end: u32,
    /// How many of a kind have room in a packet, as was found last.
    per_packet: Option<(PackKey, u32)>,
    works: List<Work>,
    /// How many those are.
    count: usize,
    /// The last one.
    open: Option<OpenWork>,
}

impl WorkBuilder {
    /// None yet, of submissions up to `end`.
    pub(super) fn new(end: u32) -> Self {
        Self {
            end,
            per_packet: None,
            works: List::new(),
            count: 0,
            open: None,
        }
    }

    /// Adds a work.
    pub(super) fn push(&mut self, work: UnpostedWork) {
        self.close_open();
        self.append(work);
    }

    /// Adds the work of submission `index`, whose like can be one with it, as many as `conn` packs.
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

    /// Adds the next submission to the last work, if it is alike and allowed. `regions`: what looked up the
    /// region of that work, and nothing else since.
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

    /// What was made, if it is enough to be posted, or the `last`.
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
