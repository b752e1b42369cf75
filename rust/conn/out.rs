// SPDX-License-Identifier: GPL-2.0

//! What leaves a connection: transmissions become packets, and packets bursts.

use kernel::{alloc::AllocError, cpu::CpuId, prelude::*};

use super::{active::Active, count, first_byte, flow, Conn, Inner};
use crate::{
    kapi::{
        errno::enobufs,
        skb::{Burst, SkBuff},
    },
    proto::{
        wire::{HEADERS_MAX, ONE_OP_MAX},
        Code, Connection, Payload, ReqOp, RequestPayload, Transmit,
    },
    qp::{work, Region, RegionCache},
    region,
    run::Run,
    slabs::Kernel,
};

/// Packets that leave at a go, at most.
const BURST_MAX: usize = 16;

/// A packet that was made.
struct BuiltPacket {
    transmit: Transmit,
    /// It is the last of so many that continue the one made before; 0: it is by itself.
    after: u16,
}

/// Packets on their way to the device: those of the burst that is being made, and those that the
/// device's queue had no room for [proto 3.21].
pub(super) struct TxQueue {
    /// What is in `packets` and `run`, in its order.
    burst: KVec<BuiltPacket>,
    /// How many packets that is.
    count: usize,
    packets: Burst,
    /// The last of the burst, while more can be added to it.
    run: Option<Run>,
    /// How many there may be.
    most: usize,
    /// Whether runs pay.
    whole: bool,
    /// The path that they take.
    way: usize,
    /// Packets that wait, in their order. Together with `burst` they are one more than `BURST_MAX` at
    /// most.
    waiting: KVec<Transmit>,
    /// When to try again, ns, and the pause until then.
    retry: u64,
    pause: u64,
    /// Since when there has been no room, ns; 0: there was.
    since: u64,
}

/// First and longest pause before packets are offered again, ns.
const RETRY_MIN: u64 = 20_000;
const RETRY_MAX: u64 = 1_000_000;
/// A queue that takes nothing for this long, ns, loses what it is given.
const DEFER_MAX: u64 = 1_000_000_000;

impl TxQueue {
    /// Nothing to send. Process context.
    pub(super) fn new() -> Result<Self, AllocError> {
        let room = BURST_MAX.saturating_add(1);
        Ok(Self {
            burst: KVec::with_capacity(BURST_MAX, GFP_KERNEL)?,
            count: 0,
            packets: Burst::new(),
            run: None,
            most: 1,
            whole: false,
            way: 0,
            waiting: KVec::with_capacity(room, GFP_KERNEL)?,
            retry: 0,
            pause: 0,
            since: 0,
        })
    }

    /// Forgets all packets.
    pub(super) fn clear(&mut self) {
        self.forget();
        self.waiting.clear();
        self.packets = Burst::new();
        self.run = None;
        self.since = 0;
    }

    /// The burst is sent, or nothing will come of it.
    fn forget(&mut self) {
        self.burst.clear();
        self.count = 0;
    }

    /// When packets that wait are due, if there are any.
    pub(super) fn due(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.retry)
    }

    /// Adds a packet to the burst, to which others can be added if its headers' length is known.
    fn push(&mut self, (skb, headers): Packet) {
        self.close_run();
        match headers {
            Some(headers) => self.run = Some(Run::new(skb, headers)),
            None => self.packets.push(skb),
        }
        self.count = self.count.saturating_add(1);
    }

    /// A packet, or the last of so many after it, is to be in the burst.
    fn note(&mut self, transmit: &Transmit, after: u16) {
        let transmit = *transmit;
        // There is room: a burst that is full is sent before.
        let _ = self
            .burst
            .push_within_capacity(BuiltPacket { transmit, after });
    }

    /// Nothing is added to the last packet any more.
    fn close_run(&mut self) {
        if let Some(run) = self.run.take() {
            self.packets.push(run.into_packet());
        }
    }

    /// How many packets more there may be in a run.
    fn room(&self) -> usize {
        match self.whole {
            true => self.most.saturating_sub(self.count),
            false => 1,
        }
    }

    /// There was no room for the burst. False: there has been none for too long, it is lost.
    fn defer(&mut self, now: u64) -> bool {
        if self.since == 0 {
            self.since = now;
            self.pause = RETRY_MIN;
        }
        if now.saturating_sub(self.since) > DEFER_MAX {
            return false;
        }
        while let Some(BuiltPacket { transmit, after }) = self.burst.pop() {
            let _ = self.waiting.insert_within_capacity(0, transmit);
            for n in (1..after).rev() {
                let Some(first) = self.burst.last() else {
                    break;
                };
                let between = first.transmit.nth(n, &transmit);
                let _ = self.waiting.insert_within_capacity(0, between);
            }
        }
        self.retry = now.saturating_add(self.pause);
        self.pause = self.pause.saturating_mul(2).min(RETRY_MAX);
        true
    }
}

