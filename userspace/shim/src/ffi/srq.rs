// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Shared receive queues, as objects.

use super::abi::*;
use super::lock;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use superp_verbs::{SharedReceive, SharedReceiveQueue};

/// `struct ibv_srq`.
#[repr(C)]
pub(super) struct Srq {
    public: UnsafeCell<ibv_srq>,
    pd: *mut ibv_pd,
    pub(super) queue: Mutex<SharedReceiveQueue>,
    /// It was given a limit that has not been told of; changed with the queue locked.
    armed: AtomicBool,
    /// Events that the program got.
    given: AtomicU32,
    /// Each queue pair that uses it has one more.
    pub(super) users: Arc<()>,
    _of_pd: Arc<()>,
}

impl Srq {
    /// `of_pd` is one more user of the domain.
    pub(super) fn new(
        public: ibv_srq,
        pd: *mut ibv_pd,
        queue: SharedReceiveQueue,
        of_pd: Arc<()>,
    ) -> Self {
        Self {
            public: UnsafeCell::new(public),
            pd,
            queue: Mutex::new(queue),
            armed: AtomicBool::new(false),
            given: AtomicU32::new(0),
            users: Arc::default(),
            _of_pd: of_pd,
        }
    }

    /// # Safety
    ///
    /// It is an own one, and outlives `'a`.
    pub(super) unsafe fn of<'a>(srq: *mut ibv_srq) -> &'a Self {
        // SAFETY: By the contract of this function.
        unsafe { &*srq.cast::<Self>() }
    }

    /// Its protection domain, which is never a parent domain.
    pub(super) fn pd(&self) -> *mut ibv_pd {
        self.pd
    }

    /// For queue pairs to be made with.
    pub(super) fn handle(&self) -> SharedReceive {
        lock(&self.queue).handle()
    }

    pub(super) fn pointer(&self) -> SrqPointer {
        SrqPointer(self)
    }

    /// Events that the program got.
    pub(super) fn given(&self) -> u32 {
        self.given.load(Ordering::Relaxed)
    }

    /// Gives it a limit, 0 for none. `true`: fewer entries are left already, and the caller tells
    /// the program.
    pub(super) fn set_limit(&self, limit: u32) -> bool {
        let mut queue = lock(&self.queue);
        self.armed.store(limit > 0, Ordering::Relaxed);
        let below = queue.set_limit(limit);
        drop(queue);
        below && self.pointer().is_low()
    }
}

/// A shared receive queue among those of its context.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct SrqPointer(*const Srq);

// SAFETY: It is taken out of the lists, under their locks, before the queue ends.
unsafe impl Send for SrqPointer {}

impl SrqPointer {
    /// Whether its limit is reached. That is so once for each limit.
    pub(super) fn is_low(self) -> bool {
        // SAFETY: A queue in the list, or of who calls, has not ended.
        let srq = unsafe { &*self.0 };
        let queue = lock(&srq.queue);
        queue.limit() == 0 && srq.armed.swap(false, Ordering::Relaxed)
    }

    /// For the program that gets an event of it.
    pub(super) fn give(self) -> *mut ibv_srq {
        // SAFETY: A queue that has an event has not ended.
        unsafe { &*self.0 }.given.fetch_add(1, Ordering::Relaxed);
        self.0.cast_mut().cast()
    }
}
