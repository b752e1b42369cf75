// SPDX-License-Identifier: GPL-2.0

//! Memory that the data of packets comes from and goes to: pinned user memory, or kernel memory.

use super::{bindings as c, skb::SkBuff};
use core::ptr::NonNull;
use kernel::{error::to_result, iov::IovIterSource, prelude::*};

/// A region of memory in pages, with a reference count. Offsets count from its first byte, and
/// every access is checked against its length.
///
/// The content is not protected against concurrent access. A program may read and write its memory
/// while packets are copied from and to it.
///
/// # Invariants
///
/// The pointer is a `superp_pages` to which this type owns a reference.
pub(crate) struct Pages(NonNull<c::superp_pages>);

// SAFETY: The reference count is atomic. A region is not bound to a thread.
unsafe impl Send for Pages {}

// SAFETY: Apart from the reference count only the content changes. The C half copies it by routines
// that tolerate concurrent writes by the program.
unsafe impl Sync for Pages {}

impl Pages {
    /// Pins `len` bytes at user address `addr` of the calling process (`FOLL_LONGTERM`), and
    /// charges them to its user's RLIMIT_MEMLOCK, which io_uring, AF_XDP and others share. Dropping
    /// the last reference, in any context, unpins and uncharges them. Process context; sleeps.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: `len` is 0, or the range wraps.
    /// - `ENOMEM`: over the limit, or no memory.
    /// - `EFAULT`: not mapped, or not writable although `writable` asks for that.
    /// - `E2BIG`: longer than 512 GiB.
    /// - `EOPNOTSUPP`: memory that must not be pinned for long, such as DAX of a file system.
    pub(crate) fn pin(addr: u64, len: u64, writable: bool) -> Result<Self> {
        let mut err = 0;
        // SAFETY: `err` is valid for writes.
        let pages = unsafe { c::superp_pages_pin(addr, len, writable, &mut err) };
        Self::from_c(pages, err)
    }

    /// Allocates `len` bytes of kernel memory, not initialised, in pieces of up to eight pages.
    /// Process context; sleeps.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: `len` is 0.
    /// - `ENOMEM`
    /// - `E2BIG`: longer than 512 GiB.
    pub(crate) fn alloc(len: u64) -> Result<Self> {
        let mut err = 0;
        // SAFETY: `err` is valid for writes.
        let pages = unsafe { c::superp_pages_alloc(len, &mut err) };
        Self::from_c(pages, err)
    }

