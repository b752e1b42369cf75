// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Shared receive queues.

use super::abi::*;
use super::context::Context;
use super::domain::{child, Pd};
use super::{code, errno, give, lock};
use libc::c_int;
use std::sync::{Arc, Mutex};
use superp_verbs::{uapi, SharedReceive, SharedReceiveQueue};

/// `struct ibv_srq`.
#[repr(C)]
pub(super) struct Srq {
    public: ibv_srq,
    pub(super) queue: Mutex<SharedReceiveQueue>,
    /// Each queue pair that uses it has one more.
    pub(super) users: Arc<()>,
    _of_pd: Arc<()>,
}

impl Srq {
    /// # Safety
    ///
    /// It is an own one, and outlives `'a`.
    pub(super) unsafe fn of<'a>(srq: *mut ibv_srq) -> &'a Self {
        // SAFETY: By the contract of this function.
        unsafe { &*srq.cast::<Self>() }
    }

    pub(super) fn context(&self) -> &Context {
        // SAFETY: An own context, which outlives its queues.
        unsafe { Context::of(self.public.context) }
    }

    pub(super) fn pd(&self) -> *mut ibv_pd {
        // SAFETY: An own domain, which outlives the queue.
        unsafe { child(self.public.pd) }
    }

    /// For queue pairs to be made with.
    pub(super) fn handle(&self) -> SharedReceive {
        lock(&self.queue).handle()
    }
}

/// # Safety
///
/// By the contract of verbs, with an own domain.
unsafe fn new_srq(pd: *mut ibv_pd, init: &mut ibv_srq_init_attr) -> Result<Srq, c_int> {
    let attr = &mut init.attr;
    if attr.max_wr > uapi::SUPERP_MAX_SRQ_ENTRIES || attr.max_sge > uapi::SUPERP_MAX_SEGMENTS {
        return Err(libc::EINVAL);
    }
    // SAFETY: An own domain, and its context.
    let (context, of_pd) = unsafe { ((*pd).context, (*pd.cast::<Pd>()).users.clone()) };
    // SAFETY: The context of an own domain.
    let own = unsafe { Context::of(context) };
    let queue = own
        .context
        .create_shared_receive_queue(attr.max_wr, attr.max_sge)
        .map_err(errno)?;
    attr.max_wr = queue.entries();
    attr.max_sge = queue.parts();
    Ok(Srq {
        public: ibv_srq {
            context,
            srq_context: init.srq_context,
            pd,
            ..Default::default()
        },
        queue: Mutex::new(queue),
        users: Arc::default(),
        _of_pd: of_pd,
    })
}

pub(super) unsafe fn create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    // SAFETY: By the contract of verbs.
    give(unsafe { new_srq(pd, &mut *init) })
}

pub(super) unsafe fn query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    // SAFETY: An own queue.
    let queue = lock(unsafe { &Srq::of(srq).queue });
    let found = ibv_srq_attr {
        max_wr: queue.entries(),
        max_sge: queue.parts(),
        srq_limit: 0,
    };
    // SAFETY: The caller's.
    unsafe { attr.write(found) };
    0
}

pub(super) unsafe fn destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: An own queue.
    if Arc::strong_count(unsafe { &Srq::of(srq).users }) > 1 {
        return code(Err(libc::EBUSY));
    }
    // SAFETY: From `create_srq`, and used no more.
    drop(unsafe { Box::from_raw(srq.cast::<Srq>()) });
    0
}
