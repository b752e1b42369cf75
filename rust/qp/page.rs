// SPDX-License-Identifier: GPL-2.0

//! The part of a context that its queue pairs and completion queues refer to. It can outlive the
//! socket.

use crate::kapi::{
    net::Net,
    process::Process,
    ring::CtxPage,
    sock::{RcuSock, Sock},
};
use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

/// The shared page of a context, and a reference to its socket that is cleared when the socket is
/// closed.
pub(crate) struct Page {
    bits: CtxPage,
    sock: RcuSock,
    /// The process that created the socket.
    pub(super) process: Process,
}

impl Page {
    /// Returns a page for the socket `sk`. Process context.
    pub(crate) fn new(sk: ARef<Sock>) -> Result<Arc<Page>> {
        let page = Page {
            bits: CtxPage::new()?,
            sock: RcuSock::new(sk),
            process: Process::current()?,
        };
        Ok(Arc::new(page, GFP_KERNEL_ACCOUNT)?)
    }

    /// The shared page with the doorbell and event bits, which the program maps.
    pub(crate) fn bits(&self) -> &CtxPage {
        &self.bits
    }

    /// Drops the reference to the socket, which is being closed. Process context.
    pub(crate) fn clear(&self) {
        self.sock.clear();
    }

    /// Sets the doorbell bit of queue pair `qp`, so that the next doorbell serves it again.
    pub(crate) fn set_doorbell(&self, qp: u32) {
        self.bits.set_bell(qp);
    }

    /// Inode number of the socket, as in /proc/PID/fd. 0 after the socket was closed. Any context
    /// up to softirq.
    pub(super) fn inode(&self) -> u64 {
        self.sock.with(|sk, _| sk.inode()).unwrap_or(0)
    }

    /// Calls `f` with the namespace if the socket still exists. `f` runs under RCU and must not
    /// sleep. Any context up to softirq.
    pub(crate) fn with_net<R>(&self, f: impl FnOnce(&Net) -> R) -> Option<R> {
        self.sock.with(|sk, _| f(sk.net()))
    }

    /// Sets the event bit of completion queue `cq` and wakes the pollers of the socket. Any context
    /// up to softirq.
    pub(super) fn event(&self, cq: u32) {
        self.bits.set_event(cq);
        self.sock.with(|sk, _| sk.wake());
    }
}
