// SPDX-License-Identifier: GPL-2.0 OR MIT
//! RMA Read header: 12 bytes.

/// A range of remote memory to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOp {
    /// RMA address of the first byte.
    pub address: u64,
    /// Number of bytes to read.
    pub length: u32,
}

impl ReadOp {
    /// Bytes on the wire.
    pub const LEN: usize = 12;

    /// Decodes a header.
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self {
            address: u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            length: u32::from_le_bytes([b[8], b[9], b[10], b[11]]),
        }
    }

    /// Encodes the header.
    pub const fn bytes(&self) -> [u8; Self::LEN] {
        let [a0, a1, a2, a3, a4, a5, a6, a7] = self.address.to_le_bytes();
        let [l0, l1, l2, l3] = self.length.to_le_bytes();
        [a0, a1, a2, a3, a4, a5, a6, a7, l0, l1, l2, l3]
    }
}
