// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Transaction header: 8 bytes, little endian [proto 2.3].

/// A decoded Transaction header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TalHeader {
    /// End of message: the packet is the last of its request or answer.
    pub eom: bool,
    /// The sender accepts the extension opcodes [proto 7].
    pub ext: bool,
    /// The sender asks for an acknowledgement at once [proto 7].
    pub ask: bool,
    /// Number of operation headers in the packet, 0..=15.
    pub num_ops: u8,
    /// Operation code of all operations in the packet, see [`super::Opcode`].
    pub opcode: u8,
    /// Number of the packet in its request or answer, from 0.
    pub seqno: u16,
    /// Transaction identifier. An answer has that of its request.
    pub xid: u16,
    /// ACK XID: all transactions up to this one have retired at the sender as a target.
    pub ack_xid: u16,
}

impl TalHeader {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// Decodes a header. Every bit pattern is valid. Reserved bits are ignored.
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self {
            eom: b[0] & 0x80 != 0,
            ext: b[0] & 0x10 != 0,
            ask: b[0] & 0x20 != 0,
            num_ops: b[0] & 0x0f,
            opcode: b[1],
            seqno: u16::from_le_bytes([b[2], b[3]]),
            xid: u16::from_le_bytes([b[4], b[5]]),
            ack_xid: u16::from_le_bytes([b[6], b[7]]),
        }
    }

    /// Encodes the header.
    pub const fn bytes(&self) -> [u8; Self::LEN] {
        let first = (if self.eom { 0x80 } else { 0 })
            | (if self.ext { 0x10 } else { 0 })
            | (if self.ask { 0x20 } else { 0 })
            | (self.num_ops & 0x0f);
        let all = first as u64
            | (self.opcode as u64) << 8
            | (self.seqno as u64) << 16
            | (self.xid as u64) << 32
            | (self.ack_xid as u64) << 48;
        all.to_le_bytes()
    }

    /// Whether the packet carries only acknowledgements [proto 3.10].
    pub const fn is_pure_ack(&self) -> bool {
        self.opcode == 0 && self.num_ops == 0 && !self.eom && self.seqno == 0
    }
}
