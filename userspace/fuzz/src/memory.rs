// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What an end's peer reaches, and a watch on what the core asks for.

use crate::layout::{BAD, BASE, READABLE, WRITABLE};
use crate::request::{data, Submitted};
use std::collections::{HashMap, HashSet};
use superp_proto::wire::{Op, Opcode, TalHeader, FIXED_LEN};
use superp_proto::{Atomic, Block, Code, Immediate, Owner, Packet, Segment, SegmentExt};

/// Operation of the peer: XID, Seqno, OpNum.
type Place = (u16, u16, u8);

/// A message, or the part of one, that a transaction brought.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) first: Segment,
    pub(crate) data: Vec<u8>,
}

/// Memory and queue pairs of one end.
pub(crate) struct Memory {
    bytes: Vec<u8>,
    /// How often each byte of the writable part was written.
    pub(crate) placed: Vec<u8>,
    /// Bytes that came for receive contexts: key and offset.
    pub(crate) contexts: HashMap<(u32, u32), u8>,
    parts: HashMap<u16, Vec<(Segment, Vec<u8>)>>,
    pub(crate) messages: Vec<Message>,
    pub(crate) immediates: Vec<Immediate>,
    pub(crate) atomics: u64,
    /// Operations that were carried out.
    done: HashSet<Place>,
    /// Reads that were allowed.
    granted: HashMap<Place, (u64, u32)>,
    completed: HashSet<u16>,
    pub(crate) aborted: HashSet<u16>,
    /// The data of several packets is not taken at once.
    pub(crate) refuses_runs: bool,
}

/// The byte at an address of memory that nobody wrote to.
fn pattern(address: u64) -> u8 {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Memory {
    pub(crate) fn new() -> Self {
        let mut bytes = vec![0; (READABLE + WRITABLE) as usize];
        for (address, byte) in (BASE..).zip(&mut bytes[..READABLE as usize]) {
            *byte = pattern(address);
        }
        Self {
            bytes,
            placed: vec![0; WRITABLE as usize],
            contexts: HashMap::new(),
            parts: HashMap::new(),
            messages: Vec::new(),
            immediates: Vec::new(),
            atomics: 0,
            done: HashSet::new(),
            granted: HashMap::new(),
            completed: HashSet::new(),
            aborted: HashSet::new(),
            refuses_runs: false,
        }
    }

    /// The bytes at an address, if they are there.
    pub(crate) fn get(&self, address: u64, len: usize) -> Result<&[u8], Code> {
        let start = address.checked_sub(BASE).ok_or(Code::ACCESS_KEY)? as usize;
        let end = start.checked_add(len).ok_or(Code::ACCESS_BOUNDS)?;
        self.bytes.get(start..end).ok_or(Code::ACCESS_BOUNDS)
    }

    /// Where in the writable part the bytes at an address are, if they may be written.
    pub(crate) fn writable(&self, address: u64, len: usize) -> Result<usize, Code> {
        self.get(address, len)?;
        let start = address.checked_sub(BASE + READABLE);
        Ok(start.ok_or(Code::ACCESS_PERMISSION)? as usize)
    }

    /// Whether a reply may read `len` bytes at `address` for this operation of the peer.
    pub(crate) fn check_grant(&self, place: Place, offset: u32, address: u64, len: u32) {
        let (start, allowed) = self.granted[&place];
        assert_eq!(address, start + u64::from(offset));
        assert!(offset.checked_add(len).expect("no wrap") <= allowed);
    }

    /// Pieces of messages that are not complete.
    pub(crate) fn unfinished(&self) -> usize {
        self.parts.len()
    }
}

/// A memory while a packet is delivered to it. The core must ask for what the packet says, one
/// operation after the other, and for no byte outside its block.
pub(crate) struct Delivery<'a> {
    pub(crate) memory: &'a mut Memory,
    pub(crate) submitted: &'a mut [Submitted],
    pub(crate) packet: &'a Packet<'a>,
    pub(crate) bytes: &'a [u8],
    /// The packet has no Packet Delivery header.
    lite: bool,
    next: usize,
}

