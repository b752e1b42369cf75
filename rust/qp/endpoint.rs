// SPDX-License-Identifier: GPL-2.0

//! The queue pair of a socket: its addresses, its SO_SNDBUF account, received messages and
//! completions.

mod origin;
mod ticket;

use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Full, Relaxed},
        rcu, Arc,
    },
};

use super::{error_of, Ancillary, EndpointInfo, MsgAttrs, MsgMeta, RecvError, Sender};
use crate::{
    kapi::{
        errno::enobufs,
        lock::{new_spinlock_bh, SpinLockBh},
        process::Process,
        skb::SkBuff,
        sock::{CompletionRecord, Key, RcuSock, Sock},
        uapi,
    },
    proto::Code,
};

pub(crate) use origin::Origin;
pub(crate) use ticket::{CompletionInfo, Ticket};

/// The address `::`, which stands for no address.
pub(crate) const UNSPECIFIED: [u8; 16] = [0; 16];

/// Addresses of a socket: what getsockname() and getpeername() return.
#[derive(Copy, Clone)]
pub(crate) struct Names {
    /// The bound address. [`UNSPECIFIED`]: any address of the node.
    pub(crate) local: [u8; 16],
    pub(crate) peer: Option<Peer>,
}

#[derive(Copy, Clone)]
pub(crate) struct Peer {
    pub(crate) addr: [u8; 16],
    /// 0: the socket is connected for remote memory access only.
    pub(crate) qpn: u32,
    pub(crate) cid: u32,
}

/// The part of a socket that its queue pair and its tickets refer to. It outlives the socket while
/// works are under way, and finds `struct sock` under RCU.
#[pin_data]
pub(crate) struct Endpoint {
    pub(crate) sock: RcuSock,
    process: Process,
    /// Memory that is charged to SO_SNDBUF, in bytes.
    pub(crate) sndbuf_used: Atomic<isize>,
    /// The same memory is charged to the user, also after the socket is closed.
    pub(crate) sender: Sender,
    /// Remote memory requests that have not completed.
    pending_requests: Atomic<u32>,
    /// Messages that have not completed.
    pending_messages: Atomic<u32>,
    tx_messages: Atomic<u64>,
    rx_messages: Atomic<u64>,
    #[pin]
    pub(crate) names: SpinLockBh<Names>,
}

impl Endpoint {
    /// Returns the endpoint of the new socket `sk`. Process context.
    pub(crate) fn new(sk: ARef<Sock>, sender: Sender) -> Result<Arc<Endpoint>> {
        let endpoint = try_pin_init!(Endpoint {
            sock: RcuSock::new(sk),
            process: Process::current()?,
            sndbuf_used: Atomic::new(0),
            sender,
            pending_requests: Atomic::new(0),
            pending_messages: Atomic::new(0),
            tx_messages: Atomic::new(0),
            rx_messages: Atomic::new(0),
            names <- new_spinlock_bh!(Names { local: UNSPECIFIED, peer: None }, "superp_names"),
        });
        Arc::pin_init(endpoint, GFP_KERNEL_ACCOUNT)
    }

    /// The process that created the socket.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// See [`crate::qp::Qp::can_receive`]. Any context up to softirq.
    pub(crate) fn can_receive(&self, from: &MsgMeta, parts: usize) -> Result<(), RecvError> {
        self.check_addresses(from)?;
        self.sock
            .with(|sk, _| match (sk.recv_closed(), sk.full(parts)) {
                (true, _) => Err(RecvError::NoQp),
                (false, true) => Err(RecvError::NoBuffer),
                (false, false) => Ok(()),
            })
            .unwrap_or(Err(RecvError::NoQp))
    }

    /// See [`crate::qp::Qp::deliver`]. Any context up to softirq.
    pub(crate) fn deliver(
        &self,
        from: &MsgMeta,
        message: SkBuff,
        ancillary: Ancillary,
    ) -> Result<(), RecvError> {
        self.check_addresses(from)?;
        let mut origin = Origin {
            addr: from.remote,
            cid: from.cid,
            imm: None,
            placed: None,
        };
        match ancillary {
            Ancillary::MsgAttrs(MsgAttrs { imm: None, .. }) => {}
            Ancillary::MsgAttrs(MsgAttrs { imm: Some(imm), .. })
            | Ancillary::Written { imm, .. } => {
                origin.imm = Some(imm);
            }
            Ancillary::Placed {
                key,
                offset,
                length,
            } => {
                origin.placed = Some(Key {
                    key,
                    offset,
                    length,
                    rsvd: 0,
                });
            }
        }
        match self
            .sock
            .with(|sk, rcu| sk.deliver(rcu, message, &origin.to_meta()))
        {
            Some(Ok(())) => {
                self.rx_messages.add(1, Relaxed);
                Ok(())
            }
            Some(Err(e)) if e == enobufs() => Err(RecvError::NoBuffer),
            Some(Err(_)) | None => Err(RecvError::NoQp),
        }
    }

