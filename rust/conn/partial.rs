// SPDX-License-Identifier: GPL-2.0

//! Messages of several transactions that are not complete yet.

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use crate::{
    kapi::skb::{SkBuff, SkbQueue},
    proto::{Code, SegmentExt},
    qp::{Claim, MsgAttrs, PartialRef, Qp, RecvError},
};

/// Memory of the messages of one life that are not complete, in bytes. The lock of the connection
/// serialises additions. A part may be dropped without it.
pub(super) struct Account(Atomic<usize>);

impl Account {
    /// Nothing is charged.
    pub(super) fn new() -> Self {
        Account(Atomic::new(0))
    }

    /// What is charged, in bytes. Any context.
    pub(super) fn used(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// Why [`Parts::insert`] refuses a segment.
pub(super) enum InsertError {
    /// The messages of the connection that are not complete take too much memory.
    NoRoom,
    /// There is a segment at the same place.
    Exists,
}

/// Segments of a message, by their place in the message.
pub(super) struct Parts {
    segments: SkbQueue,
    /// To whom the memory, not the length, of the segments is charged.
    payer: Option<(Arc<Qp>, Arc<Account>)>,
    /// Bytes that are charged.
    charged: usize,
}

impl Parts {
    /// No segment. `payer` is charged for those to come. It may be `None` for a message of one
    /// packet, which is delivered before the next one arrives.
    pub(super) fn new(payer: Option<(Arc<Qp>, Arc<Account>)>) -> Self {
        Parts {
            segments: SkbQueue::new(),
            payer,
            charged: 0,
        }
    }

    /// Makes the charge that of the segments.
    fn settle(&mut self) {
        let Some((qp, account)) = &self.payer else {
            return;
        };
        let now = self.segments.memory();
        let before = core::mem::replace(&mut self.charged, now);
        let more = now.saturating_sub(before);
        if more > 0 {
            account.0.fetch_add(more, Relaxed);
            qp.charge_parts(more);
        }
        let less = before.saturating_sub(now);
        if less > 0 {
            account.0.fetch_sub(less, Relaxed);
            qp.uncharge_parts(less);
        }
    }

    /// Memory of the segments, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.charged
    }

    /// Lowest place of a segment.
    pub(super) fn first_key(&self) -> Option<u64> {
        self.segments.first_key()
    }

    /// Inserts a segment, unless the messages of the connection that are not complete then take more
    /// than `limit` bytes. What is not charged has no limit. Any context up to softirq. The caller
    /// holds the connection's lock.
    pub(super) fn insert(
        &mut self,
        key: u64,
        segment: SkBuff,
        limit: usize,
    ) -> Result<(), InsertError> {
        if let Some((_, account)) = &self.payer {
            if account.used().saturating_add(segment.memory()) > limit {
                return Err(InsertError::NoRoom);
            }
        }
        let inserted = self.segments.insert(key, segment);
        self.settle();
        inserted.map_err(|_| InsertError::Exists)
    }

    /// Moves all segments of `other` to the end of this.
    fn append_all(&mut self, other: &mut Parts) {
        self.segments.append_all(&mut other.segments);
        self.settle();
        other.settle();
    }

    /// Makes one packet of all segments, see [`SkbQueue::into_message`].
    pub(super) fn into_message(mut self) -> Option<SkBuff> {
        let segments = core::mem::replace(&mut self.segments, SkbQueue::new());
        self.settle();
        segments.into_message()
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.segments = SkbQueue::new();
        self.settle();
    }
}

/// A message, or one transaction of a long message, of which some packets have arrived.
pub(super) struct Assembly {
    pub(super) qp: Arc<Qp>,
    pub(super) qpn: u32,
    pub(super) segments: Parts,
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
    Buffered(Parts),
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
    pub(super) fn new(
        part: &Assembly,
        len: u32,
        claim: Option<Claim>,
        account: &Arc<Account>,
    ) -> Self {
        let empty = || Parts::new(Some((part.qp.clone(), account.clone())));
        Self {
            qp: part.qp.clone(),
            qpn: part.qpn,
            attrs: part.attrs,
            store: claim.map_or_else(|| Store::Buffered(empty()), Store::Placed),
            len,
            bytes: 0,
            begun: false,
            reference: None,
        }
    }

    /// Memory of the message in the kernel, in bytes.
    pub(super) fn memory(&self) -> usize {
        match &self.store {
            Store::Buffered(segments) => segments.memory(),
            Store::Placed(_) => 0,
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
