// SPDX-License-Identifier: GPL-2.0

//! Queue pairs. A Send to QP of a peer names one by its number. A socket is one queue pair, a
//! context has up to 1024 of them.

mod batch;
mod cq;
mod endpoint;
mod page;
mod queue;
mod senders;
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

pub(crate) use batch::CompletionBatch;
pub(crate) use cq::Cq;
pub(crate) use endpoint::{CompletionInfo, Endpoint, Names, Origin, Peer, Ticket, UNSPECIFIED};
pub(crate) use page::Page;
pub(crate) use queue::{
    Bytes, Claim, CompletedRange, Doorbell, Params, Peer as RingPeer, Queue, Slot,
    Ticket as RingTicket,
};
pub(crate) use senders::{Sender, Senders};
pub(crate) use srq::Srq;
pub(crate) use table::Table;

/// A registered memory region. Its owner is a queue pair, or it belongs to a context.
pub(crate) type Region = region::Region<Qp>;
/// All regions of a node. Peers reach these.
pub(crate) type Regions = region::Table<Qp>;
/// The regions of one context, which its entries name by key.
pub(crate) type LocalRegions = region::LocalTable<Qp>;
/// Looks up regions of a context and caches the last one.
pub(crate) type Lookup<'a> = region::Lookup<'a, Qp>;
/// Caches the region of a node that was found last.
pub(crate) type RegionCache = region::RegionCache<Qp>;

/// Largest message that the kernel buffers for the program, in bytes (16 MiB).
pub(crate) const MAX_MESSAGE: u32 = uapi::SUPERP_MAX_MESSAGE;

/// The connection that a message arrived on: its addresses and its local id.
pub(crate) struct MsgMeta {
    pub(crate) local: [u8; 16],
    pub(crate) remote: [u8; 16],
    pub(crate) cid: u32,
}

/// What all packets of a message carry besides data.
#[derive(Copy, Clone, Default, PartialEq, Eq)]
pub(crate) struct MsgAttrs {
    /// Immediate data of the sender's program.
    pub(crate) imm: Option<u32>,
    /// The message is solicited: it also wakes a receiver that waits for solicited completions
    /// only.
    pub(crate) solicited: bool,
}

/// What a delivery carries besides the bytes of a message.
#[derive(Copy, Clone)]
pub(crate) enum Ancillary {
    MsgAttrs(MsgAttrs),
    /// No message, but a write with immediate data. Its `len` bytes are already in the memory of
    /// the receiver.
    Written {
        imm: u32,
        solicited: bool,
        len: u32,
    },
    /// A message to a receive context. Its bytes are in the region `key`: `length` bytes, the
    /// lowest at `offset`.
    Placed {
        key: u32,
        offset: u32,
        length: u32,
    },
}

/// Why a queue pair refuses a message.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum RecvError {
    /// There is no buffer now: SO_RCVBUF is full, or no receive entry or completion entry is free.
    /// The sender repeats the message.
    NoBuffer,
    /// The message is longer than the receive entry.
    TooLong,
    /// The queue pair receives nothing, or nothing from this peer.
    NoQp,
}

/// The user of a queue pair.
pub(crate) enum QpKind {
    Socket(Arc<Endpoint>),
    Ring(Arc<Queue>),
}

/// How often a message is sent again that the peer has no buffer for.
#[derive(Copy, Clone)]
pub(crate) enum RetryPolicy {
    /// Until the peer accepts it.
    Unlimited,
    /// About 100 times (2 s): the socket or queue pair is closed.
    Limited,
    /// Not at all: the queue pair is in the error state.
    Never,
}

/// One queue pair.
#[pin_data]
pub(crate) struct Qp {
    qpn: Atomic<u32>,
    kind: QpKind,
    /// Messages to this queue pair of which a connection stores some transactions.
    partials: Atomic<u32>,
    /// Memory of messages to this queue pair that are not complete, in bytes.
    parts_memory: Atomic<usize>,
    /// Connections whose next message is refused unless it carries `start` [proto 7]. Without this
    /// a message behind a refused one would be received before the refused one is repeated. Each
    /// queue pair has its own list, so that no peer can use up the entries of other queue pairs.
    #[pin]
    refusing: SpinLockBh<KVec<u32>>,
    /// Length of `refusing`, readable without its lock.
    refusing_count: Atomic<usize>,
}