impl<'a> Delivery<'a> {
    pub(crate) fn new(
        memory: &'a mut Memory,
        submitted: &'a mut [Submitted],
        packet: &'a Packet<'a>,
        bytes: &'a [u8],
        lite: bool,
    ) -> Self {
        Self {
            memory,
            submitted,
            packet,
            bytes,
            lite,
            next: 0,
        }
    }

    /// The next operation of the packet, which must not have been carried out before.
    fn op(&mut self) -> Op {
        let tal = self.packet.tal();
        // What tells of a write is not asked about before all packets have come.
        let ops = self.packet.ops().skip(self.next);
        let told = |op: &Op| matches!(op, Op::SendQpExt(op) if op.flags.written);
        self.next += ops.take_while(told).count();
        let place = (tal.xid, tal.seqno, self.next as u8);
        assert!(self.memory.done.insert(place), "{place:?} done twice");
        assert!(!self.memory.completed.contains(&tal.xid));
        assert!(!self.memory.aborted.contains(&tal.xid));
        self.next += 1;
        let op = self.packet.ops().nth(self.next - 1);
        op.expect("no more operations than the packet has")
    }

    /// The data of the operation that `op` gave last, without padding.
    fn data(&self, block: Block, pad: u8) -> &'a [u8] {
        let ops = usize::from(self.packet.tal().num_ops);
        let header = self.packet.opcode().map_or(0, |opcode| opcode.header_len());
        let fixed = match self.lite {
            true => TalHeader::LEN,
            false => FIXED_LEN,
        };
        let end = fixed + ops * header;
        let len = (self.bytes.len() - end) / ops;
        assert_eq!(block.offset, end + (self.next - 1) * len);
        assert!(block.len <= len - usize::from(pad));
        &self.bytes[block.offset..block.offset + block.len]
    }
}

