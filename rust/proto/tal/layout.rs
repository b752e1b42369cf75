// SPDX-License-Identifier: GPL-2.0 OR MIT
//! How requests and replies are cut into packets.

use super::super::config::Config;
use super::super::wire::{Opcode, TalHeader, BLOCK_MIN, FIXED_LEN};
use super::super::{ReqOp, Request, SubmitError};

/// Blocks of a transaction of several packets start at multiples of this, to keep copies aligned.
const BLOCK_ALIGN: u32 = 8;

/// What SUPERp-lite has of an Ethernet payload's least 46 bytes behind the SUNH and Transaction
/// headers. A shorter packet is padded there, and nothing says how long it was [proto 2.6].
const LITE_ROOM_MIN: u32 = 46 - 8 - 8;

/// Limits on packets of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes for operation headers and data in a packet.
    room: u32,
    lite: bool,
    pub(super) max_packets: u32,
    pub(super) max_ops: u32,
}

/// How a request is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Packets.
    pub(super) packets: u16,
    /// Operations in each packet but the last.
    pub(super) ops: u8,
    /// Data bytes of each operation in each packet but the last.
    pub(super) block: u32,
    /// Zero bytes after each operation's data.
    pub(super) pad: u8,
}

impl Limits {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            room: config.mtu.saturating_sub(match config.lite {
                true => TalHeader::LEN,
                false => FIXED_LEN,
            } as u32),
            lite: config.lite,
            max_packets: config.tal_max_pkt_per_trans,
            max_ops: config.tal_max_ops_per_pkt,
        }
    }

    /// The same for packets that are `less` bytes shorter.
    pub(super) fn narrowed(&self, less: u32) -> Self {
        Self {
            room: self.room.saturating_sub(less),
            ..*self
        }
    }

    /// Largest block of a packet with one operation.
    fn block_max(&self, opcode: Opcode) -> u32 {
        self.room.saturating_sub(opcode.header_len() as u32)
    }

    /// Smallest block of a packet with one operation that arrives as long as it was sent. What is
    /// shorter must be padded by rules of its opcode.
    fn block_min(&self, opcode: Opcode) -> u32 {
        match self.lite {
            true => LITE_ROOM_MIN
                .saturating_sub(opcode.header_len() as u32)
                .max(BLOCK_MIN),
            false => BLOCK_MIN,
        }
    }

    /// Operations of `len` bytes, with their blocks, that fit into a packet.
    fn ops_max(&self, opcode: Opcode, len: u32) -> u32 {
        let each = len
            .max(BLOCK_MIN)
            .saturating_add(opcode.header_len() as u32);
        self.room.checked_div(each).unwrap_or(0).min(self.max_ops)
    }

    /// Block size and number of packets for `len` bytes in one operation; the number is not limited.
    /// The last block, if there are several, may be any shorter.
    fn cut(&self, opcode: Opcode, len: u32) -> (u32, u32) {
        let max = self.block_max(opcode);
        if len <= max {
            return (len, 1);
        }
        let block = (max & !(BLOCK_ALIGN - 1)).max(BLOCK_ALIGN);
        (block, div_ceil(len, block))
    }

    /// Most packets of one operation. Shrinking blocks for the sake of the tail needs room for a byte
    /// of every block in the last one.
    fn packets_max(&self, opcode: Opcode) -> u32 {
        self.max_packets.min(self.block_max(opcode) / 2)
    }

    /// Most bytes of a request with one operation.
    pub(super) fn max_len(&self, op: &ReqOp) -> u64 {
        let opcode = match op.opcode() {
            _ if is_whole(op) => return 0,
            Opcode::Read => Opcode::ReadResponse,
            opcode => opcode,
        };
        let max = u64::from(self.block_max(opcode));
        let aligned = max & !u64::from(BLOCK_ALIGN - 1);
        let packets = u64::from(self.packets_max(opcode));
        let bytes = max.max(aligned.saturating_mul(packets));
        match op {
            ReqOp::SendQpExt {
                offset,
                message_len,
                ..
            } => bytes.min(message_len.saturating_sub(*offset).into()),
            _ => bytes.min(u32::MAX.into()),
        }
    }

    /// Operations of `len` bytes each that one packet takes, and that are one transaction.
    pub(super) fn per_packet(&self, op: &ReqOp, len: u32) -> u32 {
        match op.opcode() {
            Opcode::Read => self.reads_max(len),
            opcode @ (Opcode::Write | Opcode::WriteExt | Opcode::Send) => self.ops_max(opcode, len),
            _ => 1,
        }
    }

    /// Least bytes of each operation of a request.
    pub(super) fn min_len(&self, op: &ReqOp) -> u32 {
        match op {
            op if is_whole(op) => 0,
            ReqOp::Read { .. } | ReqOp::SendQpExt { message_len: 0, .. } => 0,
            ReqOp::WriteExt { .. } | ReqOp::SendQpExt { .. } => 1,
            _ => self.block_min(op.opcode()),
        }
    }

    /// Cuts a request into packets, or tells why it cannot be one transaction.
    pub(super) fn layout(&self, request: &Request) -> Result<Layout, SubmitError> {
        let Request { op, count, len, .. } = *request;
        let opcode = op.opcode();
        if count == 0 {
            return Err(SubmitError::BadCount { max: 1 });
        }
        if is_whole(&op) {
            return match (count, len) {
                (1, 0) => Ok(Layout {
                    packets: 1,
                    ops: u8::from(!matches!(op, ReqOp::Noop | ReqOp::LastNull)),
                    pad: match op {
                        ReqOp::Written { .. } => pad(0),
                        _ => 0,
                    },
                    ..Layout::default()
                }),
                (1, _) => Err(SubmitError::TooLong { max: 0 }),
                _ => Err(SubmitError::BadCount { max: 1 }),
            };
        }
        let min = self.min_len(&op);
        if len < min {
            return Err(SubmitError::TooShort { min });
        }
        let total = u64::from(len).saturating_mul(count.into());
        if let ReqOp::SendQpExt {
            offset,
            message_len,
            ..
        } = op
        {
            let max = u64::from(message_len.saturating_sub(offset));
            if total > max || offset > message_len {
                return Err(SubmitError::TooLong { max });
            }
        }
        match (opcode, count) {
            (Opcode::Read, 1) => {
                if u64::from(len) > self.max_len(&op) {
                    let max = self.max_len(&op);
                    return Err(SubmitError::TooLong { max });
                }
                Ok(Layout {
                    packets: 1,
                    ops: 1,
                    block: len,
                    pad: 0,
                })
            }
            (Opcode::Read, _) => self.layout_reads(count, len),
            (_, 1) => self.layout_one(&op, len),
            _ => self.layout_many(opcode, count, len),
        }
    }

    /// One operation with data, over as many packets as it takes, with equal blocks in all but the last
    /// [proto 4.14]. No block is under the least: where the tail would be, the others give it some of
    /// theirs.
    fn layout_one(&self, op: &ReqOp, len: u32) -> Result<Layout, SubmitError> {
        let opcode = op.opcode();
        let (mut block, packets) = self.cut(opcode, len);
        if packets > self.packets_max(opcode) {
            let max = self.max_len(op);
            return Err(SubmitError::TooLong { max });
        }
        let others = packets.saturating_sub(1);
        let tail = len.saturating_sub(block.saturating_mul(others));
        let min = self.block_min(opcode);
        if others > 0 && tail < min {
            let missing = min.saturating_sub(tail);
            block = block.saturating_sub(div_ceil(missing, others));
        }
        Ok(Layout {
            packets: packets as u16,
            ops: 1,
            block,
            pad: pad(len),
        })
    }

    /// Several operations of equal length.
    fn layout_many(&self, opcode: Opcode, count: u16, len: u32) -> Result<Layout, SubmitError> {
        let ops = self.ops_max(opcode, len);
        if ops == 0 {
            let max = self.block_max(opcode).into();
            return Err(SubmitError::TooLong { max });
        }
        let packets = div_ceil(count.into(), ops);
        if packets > self.max_packets {
            let max = ops.saturating_mul(self.max_packets).min(u16::MAX.into());
            return Err(SubmitError::BadCount { max: max as u16 });
        }
        Ok(Layout {
            packets: packets as u16,
            ops: ops as u8,
            block: len,
            pad: pad(len),
        })
    }

    /// Several reads, in one request packet: so many a target of the same configuration keeps for
    /// every transaction of its window.
    fn layout_reads(&self, count: u16, len: u32) -> Result<Layout, SubmitError> {
        let max = self.reads_max(len);
        if max == 0 {
            let max = self.max_len(&ReqOp::Read { address: 0 });
            return Err(SubmitError::TooLong { max });
        }
        if u32::from(count) > max {
            return Err(SubmitError::BadCount { max: max as u16 });
        }
        Ok(Layout {
            packets: 1,
            ops: count as u8,
            block: len,
            pad: 0,
        })
    }

    /// Most reads of `len` bytes each in one transaction.
    fn reads_max(&self, len: u32) -> u32 {
        let each = Opcode::Read.header_len() as u32;
        let by_request = self.room.checked_div(each).unwrap_or(0);
        let packets = self.packets_max(Opcode::ReadResponse);
        let by_reply = match self.reply_packets(len) {
            1 => self
                .ops_max(Opcode::ReadResponse, len)
                .saturating_mul(packets),
            several => packets.checked_div(several).unwrap_or(0),
        };
        by_request.min(self.max_ops).min(by_reply)
    }

    /// Packets of the reply to a read of `len` bytes.
    pub(super) fn reply_packets(&self, len: u32) -> u32 {
        self.cut(Opcode::ReadResponse, len).1
    }

    /// The block at `offset` of a reply to a read of `len` bytes: its data bytes, and how many such
    /// reads one packet can answer.
    pub(super) fn reply_block(&self, len: u32, offset: u32) -> (u32, u32) {
        let (block, packets) = self.cut(Opcode::ReadResponse, len);
        let ops = match packets {
            1 => self.ops_max(Opcode::ReadResponse, len).max(1),
            _ => 1,
        };
        (block.min(len.saturating_sub(offset)), ops)
    }
}

/// Whether it is one packet with nothing from the owner in it.
fn is_whole(op: &ReqOp) -> bool {
    matches!(
        op,
        ReqOp::Noop | ReqOp::LastNull | ReqOp::Atomic { .. } | ReqOp::Written { .. }
    )
}

/// `len / block`, rounded up. Blocks are not empty.
fn div_ceil(len: u32, block: u32) -> u32 {
    let sum = u64::from(len).saturating_add(u64::from(block).saturating_sub(1));
    sum.checked_div(block.into()).unwrap_or(0) as u32
}

/// Zero bytes that bring `len` bytes to the smallest block.
pub(super) fn pad(len: u32) -> u8 {
    BLOCK_MIN.saturating_sub(len) as u8
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
