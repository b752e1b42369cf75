// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Where the memory of an end is, and which keys and queue pairs exist.

/// First address; from there `READABLE` bytes of a pattern, then `WRITABLE` bytes.
pub(crate) const BASE: u64 = 0x00ab_cdef_0000;
pub(crate) const READABLE: u64 = 4096;
pub(crate) const WRITABLE: u64 = 1 << 16;
/// First address behind the memory.
pub(crate) const END: u64 = BASE + READABLE + WRITABLE;
/// Where atomics go. Writes begin behind it.
pub(crate) const COUNTER: u64 = BASE + READABLE;
/// Receive contexts with this key and above, and queue pairs with this number and above, do not exist.
pub(crate) const BAD: u32 = 0x80_0000;
