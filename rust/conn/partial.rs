// SPDX-License-Identifier: GPL-2.0

//! Messages of several transactions that are not complete yet.

use kernel::{prelude::*, sync::Arc};

use crate::{
    kapi::skb::SkbQueue,
    proto::{Code, SegmentExt},
    qp::{Claim, MsgAttrs, PartialRef, Qp, RecvError},
};

/// A message, or one transaction of a long message, of which some packets have arrived.
pub(super) struct Assembly {
    pub(super) qp: Arc<Qp>,
    pub(super) qpn: u32,
    /// Segments, by their place in the message.
    pub(super) segments: SkbQueue,
    /// Bytes of data received so far.
    pub(super) bytes: u64,
    /// Length of the whole message, in bytes. `None`: the message is the transaction.
    pub(super) message_len: Option<u32>,
    pub(super) attrs: MsgAttrs,
}

/// The attributes that all operations of a message carry. Without extensions there are none.
pub(super) fn attrs(ext: Option<&SegmentExt>) -> MsgAttrs {
    ext.map_or(MsgAttrs::default(), |ext| MsgAttrs {
        imm: ext.imm,
        solicited: ext.solicited,
    })
}

impl Assembly {
    /// Whether the message has this length and these attributes.
    pub(super) fn matches(&self, message_len: Option<u32>, attrs: MsgAttrs) -> bool {
        self.message_len == message_len && self.attrs == attrs
    }
}

/// Where the received bytes are.
pub(super) enum Store {
    /// In the kernel, by offset in the message, until the program says where they go.
    Buffered(SkbQueue),
    /// In the program's buffer.
    Placed(Claim),
}

/// A message of which some transactions are complete.
pub(super) struct Partial {
    pub(super) qp: Arc<Qp>,
    pub(super) qpn: u32,
    pub(super) attrs: MsgAttrs,
    pub(super) store: Store,
    /// Length of the message, in bytes.
    len: u32,
    /// Bytes received so far.
    bytes: u64,
    /// The first transaction is complete.
    begun: bool,
    /// Counts this message in its queue pair.
    reference: Option<PartialRef>,
}

impl Partial {
    /// The message of `len` bytes that `part` belongs to, without the bytes of `part`.
    pub(super) fn new(part: &Assembly, len: u32, claim: Option<Claim>) -> Self {
        Self {
            qp: part.qp.clone(),
            qpn: part.qpn,
            attrs: part.attrs,
            store: claim.map_or_else(|| Store::Buffered(SkbQueue::new()), Store::Placed),
            len,
            bytes: 0,
            begun: false,
            reference: None,
        }
    }

    /// Registers the message with its queue pair, which has it dropped when it is unbound. Returns
    /// `false` if the queue pair is unbound already.
    ///
    /// Softirq. The caller holds the connection's lock.
    pub(super) fn register(&mut self) -> bool {
        if self.reference.is_none() {
            self.reference = self.qp.keep_partial();
        }
        self.reference.is_some()
    }

    /// Whether the first transaction is complete.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether the message has this length and these attributes.
    pub(super) fn matches(&self, len: u32, attrs: MsgAttrs) -> bool {
        self.len == len && self.attrs == attrs
    }

    /// Whether all bytes of the message were received.
    pub(super) fn is_complete(&self) -> bool {
        self.bytes >= self.len.into()
    }

    /// Whether more bytes were received than the message has.
    pub(super) fn is_exceeded(&self) -> bool {
        self.bytes > self.len.into()
    }

    /// Adds a complete transaction. Softirq. The caller holds the connection's lock.
    ///
    /// # Errors
    ///
    /// The outer error ends the transaction. The inner one is the queue pair's: its buffer does not
    /// take the bytes.
    pub(super) fn add(&mut self, mut part: Assembly) -> Result<Result<(), RecvError>, Code> {
        let first = part.segments.first_key().unwrap_or(0);
        self.begun |= first == 0;
        self.bytes = self.bytes.saturating_add(part.bytes);
        match &mut self.store {
            Store::Buffered(segments) => segments.append_all(&mut part.segments),
            Store::Placed(claim) => {
                let bytes = part.segments.into_message().ok_or(Code::RESOURCES)?;
                let put = claim.put(first, &bytes);
                bytes.consume();
                return Ok(put);
            }
        }
        Ok(Ok(()))
    }
}