    fn from_c(pages: *mut c::superp_pages, err: i32) -> Result<Self> {
        // INVARIANT: The C half returned the region with one reference, which is the caller's.
        NonNull::new(pages)
            .map(Self)
            .ok_or_else(|| Error::from_errno(err))
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> u64 {
        // SAFETY: By the type invariant the pointer is a valid region.
        unsafe { c::superp_pages_len(self.0.as_ptr()) }
    }

    /// Copies `len` bytes of a system call's data to `offset`. Process context; may fault.
    ///
    /// # Errors
    ///
    /// - `EFAULT`: the user memory cannot be read, or has fewer bytes.
    /// - `ERANGE`: outside of the region.
    pub(crate) fn copy_from_iter(
        &self,
        offset: u64,
        len: usize,
        iter: &mut IovIterSource<'_>,
    ) -> Result {
        let end = offset.checked_add(len.try_into()?).ok_or(ERANGE)?;
        if end > self.len() {
            return Err(ERANGE);
        }
        // SAFETY: By the type invariant the pointer is a valid region. `iter` is a valid iterator.
        let copied = unsafe {
            c::superp_pages_copy_from_iter(self.0.as_ptr(), offset, len, iter.as_raw().cast())
        };
        if copied == len {
            Ok(())
        } else {
            Err(EFAULT)
        }
    }

    /// The most fragments that [`Pages::add_frags`] adds for `len` bytes, which is at least 1.
    pub(crate) fn most_frags(len: u32) -> u32 {
        // SAFETY: `superp_pages_most_frags()` has no requirements.
        unsafe { c::superp_pages_most_frags(len) }
    }

    /// Whether `frags` fragments fit into a packet that has none.
    pub(crate) fn fit(frags: u32) -> bool {
        // SAFETY: `superp_pages_fit()` has no requirements.
        unsafe { c::superp_pages_fit(frags) }
    }

    /// Appends `len` bytes from `offset` to a packet as fragments, which share the pages. Any
    /// context.
    ///
    /// # Errors
    ///
    /// - `ERANGE`: outside of the region.
    /// - `E2BIG`: the packet would have more than `MAX_SKB_FRAGS` (17) fragments.
    /// - `EINVAL`: the packet was sliced, or has further packets.
    pub(crate) fn add_frags(&self, offset: u64, len: usize, skb: &mut SkBuff) -> Result {
        let n = len.try_into().map_err(|_| ERANGE)?;
        // SAFETY: By the invariants of both types the pointers are a region and a packet.
        to_result(unsafe { c::superp_pages_add_frags(self.0.as_ptr(), offset, n, skb.as_ptr()) })
    }

    /// Copies the blocks of `len` bytes at `offsets` behind the linear data of a packet, and `pad`
    /// zero bytes behind each. Any context.
    ///
    /// # Errors
    ///
    /// `ERANGE`: outside of the region. Otherwise those of [`SkBuff::put`].
    pub(crate) fn append(&self, offsets: &[u64], len: usize, pad: u8, skb: &mut SkBuff) -> Result {
        let count = offsets.len().try_into().map_err(|_| EMSGSIZE)?;
        let len = len.try_into().map_err(|_| ERANGE)?;
        let (pages, offsets) = (self.0.as_ptr(), offsets.as_ptr());
        // SAFETY: By the invariants of both types the pointers are a region and a packet. `offsets`
        // points to `count` offsets.
        to_result(unsafe {
            c::superp_pages_append(pages, offsets, count, len, pad.into(), skb.as_ptr())
        })
    }

    /// Copies `len` bytes at `skb_offset` of a packet to `offset`. Any context.
    ///
    /// # Errors
    ///
    /// - `ERANGE`: outside of the region.
    /// - `EFAULT`: outside of the packet.
    pub(crate) fn copy_from_skb(
        &self,
        offset: u64,
        skb: &SkBuff,
        skb_offset: usize,
        len: usize,
    ) -> Result {
        let n = len.try_into().map_err(|_| ERANGE)?;
        let skb_offset = skb_offset.try_into().map_err(|_| EFAULT)?;
        // SAFETY: By the invariants of both types the pointers are a region and a packet.
        to_result(unsafe {
            c::superp_pages_copy_from_skb(self.0.as_ptr(), offset, skb.as_ptr(), skb_offset, n)
        })
    }

    /// Copies `from` to `offset`. Any context.
    ///
    /// # Errors
    ///
    /// `ERANGE`: outside of the region.
    pub(crate) fn copy_in(&self, offset: u64, from: &[u8]) -> Result {
        let len = from.len().try_into().map_err(|_| ERANGE)?;
        // SAFETY: By the type invariant the pointer is a valid region. `from` has `len` bytes.
        to_result(unsafe { c::superp_pages_copy_in(self.0.as_ptr(), offset, from.as_ptr(), len) })
    }

    /// Performs an atomic operation on the 64 bits at `offset`, and returns their previous value.
    /// The operation is atomic also with respect to the program that owns the memory. `kind` is a
    /// number of the wire format [proto 7]. Any context.
    ///
    /// # Errors
    ///
    /// - `ERANGE`: outside of the region.
    /// - `EINVAL`: the address is no multiple of 8, or `kind` is unknown.
    pub(crate) fn atomic(&self, offset: u64, kind: u8, operand: u64, compare: u64) -> Result<u64> {
        let mut old = 0;
        // SAFETY: By the type invariant the pointer is a valid region; `old` is valid for writes.
        to_result(unsafe {
            c::superp_pages_atomic(
                self.0.as_ptr(),
                offset,
                kind.into(),
                operand,
                compare,
                &mut old,
            )
        })?;
        Ok(old)
    }
}

impl Clone for Pages {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariant the pointer is a valid region.
        unsafe { c::superp_pages_get(self.0.as_ptr()) };
        // INVARIANT: `superp_pages_get()` has taken the reference of the new value.
        Self(self.0)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this type owns a reference, which nobody uses afterwards.
        unsafe { c::superp_pages_put(self.0.as_ptr()) }
    }
}
