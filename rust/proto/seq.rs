// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Serial arithmetic on PSNs and XIDs [proto 3.1, 4.5].

/// How far PSN `a` is ahead of `b`; negative when it is behind.
pub(super) const fn psn_diff(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

/// How far XID `a` is ahead of `b`; negative when it is behind.
pub(super) const fn xid_diff(a: u16, b: u16) -> i16 {
    a.wrapping_sub(b) as i16
}
