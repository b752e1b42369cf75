// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: what a peer's Send to QP names. A socket is one, a context has many.

use kernel::{
    alloc::AllocError,
    prelude::*,
    sync::{
        atomic::{Atomic, Full, Relaxed},
        Arc,
    },
};

use crate::{
    kapi::{
        errno::eaddrinuse,
        lock::{new_spinlock_bh, SpinLockBh},
        process::Process,
        skb::SkBuff,
        timer,
    },
    node::Node,
    proto::Code,
    ring::{Bytes, Claim, Queue},
    socket::{Endpoint, EndpointInfo},
    MAX_MESSAGE,
};

/// Queue pair numbers are 24 bits; 0 means "not bound".
pub(crate) const QPN_MAX: u32 = (1 << 24) - 1;
/// Numbers chosen by the node come from the upper half, so that people can count on the lower.
const CHOSEN_MIN: u32 = 1 << 23;
/// Draws of a random number before bind gives up.
const DRAWS: u32 = 32;

/// Where a message comes from: the addresses of the connection and its local id.
pub(crate) struct MsgMeta {
    pub(crate) local: [u8; 16],
    pub(crate) remote: [u8; 16],
    pub(crate) cid: u32,
}

/// What comes with all parts of a message.
#[derive(Copy, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Immediate data.
    pub(crate) imm: Option<u32>,
    /// Who waits for such messages alone is to be woken.
    pub(crate) solicited: bool,
}

/// What comes with a message beside its bytes.
#[derive(Copy, Clone)]
pub(crate) enum Beside {
    Mark(Mark),
    /// No message: immediate data of a write, and its length in bytes.
    Written {
        imm: u32,
        solicited: bool,
        len: u32,
    },
    /// The bytes are in the receive context `key`: `length` of them, the first at `offset`.
    Placed {
        key: u32,
        offset: u32,
        length: u32,
    },
}

/// Why a queue pair does not take a message.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// SO_RCVBUF is full, or there is no receive entry; later there may be room.
    NoBuffer,
    /// Its receive entry is shorter.
    TooLong,
    /// It takes no messages, or none of this peer.
    NoQp,
}

/// Whose queue pair it is.
pub(crate) enum End {
    Socket(Arc<Endpoint>),
    Ring(Arc<Queue>),
}

/// One queue pair.
#[pin_data]
pub(crate) struct Qp {
    qpn: Atomic<u32>,
    end: End,
    /// Messages to it of which connections keep a part.
    partials: Atomic<u32>,
    /// Connections of whose messages it refused one. It refuses those behind it until one says
    /// `start`, or messages would change places. Each queue pair has its own list: none takes room
    /// from others.
    #[pin]
    refusing: SpinLockBh<KVec<u32>>,
    /// How many these are.
    any_refusing: Atomic<usize>,
}

/// Stands for a part of a message to a queue pair, for as long as a connection keeps that.
pub(crate) struct Kept(Arc<Qp>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.partials.fetch_sub(1, Relaxed);
    }
}

