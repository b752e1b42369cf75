// SPDX-License-Identifier: GPL-2.0

//! What the receiving half of a connection keeps: packets that wait, and messages of which parts are still to come.

use kernel::{alloc::AllocError, prelude::*, sync::Arc};

use super::partial::Partial;
use crate::{
    kapi::skb::{SkBuff, SkbQueue},
    proto::SegmentExt,
    qp::{MsgAttrs, Qp},
};

/// Long messages under way at a time, each to another queue pair.
const PARTIAL_MAX: usize = 256;

/// A message, or one transaction of it, of which packets are still to come.
pub(super) struct Assembly {
    pub(super) qp: Arc<Qp>,
    pub(super) qpn: u32,
    /// Segments by their place in the message.
    pub(super) segments: SkbQueue,
    /// Bytes of data so far.
    pub(super) bytes: u64,
    /// Length of the whole message, where the packets say it.
    pub(super) message_len: Option<u32>,
    pub(super) attrs: MsgAttrs,
}

/// What all operations of a message say, where they can.
pub(super) fn attrs(ext: Option<&SegmentExt>) -> MsgAttrs {
    ext.map_or(MsgAttrs::default(), |ext| MsgAttrs {
        imm: ext.imm,
        solicited: ext.solicited,
    })
}

impl Assembly {
    /// Whether it is of a message of this length, with this mark.
    pub(super) fn is_part_of(&self, message_len: Option<u32>, attrs: MsgAttrs) -> bool {
        self.message_len == message_len && self.attrs == attrs
    }
}

/// A message to a receive context, of which parts are still to come.
pub(super) struct Filling {
    pub(super) key: u32,
    /// The owner's: another region may get the key.
    pub(super) qp: Arc<Qp>,
    /// Lowest offset so far.
    pub(super) offset: u32,
    /// Bytes so far.
    pub(super) length: u32,
}

/// State of the receiving half, under the connection's lock.
pub(super) struct Receiver {
    /// Packets above a hole of an ordered connection, by slot.
    pub(super) held: KVVec<Option<SkBuff>>,
    /// Messages by transaction.
    assemblies: KVVec<Option<Assembly>>,
    /// Messages to receive contexts by transaction.
    fillings: KVVec<Option<Filling>>,
    /// Messages of several transactions.
    pub(super) partials: KVec<Partial>,
}

fn empty<T>(n: usize) -> Result<KVVec<Option<T>>, AllocError> {
    let mut slots = KVVec::with_capacity(n, GFP_KERNEL)?;
    for _ in 0..n {
        // There is room: it was just allocated.
        let _ = slots.push_within_capacity(None);
    }
    Ok(slots)
}

impl Receiver {
    /// Process context.
    pub(super) fn new(psn_slots: usize, xid_slots: usize) -> Result<Receiver, AllocError> {
        Ok(Receiver {
            held: empty(psn_slots)?,
            assemblies: empty(xid_slots)?,
            fillings: empty(xid_slots)?,
            partials: KVec::with_capacity(PARTIAL_MAX, GFP_KERNEL)?,
        })
    }

    /// Everything it holds, to be dropped outside the lock. What stays takes nothing in.
    pub(super) fn take(&mut self) -> Receiver {
        core::mem::replace(
            self,
            Receiver {
                held: KVVec::new(),
                assemblies: KVVec::new(),
                fillings: KVVec::new(),
                partials: KVec::new(),
            },
        )
    }

    pub(super) fn slot(&mut self, xid: u16) -> Option<&mut Option<Assembly>> {
        let mask = self.assemblies.len().wrapping_sub(1);
        self.assemblies.get_mut(usize::from(xid) & mask)
    }

    pub(super) fn filling(&mut self, xid: u16) -> Option<&mut Option<Filling>> {
        let mask = self.fillings.len().wrapping_sub(1);
        self.fillings.get_mut(usize::from(xid) & mask)
    }

    pub(super) fn partial(&self, qpn: u32) -> Option<usize> {
        self.partials.iter().position(|p| p.qpn == qpn)
    }

    pub(super) fn take_partial(&mut self, qpn: u32) -> Option<Partial> {
        let index = self.partial(qpn)?;
        self.partials.remove(index).ok()
    }
}
