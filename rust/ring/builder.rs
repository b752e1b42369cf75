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
const ENOUGH: usize = 16;

/// A work to which submissions can be added.
struct OpenWork {
    work: UnpostedWork,
    /// The first submission.
    like: Sqe,
    /// How many more have room in its packet.
    room: u32,
}

/// Works, in the order of their submissions.
pub(super) struct WorkBuilder {
    /// Index behind the last submission.
    end: u32,
    /// How many of a kind have room in a packet, as was found last.
    fit: Option<(PackKey, u32)>,
    made: List<Work>,
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
            fit: None,
            made: List::new(),
            count: 0,
            open: None,
        }
    }

    /// Adds a work.
    pub(super) fn push(&mut self, work: UnpostedWork) {
        self.close();
        self.add(work);
    }

    /// Adds the work of submission `index`, whose like can be one with it, as many as `conn` packs.
    pub(super) fn begin(
        &mut self,
        work: UnpostedWork,
        index: u32,
        entry: &Sqe,
        like: PackKey,
        conn: &Conn,
    ) {
        if index.wrapping_add(1) == self.end {
            return self.push(work);
        }
        let (_, fit) = match self.fit {
            Some(found) if found.0 == like => found,
            _ => *self.fit.insert((like, conn.per_packet(like))),
        };
        if fit <= 1 {
            return self.push(work);
        }
        self.close();
        self.open = Some(OpenWork {
            work,
            like: *entry,
            room: fit.saturating_sub(1),
        });
    }

    /// Adds the next submission to the last work, if it is alike and allowed. `regions`: what looked up the
    /// region of that work, and nothing else since.
    pub(super) fn join(&mut self, entry: &Sqe, regions: &Lookup<'_>) -> bool {
        let Some(open) = &mut self.open else {
            return false;
        };
        if open.room == 0 || !entry::is_like(entry, &open.like) {
            return false;
        }
        let Some(offset) = regions.again(entry.operands().local_addr, entry.length) else {
            return false;
        };
        open.room = open.room.saturating_sub(1);
        open.work.add(entry.remote_addr, offset)
    }

    /// What was made, if it is enough to be posted, or the `last`.
    pub(super) fn take(&mut self, last: bool) -> List<Work> {
        if last {
            self.close();
        }
        if !last && self.count < ENOUGH {
            return List::new();
        }
        self.count = 0;
        core::mem::replace(&mut self.made, List::new())
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.add(open.work);
        }
    }

    fn add(&mut self, work: UnpostedWork) {
        self.count = self.count.saturating_add(1);
        self.made.push_back(ListArc::from(work));
    }
}
