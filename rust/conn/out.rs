// SPDX-License-Identifier: GPL-2.0

//! The transmit side of a connection: transmissions become packets, and packets become bursts.

use kernel::{alloc::AllocError, cpu::CpuId, prelude::*};

use super::{active::Active, count, flow, token_offset, Conn, Inner};
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

/// Most packets of a burst.
const BURST_MAX: usize = 16;

/// An entry of the burst: one packet, or several that continue the packet of the entry before.
struct BuiltPacket {
    transmit: Transmit,
    /// 0 for one packet. Otherwise the number of packets that continue the entry before. `transmit`
    /// is the last of them, and [`Transmit::nth`] gives the others.
    continues: u16,
}

/// Packets on their way to the device: the burst that is being built, and packets that the device's
/// queue had no space for [proto 3.21].
pub(super) struct TxQueue {
    /// Entries of the burst, in order.
    built: KVec<BuiltPacket>,
    /// Packets in `packets` and `run`.
    count: usize,
    /// Finished packets of the burst.
    packets: Burst,
    /// Last packet of the burst, while others can be added to it.
    run: Option<Run>,
    /// Most packets that the burst may have.
    max_packets: usize,
    /// Whether the device takes the burst as it is, so that runs pay.
    takes_runs: bool,
    /// Path of the burst: its index in [`super::Identity::paths`].
    path_index: usize,
    /// Packets that wait for the device, in order. Together with the burst they are `BURST_MAX` + 1
    /// at most: a packet may be waiting for the next burst when this one is deferred.
    deferred: KVec<Transmit>,
    /// Time at which the first of them is offered again, in ns, and the pause after the next
    /// failure.
    retry_at: u64,
    retry_delay: u64,
    /// Time since which the device's queue has had no space, in ns. 0: it took the last burst.
    full_since: u64,
}

/// First and longest pause before deferred packets are offered again, in ns.
const RETRY_MIN: u64 = 20_000;
const RETRY_MAX: u64 = 1_000_000;
/// When the device's queue has taken nothing for this long, in ns, packets are lost [proto 3.21].
const DEFER_MAX: u64 = 1_000_000_000;

impl TxQueue {
    /// An empty queue. Process context.
    pub(super) fn new() -> Result<Self, AllocError> {
        let capacity = BURST_MAX.saturating_add(1);
        Ok(Self {
            built: KVec::with_capacity(BURST_MAX, GFP_KERNEL_ACCOUNT)?,
            count: 0,
            packets: Burst::new(),
            run: None,
            max_packets: 1,
            takes_runs: false,
            path_index: 0,
            deferred: KVec::with_capacity(capacity, GFP_KERNEL_ACCOUNT)?,
            retry_at: 0,
            retry_delay: 0,
            full_since: 0,
        })
    }

    /// Drops all packets.
    pub(super) fn clear(&mut self) {
        self.clear_burst();
        self.deferred.clear();
        self.packets = Burst::new();
        self.run = None;
        self.full_since = 0;
    }

    /// Clears the entries of the burst, which was sent, deferred or lost.
    fn clear_burst(&mut self) {
        self.built.clear();
        self.count = 0;
    }

    /// Time at which deferred packets are offered again, in ns. `None`: there are none.
    pub(super) fn due(&self) -> Option<u64> {
        (!self.deferred.is_empty()).then_some(self.retry_at)
    }

    /// Adds a packet to the burst. If the length of its headers is given, others can be added to
    /// it.
    fn push(&mut self, (skb, headers): Packet) {
        self.close_run();
        match headers {
            Some(headers) => self.run = Some(Run::new(skb, headers)),
            None => self.packets.push(skb),
        }
        self.count = self.count.saturating_add(1);
    }

    /// Records an entry of the burst, see [`BuiltPacket::continues`].
    fn record(&mut self, transmit: &Transmit, continues: u16) {
        let transmit = *transmit;
        // This cannot fail: a full burst is sent first.
        let _ = self.built.push_within_capacity(BuiltPacket {
            transmit,
            continues,
        });
    }

    /// Finishes the run: nothing is added to the last packet any more.
    fn close_run(&mut self) {
        if let Some(run) = self.run.take() {
            self.packets.push(run.into_packet());
        }
    }

