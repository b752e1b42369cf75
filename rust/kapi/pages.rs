// SPDX-License-Identifier: GPL-2.0

//! Memory that packets are filled from and emptied into: user memory that is pinned, or the
//! kernel's own.

use super::{bindings as c, skb::SkBuff};
use core::ptr::NonNull;
use kernel::{error::to_result, iov::IovIterSource, prelude::*};

/// A range of bytes in pages, shared by reference count; offsets count from its beginning.
///
/// The content is not protected against concurrent change: user memory is the user's, and what
/// arrives for it is written while he may look. No offset and length reach outside of the range.
///
/// # Invariants
///
/// The pointer is a `superp_pages`, to which this owns a reference.
pub(crate) struct Pages(NonNull<c::superp_pages>);

// SAFETY: The reference count is atomic, the rest does not change; not bound to a thread.
unsafe impl Send for Pages {}

// SAFETY: As above; races on the content are between copies by the kernel's own routines.
unsafe impl Sync for Pages {}

impl Pages {
    /// Pins `len` bytes of the calling process at `addr` for a long time, and charges them to its
    /// user's RLIMIT_MEMLOCK (shared with io_uring, AF_XDP and others); uncharged and unpinned
    /// when the last reference is dropped, in whatever context. Process context; sleeps.
    ///
    /// Errors: `EINVAL` (no bytes, or the range wraps), `ENOMEM` (over the limit, or no memory),
    /// `EFAULT` (not mapped, or not `writable`), `E2BIG` (over 512 GiB), `EOPNOTSUPP` (mapped
    /// memory that must not be pinned for long, such as a file system's DAX).
    pub(crate) fn pin(addr: u64, len: u64, writable: bool) -> Result<Self> {
        let mut err = 0;
        // SAFETY: `err` is valid for the call.
        let pages = unsafe { c::superp_pages_pin(addr, len, writable, &mut err) };
        Self::made(pages, err)
    }

    /// Memory of the kernel, not initialised, in pieces of up to eight pages. Process context;
    /// sleeps.
    ///
    /// Errors: `EINVAL` (no bytes), `ENOMEM`, `E2BIG`.
    pub(crate) fn alloc(len: u64) -> Result<Self> {
        let mut err = 0;
        // SAFETY: `err` is valid for the call.
        let pages = unsafe { c::superp_pages_alloc(len, &mut err) };
        Self::made(pages, err)
    }

    fn made(pages: *mut c::superp_pages, err: i32) -> Result<Self> {
        // INVARIANT: It is new.
        NonNull::new(pages)
            .map(Self)
            .ok_or_else(|| Error::from_errno(err))
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        // SAFETY: By the type invariant.
        unsafe { c::superp_pages_len(self.0.as_ptr()) }
    }

    /// Copies `len` bytes of a system call's data to `offset`. Process context; may fault.
    ///
    /// Errors: `EFAULT` if the user's memory cannot be read or has too few bytes, `ERANGE` if the
    /// range has.
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
        // SAFETY: By the type invariant; the iterator is valid.
        let copied = unsafe {
            c::superp_pages_copy_from_iter(self.0.as_ptr(), offset, len, iter.as_raw().cast())
        };
        if copied == len {
            Ok(())
        } else {
            Err(EFAULT)
        }
    }

    /// How many fragments of a packet `len` bytes, at least 1, are at most, wherever they begin.
    pub(crate) fn most_frags(len: u32) -> u32 {
        // SAFETY: It only computes.
        unsafe { c::superp_pages_most_frags(len) }
    }

    /// Whether a packet has room for so many fragments.
    pub(crate) fn fit(frags: u32) -> bool {
        // SAFETY: As above.
        unsafe { c::superp_pages_fit(frags) }
    }

    /// Appends `len` bytes from `offset` to a packet, which then shares these pages. Any context.
    ///
    /// Errors: `ERANGE` outside of the range, `E2BIG` if the packet would need more than
    /// `MAX_SKB_FRAGS` (17) pieces, `EINVAL` if it was sliced.
    pub(crate) fn add_frags(&self, offset: u64, len: usize, skb: &mut SkBuff) -> Result {
        let n = len.try_into().map_err(|_| ERANGE)?;
        // SAFETY: By the invariants of both types.
        to_result(unsafe { c::superp_pages_add_frags(self.0.as_ptr(), offset, n, skb.as_ptr()) })
    }

    /// Copies the blocks of `len` bytes that are at `offsets` behind the linear part of a packet, each with
    /// `pad` zero bytes behind it. Any context.
    ///
    /// Errors: `ERANGE` outside of the range, others as of [`SkBuff::put`].
    pub(crate) fn append(&self, offsets: &[u64], len: usize, pad: u8, skb: &mut SkBuff) -> Result {
        let count = offsets.len().try_into().map_err(|_| EMSGSIZE)?;
        let len = len.try_into().map_err(|_| ERANGE)?;
        let (pages, offsets) = (self.0.as_ptr(), offsets.as_ptr());
        // SAFETY: By the invariants of both types; there are `count` offsets.
        to_result(unsafe {
            c::superp_pages_append(pages, offsets, count, len, pad.into(), skb.as_ptr())
        })
    }

    /// Copies `len` bytes at `skb_offset` of a packet to `offset`. Any context.
    ///
    /// Errors: `ERANGE` outside of the range, `EFAULT` outside of the packet.
    pub(crate) fn copy_from_skb(
        &self,
        offset: u64,
        skb: &SkBuff,
        skb_offset: usize,
        len: usize,
    ) -> Result {
        let n = len.try_into().map_err(|_| ERANGE)?;
        let skb_offset = skb_offset.try_into().map_err(|_| EFAULT)?;
        // SAFETY: By the invariants of both types.
        to_result(unsafe {
            c::superp_pages_copy_from_skb(self.0.as_ptr(), offset, skb.as_ptr(), skb_offset, n)
        })
    }

    /// Copies `from` to `offset`. Any context. Errors: `ERANGE`.
    pub(crate) fn copy_in(&self, offset: u64, from: &[u8]) -> Result {
        let len = from.len().try_into().map_err(|_| ERANGE)?;
        // SAFETY: By the type invariant; `from` is valid for `len` bytes.
        to_result(unsafe { c::superp_pages_copy_in(self.0.as_ptr(), offset, from.as_ptr(), len) })
    }

    /// Changes the 64 bits at `offset` atomically, also with respect to the program whose memory it
    /// is; returns what they were. `kind` is a number of the wire [proto 7]. Any context.
    ///
    /// Errors: `ERANGE` outside of the range, `EINVAL` if their address is no multiple of 8, or for
    /// another kind.
    pub(crate) fn atomic(&self, offset: u64, kind: u8, operand: u64, compare: u64) -> Result<u64> {
        let mut old = 0;
        // SAFETY: By the type invariant; `old` is valid for the call.
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
        // SAFETY: By the type invariant.
        unsafe { c::superp_pages_get(self.0.as_ptr()) };
        // INVARIANT: A reference was just taken.
        Self(self.0)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the reference is given up.
        unsafe { c::superp_pages_put(self.0.as_ptr()) }
    }
}
