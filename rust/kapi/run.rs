// SPDX-License-Identifier: GPL-2.0

//! Runs: the packets of a long request or answer as one sk_buff, see `run.c`.

use super::{bindings as c, skb::SkBuff};
use crate::proto::wire::Packet;
use core::slice;
use kernel::{error::to_result, prelude::*};

/// A packet to which others are added while they are laid out as it is: headers of the same length, and no more
/// data, which is in pages. One with less data is the last.
pub(crate) struct Run {
    skb: SkBuff,
    headers: usize,
    /// Bytes of data of the first packet.
    size: usize,
    full: bool,
}

impl Run {
    /// `skb` is a packet from its PDL header on, `headers` bytes and the data, all of that in pages.
    pub(crate) fn new(skb: SkBuff, headers: usize) -> Self {
        let size = skb.len().saturating_sub(headers);
        Self {
            skb,
            headers,
            size,
            full: false,
        }
    }

    /// Adds a packet with `len` bytes of data, which `attach` appends as pages. Whether that was done; if not,
    /// it is no part of this run. Any context.
    pub(crate) fn add(
        &mut self,
        headers: &[u8],
        len: usize,
        attach: impl FnOnce(&mut SkBuff) -> Result,
    ) -> bool {
        if self.full || headers.len() != self.headers || len == 0 || len > self.size {
            return false;
        }
        self.full = len < self.size;
        let before = self.skb.len();
        let added = attach(&mut self.skb).and_then(|()| self.add_headers(headers));
        if added.is_err() {
            self.full = true;
            // CAST: As long as it was.
            // SAFETY: By the type invariant of the packet, and no shorter than it was.
            unsafe { c::superp_run_trim(self.skb.as_ptr(), before as u32) };
        }
        added.is_ok()
    }

    fn add_headers(&mut self, headers: &[u8]) -> Result {
        let n = headers.len().try_into().map_err(|_| EMSGSIZE)?;
        let packet_len = self.headers.saturating_add(self.size);
        let packet_len = packet_len.try_into().map_err(|_| EMSGSIZE)?;
        // SAFETY: By the type invariant of the packet; there are `n` bytes.
        to_result(unsafe { c::superp_run_add(self.skb.as_ptr(), headers.as_ptr(), n, packet_len) })
    }

    /// The packet that they are now.
    pub(crate) fn into_packet(self) -> SkBuff {
        self.skb
    }
}

/// One packet from its first SUPERp header on, in an sk_buff of its own or in a run.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    skb: &'a SkBuff,
    /// As much of the beginning as can be read in place.
    pub(crate) head: &'a [u8],
    /// Bytes in all.
    pub(crate) len: usize,
    /// What the place of its data in `skb` is more than in the packet, bytes.
    shift: usize,
}

impl<'a> Part<'a> {
    /// A packet by itself.
    pub(crate) fn whole(skb: &'a SkBuff) -> Self {
        Self {
            skb,
            head: skb.head(),
            len: skb.len(),
            shift: 0,
        }
    }

    /// What the bytes at `offset`, behind the headers, are in, and where.
    pub(crate) fn at(&self, offset: usize) -> (&'a SkBuff, usize) {
        (self.skb, offset.saturating_add(self.shift))
    }
}

impl SkBuff {
    /// How many packets a received one is, at least 1.
    pub(crate) fn packets(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*c::superp_run_noted(self.as_ptr())).count.max(1) }
    }

    /// The `i`th packet of a received run whose data is at its first SUPERp header.
    pub(crate) fn part(&self, i: u32) -> Option<Part<'_>> {
        // SAFETY: By the type invariant; it is there as long as the packet.
        let run = unsafe { &*c::superp_run_noted(self.as_ptr()) };
        let (headers, size) = (run.headers as usize, run.size as usize);
        let front = headers.checked_mul(run.count as usize)?;
        let data = size.checked_mul(i as usize)?.checked_add(front)?;
        let start = headers.checked_mul(i as usize)?;
        let head = self.head().get(start..start.checked_add(headers)?)?;
        if i >= run.count {
            return None;
        }
        let len = self.len().checked_sub(data)?.min(size);
        Some(Part {
            skb: self,
            head,
            len: headers.checked_add(len)?,
            shift: data.checked_sub(headers)?,
        })
    }

    /// The `i`th packet of a received run as one of its own, which shares the data; `common` bytes in front are
    /// each packet's. Any context; `None` if there is none or no memory.
    pub(crate) fn cut(&self, common: usize, i: u32) -> Option<SkBuff> {
        let common = common.try_into().ok()?;
        // SAFETY: By the type invariant.
        let skb = unsafe { c::superp_run_part(self.as_ptr(), common, i) };
        // SAFETY: It is new.
        core::ptr::NonNull::new(skb).map(|skb| unsafe { SkBuff::from_raw(skb) })
    }
}

/// # Safety
///
/// There are `len` bytes at `start`.
#[no_mangle]
unsafe extern "C" fn superp_rust_headers_len(start: *const u8, len: u32) -> u32 {
    // SAFETY: By this function's contract.
    let start = unsafe { slice::from_raw_parts(start, len as usize) };
    // CAST: `HEADERS_MAX` at most.
    Packet::headers_len(start) as u32
}
