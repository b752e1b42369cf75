// SPDX-License-Identifier: GPL-2.0

//! State of the receiving half of a connection: held packets, and messages that are not complete.

use kernel::{alloc::AllocError, prelude::*, sync::Arc};

use super::partial::{Account, Assembly, Partial};
use crate::{kapi::skb::SkBuff, qp::Qp};

/// Most messages of several transactions that are under way at a time, each to another queue pair.
const PARTIAL_MAX: usize = 256;

/// A message to a receive context of which some packets have arrived.
pub(super) struct ContextAssembly {
    /// Key of the receive context.
    pub(super) key: u32,
    /// Queue pair of the context's owner. It is kept because another region may get the key.
    pub(super) qp: Arc<Qp>,
    /// Lowest offset in the context so far, in bytes.
    pub(super) offset: u32,
    /// Bytes received so far.
    pub(super) length: u32,
}

/// State of the receiving half. `Conn::inner` protects it.
pub(super) struct Receiver {
    /// Packets above a hole of an ordered connection [proto 3.9], by the slot that the core names.
    pub(super) held: KVVec<Option<SkBuff>>,
    /// Messages, by XID modulo length.
    assemblies: KVVec<Option<Assembly>>,
    /// Messages to receive contexts, by XID modulo length.
    context_assemblies: KVVec<Option<ContextAssembly>>,
    /// Messages of several transactions, at most one for each queue pair.
    pub(super) partials: KVec<Partial>,
    /// Memory of `assemblies` and `partials`.
    pub(super) account: Arc<Account>,
}

fn empty_slots<T>(n: usize) -> Result<KVVec<Option<T>>, AllocError> {
    let mut slots = KVVec::with_capacity(n, GFP_KERNEL_ACCOUNT)?;
    for _ in 0..n {
        // This cannot fail: the capacity is `n`.
        let _ = slots.push_within_capacity(None);
    }
    Ok(slots)
}

impl Receiver {
    /// An idle receiving half. Process context.
    pub(super) fn new(psn_slots: usize, xid_slots: usize) -> Result<Receiver, AllocError> {
        Ok(Receiver {
            held: empty_slots(psn_slots)?,
            assemblies: empty_slots(xid_slots)?,
            context_assemblies: empty_slots(xid_slots)?,
            partials: KVec::with_capacity(PARTIAL_MAX, GFP_KERNEL_ACCOUNT)?,
            account: Arc::new(Account::new(), GFP_KERNEL_ACCOUNT)?,
        })
    }

    /// Takes all state out, so that the caller can drop it outside of the lock. What remains has no
    /// slots, and accepts nothing.
    pub(super) fn take(&mut self) -> Receiver {
        core::mem::replace(
            self,
            Receiver {
                held: KVVec::new(),
                assemblies: KVVec::new(),
                context_assemblies: KVVec::new(),
                partials: KVec::new(),
                account: self.account.clone(),
            },
        )
    }

    /// The packets that wait for their turn.
    pub(super) fn held_packets(&self) -> impl Iterator<Item = &SkBuff> {
        self.held.iter().flatten()
    }

    pub(super) fn assembly_slot(&mut self, xid: u16) -> Option<&mut Option<Assembly>> {
        let mask = self.assemblies.len().wrapping_sub(1);
        self.assemblies.get_mut(usize::from(xid) & mask)
    }

    pub(super) fn context_slot(&mut self, xid: u16) -> Option<&mut Option<ContextAssembly>> {
        let mask = self.context_assemblies.len().wrapping_sub(1);
        self.context_assemblies.get_mut(usize::from(xid) & mask)
    }

    /// Memory of the message to `qpn` that is not complete, in bytes.
    pub(super) fn parts_memory(&self, qpn: u32) -> usize {
        let assemblies = self.assemblies.iter().flatten();
        let assembled = assemblies
            .filter(|a| a.qpn == qpn)
            .map(|a| a.segments.memory());
        let partials = self.partials.iter().filter(|p| p.qpn == qpn);
        Iterator::chain(assembled, partials.map(Partial::memory))
            .fold(0, |sum, bytes| sum.saturating_add(bytes))
    }

    pub(super) fn partial_index(&self, qpn: u32) -> Option<usize> {
        self.partials.iter().position(|p| p.qpn == qpn)
    }

    pub(super) fn take_partial(&mut self, qpn: u32) -> Option<Partial> {
        let index = self.partial_index(qpn)?;
        self.partials.remove(index).ok()
    }
}
