// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Memory, receive contexts and queue pairs that one end offers to its peer, and what its own reads
//! bring. Everything counts how often each byte was placed.

use crate::invariant::{Check, Invariant};
use crate::sabotage::Sabotage;
use std::collections::BTreeMap;
use superp_proto::{Atomic, Block, Code, Immediate, Owner, Segment};

/// First address of the region.
pub(crate) const BASE: u64 = 0x1234_0000_0000;
/// An address of no region.
pub(crate) const NOWHERE: u64 = 0x10_0000;
/// An address far beyond the region.
pub(crate) const BEYOND: u64 = BASE + (1 << 40);
/// A key of no receive context.
pub(crate) const BAD_KEY: u32 = 0xbad;
/// A queue pair that does not exist.
pub(crate) const BAD_QP: u32 = 0xbad;

/// The byte at an address that nobody wrote to.
pub(crate) fn untouched(address: u64) -> u8 {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Bytes, and how often each was placed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) times: Vec<u8>,
}

impl Placed {
    /// `len` bytes that have not come.
    pub(crate) fn new(len: usize) -> Self {
        Self {
            bytes: vec![0; len],
            times: vec![0; len],
        }
    }

    fn put(&mut self, at: usize, data: &[u8]) -> Option<()> {
        let range = at..at.checked_add(data.len())?;
        self.bytes.get_mut(range.clone())?.copy_from_slice(data);
        for times in self.times.get_mut(range)? {
            *times = times.saturating_add(1);
        }
        Some(())
    }

    /// Whether every byte came once and is as expected; else what is wrong with which.
    pub(crate) fn check(&self, expected: &[u8]) -> Check {
        if let Some(at) = self.times.iter().position(|&times| times != 1) {
            let text = format!("byte {at} placed {} times", self.times[at]);
            return Err((Invariant::ExactlyOnce, text));
        }
        if self.bytes != expected {
            let pairs = self.bytes.iter().zip(expected);
            let at = pairs.take_while(|(a, b)| a == b).count();
            return Err((Invariant::Memory, format!("byte {at} differs")));
        }
        Ok(())
    }
}

/// A message to a queue pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) data: Vec<u8>,
    pub(crate) imm: Option<u32>,
    /// How often it came.
    pub(crate) times: u32,
}

/// What one end offers and receives.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    region: Placed,
    /// Receive contexts by key.
    pub(crate) contexts: BTreeMap<u32, Placed>,
    /// Messages by queue pair: each request has its own.
    pub(crate) messages: BTreeMap<u32, Message>,
    /// Immediates of writes by queue pair: value, bytes, how often.
    pub(crate) immediates: BTreeMap<u32, (u32, u32, u32)>,
    /// Data of own reads by token, and the length of each of their operations.
    pub(crate) reads: BTreeMap<u64, (Placed, u32)>,
    pieces: BTreeMap<u16, Vec<(Segment, Vec<u8>)>>,
    /// The last transaction of the peer that was completed, for the order.
    pub(crate) last_complete: Option<u16>,
    /// A transaction was completed below an earlier one.
    pub(crate) out_of_order: Option<u16>,
    pub(crate) sabotage: Sabotage,
    deliveries: u64,
}

impl Memory {
    /// Adds `len` bytes to the region and returns their address.
    pub(crate) fn grow(&mut self, len: usize) -> u64 {
        let start = BASE + self.region.bytes.len() as u64;
        let bytes = (start..start + len as u64).map(untouched);
        self.region.bytes.extend(bytes);
        self.region.times.resize(self.region.bytes.len(), 0);
        start
    }

    /// The `len` bytes at an address and how often each was placed; `None` outside the region.
    pub(crate) fn at(&self, address: u64, len: usize) -> Option<(&[u8], &[u8])> {
        let start = address.checked_sub(BASE)? as usize;
        let range = start..start.checked_add(len)?;
        let Placed { bytes, times } = &self.region;
        Some((bytes.get(range.clone())?, times.get(range)?))
    }

    /// Makes `len` bytes at an address as good as new.
    pub(crate) fn renew(&mut self, address: u64, len: usize) {
        let start = (address - BASE) as usize;
        self.region.times[start..start + len].fill(0);
    }

    /// Bytes of the region, and the sum of how often each was placed.
    pub(crate) fn totals(&self) -> (usize, u64) {
        let times = self.region.times.iter().map(|&times| u64::from(times));
        (self.region.bytes.len(), times.sum())
    }

    /// Messages of which not everything has come.
    pub(crate) fn unfinished(&self) -> usize {
        self.pieces.len()
    }

    /// Forgets of the peer's transactions what is not complete, and their order.
    pub(crate) fn forget_unfinished(&mut self) {
        self.pieces.clear();
        self.last_complete = None;
    }

    fn range(&self, address: u64, len: usize) -> Result<usize, Code> {
        let start = address.checked_sub(BASE).ok_or(Code::ACCESS_KEY)?;
        let end = start.checked_add(len as u64).ok_or(Code::ACCESS_BOUNDS)?;
        if end > self.region.bytes.len() as u64 {
            return Err(Code::ACCESS_BOUNDS);
        }
        Ok(start as usize)
    }
}

