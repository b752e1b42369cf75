// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Send header: 8 bytes, with a data block.

/// Destination of the data block: a receive context, and an offset into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOp {
    /// Key of the receive context.
    pub key: u32,
    /// Offset into the context, in bytes.
    pub offset: u32,
}

impl SendOp {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// Decodes a header.
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self {
            key: u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            offset: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
        }
    }

    /// Encodes the header.
    pub const fn bytes(&self) -> [u8; Self::LEN] {
        let [k0, k1, k2, k3] = self.key.to_le_bytes();
        let [o0, o1, o2, o3] = self.offset.to_le_bytes();
        [k0, k1, k2, k3, o0, o1, o2, o3]
    }
}
