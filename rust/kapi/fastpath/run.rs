// SPDX-License-Identifier: GPL-2.0

//! Runs: several packets of the same length, headers first, in one sk_buff. Safe Rust over `run.c`.

use super::super::{bindings as c, skb::SkBuff};
use core::{ptr::NonNull, slice};
use kernel::{error::to_result, prelude::*};

pub(crate) use c::superp_run as RunLayout;

impl SkBuff {
    /// Layout of a received packet or run. Its count is 0 for a single packet.
    pub(crate) fn run_noted(&self) -> &RunLayout {
        // SAFETY: By the type invariant the pointer is an sk_buff. The layout is in its control
        // block, so it is valid as long as `self` is borrowed.
        unsafe { &*c::superp_run_noted(self.as_ptr()) }
    }

    /// Appends the headers of one more packet to a run. `packet_len` is the length of each packet
    /// but the last, in bytes. Any context.
    ///
    /// # Errors
    ///
    /// - `EMSGSIZE`: there is no space, or the packet was sliced.
    /// - `EINVAL`: a length is over 4 GiB.
    pub(crate) fn run_add(&mut self, headers: &[u8], packet_len: usize) -> Result {
        let (start, n) = (headers.as_ptr(), headers.len().try_into()?);
        // SAFETY: By the type invariant the pointer is an sk_buff. `headers` has `n` bytes.
        to_result(unsafe { c::superp_run_add(self.as_ptr(), start, n, packet_len.try_into()?) })
    }

    /// Keeps the first `len` bytes, or all if there are fewer. Any context.
    pub(crate) fn run_trim(&mut self, len: usize) {
        // CAST: A packet is shorter than 4 GiB.
        let len = len.min(self.len()) as u32;
        // SAFETY: By the type invariant the pointer is an sk_buff, which has at least `len` bytes.
        unsafe { c::superp_run_trim(self.as_ptr(), len) }
    }

    /// Packet `i` of a run as a packet of its own, which shares the data. Each packet begins with
    /// the first `common` bytes of the sk_buff. `None` if there is no such packet, or no memory.
    /// Any context.
    pub(crate) fn run_part(&self, common: usize, i: u32) -> Option<SkBuff> {
        let common = common.try_into().ok()?;
        // SAFETY: By the type invariant the pointer is an sk_buff.
        let skb = NonNull::new(unsafe { c::superp_run_part(self.as_ptr(), common, i) })?;
        // SAFETY: `superp_run_part()` returned a new sk_buff, which the caller owns.
        Some(unsafe { SkBuff::from_raw(skb) })
    }
}

/// Calls `parse` for the C half. Returns the number of header bytes, at most `len`.
///
/// # Safety
///
/// `start` is valid for reads of `len` bytes.
pub(crate) unsafe fn count_headers(start: *const u8, len: u32, parse: fn(&[u8]) -> usize) -> u32 {
    // SAFETY: By this function's contract the `len` bytes are readable.
    let start = unsafe { slice::from_raw_parts(start, len as usize) };
    // CAST: The result is at most `len`.
    parse(start).min(start.len()) as u32
}

/// Registers the function that returns how many bytes at the front of a packet are headers, from
/// the first header on. Used once in a module.
macro_rules! headers_len {
    ($parse:path) => {
        $crate::kapi::exported! {
            /// # Safety
            ///
            /// The requirements are those of
            /// [`count_headers`]($crate::kapi::fastpath::run::count_headers).
            fn superp_rust_headers_len(start: *const u8, len: u32) -> u32 {
                // SAFETY: The caller meets the requirements of `count_headers`.
                unsafe { $crate::kapi::fastpath::run::count_headers(start, len, $parse) }
            }
        }
    };
}

pub(crate) use headers_len;
