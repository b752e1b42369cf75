// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Header of Send to QP, segmented (extension): 16 bytes, with a data block [proto 7].

use super::ExtFlags;

/// Destination of the data block: a queue pair, and a position in a message to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendQpExtOp {
    /// Queue pair number. [`Self::bytes`] writes the low 24 bits.
    pub qp: u32,
    /// Flags. All of them can be set.
    pub flags: ExtFlags,
    /// Immediate data.
    pub immediate: u32,
    /// Offset of the block in the message, in bytes.
    pub offset: u32,
    /// Length of the whole message, or with the flag `written` of the announced write, in bytes.
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
