// SPDX-License-Identifier: GPL-2.0

//! Packets and lists of packets.

use super::bindings as c;
use core::{
    mem,
    ptr::{self, NonNull},
    slice,
};
use kernel::{error::to_result, prelude::*};

/// A packet, or a message made of packets: linear data, then pages, then further packets. Dropping
/// it frees it as dropped.
///
/// Others may share the data: a sniffer that of a received packet, a slice that of its origin. No
/// method changes data that is shared.
///
/// # Invariants
///
/// The pointer is an `sk_buff` with a reference count of one, which this type owns.
pub(crate) struct SkBuff(NonNull<c::sk_buff>);

// SAFETY: An sk_buff is not bound to a thread.
unsafe impl Send for SkBuff {}

// SAFETY: Methods on a shared reference only read or clone the sk_buff, which may be concurrent.
unsafe impl Sync for SkBuff {}

impl SkBuff {
    /// Allocates an empty packet with `headroom` bytes for headers and `linear` bytes for data.
    /// `None` without memory, or if either is over 64 KiB. Any context.
    pub(crate) fn alloc(headroom: usize, linear: usize) -> Option<Self> {
        let (headroom, linear) = (headroom.try_into().ok()?, linear.try_into().ok()?);
        // SAFETY: `superp_skb_alloc()` has no requirements.
        let skb = NonNull::new(unsafe { c::superp_skb_alloc(headroom, linear) })?;
        // INVARIANT: `superp_skb_alloc()` passes ownership of a new sk_buff to the caller.
        Some(Self(skb))
    }

    /// Allocates an empty packet for later use, charged to the memory cgroup of the calling
    /// process. `None` without memory. Process context.
    pub(crate) fn reserve() -> Option<Self> {
        // SAFETY: `superp_skb_reserve()` has no requirements.
        let skb = NonNull::new(unsafe { c::superp_skb_reserve() })?;
        // INVARIANT: `superp_skb_reserve()` passes ownership of a new sk_buff to the caller.
        Some(Self(skb))
    }

    /// Takes ownership of a packet from C.
    ///
    /// # Safety
    ///
    /// `skb` is a valid sk_buff with a reference count of one that the caller owns.
    pub(super) unsafe fn from_raw(skb: NonNull<c::sk_buff>) -> Self {
        // INVARIANT: By this function's contract the caller passes ownership.
        Self(skb)
    }

    /// Passes ownership of the packet to C.
    pub(super) fn into_raw(self) -> *mut c::sk_buff {
        let skb = self.as_ptr();
        mem::forget(self);
        skb
    }

    /// The pointer for C functions.
    pub(super) fn as_ptr(&self) -> *mut c::sk_buff {
        self.0.as_ptr()
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: By the type invariant the pointer is a valid sk_buff.
        unsafe { c::superp_skb_len(self.as_ptr()) as usize }
    }

    /// Memory of the packet in bytes, that around the data included.
    pub(crate) fn memory(&self) -> usize {
        // SAFETY: By the type invariant the pointer is a valid sk_buff.
        unsafe { c::superp_skb_truesize(self.as_ptr()) as usize }
    }

    /// The linear data.
    pub(crate) fn head(&self) -> &[u8] {
        let mut len = 0;
        // SAFETY: By the type invariant the pointer is a valid sk_buff; `len` is valid for writes.
        let data = unsafe { c::superp_skb_head(self.as_ptr(), &mut len) };
        // SAFETY: The sk_buff has `len` linear bytes at `data`. They do not move while `self` is
        // borrowed, because methods that move them need `&mut self`.
        unsafe { slice::from_raw_parts(data, len as usize) }
    }

