// SPDX-License-Identifier: GPL-2.0

//! Messages of several transactions, of which some are still to come.

use kernel::{prelude::*, sync::Arc};

use super::receiver::Assembly;
use crate::{
    kapi::skb::SkbQueue,
    proto::Code,
    qp::{Claim, MsgAttrs, PartialRef, Qp, RecvError},
};

/// Where the bytes are that have come.
pub(super) enum Store {
    /// In the kernel, by their place in the message, until the program says where they go.
    Kept(SkbQueue),
    /// In the program's buffer.
    Placed(Claim),
}

/// A message of which whole transactions are here.
pub(super) struct Partial {
    pub(super) qp: Arc<Qp>,
    pub(super) qpn: u32,
    pub(super) attrs: MsgAttrs,
    pub(super) store: Store,
    len: u32,
    /// Bytes so far.
    bytes: u64,
    /// The first transaction is here.
    begun: bool,
    /// Its queue pair counts it.
    kept: Option<PartialRef>,
}

impl Partial {
    /// The message of `len` bytes that `part` is of, without any bytes.
    pub(super) fn new(part: &Assembly, len: u32, claim: Option<Claim>) -> Self {
        Self {
            qp: part.qp.clone(),
            qpn: part.qpn,
            attrs: part.attrs,
            store: claim.map_or_else(|| Store::Kept(SkbQueue::new()), Store::Placed),
            len,
            bytes: 0,
            begun: false,
            kept: None,
        }
    }

    /// Has its queue pair count it, and take it away when it goes. False: it has gone.
    ///
    /// Softirq, the connection's lock is held.
    pub(super) fn keep(&mut self) -> bool {
        if self.kept.is_none() {
            self.kept = self.qp.keep_partial();
        }
        self.kept.is_some()
    }

    /// Whether the first transaction is here.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether it is a message of this length, with this mark.
    pub(super) fn is_of(&self, len: u32, attrs: MsgAttrs) -> bool {
        self.len == len && self.attrs == attrs
    }

    /// Whether as many bytes are here as the message has.
    pub(super) fn is_whole(&self) -> bool {
        self.bytes >= self.len.into()
    }

    /// Whether more are.
    pub(super) fn is_exceeded(&self) -> bool {
        self.bytes > self.len.into()
    }

    /// Adds a transaction. Softirq, the connection's lock is held.
    pub(super) fn add(&mut self, mut part: Assembly) -> Result<Result<(), RecvError>, Code> {
        let first = part.segments.first_key().unwrap_or(0);
        self.begun |= first == 0;
        self.bytes = self.bytes.saturating_add(part.bytes);
        match &mut self.store {
            Store::Kept(segments) => segments.append_all(&mut part.segments),
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
