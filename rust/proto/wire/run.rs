// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Several received packets that continue one another, laid out as one.

use super::{Block, ExtFlags, Op, Opcode, Packet, TalHeader, BLOCK_MIN};

/// Packets of one write, of one message or of the answer to one read, each with one operation that begins where that of
/// the packet before it ends. PSN and Seqno go up by one from each to the next; all else in their headers is equal, but for the
/// end of the request or answer and the pad, which only the last one can have.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    first: Packet<'a>,
    count: u16,
    /// The last one ends the request or answer.
    eom: bool,
    op: Op,
    data: Block,
}

impl<'a> Run<'a> {
    /// Lays out `count` packets, of which each but the last has `size` bytes of data and all together `data`.
    ///
    /// `headers` are those of the first, then of the second, and so on, each as long as the others; the bytes of data
    /// come behind all of them, in the same order. `None`: they are no such run, and each is to be taken by itself.
    pub fn parse(headers: &'a [u8], count: usize, size: usize, data: usize) -> Option<Self> {
        let len = headers.len().checked_div(count).filter(|&len| len > 0)?;
        let mut each = headers.chunks_exact(len);
        let start = each.next()?;
        let first = Packet::parse(start, len.checked_add(size)?).ok()?;
        let begins = first.block(0)?
            == Block {
                offset: len,
                len: size,
            };
        // The last one has some as well: what it has not is more than all before it have.
        let before = size.checked_mul(count.checked_sub(1)?)?;
        let last = data.checked_sub(before)?;
        let short = size < BLOCK_MIN as usize || last < BLOCK_MIN as usize;
        let op = first.ops().next()?;
        let step = step(first.opcode()?, size)?;
        let mut pad = match op {
            // An immediate is of one packet.
            Op::WriteExt(write) if write.flags.immediate => return None,
            Op::WriteExt(write) => write.flags.pad,
            // What tells of a write is no data, and an empty message has none.
            Op::SendQpExt(send) if send.flags.written || send.message_len == 0 => return None,
            Op::SendQpExt(send) => send.flags.pad,
            _ => 0,
        };
        if !begins || short || last > size || first.tal().num_ops != 1 {
            return None;
        }

        let (mut expected, others) = Words::read(start)?;
        let (mut eom, mut taken) = (first.tal().eom, 1u16);
        for header in each {
            // One has ended it, or had less data than its block.
            if eom || pad != 0 {
                return None;
            }
            expected = expected.next(step)?;
            let (words, rest) = Words::read(header)?;
            eom = words.differs_in_eom(&expected)?;
            pad = differ_in_pad(others, rest)?;
            taken = taken.checked_add(1)?;
        }
        if usize::from(taken) != count {
            return None;
        }
        Some(Self {
            first,
            count: taken,
            eom,
            op,
            data: Block {
                offset: len,
                len: data.checked_sub(pad.into())?,
            },
        })
    }

    /// Makes of the headers of a packet, which has `size` bytes of data and does not end its request or answer, those
    /// of the one after it, which does not either. `None`: such a packet is in no run.
    pub fn advance(headers: &mut [u8], size: usize) -> Option<()> {
        let (words, _) = Words::read(headers)?;
        let opcode = Opcode::from_u8(words.opcode())?;
        words.next(step(opcode, size)?)?.write(headers)
    }

    /// The first packet.
    pub const fn first(&self) -> &Packet<'a> {
        &self.first
    }

    /// How many packets they are, at least 1.
    pub const fn count(&self) -> u16 {
        self.count
    }

    /// The operation of the first packet.
    pub const fn op(&self) -> Op {
        self.op
    }

    /// All data, padding cut off, as if it were the first packet's.
    pub const fn data(&self) -> Block {
        self.data
    }

    /// The Transaction header of the first packet, with the end of the request or answer if the last one has it.
    pub fn tal(&self) -> TalHeader {
        TalHeader {
            eom: self.eom,
            ..*self.first.tal()
        }
    }
}

/// The headers of a packet with one operation up to what says the place of its data, as the numbers that they are in
/// memory: all that changes from packet to packet is changed by an addition.
#[derive(Clone, Copy)]
struct Words {
    pdl: u128,
    tal: u64,
    /// The address of a write; in its upper half the offset in a read; in its lower half that in a message.
    place: u64,
}

/// What an operation's header has in front of the place, bytes.
const fn front(opcode: u8) -> usize {
    match opcode == Opcode::SendQpExt as u8 {
        true => 8,
        false => 0,
    }
}

impl Words {
    /// The end of the request or answer, in `tal`.
    const EOM: u64 = 0x80;

    /// With what is in front of the place, or behind it.
    fn read(headers: &[u8]) -> Option<(Self, &[u8])> {
        let (pdl, rest) = headers.split_first_chunk()?;
        let (tal, rest) = rest.split_first_chunk()?;
        let mut words = Self {
            pdl: u128::from_le_bytes(*pdl),
            tal: u64::from_le_bytes(*tal),
            place: 0,
        };
        let (before, rest) = rest.split_at_checked(front(words.opcode()))?;
        let (place, behind) = rest.split_first_chunk()?;
        words.place = u64::from_le_bytes(*place);
        Some((words, if before.is_empty() { behind } else { before }))
    }

    /// Puts them where they are read.
    fn write(self, headers: &mut [u8]) -> Option<()> {
        let (pdl, rest) = headers.split_first_chunk_mut()?;
        let (tal, rest) = rest.split_first_chunk_mut()?;
        let (_, rest) = rest.split_at_mut_checked(front(self.opcode()))?;
        *rest.first_chunk_mut()? = self.place.to_le_bytes();
        (*pdl, *tal) = (self.pdl.to_le_bytes(), self.tal.to_le_bytes());
        Some(())
    }

    fn opcode(self) -> u8 {
        (self.tal >> 8) as u8
    }

    /// Those of the packet after it, whose data is `step` farther. `None` behind the last Seqno or place.
    fn next(self, step: u64) -> Option<Self> {
        let psn = ((self.pdl >> 32) as u32).wrapping_add(1);
        let seqno = ((self.tal >> 16) as u16).checked_add(1)?;
        let place = self.place.checked_add(step)?;
        // The length of a message is above the offset in it.
        if front(self.opcode()) > 0 && place >> 32 != self.place >> 32 {
            return None;
        }
        Some(Self {
            pdl: (self.pdl & !(0xffff_ffff << 32)) | (u128::from(psn) << 32),
            tal: (self.tal & !(0xffff << 16)) | (u64::from(seqno) << 16),
            place,
        })
    }

    /// Whether they end the request or answer, if all else is as expected of one that does not.
    fn differs_in_eom(self, expected: &Self) -> Option<bool> {
        let difference = self.tal ^ expected.tal;
        let same = self.pdl == expected.pdl && self.place == expected.place;
        (same && difference & !Self::EOM == 0).then_some(difference != 0)
    }
}

/// What is added to the place for each packet; `None` of what is in no run.
fn step(opcode: Opcode, size: usize) -> Option<u64> {
    match opcode {
        Opcode::Write | Opcode::WriteExt | Opcode::SendQpExt => size.try_into().ok(),
        Opcode::ReadResponse => Some(u64::from(u32::try_from(size).ok()?) << 32),
        _ => None,
    }
}

/// The pad in the header of an extended operation beside the place, if all else is as in that of the first packet,
/// which has none; the others have nothing there.
fn differ_in_pad(first: &[u8], other: &[u8]) -> Option<u8> {
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
