// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Calls everything that the owner of a connection can call. Compiled, never run; see ../no_panic.rs.

#![no_std]

extern crate alloc;

#[path = "../../../../rust/proto/mod.rs"]
pub mod proto;

use proto::wire::{Op, Prefix, Sunh, UdpIp};
use proto::*;

pub struct Heap;

impl Slabs for Heap {
    type Slab<T> = alloc::vec::Vec<T>;

    fn slab<T: Clone + Default>(n: usize) -> Option<Self::Slab<T>> {
        Some(alloc::vec![T::default(); n])
    }
}

type Subject = Connection<Heap>;

/// What an owner answers is as unknown to the compiler as these functions.
pub trait Answer {
    fn answer(&mut self, a: u64, b: u64, data: Block) -> Result<(), Code>;
}

pub struct Target<'a>(&'a mut dyn Answer);

impl Owner for Target<'_> {
    fn write(&mut self, address: u64, data: Block) -> Result<(), Code> {
        self.0.answer(address, 0, data)
    }

    fn read(&mut self, address: u64, len: u32) -> Result<(), Code> {
        self.0.answer(address, len.into(), Block::default())
    }

    fn atomic(&mut self, atomic: Atomic) -> Result<u64, Code> {
        let Atomic {
            address,
            kind,
            operand,
            compare,
        } = atomic;
        self.0.answer(address, operand, Block::default())?;
        Ok(kind.apply(address, operand, compare))
    }

    fn message_to_context(
        &mut self,
        _xid: u16,
        key: u32,
        offset: u32,
        data: Block,
    ) -> Result<(), Code> {
        self.0.answer(key.into(), offset.into(), data)
    }

    fn message_to_qp(&mut self, segment: Segment, data: Block) -> Result<(), Code> {
        let message_len = segment.ext.map_or(0, |ext| ext.message_len);
        self.0.answer(segment.qp.into(), message_len.into(), data)
    }

    fn immediate(&mut self, immediate: Immediate) -> Result<(), Code> {
        let Immediate { qp, imm, .. } = immediate;
        self.0.answer(qp.into(), imm.into(), Block::default())
    }

    fn complete(&mut self, xid: u16, opcode: u8) -> Result<(), Code> {
        self.0.answer(xid.into(), opcode.into(), Block::default())
    }

    fn aborted(&mut self, xid: u16) {
        let _ = self.0.answer(xid.into(), 0, Block::default());
    }

    fn reply(
        &mut self,
        _xid: u16,
        token: u64,
        op: u32,
        offset: u32,
        data: Block,
    ) -> Result<(), Code> {
        self.0.answer(token, u64::from(op ^ offset), data)
    }
}

#[inline(never)]
pub fn new(config: &Config, now: u64) -> Result<Subject, NewError> {
    #[cfg(control)]
    assert!(now > 0);
    Subject::new(config, now)
}

#[inline(never)]
pub fn param(config: &mut Config, index: usize, value: u64) -> Option<u64> {
    config.set_param(index, value);
    config.validate().ok()?;
    config.param(index)
}

#[inline(never)]
pub fn submit(conn: &mut Subject, now: u64, request: Request) -> Result<u16, SubmitError> {
    conn.submit(now, request)
}

#[inline(never)]
pub fn receive(
    conn: &mut Subject,
    now: u64,
    bytes: &[u8],
    len: usize,
    answer: &mut dyn Answer,
) -> Option<Received> {
    let head = bytes.get(..Packet::headers_len(bytes))?;
    let packet = Packet::parse(head, len).ok()?;
    Some(conn.receive(now, &packet, &mut Target(answer)))
}

#[inline(never)]
pub fn receive_run(
    conn: &mut Subject,
    now: u64,
    headers: &[u8],
    (count, size, data): (usize, usize, usize),
    answer: &mut dyn Answer,
) -> Option<Received> {
    let run = Run::parse(headers, count, size, data)?;
    conn.receive_run(now, &run, &mut Target(answer))
}

#[inline(never)]
pub fn advance(headers: &mut [u8], size: usize) -> Option<()> {
    Run::advance(headers, size)
}