impl Inner {
    /// The next packet to send, after the one that is in `transmit`: one that has waited, unless it is
    /// acknowledged by now. Whether there is one.
    fn next_packet(&mut self, now: u64, transmit: &mut Transmit) -> bool {
        while let Ok(packet) = self.out.waiting.remove(0) {
            if let Some(again) = self.proto.recheck(&packet) {
                *transmit = again;
                return true;
            }
        }
        self.proto.next_transmit(now, transmit)
    }
}

/// The first byte of its works that a packet of a request has.
fn first_of(request: &RequestPayload) -> u64 {
    first_byte(request.token).saturating_add(request.offset.into())
}

/// Whether what a packet has is placed as it comes, and goes on in the next one as a rule: then they can be a
/// run.
fn goes_on(transmit: &Transmit, mtu: u32) -> bool {
    transmit.tal.num_ops == 1
        && match &transmit.payload {
            Payload::Request(request) => {
                let placed = matches!(
                    request.op,
                    ReqOp::Write { .. } | ReqOp::WriteExt { .. } | ReqOp::SendQpExt { .. }
                );
                placed && !request.last
            }
            // Of several the first is long.
            Payload::Reply(reply) => reply.len > mtu / 2,
            _ => false,
        }
}

/// A packet, and the length of its headers if others can be added to it.
type Packet = (SkBuff, Option<usize>);

/// Why no packet came of a transmission.
enum BuildError {
    /// Try again later: the packet counts as lost.
    NoMemory,
    /// The region of a reply is gone or no longer allows it.
    Reply(Code),
}

impl Conn {
    /// Sends every packet that the core has.
    pub(super) fn transmit(&self, inner: &mut Inner, now: u64) -> bool {
        let mut progress = false;
        let mut near = RegionCache::new();
        let mut transmit = Transmit::default();
        // With the lock held, all of them leave by this CPU. CAST: Lanes are told apart by their low bits.
        inner.proto.set_lane(CpuId::current().as_u32() as u8);
        while inner.out.due().is_none_or(|due| due <= now) {
            if inner.out.count >= inner.out.most {
                self.flush(inner, now);
                continue;
            }
            if !inner.next_packet(now, &mut transmit) {
                if inner.out.burst.is_empty() {
                    break;
                }
                self.flush(inner, now);
                continue;
            }
            progress = true;
            let way = inner.paths.choose(&transmit, now);
            if inner.paths.path(way).is_none() {
                continue;
            }
            if inner.out.burst.is_empty() {
                self.begin(inner, way);
            } else if inner.out.way != way {
                // It comes next, unless those before it must wait.
                let _ = inner.out.waiting.insert_within_capacity(0, transmit);
                self.flush(inner, now);
                continue;
            }
            if let Some(packet) = self.packet(inner, way, &transmit, &mut near) {
                inner.out.note(&transmit, 0);
                inner.out.push(packet);
                self.follow(inner, now, &mut transmit, &mut near);
            }
        }
        progress
    }

    /// A burst begins.
    fn begin(&self, inner: &mut Inner, way: usize) {
        let (most, whole) = match inner.paths.path(way) {
            Some(path) if !self.identity.spray => path.burst(),
            // Each packet has its own entropy.
            _ => (1, false),
        };
        let out = &mut inner.out;
        out.way = way;
        out.most = BURST_MAX.min(most as usize);
        out.whole = whole && !self.identity.config.lite;
    }

