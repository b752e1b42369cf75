// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Header of Write with length (extension): 16 bytes, with a data block [proto 7].

use super::ExtFlags;

/// Destination of the data block, its padding, and immediate data for a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteExtOp {
    /// RMA address of the first byte.
    pub address: u64,
    /// Number of the queue pair that receives the immediate. [`Self::bytes`] writes the low 24
    /// bits.
    pub qp: u32,
    /// Flags. `start` and `written` are not used.
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
