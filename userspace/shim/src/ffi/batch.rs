// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The requests that a program puts together by the extended interface of posting.

use libc::c_int;
use std::sync::{Condvar, Mutex};
use superp_verbs::uapi::superp_sqe;
use superp_verbs::{Part, WorkRequest};

/// Requests that are being put together, by one thread at a time.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) work: Mutex<Work>,
    pub(super) free: Condvar,
}

#[derive(Default)]
pub(super) struct Work {
    /// From start to complete or abort.
    pub(super) busy: bool,
    pub(super) requests: Vec<Request>,
    /// Whether the last of them may have its bytes in it.
    pub(super) can_be_inline: bool,
    /// Of the first call that was wrong, or 0.
    pub(super) wrong: c_int,
}

pub(super) struct Request {
    pub(super) entry: superp_sqe,
    /// Its local bytes, where the entry has them not.
    pub(super) list: Vec<Part>,
    /// Its bytes, if they are inline.
    pub(super) inline: Option<Vec<u8>>,
}

impl Request {
    pub(super) fn as_work(&self) -> WorkRequest<'_> {
        let work = WorkRequest::from_entry(self.entry);
        match (&self.inline, self.list.as_slice()) {
            (Some(bytes), _) => work.inline(bytes),
            (None, []) => work,
            (None, list) => work.local(list),
        }
    }
}

impl Work {
    pub(super) fn fail(&mut self, errno: c_int) {
        if self.wrong == 0 {
            self.wrong = errno;
        }
    }

    /// Changes the last request.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Request) -> Result<(), c_int>) {
        let changed = match self.requests.last_mut() {
            Some(request) => change(request),
            None => Err(libc::EINVAL),
        };
        if let Err(errno) = changed {
            self.fail(errno);
        }
    }
}
