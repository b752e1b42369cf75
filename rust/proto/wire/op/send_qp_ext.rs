// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Send to QP, segmented, header (extension): 16 bytes, with a data block [proto 7].

use super::ExtFlags;

/// The queue pair, the message and the place in it that the data block is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendQpExtOp {
    /// Queue pair number, cut to 24 bits when written.
    pub qp: u32,
    /// Pad, immediate valid, solicited, start, written.
    pub flags: ExtFlags,
    /// Immediate data.
    pub immediate: u32,
    /// Offset of the block in the message, in bytes.
    pub offset: u32,
    /// Length of the whole message, in bytes; or of the write that it tells of.
    pub message_len: u32,
}

impl SendQpExtOp {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// Decodes a header.
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self {
            qp: u32::from_le_bytes([b[0], b[1], b[2], 0]),
            flags: ExtFlags::parse(b[3]),
            immediate: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
            offset: u32::from_le_bytes([b[8], b[9], b[10], b[11]]),
            message_len: u32::from_le_bytes([b[12], b[13], b[14], b[15]]),
        }
    }

    /// Encodes the header.
    pub const fn bytes(&self) -> [u8; Self::LEN] {
        let [q0, q1, q2, _] = self.qp.to_le_bytes();
        let flags = self.flags.byte();
        let [i0, i1, i2, i3] = self.immediate.to_le_bytes();
        let [o0, o1, o2, o3] = self.offset.to_le_bytes();
        let [m0, m1, m2, m3] = self.message_len.to_le_bytes();
        [
            q0, q1, q2, flags, i0, i1, i2, i3, o0, o1, o2, o3, m0, m1, m2, m3,
        ]
    }
}
