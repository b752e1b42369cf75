// SPDX-License-Identifier: GPL-2.0

//! The queue pairs of a node, by number.

use kernel::{
    prelude::*,
    sync::{
        atomic::{Full, Relaxed},
        Arc,
    },
};

use super::Qp;
use crate::{
    kapi::{
        errno::eaddrinuse,
        lock::{new_spinlock_bh, SpinLockBh},
        map::RcuMap,
        net::random,
        timer,
    },
    proto::{Code, TimeWait},
    slabs::Kernel,
};

/// Queue pair numbers are 24 bits; 0 means "not bound".
pub(crate) const QPN_MAX: u32 = (1 << 24) - 1;
/// Numbers chosen by the node come from the upper half, so that people can count on the lower.
const AUTO_QPN_MIN: u32 = 1 << 23;
/// Draws of a random number before bind gives up.
const BIND_ATTEMPTS: u32 = 32;

/// See the module.
#[pin_data]
pub(crate) struct Table {
    #[pin]
    by_qpn: RcuMap<Qp>,
    /// Numbers of those that have ended lately. Under the lock of at most one connection.
    #[pin]
    time_wait: SpinLockBh<TimeWait<Kernel>>,
}

/// Takes the number of `qp` away. Gives it, and whether connections keep parts of messages to it.
fn clear_qpn(qp: &Qp) -> (u32, bool) {
    let qpn = qp.qpn.xchg(0, Full);
    (qpn, qp.partials.load(Relaxed) != 0)
}

impl Table {
    /// An empty table. Process context.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            by_qpn <- RcuMap::new(),
            time_wait <- new_spinlock_bh!(TimeWait::new().ok_or(ENOMEM)?, "superp_time_wait"),
        })
    }

    /// Takes all out. Process context, sleeps for a grace period.
    pub(crate) fn clear(&self) {
        self.by_qpn.clear();
    }

    /// Every queue pair. Any context.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Arc<Qp>)> + '_ {
        self.by_qpn.iter()
    }

    /// Gives `qp` the number `qpn`, or with 0 a random free one, and makes it reachable. Process
    /// context; the caller serialises bind and unbind of one queue pair.
    ///
    /// # Errors
    ///
    /// `EINVAL`: over 24 bits, or bound already. `EADDRINUSE`: taken. `ENOMEM`.
    pub(crate) fn bind(&self, qp: &Arc<Qp>, qpn: u32) -> Result<u32> {
        if qpn > QPN_MAX || qp.qpn() != 0 {
            return Err(EINVAL);
        }
        let attempts = if qpn == 0 { BIND_ATTEMPTS } else { 1 };
        for _ in 0..attempts {
            let number = match qpn {
                0 => AUTO_QPN_MIN | random() & (AUTO_QPN_MIN - 1),
                requested => requested,
            };
            match self.by_qpn.insert(number, qp.clone()) {
                Ok(()) => {
                    qp.qpn.store(number, Relaxed);
                    return Ok(number);
                }
                Err(e) if e == EBUSY => {}
                Err(e) => return Err(e),
            }
        }
        Err(eaddrinuse())
    }

    /// The queue pair of a context is about to end: what peers send there from now on waits, until they
    /// have had time to end, too. One that took nothing in is not missed. Process context.
    pub(crate) fn enter_time_wait(&self, qp: &Qp) {
        if qp.ring().is_some_and(|queue| queue.receives()) {
            self.time_wait.lock().put(qp.qpn(), timer::now());
        }
    }

    /// Takes `qp` from the reach of peers; a packet that has found it already may still ask it. Gives its
    /// number if connections keep a part of a message to it. Process context.
    pub(crate) fn unbind(&self, qp: &Qp) -> Option<u32> {
        let (qpn, has_partials) = clear_qpn(qp);
        if qpn != 0 {
            self.by_qpn.remove_later(qpn);
        }
        has_partials.then_some(qpn)
    }

    /// Takes several queue pairs from the reach of peers, and tells the numbers of those that connections
    /// keep a part of a message to. Process context, sleeps for a grace period, once.
    pub(crate) fn unbind_each(
        &self,
        qps: impl Iterator<Item = Arc<Qp>>,
        on_partials: impl Fn(u32),
    ) {
        let numbers = qps.map(|qp| {
            let (qpn, has_partials) = clear_qpn(&qp);
            if has_partials {
                on_partials(qpn);
            }
            qpn
        });
        self.by_qpn.remove_each(numbers.filter(|qpn| *qpn != 0));
    }

    /// The bound queue pair with the lowest number from `from` on, with its number.
    pub(crate) fn next(&self, from: u32) -> Option<(u32, Arc<Qp>)> {
        self.by_qpn.next(from)
    }

    /// Why there is no queue pair `qpn`, or why it takes nothing in. Any context up to softirq, a
    /// connection's lock may be held.
    pub(crate) fn missing_code(&self, qpn: u32) -> Code {
        match self.time_wait.lock().contains(qpn, timer::now()) {
            true => Code::NO_RECEIVE_BUFFER,
            false => Code::NO_QUEUE_PAIR,
        }
    }

    /// The queue pair `qpn`. Any context.
    pub(crate) fn get(&self, qpn: u32) -> Option<Arc<Qp>> {
        self.by_qpn.get(qpn)
    }
}
