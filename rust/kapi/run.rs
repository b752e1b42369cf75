// SPDX-License-Identifier: GPL-2.0

//! Packets of one length and their headers in one sk_buff: safe Rust over `run.c`.

use super::{bindings as c, skb::SkBuff};
use core::{ptr::NonNull, slice};
use kernel::{error::to_result, prelude::*};

pub(crate) use c::superp_run as Note;

impl SkBuff {
    /// What is noted of a received packet that stands for several; a count of 0 if it does not.
    pub(crate) fn run_noted(&self) -> &Note {
        // SAFETY: By the type invariant; it is there as long as the packet.
        unsafe { &*c::superp_run_noted(self.as_ptr()) }
    }

    /// Puts the headers of one more packet, which is `packet_len` bytes long, behind those that are
    /// there.
    ///
    /// Errors: `ENOMEM`.
    pub(crate) fn run_add(&mut self, headers: &[u8], packet_len: usize) -> Result {
        let (start, n) = (headers.as_ptr(), headers.len().try_into()?);
        // SAFETY: By the type invariant; there are `n` bytes.
        to_result(unsafe { c::superp_run_add(self.as_ptr(), start, n, packet_len.try_into()?) })
    }

    /// Keeps the first `len` bytes, at most all.
    pub(crate) fn run_trim(&mut self, len: usize) {
        // CAST: A packet is shorter than 4 GiB.
        let len = len.min(self.len()) as u32;
        // SAFETY: By the type invariant, and no longer than it is.
        unsafe { c::superp_run_trim(self.as_ptr(), len) }
    }

    /// The `i`th packet as one of its own, which shares the data; `common` bytes in front are each
    /// packet's. Any context; `None` if there is none or no memory.
    pub(crate) fn run_part(&self, common: usize, i: u32) -> Option<SkBuff> {
        let common = common.try_into().ok()?;
        // SAFETY: By the type invariant.
        let skb = NonNull::new(unsafe { c::superp_run_part(self.as_ptr(), common, i) })?;
        // SAFETY: It is new.
        Some(unsafe { SkBuff::from_raw(skb) })
    }
}

/// How many bytes of a packet are headers, for the C half.
///
/// # Safety
///
/// There are `len` bytes at `start`.
pub(crate) unsafe fn count_headers(start: *const u8, len: u32, parse: fn(&[u8]) -> usize) -> u32 {
    // SAFETY: By this function's contract.
    let start = unsafe { slice::from_raw_parts(start, len as usize) };
    // CAST: `len` at most.
    parse(start).min(start.len()) as u32
}

/// Names the function that tells how many bytes at the front of a packet are headers. Once in a
/// module.
macro_rules! headers_len {
    ($parse:path) => {
        $crate::kapi::exported! {
            /// # Safety
            ///
            /// As [`count_headers`]($crate::kapi::run::count_headers).
            fn superp_rust_headers_len(start: *const u8, len: u32) -> u32 {
                // SAFETY: By this function's contract.
                unsafe { $crate::kapi::run::count_headers(start, len, $parse) }
            }
        }
    };
}

pub(crate) use headers_len;
