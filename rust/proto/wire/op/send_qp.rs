// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Send to QP header: 4 bytes, with a data block.

/// Destination of the data block: a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendQpOp {
    /// Queue pair number. [`Self::bytes`] writes the low 24 bits.
    pub qp: u32,
}

impl SendQpOp {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// Decodes a header. The reserved byte is ignored.
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self {
            qp: u32::from_le_bytes([b[0], b[1], b[2], 0]),
        }
    }

    /// Encodes the header.
    pub const fn bytes(&self) -> [u8; Self::LEN] {
        let [q0, q1, q2, _] = self.qp.to_le_bytes();
        [q0, q1, q2, 0]
    }
}