    /// Packets that the burst still takes as parts of one run; 1 if runs do not pay.
    fn run_room(&self) -> usize {
        match self.takes_runs {
            true => self.max_packets.saturating_sub(self.count),
            false => 1,
        }
    }

    /// Defers the burst, for which the device's queue had no space. Returns `false` if the queue
    /// has had none for too long: then the burst is lost.
    fn defer(&mut self, now: u64) -> bool {
        if self.full_since == 0 {
            self.full_since = now;
            self.retry_delay = RETRY_MIN;
        }
        if now.saturating_sub(self.full_since) > DEFER_MAX {
            return false;
        }
        while let Some(BuiltPacket {
            transmit,
            continues,
        }) = self.built.pop()
        {
            let _ = self.deferred.insert_within_capacity(0, transmit);
            for n in (1..continues).rev() {
                let Some(first) = self.built.last() else {
                    break;
                };
                let between = first.transmit.nth(n, &transmit);
                let _ = self.deferred.insert_within_capacity(0, between);
            }
        }
        self.retry_at = now.saturating_add(self.retry_delay);
        self.retry_delay = self.retry_delay.saturating_mul(2).min(RETRY_MAX);
        true
    }
}

impl Inner {
    /// Puts the next packet to send in `transmit`, which has the one before. Deferred packets come
    /// first, unless they were acknowledged meanwhile. Returns whether there is a packet.
    fn next_packet(&mut self, now: u64, transmit: &mut Transmit) -> bool {
        while let Ok(packet) = self.tx_queue.deferred.remove(0) {
            if let Some(again) = self.proto.recheck(&packet) {
                *transmit = again;
                return true;
            }
        }
        self.proto.next_transmit(now, transmit)
    }
}

/// Offset in its work of the first byte that a request packet carries, in bytes.
fn work_offset(request: &RequestPayload) -> u64 {
    token_offset(request.token).saturating_add(request.offset.into())
}

/// Whether a packet can begin a run: its receiver places the data as it comes, and usually the next
/// packet continues it.
fn may_begin_run(transmit: &Transmit, mtu: u32) -> bool {
    transmit.tal.num_ops == 1
        && match &transmit.payload {
            Payload::Request(request) => {
                let placed = matches!(
                    request.op,
                    ReqOp::Write { .. } | ReqOp::WriteExt { .. } | ReqOp::SendQpExt { .. }
                );
                placed && !request.last
            }
            // The first packet of a long answer is full. A short one is probably alone.
            Payload::Reply(reply) => reply.len > mtu / 2,
            _ => false,
        }
}

/// A packet, and the length of its headers in bytes if others can be added to it.
type Packet = (SkBuff, Option<usize>);

/// Why no packet was built for a transmission.
enum BuildError {
    /// No memory. The packet counts as lost.
    NoMemory,
    /// The region of a reply is gone, or does not allow the read any more.
    Reply(Code),
}

impl Conn {
    /// Sends every packet that the core has. Returns whether there was one.
    pub(super) fn transmit(&self, inner: &mut Inner, now: u64) -> bool {
        let mut progress = false;
        let mut region_cache = RegionCache::new();
        let mut transmit = Transmit::default();
        // The lock keeps this code on one CPU, by which all of these packets leave. CAST: The low
        // three bits tell lanes apart.
        inner.proto.set_lane(CpuId::current().as_u32() as u8);
        while inner.tx_queue.due().is_none_or(|due| due <= now) {
            if inner.tx_queue.count >= inner.tx_queue.max_packets {
                self.flush(inner, now);
                continue;
            }
            if !inner.next_packet(now, &mut transmit) {
                if inner.tx_queue.built.is_empty() {
                    break;
                }
                self.flush(inner, now);
                continue;
            }
            progress = true;
            let path_index = inner.paths.choose(&transmit, now);
            if inner.paths.path(path_index).is_none() {
                continue;
            }
            if inner.tx_queue.built.is_empty() {
                self.begin_burst(inner, path_index);
            } else if inner.tx_queue.path_index != path_index {
                // The packet begins the next burst. If `flush()` defers the present one, it puts
                // that in front of the packet.
                let _ = inner.tx_queue.deferred.insert_within_capacity(0, transmit);
                self.flush(inner, now);
                continue;
            }
            if let Some(packet) = self.packet(inner, path_index, &transmit, &mut region_cache) {
                inner.tx_queue.record(&transmit, 0);
                inner.tx_queue.push(packet);
                self.follow(inner, now, &mut transmit, &mut region_cache);
            }
        }
        progress
    }

