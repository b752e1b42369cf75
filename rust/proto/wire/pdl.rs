// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Packet Delivery header: 16 bytes, little endian [proto 2.2].

/// A decoded Packet Delivery header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PdlHeader {
    /// The receiver's connection identifier.
    pub dcid: u16,
    /// Advertised receive window (RWIN) in packets, 1..=65536. The wire has this value minus one.
    /// [`Self::bytes`] clamps other values.
    pub window: u32,
    /// Packet sequence number.
    pub psn: u32,
    /// All PSNs up to this one are acknowledged. In a NACK only this one is, selectively
    /// [proto 3.5].
    pub ack_psn: u32,
    /// SACK bitmap. Bit *i* stands for `ack_psn + 1 + i`, or in a NACK for `ack_psn + i`.
    pub sack: u32,
}

impl PdlHeader {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// Decodes a header. Every bit pattern is valid.
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self {
            dcid: u16::from_le_bytes([b[0], b[1]]),
            window: (u16::from_le_bytes([b[2], b[3]]) as u32).wrapping_add(1),
            psn: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
            ack_psn: u32::from_le_bytes([b[8], b[9], b[10], b[11]]),
            sack: u32::from_le_bytes([b[12], b[13], b[14], b[15]]),
        }
    }

    /// Encodes the header.
    pub const fn bytes(&self) -> [u8; Self::LEN] {
        let window = match self.window {
            0 => 0,
            1..=0x1_0000 => self.window.wrapping_sub(1) as u16,
            _ => u16::MAX,
        };
        // One integer, because the compiler does not merge the stores of the single fields.
        let all = self.dcid as u128
            | (window as u128) << 16
            | (self.psn as u128) << 32
            | (self.ack_psn as u128) << 64
            | (self.sack as u128) << 96;
        all.to_le_bytes()
    }

    /// Whether the acknowledgement is a NACK: bit 0 of the SACK bitmap is set [proto 3.5].
    pub const fn is_nack(&self) -> bool {
        self.sack & 1 != 0
    }
}
