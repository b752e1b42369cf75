// SPDX-License-Identifier: GPL-2.0

//! What completions find of a context.

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

/// The page of a context, and the way to its socket.
pub(crate) struct Page {
    bits: CtxPage,
    sock: RcuSock,
    /// That of the socket, for as long as there is one.
    net: Net,
    /// The process that made the socket.
    pub(super) process: Process,
}

impl Page {
    /// For the socket `sk` in `net`. Process context.
    pub(crate) fn new(sk: ARef<Sock>, net: Net) -> Result<Arc<Page>> {
        let page = Page {
            bits: CtxPage::new()?,
            sock: RcuSock::new(sk),
            net,
            process: Process::current()?,
        };
        Ok(Arc::new(page, GFP_KERNEL)?)
    }

    /// Its bits, which the program maps.
    pub(crate) fn bits(&self) -> &CtxPage {
        &self.bits
    }

    /// There is no socket from now on. Process context.
    pub(crate) fn clear(&self) {
        self.sock.clear();
    }

    /// Queue pair `qp` has to be looked at again.
    pub(crate) fn set_doorbell(&self, qp: u32) {
        self.bits.set_bell(qp);
    }

    /// The socket's, as /proc/PID/fd names it; 0 when it is gone. Any context.
    pub(super) fn inode(&self) -> u64 {
        self.sock.with(|sk, _| sk.inode()).unwrap_or(0)
    }

    /// Calls `f` with the namespace, while the socket is there; `f` must not sleep. Any context.
    pub(crate) fn with_net<R>(&self, f: impl FnOnce(Net) -> R) -> Option<R> {
        self.sock.with(|_, _| f(self.net))
    }

    /// Completion queue `cq` was armed and has a completion now. Any context up to softirq.
    pub(super) fn event(&self, cq: u32) {
        self.bits.set_event(cq);
        self.sock.with(|sk, _| sk.wake());
    }
}