    /// Begins a burst on a path.
    fn begin_burst(&self, inner: &mut Inner, path_index: usize) {
        let (max_packets, takes_runs) = match inner.paths.path(path_index) {
            Some(path) if !self.identity.spray => path.burst(),
            // Each packet of a spraying connection has an entropy of its own.
            _ => (1, false),
        };
        let tx_queue = &mut inner.tx_queue;
        tx_queue.path_index = path_index;
        tx_queue.max_packets = BURST_MAX.min(max_packets as usize);
        tx_queue.takes_runs = takes_runs && !self.identity.config.lite;
    }

    /// Adds packets to the burst that continue `transmit`, its last packet, if the core sends them
    /// next. `transmit` is the last of them afterwards.
    fn follow(
        &self,
        inner: &mut Inner,
        now: u64,
        transmit: &mut Transmit,
        region_cache: &mut RegionCache,
    ) {
        let tx_queue = &inner.tx_queue;
        let run_room = tx_queue.run_room();
        if tx_queue.run.is_none() || run_room == 0 || !tx_queue.deferred.is_empty() {
            return;
        }
        let (first, path_index) = (*transmit, tx_queue.path_index);
        // CAST: `BURST_MAX` at most.
        let count = inner.proto.follow(now, transmit, run_room as u16);
        let nth = |n: u16| match n == count {
            true => *transmit,
            false => first.nth(n, transmit),
        };
        if count > 0 {
            inner.tx_queue.record(transmit, count);
        }
        let mut at = 1;
        while at <= count {
            let next = nth(at);
            let remaining = count.saturating_sub(at).saturating_add(1);
            let added = self.extend(inner, &next, remaining, transmit, region_cache);
            inner.tx_queue.count = inner.tx_queue.count.saturating_add(added.into());
            // The run takes no more packets: `next` begins another.
            if added == 0 {
                if let Some(packet) = self.packet(inner, path_index, &next, region_cache) {
                    inner.tx_queue.push(packet);
                }
            }
            at = at.saturating_add(added.max(1));
        }
    }

