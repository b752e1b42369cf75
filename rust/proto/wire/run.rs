// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Runs: consecutive packets of one transfer whose headers and data are in one buffer.

use super::{Block, ExtFlags, Op, Opcode, Packet, TalHeader, BLOCK_MIN};

/// Consecutive packets of one write, one message or the reply to one read.
///
/// Each packet has one operation, whose data begins where that of the packet before it ends. PSN
/// and Seqno increase by one from packet to packet. All other header fields are equal, except that
/// the last packet may have `eom` and padding.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    first: Packet<'a>,
    count: u16,
    /// The last packet has `eom`.
    eom: bool,
    /// Operation of the first packet.
    op: Op,
    data: Block,
}

impl<'a> Run<'a> {
    /// Parses `count` packets. Each packet except the last has `size` bytes of data; all together
    /// have `data` bytes, padding included.
    ///
    /// `headers` has the headers of all packets, in order and of equal length. The data follows the
    /// headers, in the same order. Returns `None` if the packets are no run; then each must be
    /// processed alone.
    pub fn parse(headers: &'a [u8], count: usize, size: usize, data: usize) -> Option<Self> {
        let len = headers.len().checked_div(count).filter(|&len| len > 0)?;
        let mut each = headers.chunks_exact(len);
        let start = each.next()?;
        let first = Packet::parse(start, len.checked_add(size)?).ok()?;
        let data_follows = first.block(0)?
            == Block {
                offset: len,
                len: size,
            };
        // The last packet has what remains after the full blocks.
        let full_blocks = size.checked_mul(count.checked_sub(1)?)?;
        let last = data.checked_sub(full_blocks)?;
        let short = size < BLOCK_MIN as usize || last < BLOCK_MIN as usize;
        let op = first.ops().next()?;
        let step = step(first.opcode()?, size)?;
        let mut pad = match op {
            // `Target::receive_run` delivers no immediate.
            Op::WriteExt(write) if write.flags.immediate => return None,
            Op::WriteExt(write) => write.flags.pad,
            // Neither an announcement of a write nor an empty message has data.
            Op::SendQpExt(send) if send.flags.written || send.message_len == 0 => return None,
            Op::SendQpExt(send) => send.flags.pad,
            _ => 0,
        };
        if !data_follows || short || last > size || first.tal().num_ops != 1 {
            return None;
        }

        let (mut expected, first_fields) = Words::read(start)?;
        let (mut eom, mut parsed) = (first.tal().eom, 1u16);
        for header in each {
            // Only the last packet may have `eom` or padding.
            if eom || pad != 0 {
                return None;
            }
            expected = expected.next(step)?;
            let (words, fields) = Words::read(header)?;
            eom = words.eom_difference(&expected)?;
            pad = pad_difference(first_fields, fields)?;
            parsed = parsed.checked_add(1)?;
        }
        if usize::from(parsed) != count {
            return None;
        }
        Some(Self {
            first,
            count: parsed,
            eom,
            op,
            data: Block {
                offset: len,
                len: data.checked_sub(pad.into())?,
            },
        })
    }

    /// Changes the headers of a packet to those of the next packet of its run. The packet has
    /// `size` bytes of data, and neither packet has `eom` or padding. Returns `None` if the packet
    /// cannot be in a run.
    pub fn advance(headers: &mut [u8], size: usize) -> Option<()> {
        let (words, _) = Words::read(headers)?;
        let opcode = Opcode::from_u8(words.opcode())?;
        words.next(step(opcode, size)?)?.write(headers)
    }

    /// The first packet.
    pub const fn first(&self) -> &Packet<'a> {
        &self.first
    }

    /// Number of packets, at least 1.
    pub const fn count(&self) -> u16 {
        self.count
    }

    /// The operation of the first packet.
    pub const fn op(&self) -> Op {
        self.op
    }

    /// Data of all packets, without padding, as the block of a packet with the first packet's
    /// headers.
    pub const fn data(&self) -> Block {
        self.data
    }

    /// Transaction header of the first packet, with the `eom` of the last one.
    pub fn tal(&self) -> TalHeader {
        TalHeader {
            eom: self.eom,
            ..*self.first.tal()
        }
    }
}