    /// Appends bytes to the linear data.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE`: there is no space, the packet has data behind the linear part, or it was sliced.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result {
        let n = bytes.len().try_into().map_err(|_| EMSGSIZE)?;
        // SAFETY: By the type invariant the pointer is a valid sk_buff. `bytes` has `n` bytes.
        to_result(unsafe { c::superp_skb_put(self.as_ptr(), bytes.as_ptr(), n) })
    }

    /// Appends up to a page of zero bytes to the data.
    ///
    /// # Errors
    ///
    /// - `EMSGSIZE`: there is no space.
    /// - `EINVAL`: the packet was sliced, or has further packets.
    pub(crate) fn put_zero(&mut self, len: usize) -> Result {
        if len == 0 {
            return Ok(());
        }
        let len = len.try_into().map_err(|_| EMSGSIZE)?;
        // SAFETY: By the type invariant the pointer is a valid sk_buff.
        to_result(unsafe { c::superp_skb_pad(self.as_ptr(), len) })
    }

    /// Makes the first `len` bytes linear, so that [`SkBuff::head`] has them. False if the packet
    /// is shorter, or without memory.
    #[must_use]
    pub(crate) fn may_pull(&mut self, len: usize) -> bool {
        // SAFETY: By the type invariant the pointer is a valid sk_buff.
        u32::try_from(len).is_ok_and(|len| unsafe { c::superp_skb_may_pull(self.as_ptr(), len) })
    }

    /// Removes the first `len` bytes. Returns false, and removes nothing, if the packet is shorter,
    /// or without memory.
    #[must_use]
    pub(crate) fn pull(&mut self, len: usize) -> bool {
        // SAFETY: By the type invariant the pointer is a valid sk_buff.
        u32::try_from(len).is_ok_and(|len| unsafe { c::superp_skb_pull(self.as_ptr(), len) })
    }

    /// The packet, or a copy if a program may still write to its pages, as a sender on the same
    /// machine may. For packets that are kept. `None` without memory. Any context.
    pub(crate) fn own(self) -> Option<Self> {
        // SAFETY: By the type invariant the pointer is a valid sk_buff. The callee takes ownership.
        let skb = NonNull::new(unsafe { c::superp_skb_own(self.into_raw()) })?;
        // INVARIANT: `superp_skb_own()` passes ownership of the result to the caller.
        Some(Self(skb))
    }

    /// The bytes `offset..offset + len` as a packet that may be kept. It shares the memory, unless
    /// a program may still write to the pages; then it has a copy. `None` if there are fewer bytes,
    /// or without memory. Any context.
    pub(crate) fn slice(&self, offset: usize, len: usize) -> Option<Self> {
        let (offset, len) = (offset.try_into().ok()?, len.try_into().ok()?);
        // SAFETY: By the type invariant the pointer is a valid sk_buff.
        let skb = NonNull::new(unsafe { c::superp_skb_slice(self.as_ptr(), offset, len) })?;
        // INVARIANT: `superp_skb_slice()` passes ownership of a new sk_buff to the caller.
        Some(Self(skb))
    }

    /// Frees a packet that has served its purpose. The kernel's `kfree_skb` tracepoint reports only
    /// packets that are dropped.
    pub(crate) fn consume(self) {
        // SAFETY: By the type invariant the pointer is a valid sk_buff. The callee takes ownership.
        unsafe { c::superp_skb_consume(self.into_raw()) }
    }
}

impl Drop for SkBuff {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this type owns the sk_buff, which nobody uses afterwards.
        unsafe { c::superp_skb_free(self.as_ptr()) }
    }
}

/// A list of packets that are sent or received together.
///
/// # Invariants
///
/// `first` is a list of sk_buffs with a reference count of one, which this type owns, and `last` is
/// the last of them. Both are null if the list is empty.
pub(crate) struct Burst {
    first: *mut c::sk_buff,
    last: *mut c::sk_buff,
}

// SAFETY: An sk_buff is not bound to a thread.
unsafe impl Send for Burst {}

