// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A received packet, from its first SUPERp header to its end.

use super::{Op, Opcode, PdlHeader, TalHeader, WriteOp, BLOCK_MIN, HEADERS_MAX};

/// Why a packet cannot be laid out. Nothing of it is processed, its acknowledgements neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its headers.
    TooShort,
    /// The number of operations is not one that the opcode can have.
    NumOps,
    /// The data does not divide into one equal block for each operation, or an atomic's block has not
    /// its 16 bytes.
    UnevenBlocks,
}

/// A range of bytes in a packet, counted from the start of its first SUPERp header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// First byte.
    pub offset: usize,
    /// Number of bytes.
    pub len: usize,
}

/// A packet whose headers have been checked.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// All zero in SUPERp-lite, which has none.
    pdl: PdlHeader,
    tal: TalHeader,
    /// `None`: no layout is known for the opcode, so nothing after the TAL header is either.
    opcode: Option<Opcode>,
    ops: &'a [u8],
    /// End of the last operation header.
    data: usize,
    /// Bytes of each data block; 0 for opcodes without data.
    block: usize,
}

impl<'a> Packet<'a> {
    /// Lays out a packet of `packet_len` bytes that starts at the Packet Delivery header.
    ///
    /// `headers` is the start of those bytes and must reach at least to the end of the operation
    /// headers: `min(packet_len, HEADERS_MAX)` bytes always do. Bytes of `headers` beyond
    /// `packet_len` are not looked at.
    pub fn parse(headers: &'a [u8], packet_len: usize) -> Result<Self, Malformed> {
        let headers = headers.get(..packet_len).unwrap_or(headers);
        let (pdl, rest) = headers.split_first_chunk().ok_or(Malformed::TooShort)?;
        Self::lay_out(PdlHeader::parse(pdl), PdlHeader::LEN, rest, packet_len)
    }

    /// Lays out a SUPERp-lite packet of `packet_len` bytes, which starts at the Transaction header
    /// [proto 6]; otherwise as [`Self::parse`].
    pub fn parse_lite(headers: &'a [u8], packet_len: usize) -> Result<Self, Malformed> {
        let headers = headers.get(..packet_len).unwrap_or(headers);
        Self::lay_out(PdlHeader::default(), 0, headers, packet_len)
    }

    /// `rest` begins with the Transaction header, at offset `start` of the packet.
    fn lay_out(
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
            data: fixed_len,
            block: 0,
        };
        let Some(opcode) = packet.opcode else {
            return Ok(packet);
        };

        let num_ops = usize::from(tal.num_ops);
        match opcode {
            Opcode::Noop | Opcode::LastNull if num_ops == 0 => return Ok(packet),
            Opcode::Noop | Opcode::LastNull => return Err(Malformed::NumOps),
            // One packet, one operation [proto 4.6, 7].
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
        packet.data = fixed_len.saturating_add(ops_len);
        let atomic = matches!(opcode, Opcode::Atomic | Opcode::AtomicResponse);
        if atomic && packet_len != packet.data {
            return Err(Malformed::UnevenBlocks);
        }
        if opcode.has_data() {
            let data_len = packet_len.saturating_sub(packet.data);
            packet.block = data_len.checked_div(num_ops).unwrap_or(0);
            if packet.block.saturating_mul(num_ops) != data_len {
                return Err(Malformed::UnevenBlocks);
            }
        }
        Ok(packet)
    }

    /// Bytes from the Packet Delivery header to the end of the operation headers of a packet that
    /// starts with `start`; `FIXED_LEN` while that is all that can be known.
    pub fn headers_len(start: &[u8]) -> usize {
        let rest = start.get(PdlHeader::LEN..).unwrap_or_default();
        PdlHeader::LEN.saturating_add(Self::headers_len_lite(rest))
    }

    /// The same for SUPERp-lite, from the Transaction header.
    pub fn headers_len_lite(start: &[u8]) -> usize {
        let tal = start.first_chunk().map(TalHeader::parse);
        let Some((tal, opcode)) = tal.and_then(|tal| Some((tal, Opcode::from_u8(tal.opcode)?)))
        else {
            return TalHeader::LEN;
        };
        let ops_len = usize::from(tal.num_ops).saturating_mul(opcode.header_len());
        // What would be longer has more operations than its opcode may.
        TalHeader::LEN
            .saturating_add(ops_len)
            .min(HEADERS_MAX - PdlHeader::LEN)
    }

    /// The Packet Delivery header; all zero in SUPERp-lite.
    pub const fn pdl(&self) -> &PdlHeader {
        &self.pdl
    }

    /// The Transaction header.
    pub const fn tal(&self) -> &TalHeader {
        &self.tal
    }

    /// The operation code, or `None` for one without a known layout.
    pub const fn opcode(&self) -> Option<Opcode> {
        self.opcode
    }

    /// The operation headers, in order; none for opcodes without a known layout.
    pub fn ops(&self) -> impl Iterator<Item = Op> + Clone + 'a {
        let (opcode, mut rest) = (self.opcode, self.ops);
        (0..self.tal.num_ops).map_while(move |_| {
            let op = Op::parse(opcode?, rest)?;
            rest = rest.get(opcode?.header_len()..)?;
            Some(op)
        })
    }

    /// The writes and the data of each, in order; none for other opcodes than [`Opcode::Write`].
    pub fn writes(&self) -> impl Iterator<Item = (WriteOp, Block)> + 'a {
        let ops = match self.opcode {
            Some(Opcode::Write) => self.ops,
            _ => &[],
        };
        let (mut offset, len) = (self.data, self.block);
        ops.chunks_exact(WriteOp::LEN).map_while(move |op| {
            let block = Block { offset, len };
            offset = offset.saturating_add(len);
            Some((WriteOp::parse(op.first_chunk()?), block))
        })
    }

    /// Bytes in each data block; 0 for opcodes without data.
    pub const fn block_len(&self) -> usize {
        self.block
    }

    /// It should have data blocks, but they are under 16 bytes [proto 2.5]: the transaction is to be
    /// refused.
    pub fn has_short_blocks(&self) -> bool {
        self.opcode.is_some_and(Opcode::has_data) && self.block < BLOCK_MIN as usize
    }

    /// The data block of operation `index`, padding included; `None` when there is no such block.
    pub fn block(&self, index: usize) -> Option<Block> {
        if self.block == 0 || index >= usize::from(self.tal.num_ops) {
            return None;
        }
        let offset = self.data.checked_add(self.block.checked_mul(index)?)?;
        Some(Block {
            offset,
            len: self.block,
        })
    }
}
