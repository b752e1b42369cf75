// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Parser for received packets, from the first SUPERp header to the end of the packet.

use super::{Op, Opcode, PdlHeader, TalHeader, WriteOp, BLOCK_MIN, HEADERS_MAX};

/// Why a packet is malformed. The whole packet is dropped, including its acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The packet is shorter than its headers.
    TooShort,
    /// The opcode cannot have this number of operations.
    NumOps,
    /// The data does not divide into equal blocks, or the block of an atomic does not have 16
    /// bytes.
    UnevenBlocks,
}

/// A range of bytes in a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Offset of the first byte from the start of the first SUPERp header.
    pub offset: usize,
    /// Number of bytes.
    pub len: usize,
}

/// A packet whose headers have been checked.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// All zero for SUPERp-lite, which has no such header.
    pdl: PdlHeader,
    tal: TalHeader,
    /// `None` for an unknown opcode. The rest of the packet is not parsed then.
    opcode: Option<Opcode>,
    /// The operation headers.
    ops: &'a [u8],
    /// Offset of the first data block: the end of the last operation header.
    data_offset: usize,
    /// Bytes of each data block; 0 for opcodes without data.
    block_len: usize,
}

impl<'a> Packet<'a> {
    /// Parses a packet of `packet_len` bytes, counted from the Packet Delivery header.
    ///
    /// `headers` has the first bytes of the packet, at least to the end of the operation headers.
    /// `min(packet_len, HEADERS_MAX)` bytes are always enough. Bytes beyond `packet_len` are
    /// ignored.
    ///
    /// # Errors
    ///
    /// See [`Malformed`].
    pub fn parse(headers: &'a [u8], packet_len: usize) -> Result<Self, Malformed> {
        let headers = headers.get(..packet_len).unwrap_or(headers);
        let (pdl, rest) = headers.split_first_chunk().ok_or(Malformed::TooShort)?;
        Self::parse_tal(PdlHeader::parse(pdl), PdlHeader::LEN, rest, packet_len)
    }

    /// Parses a SUPERp-lite packet of `packet_len` bytes, counted from the Transaction header
    /// [proto 6]. `headers` has its first bytes, as for [`Self::parse`].
    ///
    /// # Errors
    ///
    /// See [`Malformed`].
    pub fn parse_lite(headers: &'a [u8], packet_len: usize) -> Result<Self, Malformed> {
        let headers = headers.get(..packet_len).unwrap_or(headers);
        Self::parse_tal(PdlHeader::default(), 0, headers, packet_len)
    }

    /// Parses `rest`, which begins with the Transaction header at offset `start` of the packet.
    fn parse_tal(
        pdl: PdlHeader,
        start: usize,
        rest: &'a [u8],
        packet_len: usize,
    ) -> Result<Self, Malformed> {
        let (tal, rest) = rest.split_first_chunk().ok_or(Malformed::TooShort)?;
        let tal = TalHeader::parse(tal);
        let fixed_len = start.saturating_add(TalHeader::LEN);
        let mut packet = Self {
            pdl,
            tal,
            opcode: Opcode::from_u8(tal.opcode),
            ops: &[],
            data_offset: fixed_len,
            block_len: 0,
        };
        let Some(opcode) = packet.opcode else {
            return Ok(packet);
        };

        let num_ops = usize::from(tal.num_ops);
        match opcode {
            Opcode::Noop | Opcode::LastNull if num_ops == 0 => return Ok(packet),
            Opcode::Noop | Opcode::LastNull => return Err(Malformed::NumOps),
            // These are one packet with one operation [proto 4.6, 7].
            Opcode::TransactionError | Opcode::Atomic | Opcode::AtomicResponse
                if num_ops != 1 || !tal.eom =>
            {
                return Err(Malformed::NumOps);
            }
            _ if num_ops == 0 => return Err(Malformed::NumOps),
            _ => {}
        }
        let ops_len = num_ops.saturating_mul(opcode.header_len());
        packet.ops = rest.get(..ops_len).ok_or(Malformed::TooShort)?;
        packet.data_offset = fixed_len.saturating_add(ops_len);
        let atomic = matches!(opcode, Opcode::Atomic | Opcode::AtomicResponse);
        if atomic && packet_len != packet.data_offset {
            return Err(Malformed::UnevenBlocks);
        }
        if opcode.has_data() {
            let data_len = packet_len.saturating_sub(packet.data_offset);
            packet.block_len = data_len.checked_div(num_ops).unwrap_or(0);
            if packet.block_len.saturating_mul(num_ops) != data_len {
                return Err(Malformed::UnevenBlocks);
            }
        }
        Ok(packet)
    }

