// SPDX-License-Identifier: GPL-2.0

//! Packets.

use super::bindings as c;
use core::{
    mem,
    ptr::{self, NonNull},
    slice,
};
use kernel::{error::to_result, prelude::*};

/// A packet, or a message made of packets: a linear part followed by pages and by further packets.
/// Dropping it frees it.
///
/// The bytes that others may see as well (a received packet that a sniffer has, a slice and what
/// it was cut from) are never changed through this type.
///
/// # Invariants
///
/// The pointer is an `sk_buff` with a reference count of one, which this owns.
pub(crate) struct SkBuff(NonNull<c::sk_buff>);

// SAFETY: An sk_buff is not bound to a thread.
unsafe impl Send for SkBuff {}

// SAFETY: Through a shared reference it is only read, or cloned, which the kernel allows at once.
unsafe impl Sync for SkBuff {}

impl SkBuff {
    /// An empty packet with room for `headroom` bytes of lower headers and `linear` bytes. Any
    /// context; `None` if there is no memory, or for more than 64 KiB.
    pub(crate) fn alloc(headroom: usize, linear: usize) -> Option<Self> {
        let (headroom, linear) = (headroom.try_into().ok()?, linear.try_into().ok()?);
        // SAFETY: No requirements.
        let skb = NonNull::new(unsafe { c::superp_skb_alloc(headroom, linear) })?;
        // INVARIANT: It is new.
        Some(Self(skb))
    }

    /// Takes over a packet from C.
    ///
    /// # Safety
    ///
    /// `skb` is a valid sk_buff with a reference count of one, which the caller gives up.
    pub(super) unsafe fn from_raw(skb: NonNull<c::sk_buff>) -> Self {
        // INVARIANT: By this function's contract.
        Self(skb)
    }

    /// Hands the packet over to C, which then has to free it.
    pub(super) fn into_raw(self) -> *mut c::sk_buff {
        let skb = self.as_ptr();
        mem::forget(self);
        skb
    }

    /// The packet for C to look at.
    pub(super) fn as_ptr(&self) -> *mut c::sk_buff {
        self.0.as_ptr()
    }

    /// Bytes in all.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { c::superp_skb_len(self.as_ptr()) as usize }
    }

    /// The linear part: as much of the beginning as can be read in place.
    pub(crate) fn head(&self) -> &[u8] {
        let mut len = 0;
        // SAFETY: By the type invariant; `len` is valid for the call.
        let data = unsafe { c::superp_skb_head(self.as_ptr(), &mut len) };
        // SAFETY: The packet has `len` linear bytes at `data`. They stay there while `self` is
        // borrowed: what moves them takes it by `&mut`.
        unsafe { slice::from_raw_parts(data, len as usize) }
    }

    /// Appends bytes to the linear part.
    ///
    /// Errors: `EMSGSIZE` if there is no room for them, if other data follows the linear part, or if the
    /// packet was sliced.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result {
        let n = bytes.len().try_into().map_err(|_| EMSGSIZE)?;
        // SAFETY: By the type invariant; there are `n` bytes.
        to_result(unsafe { c::superp_skb_put(self.as_ptr(), bytes.as_ptr(), n) })
    }

    /// Appends at most a page of zero bytes, wherever the data ends.
    ///
    /// Errors: `EMSGSIZE` if there is no room, `EINVAL` if the packet was sliced.
    pub(crate) fn put_zero(&mut self, len: usize) -> Result {
        if len == 0 {
            return Ok(());
        }
        let len = len.try_into().map_err(|_| EMSGSIZE)?;
        // SAFETY: By the type invariant.
        to_result(unsafe { c::superp_skb_pad(self.as_ptr(), len) })
    }

    /// Makes the first `len` bytes linear, so that [`SkBuff::head`] has them. False if the packet
    /// is shorter or there is no memory.
    #[must_use]
    pub(crate) fn may_pull(&mut self, len: usize) -> bool {
        // SAFETY: By the type invariant.
        u32::try_from(len).is_ok_and(|len| unsafe { c::superp_skb_may_pull(self.as_ptr(), len) })
    }

    /// Removes the first `len` bytes. False, and nothing removed, if the packet is shorter or
    /// there is no memory.
    #[must_use]
    pub(crate) fn pull(&mut self, len: usize) -> bool {
        // SAFETY: By the type invariant.
        u32::try_from(len).is_ok_and(|len| unsafe { c::superp_skb_pull(self.as_ptr(), len) })
    }

    /// The packet, or a copy of it where somebody may still write to its pages, as a sender on the
    /// same machine can. For what is kept. Any context; `None` without memory.
    pub(crate) fn own(self) -> Option<Self> {
        // SAFETY: By the type invariant; it is given up.
        let skb = NonNull::new(unsafe { c::superp_skb_own(self.into_raw()) })?;
        // INVARIANT: It is the one given up, or new.
        Some(Self(skb))
    }

    /// The bytes `offset..offset + len` as a packet of its own, for what is kept: it shares the
    /// memory, unless somebody may still write to that. Any context; `None` if there are too few
    /// bytes, or no memory.
    pub(crate) fn slice(&self, offset: usize, len: usize) -> Option<Self> {
        let (offset, len) = (offset.try_into().ok()?, len.try_into().ok()?);
        // SAFETY: By the type invariant.
        let skb = NonNull::new(unsafe { c::superp_skb_slice(self.as_ptr(), offset, len) })?;
        // INVARIANT: It is new.
        Some(Self(skb))
    }

    /// Frees a packet that has served its purpose: unlike a drop, it does not count as a loss for
    /// those who watch the kernel's `kfree_skb` tracepoint.
    pub(crate) fn consume(self) {
        // SAFETY: By the type invariant; it is given up.
        unsafe { c::superp_skb_consume(self.into_raw()) }
    }
}

