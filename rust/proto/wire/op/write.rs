// SPDX-License-Identifier: GPL-2.0 OR MIT
//! RMA Write header: 8 bytes, with a data block.

/// Destination of the data block: a remote address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOp {
    /// RMA address of the first byte.
    pub address: u64,
}

impl WriteOp {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// Decodes a header.
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self {
            address: u64::from_le_bytes(*b),
        }
    }

    /// Encodes the header.
    pub const fn bytes(&self) -> [u8; Self::LEN] {
        self.address.to_le_bytes()
    }
}
