// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: what a peer's Send to QP names. A socket is one, a context has many.

mod cq;
mod endpoint;
mod page;
mod queue;
mod srq;
mod table;
mod users;
pub(crate) mod work;

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
        errno::{ebadmsg, econnrefused, econnreset, enobufs, eopnotsupp},
        lock::{new_spinlock_bh, SpinLockBh},
        process::Process,
        skb::SkBuff,
        uapi,
    },
    proto::Code,
    region::{self, Owner},
};

pub(crate) use cq::Cq;
pub(crate) use endpoint::{CompletionInfo, Endpoint, Names, Peer, Ticket, UNSPECIFIED};
pub(crate) use page::Page;
pub(crate) use queue::{
    Bytes, Claim, CompletedRange, CompletionBatch, Doorbell, Params, Peer as RingPeer, Queue, Slot,
    SqConsumer, Ticket as RingTicket, BATCH,
};
pub(crate) use srq::Srq;
pub(crate) use table::Table;

/// A region whose owner is a queue pair, or that belongs to a context.
pub(crate) type Region = region::Region<Qp>;
/// The regions of a node.
pub(crate) type Regions = region::Table<Qp>;
/// The regions of a context.
pub(crate) type LocalRegions = region::LocalTable<Qp>;
/// Looks regions of a context up.
pub(crate) type Lookup<'a> = region::Lookup<'a, Qp>;
/// The region of a node that was found last.
pub(crate) type RegionCache = region::RegionCache<Qp>;

/// Largest message that the kernel keeps until the program takes it, bytes.
pub(crate) const MAX_MESSAGE: u32 = uapi::SUPERP_MAX_MESSAGE;

/// Where a message comes from: the addresses of the connection and its local id.
pub(crate) struct MsgMeta {
    pub(crate) local: [u8; 16],
    pub(crate) remote: [u8; 16],
    pub(crate) cid: u32,
}

/// What comes with all parts of a message.
#[derive(Copy, Clone, Default, PartialEq, Eq)]
pub(crate) struct MsgAttrs {
    /// Immediate data.
    pub(crate) imm: Option<u32>,
    /// Who waits for such messages alone is to be woken.
    pub(crate) solicited: bool,
}

