// SPDX-License-Identifier: GPL-2.0

//! The queue pairs of a node by number, and the numbers that were in use a moment ago.

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

/// Queue pair numbers have 24 bits. 0 means "not bound".
pub(crate) const QPN_MAX: u32 = (1 << 24) - 1;
/// Lowest number that the node chooses itself. The lower half is left to programs that bind to
/// fixed numbers.
const AUTO_QPN_MIN: u32 = 1 << 23;
/// Random numbers that `bind` tries before it gives up.
const BIND_ATTEMPTS: u32 = 32;

/// The queue pairs of one node.
#[pin_data]
pub(crate) struct Table {
    #[pin]
    by_qpn: RcuMap<Qp>,
    /// Numbers of ring queue pairs that were closed during the last 2 s. The lock is taken inside
    /// the lock of at most one connection.
    #[pin]
    time_wait: SpinLockBh<TimeWait<Kernel>>,
}

/// Clears the number of `qp`. Returns it, and whether connections store parts of messages to `qp`.
fn clear_qpn(qp: &Qp) -> (u32, bool) {
    let qpn = qp.qpn.xchg(0, Full);
    (qpn, qp.partials.load(Relaxed) != 0)
}

impl Table {
    /// Returns an empty table. Process context.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            by_qpn <- RcuMap::new(),
            time_wait <- new_spinlock_bh!(TimeWait::new().ok_or(ENOMEM)?, "superp_time_wait"),
        })
    }

    /// Removes all queue pairs. Process context, sleeps for a grace period.
    pub(crate) fn clear(&self) {
        self.by_qpn.clear();
    }

    /// All queue pairs with their numbers. Any context.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Arc<Qp>)> + '_ {
        self.by_qpn.iter()
    }

    /// Gives `qp` the number `qpn`, or a random free one if `qpn` is 0, and makes it reachable for
    /// peers. Returns the number. Process context. The caller serialises bind and unbind of a queue
    /// pair.
    ///
    /// # Errors
    ///
    /// `EINVAL`: `qpn` has over 24 bits, or `qp` is bound already. `EADDRINUSE`: the number is
    /// taken, or no free one was found. `ENOMEM`.
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

    /// A ring queue pair is about to close. For 2 s, messages to its number are refused for want of
    /// a buffer, which the sender repeats, and not because of a missing queue pair, which would
    /// fail them. A peer that closes a moment later thus sees no error. Does nothing for a queue
    /// pair that does not receive. Process context.
    pub(crate) fn enter_time_wait(&self, qp: &Qp) {
        if qp.ring().is_some_and(|queue| queue.receives()) {
            self.time_wait.lock().put(qp.qpn(), timer::now());
        }
    }

    /// Makes `qp` unreachable for peers. A packet that found `qp` before may still deliver to it.
    /// Returns the number if connections store a part of a message to `qp`; the caller then has
    /// them drop it. Process context.
    pub(crate) fn unbind(&self, qp: &Qp) -> Option<u32> {
        let (qpn, has_partials) = clear_qpn(qp);
        if qpn != 0 {
            self.by_qpn.remove_later(qpn);
        }
        has_partials.then_some(qpn)
    }

    /// Makes several queue pairs unreachable for peers. Calls `on_partials` with the number of each
    /// one to which connections store a part of a message. Process context, sleeps for one grace
    /// period.
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

    /// The bound queue pair with the lowest number that is `from` or above. Any context.
    pub(crate) fn next(&self, from: u32) -> Option<(u32, Arc<Qp>)> {
        self.by_qpn.next(from)
    }

    /// Code that refuses a message to `qpn`, which does not exist or does not receive:
    /// `NO_RECEIVE_BUFFER` if the number was in use during the last 2 s, else `NO_QUEUE_PAIR`.
    ///
    /// Any context up to softirq. A connection's lock may be held.
    pub(crate) fn missing_code(&self, qpn: u32) -> Code {
        match self.time_wait.lock().contains(qpn, timer::now()) {
            true => Code::NO_RECEIVE_BUFFER,
            false => Code::NO_QUEUE_PAIR,
        }
    }

    /// The queue pair with number `qpn`. Any context.
    pub(crate) fn get(&self, qpn: u32) -> Option<Arc<Qp>> {
        self.by_qpn.get(qpn)
    }
}
