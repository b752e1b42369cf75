// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Atomic response header (extension): 16 bytes, with a block of 16 bytes [proto 7].

/// The value in memory before an atomic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicResponseOp {
    /// Seqno of the *request* packet.
    pub seqno: u16,
    /// Position of the atomic in that packet.
    pub opnum: u8,
    /// The original value.
    pub original: u64,
}

impl AtomicResponseOp {
    /// Bytes on the wire, the block included.
    pub const LEN: usize = 32;

    /// Decodes a header and its block.
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self {
            seqno: u16::from_le_bytes([b[0], b[1]]),
            opnum: b[2],
            original: u64::from_le_bytes([b[16], b[17], b[18], b[19], b[20], b[21], b[22], b[23]]),
        }
    }

    /// Encodes the header and its block.
    pub const fn bytes(&self) -> [u8; Self::LEN] {
        let [q0, q1] = self.seqno.to_le_bytes();
        let [o0, o1, o2, o3, o4, o5, o6, o7] = self.original.to_le_bytes();
        let opnum = self.opnum;
        [
            q0, q1, opnum, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, //
            o0, o1, o2, o3, o4, o5, o6, o7, 0, 0, 0, 0, 0, 0, 0, 0,
        ]
    }
}
