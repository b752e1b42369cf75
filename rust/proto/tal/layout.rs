// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Division of requests and replies into packets.

use super::super::config::Config;
use super::super::wire::{Opcode, TalHeader, BLOCK_MIN, FIXED_LEN};
use super::super::{ReqOp, Request, SubmitError};

/// The blocks of an operation over several packets start at multiples of this many bytes, which
/// keeps copies aligned.
const BLOCK_ALIGN: u32 = 8;

/// Smallest number of bytes after the Transaction header of a SUPERp-lite packet that Ethernet does
/// not pad. Its payload has at least 46 bytes, of which SUNH and Transaction header take 8 each. No
/// field tells padding from data [proto 2.6].
const LITE_PAYLOAD_MIN: u32 = 46 - 8 - 8;

/// Limits on the packets of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes in a packet for operation headers and data.
    payload_max: u32,
    /// The packets are SUPERp-lite.
    lite: bool,
    /// Largest number of packets of a request or reply.
    pub(super) max_packets: u32,
    /// Largest number of operations in a packet.
    pub(super) max_ops: u32,
}

/// Division of a request into packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Number of packets.
    pub(super) packets: u16,
    /// Number of operations in each packet except the last.
    pub(super) ops: u8,
    /// Bytes of data of each operation in each packet except the last.
    pub(super) block: u32,
    /// Zero bytes after the data of each operation.
    pub(super) pad: u8,
}