impl Burst {
    /// An empty list.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Both pointers are null.
        Self {
            first: ptr::null_mut(),
            last: ptr::null_mut(),
        }
    }

    /// Takes ownership of a list from C.
    ///
    /// # Safety
    ///
    /// `first` is a list of sk_buffs with a reference count of one that the caller owns.
    pub(super) unsafe fn from_raw(first: NonNull<c::sk_buff>) -> Self {
        // SAFETY: By this function's contract `first` is a list of sk_buffs.
        let last = unsafe { c::superp_skb_last(first.as_ptr()) };
        // INVARIANT: By this function's contract the caller passes ownership.
        Self {
            first: first.as_ptr(),
            last,
        }
    }

    /// Whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Appends a packet. Any context.
    pub(crate) fn push(&mut self, skb: SkBuff) {
        let skb = skb.into_raw();
        if self.last.is_null() {
            self.first = skb;
        } else {
            // SAFETY: By the type invariants `last` ends a list, and `skb` is an sk_buff, of which
            // the list takes ownership.
            unsafe { c::superp_skb_link(self.last, skb) };
        }
        // INVARIANT: `skb` is the last packet of the list, which owns it.
        self.last = skb;
    }

    /// Removes the first packet. Any context.
    pub(crate) fn pop(&mut self) -> Option<SkBuff> {
        let skb = NonNull::new(self.first)?;
        // SAFETY: By the type invariant `skb` is the first packet of a list.
        self.first = unsafe { c::superp_skb_unlink(skb.as_ptr()) };
        // INVARIANT: `first` is the rest of the list. If that is empty, both pointers are null.
        if self.first.is_null() {
            self.last = ptr::null_mut();
        }
        // INVARIANT: The list owned the packet, which is not in it any more.
        Some(SkBuff(skb))
    }

    /// Passes ownership of the list to C.
    pub(super) fn into_raw(self) -> *mut c::sk_buff {
        let first = self.first;
        mem::forget(self);
        first
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        // Most lists are empty when they are dropped; spare them the call.
        if !self.first.is_null() {
            // SAFETY: By the type invariant this type owns the list, which nobody uses afterwards.
            unsafe { c::superp_skb_free_list(self.first) }
        }
    }
}

/// Packets sorted by unique keys: the parts of a message that is being received.
///
/// # Invariants
///
/// The chain is well-formed. This type owns its sk_buffs, which have a reference count of one.
pub(crate) struct SkbQueue(c::superp_skb_chain);

// SAFETY: An sk_buff is not bound to a thread.
unsafe impl Send for SkbQueue {}

// SAFETY: Methods on a shared reference only read the chain.
unsafe impl Sync for SkbQueue {}

impl SkbQueue {
    /// An empty queue.
    pub(crate) const fn new() -> Self {
        // INVARIANT: A chain with null pointers is empty.
        Self(c::superp_skb_chain {
            root: ptr::null_mut(),
            last: ptr::null_mut(),
            truesize: 0,
        })
    }

    /// Memory of the packets in bytes. Any context.
    pub(crate) fn memory(&self) -> usize {
        // CAST: The packets are in memory, so the sum fits.
        self.0.truesize as usize
    }

    /// Inserts a packet at the place of its key, in constant time at the end, otherwise in
    /// logarithmic time. Any context.
    ///
    /// # Errors
    ///
    /// `EEXIST`: there is a packet with this key. The new packet is freed.
    pub(crate) fn insert(&mut self, key: u64, skb: SkBuff) -> Result {
        // SAFETY: By the type invariants the pointers are a chain and an sk_buff, of which the
        // callee takes ownership.
        to_result(unsafe { c::superp_skb_chain_insert(&mut self.0, key, skb.into_raw()) })
    }

    /// The lowest key. Any context.
    pub(crate) fn first_key(&self) -> Option<u64> {
        let mut key = 0;
        // SAFETY: By the type invariant the chain is well-formed; `key` is valid for writes.
        unsafe { c::superp_skb_chain_first_key(&self.0, &mut key) }.then_some(key)
    }

    /// Moves all packets of `other` to this queue. A packet whose key is in use here is freed. Any
    /// context.
    pub(crate) fn append_all(&mut self, other: &mut SkbQueue) {
        // SAFETY: By the type invariant both chains are well-formed.
        unsafe { c::superp_skb_chain_merge(&mut self.0, &mut other.0) }
    }

    /// Makes one packet of all, without copying; an empty one if there is none. `None` without
    /// memory, or if the packets take more than 2 GiB of memory. Any context.
    pub(crate) fn into_message(mut self) -> Option<SkBuff> {
        // SAFETY: By the type invariant the chain is well-formed. It is empty afterwards, or
        // unchanged after a failure.
        let skb = unsafe { c::superp_skb_chain_join(&mut self.0) };
        // INVARIANT: `superp_skb_chain_join()` passes ownership of the result to the caller.
        NonNull::new(skb).map(SkBuff)
    }
}

impl Drop for SkbQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the chain is well-formed. It is empty afterwards.
        unsafe { c::superp_skb_chain_free(&mut self.0) }
    }
}