/// Counts one partly received message in [`Qp::partials`] while a connection stores it.
pub(crate) struct PartialRef(Arc<Qp>);

impl Drop for PartialRef {
    fn drop(&mut self) {
        self.0.partials.fetch_sub(1, Relaxed);
    }
}

impl Qp {
    /// Returns an unbound queue pair. Process context.
    pub(crate) fn new(kind: QpKind) -> Result<Arc<Qp>> {
        Arc::pin_init(
            pin_init!(Qp {
                qpn: Atomic::new(0),
                kind,
                partials: Atomic::new(0),
                parts_memory: Atomic::new(0),
                refusing <- new_spinlock_bh!(KVec::new(), "superp_qp_refusing"),
                refusing_count: Atomic::new(0),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The 24-bit number, or 0 if the queue pair is not bound.
    pub(crate) fn qpn(&self) -> u32 {
        self.qpn.load(Relaxed)
    }

    /// Counts a message of which a connection stores some transactions. Returns `None` if the queue
    /// pair is not bound any more: nobody would free what is stored.
    ///
    /// Any context up to softirq. The caller holds the connection's lock.
    pub(crate) fn keep_partial(self: &Arc<Self>) -> Option<PartialRef> {
        self.partials.fetch_add(1, Full);
        let partial = PartialRef(self.clone());
        // `Table::unbind` clears the number and then reads `partials`, both fully ordered. Either
        // this load returns 0, or `unbind` sees the count and has the connections drop their part.
        (self.qpn() != 0).then_some(partial)
    }

    /// Memory of messages to this queue pair that are not complete, in bytes. Any context.
    pub(crate) fn parts_memory(&self) -> usize {
        self.parts_memory.load(Relaxed)
    }

    /// Charges `bytes` of a message that is not complete to the queue pair. Any context.
    pub(crate) fn charge_parts(&self, bytes: usize) {
        self.parts_memory.fetch_add(bytes, Relaxed);
    }

    /// Returns a charge of [`Self::charge_parts`]. Any context.
    pub(crate) fn uncharge_parts(&self, bytes: usize) {
        self.parts_memory.fetch_sub(bytes, Relaxed);
    }

    /// From now on refuses messages of connection `cid` until one carries `start`.
    ///
    /// Any context up to softirq. The caller holds the connection's lock.
    ///
    /// # Errors
    ///
    /// `AllocError`: there is no memory to store `cid`.
    pub(crate) fn refuse(&self, cid: u32) -> Result<(), AllocError> {
        let mut refusing = self.refusing.lock();
        if refusing.contains(&cid) {
            return Ok(());
        }
        if refusing.len() == refusing.capacity() {
            let new_capacity = refusing.len().saturating_mul(2).max(4);
            let mut larger = KVec::with_capacity(new_capacity, GFP_ATOMIC)?;
            for cid in refusing.iter() {
                // The new vector has a larger capacity than the old one has entries.
                let _ = larger.push_within_capacity(*cid);
            }
            *refusing = larger;
        }
        // The code above ensures a free entry.
        let _ = refusing.push_within_capacity(cid);
        self.refusing_count.store(refusing.len(), Relaxed);
        Ok(())
    }

    /// Whether messages of connection `cid` are refused until one of them carries `start`.
    ///
    /// Any context up to softirq. The caller holds the connection's lock.
    pub(crate) fn is_refusing(&self, cid: u32) -> bool {
        self.refusing_count.load(Relaxed) != 0 && self.refusing.lock().contains(&cid)
    }

    /// Stops refusing messages of connection `cid`. Any context up to softirq.
    pub(crate) fn accept_again(&self, cid: u32) {
        if self.refusing_count.load(Relaxed) != 0 {
            let mut refusing = self.refusing.lock();
            if let Some(index) = refusing.iter().position(|refused| *refused == cid) {
                let _ = refusing.remove(index);
            }
            self.refusing_count.store(refusing.len(), Relaxed);
        }
    }

    /// The rings of the queue pair, or `None` for a socket.
    pub(crate) fn ring(&self) -> Option<&Arc<Queue>> {
        match &self.kind {
            QpKind::Socket(_) => None,
            QpKind::Ring(queue) => Some(queue),
        }
    }

    /// Whether a message from `from` would be received now. The connection asks at the first packet
    /// of a message, so that the sender does not transmit a long message in vain. Nothing is
    /// reserved: the message may be refused later.
    ///
    /// `own_parts`: the bytes of [`Self::parts_memory`] that belong to the message. SO_RCVBUF
    /// counts those of other messages only.
    ///
    /// Any context up to softirq. The connection's lock may be held.
    pub(crate) fn can_receive(&self, from: &MsgMeta, own_parts: usize) -> Result<(), RecvError> {
        match &self.kind {
            QpKind::Socket(endpoint) => {
                endpoint.can_receive(from, self.parts_memory().saturating_sub(own_parts))
            }
            QpKind::Ring(queue) => queue.can_receive(from),
        }
    }

    /// Hands a whole message and its ancillary data to the program. A message that is refused is
    /// dropped.
    ///
    /// Any context up to softirq. The connection's lock may be held.
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

    /// Largest message that the queue pair can receive, in bytes [proto 7].
    pub(crate) fn max_message(&self) -> u32 {
        match &self.kind {
            // The kernel buffers the message until the program calls recvmsg().
            QpKind::Socket(_) => MAX_MESSAGE,
            QpKind::Ring(queue) => queue.max_message(),
        }
    }

    /// Claims the next receive entry for a message of `len` bytes, so that its transactions are
    /// copied there as they arrive. Returns `None` if the buffer is not known yet: the program of a
    /// socket names it in recvmsg(), and a shared receive queue gives an entry only to a whole
    /// message.
    ///
    /// Any context up to softirq. The connection's lock may be held.
    pub(crate) fn claim(&self, from: &MsgMeta, len: u32) -> Result<Option<Claim>, RecvError> {
        match &self.kind {
            QpKind::Socket(_) => Ok(None),
            QpKind::Ring(queue) => queue.claim(from, len),
        }
    }

    /// Connection `cid` has broken, or was reset or removed. Any context up to softirq.
    pub(crate) fn broken(&self, cid: u32, cause: Code) {
        self.accept_again(cid);
        match &self.kind {
            QpKind::Socket(endpoint) => endpoint.broken(cid, cause),
            QpKind::Ring(queue) => queue.broken(cid),
        }
    }

    /// The process that created the socket or the context.
    pub(crate) fn process(&self) -> &Process {
        match &self.kind {
            QpKind::Socket(endpoint) => endpoint.process(),
            QpKind::Ring(queue) => queue.process(),
        }
    }

    /// A snapshot for netlink. Any context up to softirq.
    pub(crate) fn info(&self) -> EndpointInfo {
        let mut info = match &self.kind {
            QpKind::Socket(endpoint) => endpoint.info(),
            QpKind::Ring(queue) => queue.info(),
        };
        // CAST: `usize` has at most 64 bits.
        info.rx_queued = info.rx_queued.saturating_add(self.parts_memory() as u64);
        info
    }
}

impl Owner for Qp {
    fn qpn(&self) -> u32 {
        Qp::qpn(self)
    }
}

/// Snapshot of a queue pair for netlink.
pub(crate) struct EndpointInfo {
    pub(crate) cid: Option<u32>,
    pub(crate) remote: [u8; 16],
    pub(crate) remote_qpn: u32,
    pub(crate) connected: bool,
    /// Inode number of the socket, as in /proc/PID/fd. 0 after the socket was closed.
    pub(crate) inode: u64,
    pub(crate) tx_messages: u64,
    pub(crate) rx_messages: u64,
    /// Memory of the received messages that the program has not read yet, and of those that are
    /// not complete, in bytes.
    pub(crate) rx_queued: u64,
    /// Messages and requests that were submitted and have not completed.
    pub(crate) pending: u32,
}

/// Returns the errno of a code. `enum superp_error` in `uapi/linux/superp.h` has the table.
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
