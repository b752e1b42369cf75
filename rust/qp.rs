// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: what a peer's Send to QP names, one for each socket.

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use crate::{
    kapi::errno::eaddrinuse,
    node::Node,
    socket::{Endpoint, EndpointInfo},
};

/// Queue pair numbers are 24 bits; 0 means "not bound".
pub(crate) const QPN_MAX: u32 = (1 << 24) - 1;
/// Numbers chosen by the node come from the upper half, so that people can count on the lower.
const CHOSEN_MIN: u32 = 1 << 23;
/// Draws of a random number before bind gives up.
const DRAWS: u32 = 32;

/// One queue pair.
#[pin_data]
pub(crate) struct Qp {
    qpn: Atomic<u32>,
    #[pin]
    pub(crate) endpoint: Endpoint,
}

impl Qp {
    /// An unbound queue pair. Process context.
    pub(crate) fn new(endpoint: impl PinInit<Endpoint, Error>) -> Result<Arc<Qp>> {
        Arc::pin_init(
            try_pin_init!(Qp {
                qpn: Atomic::new(0),
                endpoint <- endpoint,
            }),
            GFP_KERNEL,
        )
    }

    /// Its number; 0: not bound.
    pub(crate) fn qpn(&self) -> u32 {
        self.qpn.load(Relaxed)
    }

    /// What there is to tell.
    pub(crate) fn info(&self) -> EndpointInfo {
        self.endpoint.info()
    }
}

impl Node {
    /// Gives `qp` the number `qpn`, or with 0 a random free one, and makes it reachable. Process
    /// context; the caller serialises bind and unbind of one queue pair.
    ///
    /// # Errors
    ///
    /// `EINVAL`: over 24 bits, or bound already. `EADDRINUSE`: taken. `ENOMEM`.
    pub(crate) fn qp_bind(&self, qp: &Arc<Qp>, qpn: u32) -> Result<u32> {
        if qpn > QPN_MAX || qp.qpn() != 0 {
            return Err(EINVAL);
        }
        let draws = if qpn == 0 { DRAWS } else { 1 };
        for _ in 0..draws {
            let number = match qpn {
                0 => CHOSEN_MIN | crate::kapi::net::random() & (CHOSEN_MIN - 1),
                given => given,
            };
            match self.qps().insert(number, qp.clone()) {
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

    /// Takes `qp` from the reach of peers. Process context, sleeps for a grace period.
    pub(crate) fn qp_unbind(&self, qp: &Qp) {
        let qpn = qp.qpn.xchg(0, Relaxed);
        if qpn != 0 {
            self.qps().remove(qpn);
        }
    }

    /// The bound queue pair with the lowest number from `from` on, with its number.
    pub(crate) fn qp_next(&self, from: u32) -> Option<(u32, Arc<Qp>)> {
        self.qps().next(from)
    }

    /// The queue pair `qpn`. Any context.
    pub(crate) fn qp(&self, qpn: u32) -> Option<Arc<Qp>> {
        self.qps().get(qpn)
    }
}