/// A memory while a packet is delivered to it.
pub(crate) struct Delivery<'a> {
    pub(crate) memory: &'a mut Memory,
    pub(crate) packet: &'a [u8],
}

impl Delivery<'_> {
    fn data(&self, block: Block) -> &[u8] {
        &self.packet[block.offset..block.offset + block.len]
    }

    /// Places data as [`Sabotage`] has it, normally once.
    fn place(&mut self, data: &[u8], mut put: impl FnMut(&mut Memory, &[u8]) -> Option<()>) {
        self.memory.deliveries += 1;
        let every_fifth = self.memory.deliveries % 5 == 0;
        let done = match self.memory.sabotage {
            Sabotage::DropDelivery if every_fifth => Some(()),
            Sabotage::RepeatDelivery if every_fifth => {
                put(self.memory, data).and_then(|()| put(self.memory, data))
            }
            Sabotage::DamageDelivery if every_fifth && !data.is_empty() => {
                let mut data = data.to_vec();
                data[0] ^= 1;
                put(self.memory, &data)
            }
            _ => put(self.memory, data),
        };
        assert!(done.is_some(), "data outside of what was checked");
    }
}

impl Owner for Delivery<'_> {
    fn write(&mut self, address: u64, data: Block) -> Result<(), Code> {
        let at = self.memory.range(address, data.len)?;
        let data = self.data(data).to_vec();
        self.place(&data, |memory, data| memory.region.put(at, data));
        Ok(())
    }

    fn read(&mut self, address: u64, len: u32) -> Result<(), Code> {
        self.memory.range(address, len as usize).map(|_| ())
    }

    fn atomic(&mut self, atomic: Atomic) -> Result<u64, Code> {
        let at = self.memory.range(atomic.address, 8)?;
        let bytes = &self.memory.region.bytes[at..at + 8];
        let original = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        let Atomic {
            kind,
            operand,
            compare,
            ..
        } = atomic;
        let value = kind.apply(original, operand, compare).to_le_bytes();
        self.place(&value, |memory, data| memory.region.put(at, data));
        Ok(original)
    }

    fn message_to_context(
        &mut self,
        _xid: u16,
        key: u32,
        offset: u32,
        data: Block,
    ) -> Result<(), Code> {
        let len = self.memory.contexts.get(&key).map(|c| c.bytes.len());
        let len = len.ok_or(Code::ACCESS_KEY)?;
        let end = (offset as usize).checked_add(data.len);
        if end.is_none_or(|end| end > len) {
            return Err(Code::ACCESS_BOUNDS);
        }
        let data = self.data(data).to_vec();
        self.place(&data, |memory, data| {
            let context = memory.contexts.get_mut(&key)?;
            context.put(offset as usize, data)
        });
        Ok(())
    }

    fn message_to_qp(&mut self, segment: Segment, data: Block) -> Result<(), Code> {
        if segment.qp == BAD_QP {
            return Err(Code::NO_QUEUE_PAIR);
        }
        let data = self.data(data).to_vec();
        self.place(&data, |memory, data| {
            let pieces = memory.pieces.entry(segment.xid).or_default();
            pieces.push((segment, data.to_vec()));
            Some(())
        });
        Ok(())
    }

    fn immediate(&mut self, immediate: Immediate) -> Result<(), Code> {
        let Immediate { qp, imm, len, .. } = immediate;
        if qp == BAD_QP {
            return Err(Code::NO_QUEUE_PAIR);
        }
        let entry = self.memory.immediates.entry(qp).or_default();
        *entry = (imm, len, entry.2 + 1);
        Ok(())
    }

    fn complete(&mut self, xid: u16, _opcode: u8) -> Result<(), Code> {
        let memory = &mut *self.memory;
        let after = |last: u16| (xid.wrapping_sub(last) as i16) > 0;
        if !memory.last_complete.is_none_or(after) {
            memory.out_of_order = Some(xid);
        }
        memory.last_complete = Some(xid);
        let Some(mut pieces) = memory.pieces.remove(&xid) else {
            return Ok(());
        };
        pieces.sort_by_key(|(segment, _)| (segment.seqno, segment.opnum));
        let first = pieces[0].0;
        let mut data = Vec::new();
        for (segment, piece) in &pieces {
            if segment
                .ext
                .is_some_and(|ext| ext.offset as usize != data.len())
            {
                return Err(Code::MALFORMED_LENGTH);
            }
            data.extend_from_slice(piece);
        }
        let before = memory.messages.get(&first.qp).map_or(0, |m| m.times);
        let message = Message {
            data,
            imm: first.ext.and_then(|ext| ext.imm),
            times: before + 1,
        };
        memory.messages.insert(first.qp, message);
        Ok(())
    }

    fn aborted(&mut self, xid: u16) {
        self.memory.pieces.remove(&xid);
    }

    fn reply(
        &mut self,
        _xid: u16,
        token: u64,
        op: u32,
        offset: u32,
        data: Block,
    ) -> Result<(), Code> {
        let data = self.data(data).to_vec();
        self.place(&data, |memory, data| {
            let (buffer, len) = memory.reads.get_mut(&token)?;
            buffer.put(*len as usize * op as usize + offset as usize, data)
        });
        Ok(())
    }
}