/// What comes with a message beside its bytes.
#[derive(Copy, Clone)]
pub(crate) enum Ancillary {
    MsgAttrs(MsgAttrs),
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
pub(crate) enum RecvError {
    /// SO_RCVBUF is full, or there is no receive entry; later there may be room.
    NoBuffer,
    /// Its receive entry is shorter.
    TooLong,
    /// It takes no messages, or none of this peer.
    NoQp,
}

/// Whose queue pair it is.
pub(crate) enum QpKind {
    Socket(Arc<Endpoint>),
    Ring(Arc<Queue>),
}

/// One queue pair.
#[pin_data]
pub(crate) struct Qp {
    qpn: Atomic<u32>,
    kind: QpKind,
    /// Messages to it of which connections keep a part.
    partials: Atomic<u32>,
    /// Connections of whose messages it refused one. It refuses those behind it until one says
    /// `start`, or messages would change places. Each queue pair has its own list: none takes room
    /// from others.
    #[pin]
    refusing: SpinLockBh<KVec<u32>>,
    /// How many these are.
    refusing_count: Atomic<usize>,
}

/// Stands for a part of a message to a queue pair, for as long as a connection keeps that.
pub(crate) struct PartialRef(Arc<Qp>);

impl Drop for PartialRef {
    fn drop(&mut self) {
        self.0.partials.fetch_sub(1, Relaxed);
    }
}

impl Qp {
    /// An unbound queue pair. Process context.
    pub(crate) fn new(kind: QpKind) -> Result<Arc<Qp>> {
        Arc::pin_init(
            pin_init!(Qp {
                qpn: Atomic::new(0),
                kind,
                partials: Atomic::new(0),
                refusing <- new_spinlock_bh!(KVec::new(), "superp_qp_refusing"),
                refusing_count: Atomic::new(0),
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
    pub(crate) fn keep_partial(self: &Arc<Self>) -> Option<PartialRef> {
        self.partials.fetch_add(1, Full);
        let partial = PartialRef(self.clone());
        // Either this sees that it was unbound, or who unbinds it sees the part.
        (self.qpn() != 0).then_some(partial)
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
            let new_capacity = refusing.len().saturating_mul(2).max(4);
            let mut larger = KVec::with_capacity(new_capacity, GFP_ATOMIC)?;
            for cid in refusing.iter() {
                // There is room: it is larger.
                let _ = larger.push_within_capacity(*cid);
            }
            *refusing = larger;
        }
        // There is room.
        let _ = refusing.push_within_capacity(cid);
        self.refusing_count.store(refusing.len(), Relaxed);
        Ok(())
    }

    /// Whether it does so. Context: as [`Qp::refuse`].
    pub(crate) fn is_refusing(&self, cid: u32) -> bool {
        self.refusing_count.load(Relaxed) != 0 && self.refusing.lock().contains(&cid)
    }

    /// Takes messages of connection `cid` again. Any context up to softirq.
    pub(crate) fn accept_again(&self, cid: u32) {
        if self.refusing_count.load(Relaxed) != 0 {
            let mut refusing = self.refusing.lock();
            if let Some(index) = refusing.iter().position(|refused| *refused == cid) {
                let _ = refusing.remove(index);
            }
            self.refusing_count.store(refusing.len(), Relaxed);
        }
    }

    /// Its rings, if it is one of a context.
    pub(crate) fn ring(&self) -> Option<&Arc<Queue>> {
        match &self.kind {
            QpKind::Socket(_) => None,
            QpKind::Ring(queue) => Some(queue),
        }
    }

    /// Whether a message would be taken now; asked at its first packet, so that a large one is not
    /// carried for nothing. Any context up to softirq.
    pub(crate) fn room(&self, from: &MsgMeta) -> Result<(), RecvError> {
        match &self.kind {
            QpKind::Socket(endpoint) => endpoint.can_receive(from),
            QpKind::Ring(queue) => queue.can_receive(from),
        }
    }

    /// Hands a whole message to the program, with what comes beside its bytes; a refused one is
    /// dropped. Any context up to softirq, a connection's lock may be held.
    pub(crate) fn deliver(
        &self,
        from: &MsgMeta,
        message: SkBuff,
        ancillary: Ancillary,
    ) -> Result<(), RecvError> {
        match &self.kind {
            QpKind::Socket(endpoint) => endpoint.deliver(from, message, ancillary),
            QpKind::Ring(queue) => {
                queue.deliver(from, Bytes::all(&message), ancillary)?;
                message.consume();
                Ok(())
            }
        }
    }

    /// Bytes of the longest message that it takes [proto 7].
    pub(crate) fn max_message(&self) -> u32 {
        match &self.kind {
            // It is kept in the kernel until the program says where it goes.
            QpKind::Socket(_) => MAX_MESSAGE,
            QpKind::Ring(queue) => queue.max_message(),
        }
    }

    /// Takes the buffer for a message of `len` bytes, to put its parts there as they come; `None` if
    /// the program says only later where it goes. Any context up to softirq, a connection's lock may
    /// be held.
    pub(crate) fn claim(&self, from: &MsgMeta, len: u32) -> Result<Option<Claim>, RecvError> {
        match &self.kind {
            QpKind::Socket(_) => Ok(None),
            QpKind::Ring(queue) => queue.claim(from, len),
        }
    }

    /// Connection `cid` has broken or was reset or removed. Any context up to softirq.
    pub(crate) fn broken(&self, cid: u32, cause: Code) {
        self.accept_again(cid);
        match &self.kind {
            QpKind::Socket(endpoint) => endpoint.broken(cid, cause),
            QpKind::Ring(queue) => queue.broken(cid),
        }
    }

    /// The process that made its socket.
    pub(crate) fn process(&self) -> &Process {
        match &self.kind {
            QpKind::Socket(endpoint) => endpoint.process(),
            QpKind::Ring(queue) => queue.process(),
        }
    }

    /// What there is to tell.
    pub(crate) fn info(&self) -> EndpointInfo {
        match &self.kind {
            QpKind::Socket(endpoint) => endpoint.info(),
            QpKind::Ring(queue) => queue.info(),
        }
    }
}

impl Owner for Qp {
    fn qpn(&self) -> u32 {
        Qp::qpn(self)
    }
}

/// What there is to tell of a queue pair.
pub(crate) struct EndpointInfo {
    pub(crate) cid: Option<u32>,
    pub(crate) remote: [u8; 16],
    pub(crate) remote_qpn: u32,
    pub(crate) connected: bool,
    /// Of the socket, as /proc/PID/fd names it; 0 when it is gone.
    pub(crate) inode: u64,
    pub(crate) tx_messages: u64,
    pub(crate) rx_messages: u64,
    /// Memory of the messages that wait for the program, bytes.
    pub(crate) rx_queued: u64,
    /// Messages and requests that have not completed.
    pub(crate) pending: u32,
}

/// The error number of a code; `uapi/linux/superp.h` has the table.
pub(crate) fn error_of(code: Code) -> Error {
    if code == Code::ABORTED_BROKEN || code == Code::ABORTED_TIMEOUT {
        return ETIMEDOUT;
    }
    match u32::from(code.major) {
        uapi::SUPERP_ERR_MALFORMED => ebadmsg(),
        uapi::SUPERP_ERR_OPCODE => eopnotsupp(),
        uapi::SUPERP_ERR_ACCESS => EACCES,
        uapi::SUPERP_ERR_NO_BUFFER => enobufs(),
        uapi::SUPERP_ERR_NO_QP => econnrefused(),
        uapi::SUPERP_ERR_RESOURCES => ENOMEM,
        uapi::SUPERP_ERR_ABORTED => econnreset(),
        _ => EIO,
    }
}
