// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Memory, receive contexts and queue pairs of one end.

use std::collections::HashMap;
use superp_proto::wire::Opcode;
use superp_proto::{Atomic, AtomicKind, Block, Code, Immediate, Owner, Segment};

/// First address of the memory that may be written and read.
pub(crate) const BASE: u64 = 0x1234_0000_0000;
/// Bytes of memory from there on.
pub(crate) const MEMORY: u64 = 1 << 20;
/// A key of a receive context that does not exist.
pub(crate) const BAD_KEY: u32 = 0xbad;
/// A queue pair that does not exist.
pub(crate) const BAD_QP: u32 = 0xbad;
/// Queue pairs from here on have no receive buffers.
pub(crate) const DRY_QP: u32 = 0x80_0000;

/// A message or a part of it that a transaction brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) qp: u32,
    pub(crate) data: Vec<u8>,
    /// Offset in the message and its length, for segmented ones.
    pub(crate) part: Option<(u32, u32)>,
    pub(crate) imm: Option<u32>,
}

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) bytes: Vec<u8>,
    /// How often each byte was placed.
    pub(crate) placed: Vec<u8>,
    /// Receive contexts: every key but `BAD_KEY`, made when first used.
    pub(crate) contexts: HashMap<u32, Vec<u8>>,
    pub(crate) context_bytes: u64,
    partial: HashMap<u16, Vec<(Segment, Vec<u8>)>>,
    pub(crate) messages: Vec<Message>,
    /// Bytes of those that were said to be whole when their packet came.
    pub(crate) whole: Vec<usize>,
    pub(crate) immediates: Vec<Immediate>,
    /// Atomics carried out, with the value that each found.
    pub(crate) atomics: Vec<(Atomic, u64)>,
    /// XIDs in the order of their completion.
    pub(crate) completed: Vec<u16>,
    pub(crate) aborted: Vec<u16>,
    /// Data of own reads by token: expected length, and what has come.
    pub(crate) reads: HashMap<u64, Vec<Option<u8>>>,
    pub(crate) read_len: HashMap<u64, u32>,
    /// Some byte of a read came twice.
    pub(crate) read_twice: bool,
}

/// The byte at an address of memory that nobody wrote to.
pub(crate) fn pattern(address: u64) -> u8 {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Memory {
    pub(crate) fn new(size: usize) -> Self {
        Self {
            bytes: (0..size as u64).map(|i| pattern(BASE + i)).collect(),
            placed: vec![0; size],
            ..Self::default()
        }
    }

    pub(crate) fn range(&self, address: u64, len: usize) -> Result<std::ops::Range<usize>, Code> {
        let start = address.checked_sub(BASE).ok_or(Code::ACCESS_KEY)?;
        let end = start.checked_add(len as u64).ok_or(Code::ACCESS_BOUNDS)?;
        if end > self.bytes.len() as u64 {
            return Err(Code::ACCESS_BOUNDS);
        }
        Ok(start as usize..end as usize)
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
}

impl Owner for Delivery<'_> {
    fn write(&mut self, address: u64, data: Block) -> Result<(), Code> {
        let range = self.memory.range(address, data.len)?;
        let source = self.data(data).to_vec();
        self.memory.bytes[range.clone()].copy_from_slice(&source);
        for count in &mut self.memory.placed[range] {
            *count = count.saturating_add(1);
        }
        Ok(())
    }

    fn read(&mut self, address: u64, len: u32) -> Result<(), Code> {
        self.memory.range(address, len as usize).map(|_| ())
    }

    fn atomic(&mut self, atomic: Atomic) -> Result<u64, Code> {
        let range = self.memory.range(atomic.address, 8)?;
        let bytes = &mut self.memory.bytes[range];
        let original = u64::from_le_bytes((&*bytes).try_into().unwrap());
        let value = match atomic.kind {
            AtomicKind::FetchAdd => original.wrapping_add(atomic.operand),
            AtomicKind::CompareSwap if original == atomic.compare => atomic.operand,
            AtomicKind::CompareSwap => original,
            AtomicKind::Swap => atomic.operand,
        };
        bytes.copy_from_slice(&value.to_le_bytes());
        self.memory.atomics.push((atomic, original));
        Ok(original)
    }

    fn message_to_context(
        &mut self,
        _xid: u16,
        key: u32,
        offset: u32,
        data: Block,
    ) -> Result<(), Code> {
        if key == BAD_KEY {
            return Err(Code::ACCESS_KEY);
        }
        let end = offset as usize + data.len;
        if end > MEMORY as usize {
            return Err(Code::ACCESS_BOUNDS);
        }
        let source = self.data(data).to_vec();
        let context = self.memory.contexts.entry(key).or_default();
        if context.len() < end {
            context.resize(end, 0);
        }
        context[offset as usize..end].copy_from_slice(&source);
        self.memory.context_bytes += source.len() as u64;
        Ok(())
    }

    fn message_to_qp(&mut self, segment: Segment, data: Block) -> Result<(), Code> {
        if segment.qp == BAD_QP {
            return Err(Code::NO_QUEUE_PAIR);
        }
        let data = self.data(data).to_vec();
        if segment.whole {
            self.memory.whole.push(data.len());
        }
        let parts = self.memory.partial.entry(segment.xid).or_default();
        parts.push((segment, data));
        Ok(())
    }

    fn immediate(&mut self, immediate: Immediate) -> Result<(), Code> {
        if immediate.qp >= DRY_QP {
            return Err(Code::NO_RECEIVE_BUFFER);
        }
        self.memory.immediates.push(immediate);
        Ok(())
    }

    fn complete(&mut self, xid: u16, opcode: u8) -> Result<(), Code> {
        assert!(Opcode::from_u8(opcode).is_some_and(Opcode::has_data));
        if let Some(mut parts) = self.memory.partial.remove(&xid) {
            parts.sort_by_key(|(segment, _)| (segment.seqno, segment.opnum));
            let first = parts[0].0;
            if first.qp >= DRY_QP {
                return Err(Code::NO_RECEIVE_BUFFER);
            }
            let mut data = Vec::new();
            for (segment, piece) in &parts {
                if let (Some(ext), Some(start)) = (segment.ext, first.ext) {
                    if ext.offset as usize != start.offset as usize + data.len() {
                        return Err(Code::MALFORMED_LENGTH);
                    }
                }
                data.extend_from_slice(piece);
            }
            self.memory.messages.push(Message {
                qp: first.qp,
                data,
                part: first.ext.map(|ext| (ext.offset, ext.message_len)),
                imm: first.ext.and_then(|ext| ext.imm),
            });
        }
        self.memory.completed.push(xid);
        Ok(())
    }

    fn aborted(&mut self, xid: u16) {
        self.memory.partial.remove(&xid);
        self.memory.aborted.push(xid);
    }

    fn reply(
        &mut self,
        _xid: u16,
        token: u64,
        op: u32,
        offset: u32,
        data: Block,
    ) -> Result<(), Code> {
        let source = self.data(data).to_vec();
        let start = (op * self.memory.read_len[&token] + offset) as usize;
        let buffer = self.memory.reads.get_mut(&token).expect("a read of ours");
        for (slot, byte) in buffer[start..start + source.len()].iter_mut().zip(source) {
            self.memory.read_twice |= slot.is_some();
            *slot = Some(byte);
        }
        Ok(())
    }
}
