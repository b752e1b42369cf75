// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Atomic header (extension): 16 bytes, and its block of 16 [proto 7].

/// What is done to 64 bits of remote memory. They are little endian, as are the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AtomicKind {
    /// Adds the operand, modulo 2^64.
    FetchAdd = 1,
    /// Replaces by the operand what equals the comparand.
    CompareSwap = 2,
    /// Replaces by the operand.
    Swap = 3,
}

impl AtomicKind {
    /// The kind that the wire calls `kind`.
    pub const fn from_u8(kind: u8) -> Option<Self> {
        Some(match kind {
            1 => Self::FetchAdd,
            2 => Self::CompareSwap,
            3 => Self::Swap,
            _ => return None,
        })
    }

    /// What becomes of `original`.
    pub const fn apply(self, original: u64, operand: u64, compare: u64) -> u64 {
        match self {
            Self::FetchAdd => original.wrapping_add(operand),
            Self::CompareSwap if original != compare => original,
            Self::CompareSwap | Self::Swap => operand,
        }
    }
}

/// One atomic operation. Its block has a fixed layout and is part of this header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicOp {
    /// RMA address of the 8 bytes.
    pub address: u64,
    /// See [`AtomicKind::from_u8`].
    pub kind: u8,
    /// What is added or put in place.
    pub operand: u64,
    /// What compare and swap expects; of no meaning to others.
    pub compare: u64,
}

impl AtomicOp {
    /// Bytes on the wire.
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
