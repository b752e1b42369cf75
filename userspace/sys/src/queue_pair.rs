// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Queue pairs and their rings.

use crate::completion_queue::{Cq, CqInner};
use crate::context::{ContextSocket, Inner};
use crate::mapping::Mapping;
use crate::pace::{ticks, Pace};
use crate::ring::{Flags, Producer, RingSize};
use crate::shared_receive::Srq;
use crate::uapi::{self, superp_rqe, superp_segment, superp_sqe};
use crate::{call, Address};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Where a queue pair takes its receive entries from.
#[derive(Clone, Copy, Debug)]
pub enum Receive<'a> {
    /// A ring of its own; without entries it receives nothing.
    Own(RingSize),
    /// A queue that it shares with others.
    Shared(&'a Srq),
}

impl ContextSocket {
    /// Makes a queue pair with these rings. `qpn` is its number in the node, 0 for any.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: queues of another context. EINVAL: the size of a ring. EADDRINUSE: `qpn` is taken. ENOMEM: also over RLIMIT_MEMLOCK. ENOSPC: too many.
    pub fn create_qp(
        &self,
        send_cq: &Cq,
        recv_cq: &Cq,
        send: RingSize,
        receive: Receive<'_>,
        qpn: u32,
    ) -> Result<(SendRing, Option<ReceiveRing>)> {
        let (size, srq) = match receive {
            Receive::Own(size) => (size, None),
            Receive::Shared(srq) => (RingSize::NONE, Some(srq)),
        };
        let others = [&send_cq.inner.context, &recv_cq.inner.context];
        let mut contexts = others.into_iter().chain(srq.map(|srq| &srq.0.context));
        if !contexts.all(|context| Arc::ptr_eq(context, &self.0)) {
            let text = "a queue of another context";
            return Err(Error::new(ErrorKind::InvalidInput, text));
        }
        let mut create = uapi::superp_rqp_create {
            send_cq: send_cq.inner.number,
            recv_cq: recv_cq.inner.number,
            sq_entries: send.entries,
            rq_entries: size.entries,
            sq_segments: send.segments,
            rq_segments: size.segments,
            flags: srq.map_or(0, |_| uapi::SUPERP_RQP_SRQ),
            srq: srq.map_or(0, |srq| srq.0.number),
            qpn,
            ..Default::default()
        };
        call::ioctl(self.0.fd.as_fd(), &mut create)?;
        let qp = Arc::new(Qp {
            context: self.0.clone(),
            number: create.qp,
            qpn: create.qpn,
            connected: AtomicBool::new(false),
            cqs: [send_cq.inner.clone(), recv_cq.inner.clone()],
            _srq: srq.cloned(),
        });
        let mapping = Mapping::new(self.0.fd.as_fd(), create.offset, create.size)?;
        let mapping = Arc::new(mapping);
        for cq in &qp.cqs {
            let flags = Flags::new(mapping.clone(), &create.sq)?;
            cq.with_users(|users| users.push((create.qp, flags)));
        }
        let ring = Producer::new(mapping.clone(), &create.sq, send.segments)?;
        let receive = match size.entries {
            0 => None,
            _ => Some(ReceiveRing {
                qp: qp.clone(),
                flags: Flags::new(mapping.clone(), &create.sq)?,
                ring: Producer::new(mapping, &create.rq, size.segments)?,
            }),
        };
        let pace = Pace::new();
        Ok((SendRing { qp, ring, pace }, receive))
    }
}

/// What is known of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    /// It speaks the extension opcodes.
    pub ext: bool,
    /// It delivers in order both ways.
    pub ordered: bool,
    /// Longest message, bytes.
    pub max_message: u32,
    /// Shortest.
    pub min_message: u32,
    /// The peer, with the connection in use.
    pub peer: Address,
}

/// What both rings of a queue pair share. The last of them ends it.
#[derive(Debug)]
pub struct Qp {
    context: Arc<Inner>,
    number: u32,
    qpn: u32,
    connected: AtomicBool,
    cqs: [Arc<CqInner>; 2],
    /// Drops after the queue pair has ended.
    _srq: Option<Srq>,
}

impl Qp {
    /// Its number in the context, which completions carry.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its number in the node, which peers send to.
    pub fn qpn(&self) -> u32 {
        self.qpn
    }

    /// Chooses the peer, once.
    ///
    /// # Errors
    ///
    /// EHOSTUNREACH: no established connection fits. EISCONN: it has, or had, a peer.
    pub fn connect(&self, peer: &Address) -> Result<Connected> {
        let mut connect = uapi::superp_rqp_connect {
            qp: self.number,
            peer: peer.to_name(self.context.family),
            ..Default::default()
        };
        call::ioctl(self.context.fd.as_fd(), &mut connect)?;
        self.connected.store(true, Ordering::Relaxed);
        Ok(Connected {
            ext: connect.flags & uapi::SUPERP_QP_F_EXT != 0,
            ordered: connect.flags & uapi::SUPERP_QP_F_ORDERED != 0,
            max_message: connect.max_message,
            min_message: connect.min_message,
            peer: Address::from_name(&connect.peer),
        })
    }

