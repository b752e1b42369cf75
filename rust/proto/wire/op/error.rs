// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Transaction Error header: 8 bytes.

/// The operation of the request that failed, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionErrorOp {
    /// Seqno of the request packet.
    pub seqno: u16,
    /// Position of the operation in that packet.
    pub opnum: u8,
    /// Major error code, see [`crate::proto::Code`].
    pub major: u16,
    /// Minor error code.
    pub minor: u16,
}

impl TransactionErrorOp {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// Decodes a header.
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self {
            seqno: u16::from_le_bytes([b[0], b[1]]),
            opnum: b[2],
            major: u16::from_le_bytes([b[4], b[5]]),
            minor: u16::from_le_bytes([b[6], b[7]]),
        }
    }

    /// Encodes the header.
    pub const fn bytes(&self) -> [u8; Self::LEN] {
        let [q0, q1] = self.seqno.to_le_bytes();
        let [a0, a1] = self.major.to_le_bytes();
        let [i0, i1] = self.minor.to_le_bytes();
        [q0, q1, self.opnum, 0, a0, a1, i0, i1]
    }
}
