// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Write with length and immediate header (extension): 16 bytes, with a data block [proto 7].

use super::ExtFlags;

/// Where the data block goes, how much of it is data, and what the receiver is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteExtOp {
    /// RMA address of the first byte.
    pub address: u64,
    /// Queue pair that takes the immediate, cut to 24 bits when written.
    pub qp: u32,
    /// Pad, immediate valid, solicited.
    pub flags: ExtFlags,
    /// Immediate data.
    pub immediate: u32,
}

impl WriteExtOp {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// Decodes a header.
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self {
            address: u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            qp: u32::from_le_bytes([b[8], b[9], b[10], 0]),
            flags: ExtFlags::parse(b[11]),
            immediate: u32::from_le_bytes([b[12], b[13], b[14], b[15]]),
        }
    }

    /// Encodes the header.
    pub const fn bytes(&self) -> [u8; Self::LEN] {
        let [a0, a1, a2, a3, a4, a5, a6, a7] = self.address.to_le_bytes();
        let [q0, q1, q2, _] = self.qp.to_le_bytes();
        let flags = self.flags.byte();
        let [i0, i1, i2, i3] = self.immediate.to_le_bytes();
        [
            a0, a1, a2, a3, a4, a5, a6, a7, q0, q1, q2, flags, i0, i1, i2, i3,
        ]
    }
}