    /// Whether it has a peer.
    pub fn connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// Puts it into the error state: what is in its rings completes as aborted, except for what is with
    /// the connection. What finds no room in a completion queue follows when completions are taken.
    ///
    /// # Errors
    ///
    /// What send(2) says.
    pub fn fail(&self) -> Result<()> {
        // What was posted before is with the connection.
        self.context.ring_waiting(false)?;
        let mut modify = uapi::superp_rqp_modify {
            qp: self.number,
            state: uapi::SUPERP_QPS_ERR,
        };
        match call::ioctl(self.context.fd.as_fd(), &mut modify) {
            // Entries were left: the doorbell goes on with them, and remembers.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                self.context.ring(false).map(drop)
            }
            done => done,
        }
    }

    /// The context it belongs to.
    pub fn context(&self) -> ContextSocket {
        ContextSocket(self.context.clone())
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        for cq in &self.cqs {
            cq.with_users(|users| users.retain(|(number, _)| *number != self.number));
        }
        let fd = self.context.fd.as_fd();
        let _ = call::destroy(fd, uapi::SUPERP_IOC_RQP_DESTROY, self.number);
    }
}

/// Flags of a submission ring with which a doorbell has the kernel look.
const RINGS: u32 =
    uapi::SUPERP_RING_NEED_WAKEUP | uapi::SUPERP_RING_LATER | uapi::SUPERP_RING_ERROR;

/// The submission ring of a queue pair.
#[derive(Debug)]
pub struct SendRing {
    qp: Arc<Qp>,
    ring: Producer<superp_sqe>,
    pace: Pace,
}

impl SendRing {
    /// The queue pair.
    pub fn qp(&self) -> &Arc<Qp> {
        &self.qp
    }

    /// Entries of the ring.
    pub fn entries(&self) -> u32 {
        self.ring.entries()
    }

    /// How many entries can be put in now.
    pub fn room(&mut self) -> u32 {
        self.ring.room()
    }

    /// Segments that an entry may have.
    #[inline]
    pub fn segments(&self) -> u32 {
        self.ring.per_entry()
    }

    /// The slot of the next entry, which nothing under way uses any more. `None`: the ring is full.
    #[inline]
    pub fn next_slot(&mut self) -> Option<u32> {
        self.ring.next_slot()
    }

    /// Puts an entry in, with its segments, as far as it may have them. `false`: the ring is full.
    #[inline]
    pub fn push(
        &mut self,
        entry: superp_sqe,
        segments: impl IntoIterator<Item = superp_segment>,
    ) -> bool {
        self.ring.push(entry, segments)
    }

    /// Shows the kernel what was put in. `true`: it looks when the doorbell of the context rings.
    #[inline]
    pub fn publish(&mut self) -> bool {
        self.ring.publish();
        let bell = self.ring.flags() & RINGS != 0;
        if bell {
            self.qp.context.set_bell(self.qp.number);
        }
        bell
    }

    /// Shows the kernel what was put in, and has it look: by the doorbell. Where one request follows the
    /// other it may wait for some more, for who takes completions or asks for an event, or 0.8 ms.
    ///
    /// # Errors
    ///
    /// What send(2) says.
    pub fn submit(&mut self) -> Result<()> {
        self.ring.publish();
        let flags = self.ring.flags();
        if flags & RINGS == 0 {
            return Ok(());
        }
        let context = &self.qp.context;
        let said = context.set_bell(self.qp.number);
        let begun = ticks();
        let more = if flags & uapi::SUPERP_RING_ERROR != 0 {
            false
        } else if flags & uapi::SUPERP_RING_LATER == 0 {
            self.pace.rings(said, begun)
        } else if self.pace.waits(!said) {
            true
        } else {
            context.waits.store(true, Ordering::Relaxed);
            return Ok(());
        };
        let rung = context.ring(more);
        self.pace.rang(begun, ticks());
        rung.map(drop)
    }

    /// Whether the queue pair is in the error state.
    pub fn failed(&self) -> bool {
        self.ring.flags() & uapi::SUPERP_RING_ERROR != 0
    }
}

impl Drop for SendRing {
    fn drop(&mut self) {
        if self.pace.any_waits() {
            // It goes out, though its outcome is nobody's.
            let _ = self.qp.context.ring_waiting(false);
        }
    }
}

/// The receive ring of a queue pair.
#[derive(Debug)]
pub struct ReceiveRing {
    qp: Arc<Qp>,
    flags: Flags,
    ring: Producer<superp_rqe>,
}

impl ReceiveRing {
    /// The queue pair.
    pub fn qp(&self) -> &Arc<Qp> {
        &self.qp
    }

    /// Entries of the ring.
    pub fn entries(&self) -> u32 {
        self.ring.entries()
    }

    /// How many entries can be put in now.
    pub fn room(&mut self) -> u32 {
        self.ring.room()
    }

    /// Segments that an entry may have.
    pub fn segments(&self) -> u32 {
        self.ring.per_entry()
    }

    /// Puts an entry in, with its segments, as far as it may have them. `false`: the ring is full.
    pub fn push(
        &mut self,
        entry: superp_rqe,
        segments: impl IntoIterator<Item = superp_segment>,
    ) -> bool {
        self.ring.push(entry, segments)
    }

    /// Shows the kernel what was put in. `true`: the queue pair is in the error state, and the kernel
    /// looks when the doorbell of the context rings.
    pub fn publish(&mut self) -> bool {
        self.ring.publish();
        let bell = self.flags.failed();
        if bell {
            self.qp.context.set_bell(self.qp.number);
        }
        bell
    }
}