    /// Adds to the packet that was added last, `transmit`, those that continue it, if they come next. `transmit` is
    /// then the last of them.
    fn follow(&self, inner: &mut Inner, now: u64, transmit: &mut Transmit, near: &mut RegionCache) {
        let out = &inner.out;
        let room = out.room();
        if out.run.is_none() || room == 0 || !out.waiting.is_empty() {
            return;
        }
        let (first, way) = (*transmit, out.way);
        // CAST: `BURST_MAX` at most.
        let count = inner.proto.follow(now, transmit, room as u16);
        let nth = |n: u16| match n == count {
            true => *transmit,
            false => first.nth(n, transmit),
        };
        if count > 0 {
            inner.out.note(transmit, count);
        }
        let mut at = 1;
        while at <= count {
            let next = nth(at);
            let left = count.saturating_sub(at).saturating_add(1);
            let added = self.extend(inner, &next, left, transmit, near);
            inner.out.count = inner.out.count.saturating_add(added.into());
            // The next one has no room there.
            if added == 0 {
                if let Some(packet) = self.packet(inner, way, &next, near) {
                    inner.out.push(packet);
                }
            }
            at = at.saturating_add(added.max(1));
        }
    }

    /// Adds packets to the one that was added last, which they continue: from `next` on to `last`, which are `count`,
    /// or less. How many were added.
    fn extend(
        &self,
        inner: &mut Inner,
        next: &Transmit,
        count: u16,
        last: &Transmit,
        near: &mut RegionCache,
    ) -> u16 {
        let Inner {
            out, proto, flows, ..
        } = inner;
        let Some(run) = &mut out.run else {
            return 0;
        };
        let mut headers = [0u8; ONE_OP_MAX];
        let len = proto.emit(last, &mut headers, |_| 0);
        let Some(headers) = len.and_then(|len| headers.get(..len)) else {
            return 0;
        };
        let end = (headers, last.data_len());
        match (&next.payload, &last.payload) {
            (Payload::Request(first), Payload::Request(last)) => {
                let Some(active) = flows.active((first.token >> 32) as u32) else {
                    return 0;
                };
                run.extend(count, end, |skb, len| {
                    let len = len.saturating_sub(last.pad.into());
                    active
                        .work
                        .attach(first_of(first), len, last.pad, false, skb)
                })
            }
            (Payload::Reply(first), Payload::Reply(last)) => {
                let Some(read) = proto.reply_reads(first).next() else {
                    return 0;
                };
                let others = first.len.saturating_mul(count.saturating_sub(1).into());
                let len = others.saturating_add(last.len);
                let Ok((region, offset)) = self.read_from(near, read.address, len) else {
                    return 0;
                };
                let added = run.extend(count, end, |skb, _| {
                    work::attach(region.pages(), offset, len as usize, false, skb)?;
                    skb.put_zero(last.pad.into())
                });
                region.count_read(match added == count {
                    true => len.into(),
                    false => u64::from(first.len).saturating_mul(added.into()),
                });
                added
            }
            _ => 0,
        }
    }

    /// Sends the burst.
    fn flush(&self, inner: &mut Inner, now: u64) {
        if self.identity.spray {
            // Golden ratio: any few in a row lie far apart. What is sent again takes another way.
            inner.sprayed = inner.sprayed.wrapping_add(0x9e37);
        }
        let out = &mut inner.out;
        out.close_run();
        let packets = core::mem::replace(&mut out.packets, Burst::new());
        let n = out.count as u64;
        match inner.paths.send(out.way, packets, n, inner.sprayed, now) {
            Ok(()) => out.since = 0,
            Err(e) if e == enobufs() && out.defer(now) => {}
            Err(_) => count(&mut inner.stats.tx_path_errors, n),
        }
        out.forget();
        if let Some(mtu) = inner.paths.narrowed() {
            inner.proto.set_mtu(mtu);
        }
    }

    /// The packet of a transmission; none if it counts as lost.
    fn packet(
        &self,
        inner: &mut Inner,
        way: usize,
        transmit: &Transmit,
        near: &mut RegionCache,
    ) -> Option<Packet> {
        let headroom = inner.paths.path(way)?.headroom();
        let room = match goes_on(transmit, self.identity.config.mtu) {
            true => inner.out.room(),
            false => 1,
        };
        let (proto, flows) = (&inner.proto, &mut inner.flows);
        match self.build(proto, flows, near, headroom, room, transmit) {
            Ok(packet) => Some(packet),
            Err(BuildError::NoMemory) => {
                count(&mut inner.stats.tx_no_memory, 1);
                None
            }
            Err(BuildError::Reply(code)) => {
                if let Payload::Reply(reply) = &transmit.payload {
                    inner.proto.refuse_reply(reply.xid, code);
                }
                let filler = transmit.without_payload();
                let (proto, flows) = (&inner.proto, &mut inner.flows);
                self.build(proto, flows, near, headroom, 1, &filler).ok()
            }
        }
    }