impl Owner for Delivery<'_> {
    fn write(&mut self, address: u64, data: Block) -> Result<(), Code> {
        let (asked, pad) = match self.op() {
            Op::Write(op) => (op.address, 0),
            Op::WriteExt(op) => (op.address, op.flags.pad),
            op => panic!("{op:?} is no write"),
        };
        assert_eq!(address, asked);
        let source = self.data(data, pad);
        let start = self.memory.writable(address, source.len())?;
        let at = start + READABLE as usize;
        self.memory.bytes[at..at + source.len()].copy_from_slice(source);
        for count in &mut self.memory.placed[start..start + source.len()] {
            *count = count.saturating_add(1);
        }
        Ok(())
    }

    fn read(&mut self, address: u64, len: u32) -> Result<(), Code> {
        let Op::Read(op) = self.op() else {
            panic!("no read");
        };
        assert_eq!((address, len), (op.address, op.length));
        self.memory.get(address, len as usize)?;
        let tal = self.packet.tal();
        let place = (tal.xid, tal.seqno, self.next as u8 - 1);
        let before = self.memory.granted.insert(place, (address, len));
        assert!(before.is_none());
        Ok(())
    }

    fn atomic(&mut self, atomic: Atomic) -> Result<u64, Code> {
        let Op::Atomic(op) = self.op() else {
            panic!("no atomic");
        };
        assert_eq!(
            (
                atomic.address,
                atomic.kind as u8,
                atomic.operand,
                atomic.compare
            ),
            (op.address, op.kind, op.operand, op.compare)
        );
        assert_eq!(atomic.address % 8, 0);
        let start = self.memory.writable(atomic.address, 8)?;
        let bytes = &mut self.memory.bytes[start + READABLE as usize..][..8];
        let original = u64::from_le_bytes((&*bytes).try_into().expect("8 bytes"));
        let value = atomic.kind.apply(original, atomic.operand, atomic.compare);
        bytes.copy_from_slice(&value.to_le_bytes());
        self.memory.atomics += 1;
        Ok(original)
    }

    fn message_to_context(
        &mut self,
        _xid: u16,
        key: u32,
        offset: u32,
        data: Block,
    ) -> Result<(), Code> {
        let Op::Send(op) = self.op() else {
            panic!("no send");
        };
        assert_eq!((key, offset), (op.key, op.offset));
        let source = self.data(data, 0);
        if key >= BAD {
            return Err(Code::ACCESS_KEY);
        }
        for (at, &byte) in (u64::from(offset)..).zip(source) {
            let at = u32::try_from(at).map_err(|_| Code::ACCESS_BOUNDS)?;
            let before = self.memory.contexts.insert((key, at), byte);
            // Peers of this program send each byte once; hostile ones do as they like.
            assert!(before.is_none() || key < 0x1000);
        }
        Ok(())
    }

    fn message_to_qp(&mut self, segment: Segment, data: Block) -> Result<(), Code> {
        let tal = self.packet.tal();
        let (qp, pad) = match self.op() {
            Op::SendQp(op) => {
                assert!(segment.ext.is_none());
                (op.qp, 0)
            }
            Op::SendQpExt(op) => {
                let ext = segment.ext.expect("a place in the message");
                assert_eq!((ext.offset, ext.message_len), (op.offset, op.message_len));
                assert!(ext.offset as usize + data.len <= ext.message_len as usize);
                (op.qp, op.flags.pad)
            }
            op => panic!("{op:?} is no message"),
        };
        let opnum = self.next as u8 - 1;
        assert_eq!(
            (segment.xid, segment.seqno, segment.opnum, segment.qp),
            (tal.xid, tal.seqno, opnum, qp)
        );
        let alone = (tal.seqno, tal.eom, tal.num_ops) == (0, true, 1);
        let all = |ext: SegmentExt| (ext.offset, ext.message_len as usize) == (0, data.len);
        assert_eq!(segment.whole, alone && segment.ext.is_none_or(all));
        // An empty message has a block of 16 bytes, 15 of which the flags can call padding.
        let source = match data.len {
            0 => &[],
            _ => self.data(data, pad),
        };
        if qp >= BAD {
            return Err(Code::NO_QUEUE_PAIR);
        }
        let parts = self.memory.parts.entry(tal.xid).or_default();
        parts.push((segment, source.to_vec()));
        Ok(())
    }

    fn immediate(&mut self, immediate: Immediate) -> Result<(), Code> {
        assert_eq!(immediate.xid, self.packet.tal().xid);
        assert!(!immediate.start || self.packet.opcode() == Some(Opcode::SendQpExt));
        if immediate.qp >= BAD {
            return Err(Code::NO_QUEUE_PAIR);
        }
        self.memory.immediates.push(immediate);
        Ok(())
    }

    fn complete(&mut self, xid: u16, opcode: u8) -> Result<(), Code> {
        let tal = self.packet.tal();
        assert_eq!((xid, opcode), (tal.xid, tal.opcode));
        assert!(self.memory.completed.insert(xid), "{xid} completed twice");
        let Some(mut parts) = self.memory.parts.remove(&xid) else {
            return Ok(());
        };
        parts.sort_by_key(|(segment, _)| (segment.seqno, segment.opnum));
        let first = parts[0].0;
        assert!(!first.whole || parts.len() == 1);
        let data = parts.into_iter().flat_map(|(_, data)| data).collect();
        self.memory.messages.push(Message { first, data });
        Ok(())
    }

    fn aborted(&mut self, xid: u16) {
        assert!(!self.memory.completed.contains(&xid));
        assert!(self.memory.aborted.insert(xid), "{xid} aborted twice");
        self.memory.parts.remove(&xid);
    }

    fn reply(
        &mut self,
        xid: u16,
        token: u64,
        op: u32,
        offset: u32,
        block: Block,
    ) -> Result<(), Code> {
        let index = self.next;
        self.next += 1;
        let Some(Op::ReadResponse(header)) = self.packet.ops().nth(index) else {
            panic!("no read response");
        };
        assert_eq!(header.offset, offset);
        let source = self.data(block, 0);
        let submitted = &mut self.submitted[token as usize];
        assert_eq!((submitted.xid, submitted.result), (xid, None));
        let request = &submitted.request;
        assert!(op < request.count.into());
        assert!(u64::from(offset) + source.len() as u64 <= request.len.into());
        let start = data(request, op, offset);
        for (count, &byte) in submitted.came[start..].iter_mut().zip(source) {
            count.0 = count.0.saturating_add(1);
            count.1 = byte;
        }
        Ok(())
    }
}