/// The headers of a packet with one operation, as little-endian integers. An addition to each of
/// them gives the headers of the next packet.
#[derive(Clone, Copy)]
struct Words {
    /// Packet Delivery header.
    pdl: u128,
    /// Transaction header.
    tal: u64,
    /// The 8 bytes of the operation header with the position of the data. For a write they are its
    /// address. For a Read response the upper half is the offset, for a message the lower half.
    position: u64,
}

/// Offset of `Words::position` in the operation header, in bytes.
const fn position_offset(opcode: u8) -> usize {
    match opcode == Opcode::SendQpExt as u8 {
        true => 8,
        false => 0,
    }
}

impl Words {
    /// The bit `eom` in `tal`.
    const EOM: u64 = 0x80;

    /// Reads the headers. Also returns the bytes of the operation header outside `position`: those
    /// before it, if there are any, else those after it.
    fn read(headers: &[u8]) -> Option<(Self, &[u8])> {
        let (pdl, rest) = headers.split_first_chunk()?;
        let (tal, rest) = rest.split_first_chunk()?;
        let mut words = Self {
            pdl: u128::from_le_bytes(*pdl),
            tal: u64::from_le_bytes(*tal),
            position: 0,
        };
        let (before, rest) = rest.split_at_checked(position_offset(words.opcode()))?;
        let (position, after) = rest.split_first_chunk()?;
        words.position = u64::from_le_bytes(*position);
        Some((words, if before.is_empty() { after } else { before }))
    }

    /// Writes the integers back to the headers.
    fn write(self, headers: &mut [u8]) -> Option<()> {
        let (pdl, rest) = headers.split_first_chunk_mut()?;
        let (tal, rest) = rest.split_first_chunk_mut()?;
        let (_, rest) = rest.split_at_mut_checked(position_offset(self.opcode()))?;
        *rest.first_chunk_mut()? = self.position.to_le_bytes();
        (*pdl, *tal) = (self.pdl.to_le_bytes(), self.tal.to_le_bytes());
        Some(())
    }

    fn opcode(self) -> u8 {
        (self.tal >> 8) as u8
    }

    /// Returns the headers of the next packet, with `step` added to `position`. `None` if Seqno or
    /// position overflows.
    fn next(self, step: u64) -> Option<Self> {
        let psn = ((self.pdl >> 32) as u32).wrapping_add(1);
        let seqno = ((self.tal >> 16) as u16).checked_add(1)?;
        let position = self.position.checked_add(step)?;
        // The upper half of a message's position is its length, which must not change.
        if position_offset(self.opcode()) > 0 && position >> 32 != self.position >> 32 {
            return None;
        }
        Some(Self {
            pdl: (self.pdl & !(0xffff_ffff << 32)) | (u128::from(psn) << 32),
            tal: (self.tal & !(0xffff << 16)) | (u64::from(seqno) << 16),
            position,
        })
    }

    /// Returns whether `eom` is set, if all other bits equal those of `expected`, which does not
    /// have `eom`. Otherwise `None`.
    fn eom_difference(self, expected: &Self) -> Option<bool> {
        let difference = self.tal ^ expected.tal;
        let same = self.pdl == expected.pdl && self.position == expected.position;
        (same && difference & !Self::EOM == 0).then_some(difference != 0)
    }
}

/// The step of `Words::position` from packet to packet. `None` if the opcode cannot be in a run.
fn step(opcode: Opcode, size: usize) -> Option<u64> {
    match opcode {
        Opcode::Write | Opcode::WriteExt | Opcode::SendQpExt => size.try_into().ok(),
        Opcode::ReadResponse => Some(u64::from(u32::try_from(size).ok()?) << 32),
        _ => None,
    }
}

/// Returns the pad of a later packet, if the rest of its operation header equals that of the first
/// packet, which has no pad. Otherwise `None`. Operations that are no extensions have no pad; both
/// slices are empty then.
fn pad_difference(first: &[u8], other: &[u8]) -> Option<u8> {
    match (first, other) {
        ([], []) => Some(0),
        ([q0, q1, q2, flags, rest @ ..], [p0, p1, p2, padded, others @ ..]) => {
            let pad = flags ^ padded;
            let same = [q0, q1, q2] == [p0, p1, p2] && rest == others;
            (same && pad <= ExtFlags::PAD_MAX).then_some(pad)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