    /// One packet, from the PDL header on, with room for the headers of `room` at least; see
    /// [`Self::packet`].
    fn build(
        &self,
        proto: &Connection<Kernel>,
        flows: &mut flow::Flows,
        near: &mut RegionCache,
        headroom: usize,
        room: usize,
        transmit: &Transmit,
    ) -> Result<Packet, BuildError> {
        let mut active = None;
        let mut copied = true;
        let num_ops = transmit.tal.num_ops;
        match &transmit.payload {
            Payload::Request(request) => {
                active = flows
                    .active((request.token >> 32) as u32)
                    .map(|active| &*active);
                copied = active.is_none_or(|active| {
                    active
                        .work
                        .is_copied(num_ops, first_of(request), request.len)
                });
            }
            Payload::Reply(reply) => copied = work::are_copied(num_ops, reply.len),
            _ => {}
        }
        // Zeroing room for many operations costs more than writing one.
        let (mut one, mut many);
        let headers: &mut [u8] = match num_ops {
            0 | 1 => {
                one = [0u8; ONE_OP_MAX];
                &mut one
            }
            _ => {
                many = [0u8; HEADERS_MAX];
                &mut many
            }
        };
        let mut requests = active.map(Active::requests);
        let len = proto
            .emit(transmit, headers, |_| {
                let next = requests.as_mut().and_then(Iterator::next);
                next.map_or(0, |(work, number)| work.remote(number))
            })
            .ok_or(BuildError::NoMemory)?;
        let headers = headers.get(..len).ok_or(BuildError::NoMemory)?;
        let linear = match copied {
            true => len.saturating_add(transmit.data_len()),
            false => len.saturating_mul(room),
        };
        let mut skb = SkBuff::alloc(headroom, linear).ok_or(BuildError::NoMemory)?;
        let no_memory = |_| BuildError::NoMemory;
        skb.put(headers).map_err(no_memory)?;
        match &transmit.payload {
            Payload::None | Payload::Error(_) | Payload::AtomicResponse(_) => {}
            Payload::Request(request) if request.has_data => {
                let active = active.ok_or(BuildError::NoMemory)?;
                let first = first_of(request);
                for work in active.works() {
                    let len = request.len as usize;
                    work.attach(first, len, request.pad, copied, &mut skb)
                        .map_err(no_memory)?;
                }
            }
            Payload::Request(_) => {}
            Payload::Reply(reply) => {
                for read in proto.reply_reads(reply) {
                    self.attach_reply(near, read.address, reply.len, copied, &mut skb)?;
                    skb.put_zero(reply.pad.into()).map_err(no_memory)?;
                }
            }
        }
        Ok((skb, (room > 1 && !copied).then_some(len)))
    }

    /// Attaches bytes that the peer reads.
    fn attach_reply(
        &self,
        near: &mut RegionCache,
        address: u64,
        len: u32,
        copied: bool,
        skb: &mut SkBuff,
    ) -> Result<(), BuildError> {
        let (region, offset) = self.read_from(near, address, len)?;
        work::attach(region.pages(), offset, len as usize, copied, skb)
            .map_err(|_| BuildError::NoMemory)?;
        region.count_read(len.into());
        Ok(())
    }

    /// Where bytes are that the peer reads. The region is looked up when they leave: after its release none of its
    /// memory does any more.
    fn read_from<'a>(
        &self,
        near: &'a mut RegionCache,
        address: u64,
        len: u32,
    ) -> Result<(&'a Region, u64), BuildError> {
        let region = near
            .at(self.resources.regions(), address)
            .ok_or(BuildError::Reply(Code::ACCESS_KEY))?;
        let partition = self.identity.partition;
        let offset = region
            .remote_offset(address, len.into(), region::REMOTE_READ, partition)
            .map_err(BuildError::Reply)?;
        Ok((region, offset))
    }
}