    /// Adds packets to the run, which they continue: `next`, and those after it up to `last`, at
    /// most `count`. Returns how many were added.
    fn extend(
        &self,
        inner: &mut Inner,
        next: &Transmit,
        count: u16,
        last: &Transmit,
        region_cache: &mut RegionCache,
    ) -> u16 {
        let Inner {
            tx_queue,
            proto,
            flows,
            ..
        } = inner;
        let Some(run) = &mut tx_queue.run else {
            return 0;
        };
        let mut headers = [0u8; ONE_OP_MAX];
        let len = proto.emit(last, &mut headers, |_| 0);
        let Some(headers) = len.and_then(|len| headers.get(..len)) else {
            return 0;
        };
        let last_packet = (headers, last.data_len());
        match (&next.payload, &last.payload) {
            (Payload::Request(first), Payload::Request(last)) => {
                let Some(active) = flows.active((first.token >> 32) as u32) else {
                    return 0;
                };
                run.extend(count, last_packet, |skb, len| {
                    let len = len.saturating_sub(last.pad.into());
                    active
                        .work
                        .attach(work_offset(first), len, last.pad, false, skb)
                })
            }
            (Payload::Reply(first), Payload::Reply(last)) => {
                let Some(read) = proto.reply_reads(first).next() else {
                    return 0;
                };
                let others = first.len.saturating_mul(count.saturating_sub(1).into());
                let len = others.saturating_add(last.len);
                let Ok((region, offset)) = self.reply_source(region_cache, read.address, len)
                else {
                    return 0;
                };
                let added = run.extend(count, last_packet, |skb, _| {
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
            // 2^16 divided by the golden ratio: values in a row are far apart. A packet that is
            // sent again has another entropy than before.
            inner.entropy = inner.entropy.wrapping_add(0x9e37);
        }
        let tx_queue = &mut inner.tx_queue;
        tx_queue.close_run();
        let packets = core::mem::replace(&mut tx_queue.packets, Burst::new());
        let n = tx_queue.count as u64;
        match inner
            .paths
            .send(tx_queue.path_index, packets, n, inner.entropy, now)
        {
            Ok(()) => tx_queue.full_since = 0,
            Err(e) if e == enobufs() && tx_queue.defer(now) => {}
            Err(_) => count(&mut inner.stats.tx_path_errors, n),
        }
        tx_queue.clear_burst();
        if let Some(mtu) = inner.paths.narrowed() {
            inner.proto.set_mtu(mtu);
        }
    }

    /// Builds the packet of a transmission. `None`: it counts as lost.
    fn packet(
        &self,
        inner: &mut Inner,
        path_index: usize,
        transmit: &Transmit,
        region_cache: &mut RegionCache,
    ) -> Option<Packet> {
        let headroom = inner.paths.path(path_index)?.headroom();
        let run_room = match may_begin_run(transmit, self.identity.config.mtu) {
            true => inner.tx_queue.run_room(),
            false => 1,
        };
        let (proto, flows) = (&inner.proto, &mut inner.flows);
        match self.build(proto, flows, region_cache, headroom, run_room, transmit) {
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
                self.build(proto, flows, region_cache, headroom, 1, &filler)
                    .ok()
            }
        }
    }

    /// Builds one packet, from the PDL header on. If its data is not copied, the linear part has
    /// space for the headers of `run_room` packets. See [`Self::packet`].
    fn build(
        &self,
        proto: &Connection<Kernel>,
        flows: &mut flow::Flows,
        region_cache: &mut RegionCache,
        headroom: usize,
        run_room: usize,
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
                        .is_copied(num_ops, work_offset(request), request.len)
                });
            }
            Payload::Reply(reply) => copied = work::are_copied(num_ops, reply.len),
            _ => {}
        }
        // Zeroing space for many operations costs more than writing the headers of one.
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
            false => len.saturating_mul(run_room),
        };
        let mut skb = SkBuff::alloc(headroom, linear).ok_or(BuildError::NoMemory)?;
        let no_memory = |_| BuildError::NoMemory;
        skb.put(headers).map_err(no_memory)?;
        match &transmit.payload {
            Payload::None | Payload::Error(_) | Payload::AtomicResponse(_) => {}
            Payload::Request(request) if request.has_data => {
                let active = active.ok_or(BuildError::NoMemory)?;
                let first = work_offset(request);
                for work in active.works() {
                    let len = request.len as usize;
                    work.attach(first, len, request.pad, copied, &mut skb)
                        .map_err(no_memory)?;
                }
            }
            Payload::Request(_) => {}
            Payload::Reply(reply) => {
                for read in proto.reply_reads(reply) {
                    self.attach_reply(region_cache, read.address, reply.len, copied, &mut skb)?;
                    skb.put_zero(reply.pad.into()).map_err(no_memory)?;
                }
            }
        }
        Ok((skb, (run_room > 1 && !copied).then_some(len)))
    }

    /// Attaches the bytes that the peer reads.
    fn attach_reply(
        &self,
        region_cache: &mut RegionCache,
        address: u64,
        len: u32,
        copied: bool,
        skb: &mut SkBuff,
    ) -> Result<(), BuildError> {
        let (region, offset) = self.reply_source(region_cache, address, len)?;
        work::attach(region.pages(), offset, len as usize, copied, skb)
            .map_err(|_| BuildError::NoMemory)?;
        region.count_read(len.into());
        Ok(())
    }

    /// Finds the region of bytes that the peer reads, and their offset in it. This happens when the
    /// packet is built, so that nothing of a region's memory leaves after its release.
    fn reply_source<'a>(
        &self,
        region_cache: &'a mut RegionCache,
        address: u64,
        len: u32,
    ) -> Result<(&'a Region, u64), BuildError> {
        let partition = self.identity.partition;
        region_cache
            .at(self.resources.regions(), address)
            .ok_or(Code::ACCESS_KEY)
            .and_then(|region| {
                let access = region::REMOTE_READ;
                let offset = region.remote_offset(address, len.into(), access, partition)?;
                Ok((region, offset))
            })
            .map_err(|code| BuildError::Reply(self.resources.told_to_peer(code)))
    }
}
