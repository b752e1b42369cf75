// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Atomic header (extension): 16 bytes, with a block of 16 bytes [proto 7].

/// Kind of an atomic on 64 bits of remote memory. Memory and operands are little endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AtomicKind {
    /// Adds the operand to the value, modulo 2^64.
    FetchAdd = 1,
    /// Replaces the value by the operand, if it equals the comparand.
    CompareSwap = 2,
    /// Replaces the value by the operand.
    Swap = 3,
}

impl AtomicKind {
    /// Decodes the kind field. `None` if the kind is unknown.
    pub const fn from_u8(kind: u8) -> Option<Self> {
        Some(match kind {
            1 => Self::FetchAdd,
            2 => Self::CompareSwap,
            3 => Self::Swap,
            _ => return None,
        })
    }

    /// Returns the new value for the original value.
    pub const fn apply(self, original: u64, operand: u64, compare: u64) -> u64 {
        match self {
            Self::FetchAdd => original.wrapping_add(operand),
            Self::CompareSwap if original != compare => original,
            Self::CompareSwap | Self::Swap => operand,
        }
    }
}

/// An atomic operation. Its block has fixed fields and counts as part of the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicOp {
    /// RMA address of the 8 bytes.
    pub address: u64,
    /// Kind, see [`AtomicKind::from_u8`].
    pub kind: u8,
    /// The value to add or to store.
    pub operand: u64,
    /// The value that compare and swap expects. Other kinds ignore it.
    pub compare: u64,
}

impl AtomicOp {
    /// Bytes on the wire, the block included.
    pub const LEN: usize = 32;

    /// Decodes a header and its block.
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self {
            address: u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            kind: b[8],
            operand: u64::from_le_bytes([b[16], b[17], b[18], b[19], b[20], b[21], b[22], b[23]]),
            compare: u64::from_le_bytes([b[24], b[25], b[26], b[27], b[28], b[29], b[30], b[31]]),
        }
    }

    /// Encodes the header and its block.
    pub const fn bytes(&self) -> [u8; Self::LEN] {
        let [a0, a1, a2, a3, a4, a5, a6, a7] = self.address.to_le_bytes();
        let [o0, o1, o2, o3, o4, o5, o6, o7] = self.operand.to_le_bytes();
        let [c0, c1, c2, c3, c4, c5, c6, c7] = self.compare.to_le_bytes();
        let kind = self.kind;
        [
            a0, a1, a2, a3, a4, a5, a6, a7, kind, 0, 0, 0, 0, 0, 0, 0, //
            o0, o1, o2, o3, o4, o5, o6, o7, c0, c1, c2, c3, c4, c5, c6, c7,
        ]
    }
}