impl Limits {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            payload_max: config.mtu.saturating_sub(match config.lite {
                true => TalHeader::LEN,
                false => FIXED_LEN,
            } as u32),
            lite: config.lite,
            max_packets: config.tal_max_pkt_per_trans,
            max_ops: config.tal_max_ops_per_pkt,
        }
    }

    /// The limits for packets that are `reduction` bytes shorter.
    pub(super) fn reduced(&self, reduction: u32) -> Self {
        Self {
            payload_max: self.payload_max.saturating_sub(reduction),
            ..*self
        }
    }

    /// Largest data block of a packet with one operation, in bytes.
    fn block_max(&self, opcode: Opcode) -> u32 {
        self.payload_max.saturating_sub(opcode.header_len() as u32)
    }

    /// Smallest data block of a packet with one operation, in bytes: the protocol's minimum, and
    /// for SUPERp-lite long enough that Ethernet adds no padding. Only the extension opcodes, which
    /// have a pad field, can carry less.
    fn block_min(&self, opcode: Opcode) -> u32 {
        match self.lite {
            true => LITE_PAYLOAD_MIN
                .saturating_sub(opcode.header_len() as u32)
                .max(BLOCK_MIN),
            false => BLOCK_MIN,
        }
    }

    /// Number of operations of `len` bytes, with their data blocks, that fit one packet.
    fn ops_max(&self, opcode: Opcode, len: u32) -> u32 {
        let each = len
            .max(BLOCK_MIN)
            .saturating_add(opcode.header_len() as u32);
        self.payload_max
            .checked_div(each)
            .unwrap_or(0)
            .min(self.max_ops)
    }

    /// Block size in bytes and number of packets for one operation of `len` bytes. The number may
    /// exceed `max_packets`. The last of several blocks may have any smaller size.
    fn split(&self, opcode: Opcode, len: u32) -> (u32, u32) {
        let max = self.block_max(opcode);
        if len <= max {
            return (len, 1);
        }
        let block = (max & !(BLOCK_ALIGN - 1)).max(BLOCK_ALIGN);
        (block, div_ceil(len, block))
    }

    /// Largest number of packets of one operation. `layout_one` may move bytes of every other block
    /// to the last one, which must have space for them; that limits the number of blocks.
    fn packets_max(&self, opcode: Opcode) -> u32 {
        self.max_packets.min(self.block_max(opcode) / 2)
    }

    /// Largest length in bytes of a request with one operation.
    pub(super) fn max_len(&self, op: &ReqOp) -> u64 {
        let opcode = match op.opcode() {
            _ if is_single_packet(op) => return 0,
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

    /// Number of operations of `len` bytes each that fit one packet, and for reads also one reply.
    pub(super) fn per_packet(&self, op: &ReqOp, len: u32) -> u32 {
        match op.opcode() {
            Opcode::Read => self.reads_max(len),
            opcode @ (Opcode::Write | Opcode::WriteExt | Opcode::Send) => self.ops_max(opcode, len),
            _ => 1,
        }
    }

    /// Smallest length in bytes of each operation of a request.
    pub(super) fn min_len(&self, op: &ReqOp) -> u32 {
        match op {
            op if is_single_packet(op) => 0,
            ReqOp::Read { .. } | ReqOp::SendQpExt { message_len: 0, .. } => 0,
            ReqOp::WriteExt { .. } | ReqOp::SendQpExt { .. } => 1,
            _ => self.block_min(op.opcode()),
        }
    }

    /// Divides a request into packets.
    ///
    /// # Errors
    ///
    /// The request cannot be one transaction: `BadCount`, `TooShort` or `TooLong`.
    pub(super) fn layout(&self, request: &Request) -> Result<Layout, SubmitError> {
        let Request { op, count, len, .. } = *request;
        let opcode = op.opcode();
        if count == 0 {
            return Err(SubmitError::BadCount { max: 1 });
        }
        if is_single_packet(&op) {
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

    /// Divides one operation with data. All packets except the last have equal blocks [proto 4.14].
    /// If the last block would be shorter than the minimum, the others shrink and the last one
    /// grows.
    fn layout_one(&self, op: &ReqOp, len: u32) -> Result<Layout, SubmitError> {
        let opcode = op.opcode();
        let (mut block, packets) = self.split(opcode, len);
        if packets > self.packets_max(opcode) {
            let max = self.max_len(op);
            return Err(SubmitError::TooLong { max });
        }
        let full_blocks = packets.saturating_sub(1);
        let tail = len.saturating_sub(block.saturating_mul(full_blocks));
        let min = self.block_min(opcode);
        if full_blocks > 0 && tail < min {
            let missing = min.saturating_sub(tail);
            block = block.saturating_sub(div_ceil(missing, full_blocks));
        }
        Ok(Layout {
            packets: packets as u16,
            ops: 1,
            block,
            pad: pad(len),
        })
    }

    /// Divides several operations of equal length.
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

    /// Puts several reads into one request packet. A target with the same configuration stores as
    /// many for each transaction of its window.
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

    /// Largest number of reads of `len` bytes each in one transaction. Request and reply limit it.
    fn reads_max(&self, len: u32) -> u32 {
        let each = Opcode::Read.header_len() as u32;
        let by_request = self.payload_max.checked_div(each).unwrap_or(0);
        let packets = self.packets_max(Opcode::ReadResponse);
        let by_reply = match self.reply_packets(len) {
            1 => self
                .ops_max(Opcode::ReadResponse, len)
                .saturating_mul(packets),
            several => packets.checked_div(several).unwrap_or(0),
        };
        by_request.min(self.max_ops).min(by_reply)
    }

    /// Number of packets of the reply to a single read of `len` bytes.
    pub(super) fn reply_packets(&self, len: u32) -> u32 {
        self.split(Opcode::ReadResponse, len).1
    }

    /// Returns, for the reply to a read of `len` bytes, the bytes of data in the block at `offset`,
    /// and the number of such reads that one packet can answer.
    pub(super) fn reply_block(&self, len: u32, offset: u32) -> (u32, u32) {
        let (block, packets) = self.split(Opcode::ReadResponse, len);
        let ops = match packets {
            1 => self.ops_max(Opcode::ReadResponse, len).max(1),
            _ => 1,
        };
        (block.min(len.saturating_sub(offset)), ops)
    }
}

/// Whether a request is one packet without data of the owner.
fn is_single_packet(op: &ReqOp) -> bool {
    matches!(
        op,
        ReqOp::Noop | ReqOp::LastNull | ReqOp::Atomic { .. } | ReqOp::Written { .. }
    )
}

/// `len / block`, rounded up. `block` must not be 0.
fn div_ceil(len: u32, block: u32) -> u32 {
    let sum = u64::from(len).saturating_add(u64::from(block).saturating_sub(1));
    sum.checked_div(block.into()).unwrap_or(0) as u32
}

/// Number of zero bytes that fill `len` bytes up to the smallest block.
pub(super) fn pad(len: u32) -> u8 {
    BLOCK_MIN.saturating_sub(len) as u8
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