impl Qp {
    /// An unbound queue pair. Process context.
    pub(crate) fn new(end: End) -> Result<Arc<Qp>> {
        Arc::pin_init(
            pin_init!(Qp {
                qpn: Atomic::new(0),
                end,
                partials: Atomic::new(0),
                refusing <- new_spinlock_bh!(KVec::new(), "superp_qp_refusing"),
                any_refusing: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Its number; 0: not bound.
    pub(crate) fn qpn(&self) -> u32 {
        self.qpn.load(Relaxed)
    }

    /// A connection keeps a part of a message to it. `None`: it is not bound any more, and nobody
    /// would take the part away.
    ///
    /// Any context, the connection's lock is held.
    pub(crate) fn keep_partial(self: &Arc<Self>) -> Option<Kept> {
        self.partials.fetch_add(1, Full);
        let kept = Kept(self.clone());
        // Either this sees that it was unbound, or who unbinds it sees the part.
        (self.qpn() != 0).then_some(kept)
    }

    /// Refuses what connection `cid` brings until that says `start`.
    ///
    /// Any context up to softirq, the connection's lock is held.
    pub(crate) fn refuse(&self, cid: u32) -> Result<(), AllocError> {
        let mut refusing = self.refusing.lock();
        if refusing.contains(&cid) {
            return Ok(());
        }
        if refusing.len() == refusing.capacity() {
            let more = refusing.len().saturating_mul(2).max(4);
            let mut larger = KVec::with_capacity(more, GFP_ATOMIC)?;
            for cid in refusing.iter() {
                // There is room: it is larger.
                let _ = larger.push_within_capacity(*cid);
            }
            *refusing = larger;
        }
        // There is room.
        let _ = refusing.push_within_capacity(cid);
        self.any_refusing.store(refusing.len(), Relaxed);
        Ok(())
    }

    /// Whether it does so. Context: as [`Qp::refuse`].
    pub(crate) fn is_refusing(&self, cid: u32) -> bool {
        self.any_refusing.load(Relaxed) != 0 && self.refusing.lock().contains(&cid)
    }

    /// Takes messages of connection `cid` again. Any context up to softirq.
    pub(crate) fn accept_again(&self, cid: u32) {
        if self.any_refusing.load(Relaxed) != 0 {
            let mut refusing = self.refusing.lock();
            if let Some(index) = refusing.iter().position(|refused| *refused == cid) {
                let _ = refusing.remove(index);
            }
            self.any_refusing.store(refusing.len(), Relaxed);
        }
    }

    /// Its rings, if it is one of a context.
    pub(crate) fn ring(&self) -> Option<&Arc<Queue>> {
        match &self.end {
            End::Socket(_) => None,
            End::Ring(queue) => Some(queue),
        }
    }

    /// Whether a message would be taken now; asked at its first packet, so that a large one is not
    /// carried for nothing. Any context up to softirq.
    pub(crate) fn room(&self, from: &MsgMeta) -> Result<(), Refused> {
        match &self.end {
            End::Socket(endpoint) => endpoint.room(from),
            End::Ring(queue) => queue.room(from),
        }
    }

    /// Hands a whole message to the program, with what comes beside its bytes; a refused one is
    /// dropped. Any context up to softirq, a connection's lock may be held.
    pub(crate) fn deliver(
        &self,
        from: &MsgMeta,
        message: SkBuff,
        beside: Beside,
    ) -> Result<(), Refused> {
        match &self.end {
            End::Socket(endpoint) => endpoint.deliver(from, message, beside),
            End::Ring(queue) => {
                queue.deliver(from, Bytes::all(&message), beside)?;
                message.consume();
                Ok(())
            }
        }
    }

    /// Bytes of the longest message that it takes [proto 7].
    pub(crate) fn max_message(&self) -> u32 {
        match &self.end {
            // It is kept in the kernel until the program says where it goes.
            End::Socket(_) => MAX_MESSAGE,
            End::Ring(queue) => queue.max_message(),
        }
    }

    /// Takes the buffer for a message of `len` bytes, to put its parts there as they come; `None` if
    /// the program says only later where it goes. Any context up to softirq, a connection's lock may
    /// be held.
    pub(crate) fn claim(&self, from: &MsgMeta, len: u32) -> Result<Option<Claim>, Refused> {
        match &self.end {
            End::Socket(_) => Ok(None),
            End::Ring(queue) => queue.claim(from, len),
        }
    }

    /// Connection `cid` has broken or was reset or removed. Any context up to softirq.
    pub(crate) fn broken(&self, cid: u32, cause: Code) {
        self.accept_again(cid);
        match &self.end {
            End::Socket(endpoint) => endpoint.broken(cid, cause),
            End::Ring(queue) => queue.broken(cid),
        }
    }

    /// The process that made its socket.
    pub(crate) fn process(&self) -> &Process {
        match &self.end {
            End::Socket(endpoint) => endpoint.process(),
            End::Ring(queue) => queue.process(),
        }
    }

    /// What there is to tell.
    pub(crate) fn info(&self) -> EndpointInfo {
        match &self.end {
            End::Socket(endpoint) => endpoint.info(),
            End::Ring(queue) => queue.info(),
        }
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

    /// The queue pair of a context is about to end: what peers send there from now on waits, until they
    /// have had time to end, too. One that took nothing in is not missed. Process context.
    pub(crate) fn qp_departs(&self, qp: &Qp) {
        if qp.ring().is_some_and(|queue| queue.receives()) {
            self.departed().lock().put(qp.qpn(), timer::now());
        }
    }

    /// Takes `qp` from the reach of peers; a packet that has found it already may still ask it.
    /// Process context.
    pub(crate) fn qp_unbind(&self, qp: &Qp) {
        let qpn = self.qp_reset(qp);
        if qpn != 0 {
            self.qps().remove_later(qpn);
        }
    }

    /// Takes the number of `qp` away, and what connections keep for it. Gives the number.
    fn qp_reset(&self, qp: &Qp) -> u32 {
        let qpn = qp.qpn.xchg(0, Full);
        if qp.partials.load(Relaxed) != 0 {
            self.forget_partials(qpn);
        }
        qpn
    }

    /// Takes several queue pairs from the reach of peers. Process context, sleeps for a grace period,
    /// once.
    pub(crate) fn qp_unbind_each(&self, qps: impl Iterator<Item = Arc<Qp>>) {
        let bound = |qpn: &u32| *qpn != 0;
        self.qps()
            .remove_each(qps.map(|qp| self.qp_reset(&qp)).filter(bound));
    }

    /// The bound queue pair with the lowest number from `from` on, with its number.
    pub(crate) fn qp_next(&self, from: u32) -> Option<(u32, Arc<Qp>)> {
        self.qps().next(from)
    }

    /// Why there is no queue pair `qpn`, or why it takes nothing in. Any context up to softirq, a
    /// connection's lock may be held.
    pub(crate) fn qp_missing(&self, qpn: u32) -> Code {
        match self.departed().lock().contains(qpn, timer::now()) {
            true => Code::NO_RECEIVE_BUFFER,
            false => Code::NO_QUEUE_PAIR,
        }
    }

    /// The queue pair `qpn`. Any context.
    pub(crate) fn qp(&self, qpn: u32) -> Option<Arc<Qp>> {
        self.qps().get(qpn)
    }
}
