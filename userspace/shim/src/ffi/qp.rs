// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Queue pairs, as objects.

use super::abi::*;
use super::batch::Batch;
use super::context::Context;
use super::lock;
use libc::c_int;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use superp_verbs::{ReceiveQueue, SendQueue};

/// `struct ibv_qp`, inside `struct ibv_qp_ex`.
#[repr(C)]
pub(super) struct Qp {
    /// Programs write to it, too.
    pub(super) public: UnsafeCell<ibv_qp_ex>,
    pub(super) pd: *mut ibv_pd,
    pub(super) context: *mut ibv_context,
    /// In the node.
    pub(super) number: u32,
    pub(super) send: Mutex<SendQueue>,
    pub(super) receive: Mutex<ReceiveQueue>,
    /// `enum ibv_qp_state`, without what the kernel knows of failures.
    pub(super) state: AtomicU32,
    /// What `modify_qp` was told.
    pub(super) attr: Mutex<ibv_qp_attr>,
    pub(super) init: ibv_qp_init_attr,
    pub(super) batch: Batch,
    // The queues above end before these say so.
    pub(super) _users: [Option<Arc<()>>; 4],
}

impl Qp {
    /// # Safety
    ///
    /// It is an own one, and outlives `'a`.
    pub(super) unsafe fn of<'a>(qp: *mut ibv_qp) -> &'a Self {
        // SAFETY: By the contract of this function.
        unsafe { &*qp.cast::<Self>() }
    }

    pub(super) fn pd(&self) -> *mut ibv_pd {
        self.pd
    }

    pub(super) fn context(&self) -> &Context {
        // SAFETY: An own context, which outlives its queue pairs.
        unsafe { Context::of(self.context) }
    }

    /// EINVAL: pieces of these lengths are more than a request may have inline.
    pub(super) fn check_inline(&self, lengths: impl Iterator<Item = usize>) -> Result<(), c_int> {
        let total = lengths.fold(0, usize::saturating_add);
        match total <= self.init.cap.max_inline_data as usize {
            true => Ok(()),
            false => Err(libc::EINVAL),
        }
    }

    /// Flags that all requests have.
    pub(super) fn send_flags(&self) -> u32 {
        match self.init.sq_sig_all {
            0 => 0,
            _ => IBV_SEND_SIGNALED,
        }
    }

    /// EINVAL before the state in which requests may be posted; in the error state they are flushed.
    pub(super) fn can_send(&self) -> Result<(), c_int> {
        match self.state.load(Ordering::Relaxed) {
            IBV_QPS_RTS | IBV_QPS_ERR => Ok(()),
            _ => Err(libc::EINVAL),
        }
    }

    /// `enum ibv_qp_state`, with what the kernel knows of failures.
    pub(super) fn state(&self) -> ibv_qp_state {
        match self.state.load(Ordering::Relaxed) {
            IBV_QPS_RESET => IBV_QPS_RESET,
            _ if lock(&self.send).failed() => IBV_QPS_ERR,
            state => state,
        }
    }

    /// EINVAL before the state in which buffers may be posted.
    pub(super) fn can_receive(&self) -> Result<(), c_int> {
        match self.state.load(Ordering::Relaxed) {
            IBV_QPS_RESET => Err(libc::EINVAL),
            _ => Ok(()),
        }
    }
}
