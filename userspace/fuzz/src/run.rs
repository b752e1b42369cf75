// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Packets that came as one, and a watch on what the core asks for while it takes them so.

use crate::layout::BAD;
use crate::memory::{Delivery, Memory};
use crate::request::Submitted;
use superp_proto::wire::{PdlHeader, TalHeader, HEADERS_MAX};
use superp_proto::{Atomic, Block, Code, Immediate, Owner, Packet, Run, Segment, SegmentExt};

/// Packets as the network joins them: the headers of all, and behind them the data of all.
pub(crate) struct Joined {
    headers: Vec<u8>,
    count: usize,
    /// Bytes of data of each but the last.
    size: usize,
    /// Bytes of data of all.
    data: usize,
}

impl Joined {
    /// `None`: they cannot be laid out so.
    pub(crate) fn new(packets: &[Vec<u8>]) -> Option<Self> {
        let len = Packet::headers_len(packets.first()?);
        let size = packets.first()?.len().checked_sub(len)?;
        let (last, full) = packets.split_last()?;
        if full.iter().any(|packet| packet.len() != len + size) {
            return None;
        }
        let mut headers = Vec::new();
        for packet in packets {
            headers.extend_from_slice(packet.get(..len)?);
        }
        Some(Self {
            headers,
            count: packets.len(),
            size,
            data: size * full.len() + (last.len() - len),
        })
    }

    /// What they are to the core. `None`: they do not continue one another.
    pub(crate) fn run(&self) -> Option<Run<'_>> {
        Run::parse(&self.headers, self.count, self.size, self.data)
    }

    /// With how many packets, at least 1, the longest run begins that begins with the first.
    pub(crate) fn count(packets: &[Vec<u8>]) -> usize {
        let is_run = |&count: &usize| {
            let joined = Self::new(&packets[..count]);
            joined.is_some_and(|joined| joined.run().is_some())
        };
        let longer = (2..=packets.len()).take_while(is_run);
        longer.last().unwrap_or(1)
    }
}

/// Checks that a packet may follow another in a run. Of their operations the owner has what is to be checked.
fn check_next(packet: &Packet<'_>, next: &Packet<'_>) {
    let (pdl, tal) = (*packet.pdl(), *packet.tal());
    assert!(!tal.eom && tal.num_ops == 1);
    let psn = pdl.psn.wrapping_add(1);
    assert_eq!(*next.pdl(), PdlHeader { psn, ..pdl });
    let (seqno, eom) = (tal.seqno + 1, next.tal().eom);
    assert_eq!(*next.tal(), TalHeader { seqno, eom, ..tal });
}

/// A memory while a run is delivered to it. The core must ask once for the data of all packets, and what it asks for
/// is cut into what each of them says by itself. A refusal leaves no trace: they are taken one by one then.
pub(crate) struct RunDelivery<'a> {
    memory: &'a mut Memory,
    submitted: &'a mut [Submitted],
    packets: Vec<(Packet<'a>, &'a [u8])>,
    /// Whether the data was taken, once the core has asked.
    placed: Option<bool>,
    /// Whether the request has completed or failed.
    ended: bool,
}

impl<'a> RunDelivery<'a> {
    pub(crate) fn new(
        memory: &'a mut Memory,
        submitted: &'a mut [Submitted],
        packets: &'a [Vec<u8>],
    ) -> Self {
        let each = packets.iter().map(|bytes| {
            let head = &bytes[..bytes.len().min(HEADERS_MAX)];
            let packet = Packet::parse(head, bytes.len());
            (packet.expect("one of a run"), &bytes[..])
        });
        let packets: Vec<_> = each.collect();
        for pair in packets.windows(2) {
            check_next(&pair[0].0, &pair[1].0);
        }
        Self {
            memory,
            submitted,
            packets,
            placed: None,
            ended: false,
        }
    }

    /// Whether nothing has come of the run.
    pub(crate) fn is_untouched(&self) -> bool {
        self.placed != Some(true) && !self.ended
    }

    /// Whether the data of all packets is where it belongs.
    pub(crate) fn is_placed(&self) -> bool {
        self.placed == Some(true)
    }

    /// The core asks for the data. Now and then an owner has no room for so much at once.
    fn ask(&mut self) -> Result<(), Code> {
        assert_eq!((self.placed, self.ended), (None, false), "asked again");
        self.placed = Some(false);
        match self.memory.refuses_runs {
            true => Err(Code::RESOURCES),
            false => Ok(()),
        }
    }

    /// Gives each packet its part of the data; `place` is told which packet, and how many bytes are before it.
    fn each(
        &mut self,
        data: Block,
        mut place: impl FnMut(&mut Delivery<'_>, u16, u32, Block) -> Result<(), Code>,
    ) {
        let (mut before, mut left) = (0, data.len);
        for (index, (packet, bytes)) in (0..).zip(&self.packets) {
            let block = Block {
                offset: data.offset,
                len: left.min(packet.block_len()),
            };
            assert!(block.len > 0, "no data of packet {index}");
            let mut delivery = Delivery::new(self.memory, self.submitted, packet, bytes, false);
            let placed = place(&mut delivery, index, before as u32, block);
            placed.expect("what each brings was allowed for all");
            before += block.len;
            left -= block.len;
        }
        assert_eq!(left, 0, "data behind the last packet");
        self.placed = Some(true);
    }

    /// The last packet, which may be the end of the request.
    fn last(&mut self) -> Delivery<'_> {
        let (packet, bytes) = self.packets.last().expect("some packets");
        Delivery::new(self.memory, self.submitted, packet, bytes, false)
    }
}

impl Owner for RunDelivery<'_> {
    fn write(&mut self, address: u64, data: Block) -> Result<(), Code> {
        self.ask()?;
        self.memory.writable(address, data.len)?;
        self.each(data, |delivery, _, before, block| {
            delivery.write(address + u64::from(before), block)
        });
        Ok(())
    }

    fn read(&mut self, _: u64, _: u32) -> Result<(), Code> {
        panic!("a read has no data");
    }

    fn atomic(&mut self, _: Atomic) -> Result<u64, Code> {
        panic!("an atomic is of one packet");
    }

    fn message_to_context(&mut self, _: u16, _: u32, _: u32, _: Block) -> Result<(), Code> {
        panic!("messages to receive contexts are in no run");
    }

    fn message_to_qp(&mut self, segment: Segment, data: Block) -> Result<(), Code> {
        self.ask()?;
        if segment.qp >= BAD {
            return Err(Code::NO_QUEUE_PAIR);
        }
        self.each(data, |delivery, index, before, block| {
            let ext = segment.ext.as_ref().map(|ext| SegmentExt {
                offset: ext.offset + before,
                ..*ext
            });
            let segment = Segment {
                seqno: segment.seqno + index,
                ext,
                ..segment
            };
            delivery.message_to_qp(segment, block)
        });
        Ok(())
    }

    fn immediate(&mut self, immediate: Immediate) -> Result<(), Code> {
        self.last().immediate(immediate)
    }

    fn complete(&mut self, xid: u16, opcode: u8) -> Result<(), Code> {
        assert!(self.is_placed());
        self.ended = true;
        self.last().complete(xid, opcode)
    }

    fn aborted(&mut self, xid: u16) {
        self.ended = true;
        self.last().aborted(xid);
    }

    fn reply(
        &mut self,
        xid: u16,
        token: u64,
        op: u32,
        offset: u32,
        data: Block,
    ) -> Result<(), Code> {
        self.ask()?;
        self.each(data, |delivery, _, before, block| {
            delivery.reply(xid, token, op, offset + before, block)
        });
        Ok(())
    }
}
