// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Completion channels and completion queues, as objects.

use super::abi::*;
use super::eventfd::{add_one, event_fd};
use libc::c_int;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex};
use superp_verbs::CompletionQueue;

/// `struct ibv_comp_channel`.
#[repr(C)]
pub(super) struct Channel {
    pub(super) public: ibv_comp_channel,
    pub(super) waiting: Mutex<Waiting>,
    /// Each completion queue of the channel has one more.
    pub(super) users: Arc<()>,
    _of_context: Arc<()>,
}

impl Channel {
    /// `of_context` is one more user of the context.
    pub(super) fn new(context: *mut ibv_context, of_context: Arc<()>) -> Result<Self, c_int> {
        let signal = event_fd(0)?;
        Ok(Self {
            public: ibv_comp_channel {
                context,
                fd: signal.as_raw_fd(),
                refcnt: 0,
            },
            waiting: Mutex::new(Waiting {
                queues: VecDeque::new(),
                signal,
            }),
            users: Arc::default(),
            _of_context: of_context,
        })
    }
}

/// Events of a channel.
pub(super) struct Waiting {
    queues: VecDeque<CqPointer>,
    /// The descriptor of the channel: readable while there are any.
    signal: OwnedFd,
}

/// A completion queue among those of its context.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct CqPointer(*mut Cq);

// SAFETY: It is taken out of the maps, under their locks, before the queue ends.
unsafe impl Send for CqPointer {}

impl CqPointer {
    pub(super) fn new(cq: *mut ibv_cq) -> Self {
        Self(cq.cast())
    }

    /// The queue.
    ///
    /// # Safety
    ///
    /// It has not ended, and outlives `'a`.
    pub(super) unsafe fn get<'a>(self) -> &'a Cq {
        // SAFETY: By the contract of this function.
        unsafe { &*self.0 }
    }

    /// The struct that programs know.
    pub(super) fn public(self) -> *mut ibv_cq {
        self.0.cast()
    }
}

impl Waiting {
    pub(super) fn push(&mut self, cq: CqPointer) {
        self.queues.push_back(cq);
        add_one(&self.signal);
    }

    /// Takes all of a queue away.
    pub(super) fn forget(&mut self, cq: CqPointer) {
        let before = self.queues.len();
        self.queues.retain(|other| *other != cq);
        if before > 0 && self.queues.is_empty() {
            self.quiet();
        }
    }

    pub(super) fn pop(&mut self) -> Option<CqPointer> {
        let first = self.queues.pop_front()?;
        if self.queues.is_empty() {
            self.quiet();
        }
        Some(first)
    }

    fn quiet(&mut self) {
        let mut count: u64 = 0;
        let to: *mut u64 = &mut count;
        // It does not wait: the descriptor is readable.
        // SAFETY: Eight bytes.
        unsafe { libc::read(self.signal.as_raw_fd(), to.cast(), 8) };
    }
}

/// `struct ibv_cq_ex`, which begins as `struct ibv_cq`.
#[repr(C)]
pub(super) struct Cq {
    pub(super) public: UnsafeCell<ibv_cq_ex>,
    /// What the extended interface reads from.
    pub(super) current: UnsafeCell<ibv_wc>,
    pub(super) queue: Mutex<CompletionQueue>,
    pub(super) number: u32,
    pub(super) events: Mutex<Events>,
    pub(super) acked: Condvar,
    /// Each queue pair that uses it has one more.
    pub(super) users: Arc<()>,
    pub(super) _of_channel: Option<Arc<()>>,
    pub(super) _of_context: Arc<()>,
}

/// Events that the program got, and those of them that it has acknowledged.
#[derive(Default)]
pub(super) struct Events {
    pub(super) given: u32,
    pub(super) acked: u32,
}

impl Cq {
    /// The channel that its events go to.
    pub(super) fn channel(&self) -> Option<&Channel> {
        // SAFETY: It does not change; and a channel outlives its queues.
        unsafe { (*self.public.get()).channel.cast::<Channel>().as_ref() }
    }
}