#[inline(never)]
pub fn receive_lite(
    conn: &mut Subject,
    now: u64,
    bytes: &[u8],
    len: usize,
    answer: &mut dyn Answer,
) -> Option<Received> {
    let head = bytes.get(..Packet::headers_len_lite(bytes))?;
    let packet = Packet::parse_lite(head, len).ok()?;
    Some(conn.receive(now, &packet, &mut Target(answer)))
}

#[inline(never)]
pub fn release(
    conn: &mut Subject,
    now: u64,
    packet: &Packet<'_>,
    answer: &mut dyn Answer,
) -> Option<(usize, Received)> {
    let slot = conn.next_release()?;
    Some((slot, conn.release(now, packet, &mut Target(answer))))
}

#[inline(never)]
pub fn poll_transmit(
    conn: &mut Subject,
    now: u64,
    out: &mut [u8],
    address: &mut dyn FnMut(u32) -> u64,
) -> Option<usize> {
    conn.set_lane(now as u8);
    let mut transmit = conn.poll_transmit(now)?;
    conn.next_transmit(now, &mut transmit);
    let first = transmit;
    let more = conn.follow(now, &mut transmit, now as u16);
    let transmit = first.nth(more, &transmit);
    let filler = conn.emit(&transmit.without_payload(), out, |_| 0)?;
    let len = conn.emit(&transmit, out, address)?;
    let reads = match &transmit.payload {
        Payload::Reply(reply) => conn.reply_reads(reply).count(),
        _ => 0,
    };
    let sum = len.checked_add(filler)?.checked_add(reads)?;
    sum.checked_add(transmit.data_len())
}

#[inline(never)]
pub fn poll_event(conn: &mut Subject) -> Option<Event> {
    conn.poll_event()
}

#[inline(never)]
pub fn expire(conn: &mut Subject, now: u64) -> Option<u64> {
    conn.expire(now);
    conn.deadline()
}

#[inline(never)]
pub fn control(
    conn: &mut Subject,
    now: u64,
    limit: u32,
    xid: u16,
    code: Code,
    barrier: Barrier,
) -> (State, bool) {
    conn.refuse_reply(xid, code);
    conn.barrier(barrier);
    conn.set_receive_limit(now, limit);
    conn.stop();
    (conn.state(), conn.idle())
}

#[inline(never)]
pub fn budget(budget: &mut ReceiveBudget, now: u64, activity: &mut Activity) -> u32 {
    let joined = budget.join();
    budget.received(now, activity);
    budget.leave(joined);
    budget.share(now, *activity)
}

#[inline(never)]
pub fn new_budget(packets: u32, partition: Partition, period_ns: u64) -> ReceiveBudget {
    ReceiveBudget::new(packets, partition, period_ns)
}

#[inline(never)]
pub fn sizes(conn: &Subject, op: &ReqOp) -> (u64, usize, usize, u32, u32, Stats) {
    (
        conn.max_request_len(op),
        conn.xid_slots(),
        conn.psn_slots(),
        conn.inflight_packets(),
        conn.inflight_transactions(),
        conn.stats(),
    )
}

#[inline(never)]
pub fn blocks(packet: &Packet<'_>, index: usize) -> (Option<Block>, usize, Option<Op>) {
    (packet.block(index), packet.block_len(), packet.ops().last())
}

#[inline(never)]
pub fn sunh(bytes: &[u8; Sunh::LEN]) -> Option<[u8; Sunh::LEN]> {
    Some(Sunh::parse(bytes).forwarded()?.bytes())
}

#[inline(never)]
pub fn gateway(base: [u8; 16], bits: u32, sunh: &Sunh, udp: &UdpIp) -> Option<(UdpIp, Sunh)> {
    let prefix = Prefix::new(base, bits)?;
    Some((
        sunh.to_udp_ip(&prefix)?,
        Sunh::from_udp_ip(udp, &prefix, sunh.next_header)?,
    ))
}

#[inline(never)]
pub fn names(code: Code, reason: DropReason, name: &str) -> (&'static str, &'static str, bool) {
    (code.name(), reason.name(), Param::find(name).is_some())
}