    /// Number of bytes from the Packet Delivery header to the end of the operation headers, for a
    /// packet whose first bytes are `start`. `FIXED_LEN` if `start` is too short to tell, or if the
    /// opcode is unknown.
    pub fn headers_len(start: &[u8]) -> usize {
        let rest = start.get(PdlHeader::LEN..).unwrap_or_default();
        PdlHeader::LEN.saturating_add(Self::headers_len_lite(rest))
    }

    /// Number of bytes from the Transaction header to the end of the operation headers, for a
    /// SUPERp-lite packet whose first bytes are `start`. `TalHeader::LEN` if `start` is too short
    /// to tell, or if the opcode is unknown.
    pub fn headers_len_lite(start: &[u8]) -> usize {
        let tal = start.first_chunk().map(TalHeader::parse);
        let Some((tal, opcode)) = tal.and_then(|tal| Some((tal, Opcode::from_u8(tal.opcode)?)))
        else {
            return TalHeader::LEN;
        };
        let ops_len = usize::from(tal.num_ops).saturating_mul(opcode.header_len());
        // Only a malformed packet has longer headers: atomics of more than one operation.
        TalHeader::LEN
            .saturating_add(ops_len)
            .min(HEADERS_MAX - PdlHeader::LEN)
    }

    /// The Packet Delivery header; all zero for SUPERp-lite.
    pub const fn pdl(&self) -> &PdlHeader {
        &self.pdl
    }

    /// The Transaction header.
    pub const fn tal(&self) -> &TalHeader {
        &self.tal
    }

    /// The operation code; `None` if it is unknown.
    pub const fn opcode(&self) -> Option<Opcode> {
        self.opcode
    }

    /// Returns the operation headers, in order. An unknown opcode has none.
    pub fn ops(&self) -> impl Iterator<Item = Op> + Clone + 'a {
        let (opcode, mut rest) = (self.opcode, self.ops);
        (0..self.tal.num_ops).map_while(move |_| {
            let op = Op::parse(opcode?, rest)?;
            rest = rest.get(opcode?.header_len()..)?;
            Some(op)
        })
    }

    /// Returns the headers of plain writes and the data block of each, in order. Other opcodes than
    /// [`Opcode::Write`] have none.
    pub fn writes(&self) -> impl Iterator<Item = (WriteOp, Block)> + 'a {
        let ops = match self.opcode {
            Some(Opcode::Write) => self.ops,
            _ => &[],
        };
        let (mut offset, len) = (self.data_offset, self.block_len);
        ops.chunks_exact(WriteOp::LEN).map_while(move |op| {
            let block = Block { offset, len };
            offset = offset.saturating_add(len);
            Some((WriteOp::parse(op.first_chunk()?), block))
        })
    }

    /// Bytes of each data block; 0 for opcodes without data.
    pub const fn block_len(&self) -> usize {
        self.block_len
    }

    /// Whether the packet must have data blocks, and they have less than 16 bytes. The transaction
    /// is refused then [proto 2.5].
    pub fn has_short_blocks(&self) -> bool {
        self.opcode.is_some_and(Opcode::has_data) && self.block_len < BLOCK_MIN as usize
    }

    /// Returns the data block of operation `index`, padding included; `None` if there is none.
    pub fn block(&self, index: usize) -> Option<Block> {
        if self.block_len == 0 || index >= usize::from(self.tal.num_ops) {
            return None;
        }
        let offset = self
            .data_offset
            .checked_add(self.block_len.checked_mul(index)?)?;
        Some(Block {
            offset,
            len: self.block_len,
        })
    }
}