    /// Checks the addresses of a message: a bound socket receives only messages to its address, a
    /// connected socket only messages of its peer, on any connection.
    fn check_addresses(&self, from: &MsgMeta) -> Result<(), RecvError> {
        let names = *self.names.lock();
        let local = names.local == UNSPECIFIED || names.local == from.local;
        let peer = names.peer.is_none_or(|peer| peer.addr == from.remote);
        if local && peer {
            Ok(())
        } else {
            Err(RecvError::NoQp)
        }
    }

    /// Connection `cid` has broken, or was reset or removed. If the socket is connected over it,
    /// the cause becomes the pending error, so that a program that only receives learns about it.
    /// Any context up to softirq.
    pub(crate) fn broken(&self, cid: u32, cause: Code) {
        let peer = self.names.lock().peer;
        if peer.is_some_and(|peer| peer.cid == cid) {
            self.sock.with(|sk, _| sk.set_error(error_of(cause)));
        }
    }

    /// A snapshot for netlink. Any context up to softirq.
    pub(crate) fn info(&self) -> EndpointInfo {
        let peer = self.names.lock().peer;
        EndpointInfo {
            cid: peer.map(|peer| peer.cid),
            remote: peer.map_or(UNSPECIFIED, |peer| peer.addr),
            remote_qpn: peer.map_or(0, |peer| peer.qpn),
            connected: peer.is_some(),
            inode: self.sock.with(|sk, _| sk.inode()).unwrap_or(0),
            tx_messages: self.tx_messages.load(Relaxed),
            rx_messages: self.rx_messages.load(Relaxed),
            rx_queued: self.sock.with(|sk, _| sk.received()).unwrap_or(0),
            pending: self
                .pending_requests
                .load(Relaxed)
                .wrapping_add(self.pending_messages.load(Relaxed)),
        }
    }

    /// Charges `bytes` to SO_SNDBUF. Returns `false` and charges nothing if the limit is reached. A
    /// message is admitted while the sum of the earlier ones is below the limit, so that a message
    /// larger than the limit can be sent. Any context.
    pub(crate) fn charge(&self, sk: &Sock, bytes: isize) -> bool {
        let mut used = self.sndbuf_used.load(Relaxed);
        loop {
            if used >= sk.sndbuf() {
                return false;
            }
            match self
                .sndbuf_used
                .cmpxchg(used, used.saturating_add(bytes), Relaxed)
            {
                Ok(_) => return true,
                Err(now) => used = now,
            }
        }
    }

    /// Returns a charge to SO_SNDBUF and to the user. Any context up to softirq.
    pub(crate) fn uncharge(&self, bytes: isize) {
        self.sender.uncharge(bytes);
        self.uncharge_sndbuf(bytes);
    }

    /// Returns a charge to SO_SNDBUF, and wakes waiting senders if the sum falls below the limit.
    /// Any context up to softirq.
    pub(crate) fn uncharge_sndbuf(&self, bytes: isize) {
        let before = self.sndbuf_used.fetch_sub(bytes, Full);
        self.sock.with(|sk, _| {
            let limit = sk.sndbuf();
            if before >= limit && before.saturating_sub(bytes) < limit {
                sk.write_space();
            }
        });
    }

    /// Whether the error queue has space for `more` completions beside those of requests under way
    /// and those that are on it, [`uapi::SUPERP_MAX_REQUESTS`] in all.
    pub(crate) fn has_completion_room(&self, sk: &Sock, more: u32) -> bool {
        self.pending_requests
            .load(Relaxed)
            .saturating_add(sk.completions())
            .saturating_add(more)
            <= uapi::SUPERP_MAX_REQUESTS
    }

    /// Puts a completion into `buffer`, which is empty, and on the error queue of `sk`.
    /// `code`: why the request failed. Any context up to softirq.
    pub(crate) fn queue_completion(
        &self,
        sk: &Sock,
        rcu: &rcu::Guard,
        buffer: SkBuff,
        info: CompletionInfo,
        code: Option<Code>,
    ) {
        let record = CompletionRecord {
            token: info.token,
            length: info.len,
            op: info.op,
            major: code.map_or(0, |code| code.major),
            minor: code.map_or(0, |code| code.minor),
            rsvd: 0,
            // Error numbers are negative and above -4096.
            error: code.map_or(0, |code| error_of(code).to_errno().unsigned_abs()),
        };
        // CAST: Small constants of the ABI.
        let (level, kind) = (uapi::SOL_SUPERP as i32, uapi::SUPERP_CMSG_COMPLETION as i32);
        sk.complete(rcu, buffer, level, kind, &record);
    }
}
