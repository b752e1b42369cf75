// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Queue pairs and their rings.

use crate::context::{ContextSocket, CqInner, Inner, Srq};
use crate::mapping::Mapping;
use crate::pace::{ticks, Pace};
use crate::ring::Producer;
use crate::uapi::{self, superp_ring, superp_rqe, superp_segment, superp_sqe};
use crate::{call, Address};
use std::io::{ErrorKind, Result};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

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
    pub(crate) context: Arc<Inner>,
    pub(crate) number: u32,
    pub(crate) qpn: u32,
    pub(crate) connected: AtomicBool,
    pub(crate) cqs: [Arc<CqInner>; 2],
    /// Drops after the queue pair has ended.
    pub(crate) _srq: Option<Srq>,
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

/// The flags of a submission ring.
#[derive(Debug)]
pub(crate) struct Flags {
    mapping: Arc<Mapping>,
    offset: usize,
}

impl Flags {
    pub(crate) fn new(mapping: Arc<Mapping>, ring: &superp_ring) -> Result<Self> {
        let offset = ring.flags as usize;
        if mapping.word(offset).is_none() {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(Self { mapping, offset })
    }

    /// As they are after all that was stored.
    fn load(&self) -> u32 {
        std::sync::atomic::fence(Ordering::SeqCst);
        let word = self.mapping.word(self.offset);
        word.map_or(0, |word: &AtomicU32| word.load(Ordering::Relaxed))
    }

    /// Whether the queue pair is in the error state.
    pub(crate) fn failed(&self) -> bool {
        self.load() & uapi::SUPERP_RING_ERROR != 0
    }
}

/// Flags of a submission ring with which a doorbell has the kernel look.
const RINGS: u32 =
    uapi::SUPERP_RING_NEED_WAKEUP | uapi::SUPERP_RING_LATER | uapi::SUPERP_RING_ERROR;

/// The submission ring of a queue pair.
#[derive(Debug)]
pub struct SendRing {
    pub(crate) qp: Arc<Qp>,
    pub(crate) ring: Producer<superp_sqe>,
    pub(crate) pace: Pace,
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
    pub(crate) qp: Arc<Qp>,
    pub(crate) flags: Flags,
    pub(crate) ring: Producer<superp_rqe>,
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
