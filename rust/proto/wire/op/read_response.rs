// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Read response header: 8 bytes, with a data block.

/// Read, and offset in it, to which the data block belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadResponseOp {
    /// Seqno of the *request* packet.
    pub seqno: u16,
    /// Position of the read in that packet.
    pub opnum: u8,
    /// Offset of the block in the data of that read, in bytes.
    pub offset: u32,
}

impl ReadResponseOp {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// Decodes a header.
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self {
            seqno: u16::from_le_bytes([b[0], b[1]]),
            opnum: b[2],
            offset: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
        }
    }

    /// Encodes the header.
    pub const fn bytes(&self) -> [u8; Self::LEN] {
        let [q0, q1] = self.seqno.to_le_bytes();
        let [o0, o1, o2, o3] = self.offset.to_le_bytes();
        [q0, q1, self.opnum, 0, o0, o1, o2, o3]
    }
}