impl Drop for SkBuff {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; it is not used afterwards.
        unsafe { c::superp_skb_free(self.as_ptr()) }
    }
}

/// Packets that go together, in their order.
///
/// # Invariants
///
/// `first` is a list of sk_buffs with a reference count of one, which this owns, and `last` the last of
/// them; or both are null.
pub(crate) struct Burst {
    first: *mut c::sk_buff,
    last: *mut c::sk_buff,
}

// SAFETY: As `SkBuff`.
unsafe impl Send for Burst {}

impl Burst {
    /// No packets.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Of an empty list.
        Self {
            first: ptr::null_mut(),
            last: ptr::null_mut(),
        }
    }

    /// Takes over packets from C.
    ///
    /// # Safety
    ///
    /// `first` is a list of sk_buffs with a reference count of one, which the caller gives up.
    pub(super) unsafe fn from_raw(first: NonNull<c::sk_buff>) -> Self {
        // SAFETY: By this function's contract.
        let last = unsafe { c::superp_skb_last(first.as_ptr()) };
        // INVARIANT: By this function's contract.
        Self {
            first: first.as_ptr(),
            last,
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Adds a packet at the end. Any context.
    pub(crate) fn push(&mut self, skb: SkBuff) {
        let skb = skb.into_raw();
        if self.last.is_null() {
            self.first = skb;
        } else {
            // SAFETY: By the invariants of both types; the packet is given up to the list.
            unsafe { c::superp_skb_link(self.last, skb) };
        }
        // INVARIANT: The list has one more, which is the last.
        self.last = skb;
    }

    /// Takes the first packet out. Any context.
    pub(crate) fn pop(&mut self) -> Option<SkBuff> {
        let skb = NonNull::new(self.first)?;
        // SAFETY: By the type invariant there is a list, of which this is the first.
        self.first = unsafe { c::superp_skb_unlink(skb.as_ptr()) };
        // INVARIANT: The list has one less, and without any there is no last.
        if self.first.is_null() {
            self.last = ptr::null_mut();
        }
        // INVARIANT: The packet was the list's.
        Some(SkBuff(skb))
    }

    /// Hands the list over to C, which then has to free it.
    pub(super) fn into_raw(self) -> *mut c::sk_buff {
        let first = self.first;
        mem::forget(self);
        first
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        // As a rule there are none left.
        if !self.first.is_null() {
            // SAFETY: By the type invariant; it is not used afterwards.
            unsafe { c::superp_skb_free_list(self.first) }
        }
    }
}

/// Packets in the order of a key, no two with the same: a message as its parts come in.
///
/// # Invariants
///
/// The chain is well-formed, and its sk_buffs, with a reference count of one, are owned by this.
pub(crate) struct SkbQueue(c::superp_skb_chain);

// SAFETY: As `SkBuff`.
unsafe impl Send for SkbQueue {}

// SAFETY: As `SkBuff`.
unsafe impl Sync for SkbQueue {}

impl SkbQueue {
    /// An empty queue.
    pub(crate) const fn new() -> Self {
        // INVARIANT: There is nothing in it.
        Self(c::superp_skb_chain {
            root: ptr::null_mut(),
            last: ptr::null_mut(),
        })
    }

    /// Puts a packet where its key belongs: in constant time at the end, else logarithmic. Any
    /// context.
    ///
    /// Errors (the packet is freed): `EEXIST` if the key is taken.
    pub(crate) fn insert(&mut self, key: u64, skb: SkBuff) -> Result {
        // SAFETY: By the invariants of both types; the packet is given up.
        to_result(unsafe { c::superp_skb_chain_insert(&mut self.0, key, skb.into_raw()) })
    }

    /// The lowest key.
    pub(crate) fn first_key(&self) -> Option<u64> {
        let mut key = 0;
        // SAFETY: By the type invariant; `key` is valid for the call.
        unsafe { c::superp_skb_chain_first_key(&self.0, &mut key) }.then_some(key)
    }

    /// Moves all of `other` here; of two packets with the same key, `other`'s is freed. Any
    /// context.
    pub(crate) fn append_all(&mut self, other: &mut SkbQueue) {
        // SAFETY: By the type invariant, of both.
        unsafe { c::superp_skb_chain_merge(&mut self.0, &mut other.0) }
    }

    /// The bytes of all packets as one, without copying; of an empty queue an empty one. Any
    /// context; `None` if there is no memory, or over 2 GiB.
    pub(crate) fn into_message(mut self) -> Option<SkBuff> {
        // SAFETY: By the type invariant; the chain is left empty.
        let skb = unsafe { c::superp_skb_chain_join(&mut self.0) };
        // INVARIANT: It is owned by nobody else.
        NonNull::new(skb).map(SkBuff)
    }
}

impl Drop for SkbQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the chain is left empty.
        unsafe { c::superp_skb_chain_free(&mut self.0) }
    }
}
