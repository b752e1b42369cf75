// SPDX-License-Identifier: GPL-2.0

//! The receiving half of a connection: packets to the core, operations to memory and queue pairs.

use kernel::{alloc::AllocError, prelude::*, sync::Arc};

use super::{
    count, first_byte,
    flow::Flows,
    partial::{Partial, Store},
    receiver::{attrs, Assembly, Filling, Receiver},
    Conn, ConnState, ConnStats, Inner,
};
use crate::{
    event::Event,
    kapi::{
        skb::{Burst, SkBuff, SkbQueue},
        timer,
    },
    proto::{
        wire::PdlHeader, Atomic, Block, Code, Connection, DropReason, Immediate, Owner, Packet,
        Received, Segment,
    },
    qp::{Ancillary, Bytes, MsgMeta, Qp, Queue, RecvError, RegionCache, MAX_MESSAGE},
    region,
    resources::{Resources, BUDGET_PERIOD},
    run::Part,
    slabs::Kernel,
};

/// The owner of the core while one packet is processed.
struct Target<'a> {
    conn: &'a Conn,
    rx: &'a mut Receiver,
    flows: &'a mut Flows,
    stats: &'a mut ConnStats,
    part: Part<'a>,
    near: &'a mut RegionCache,
    /// It has the data of several packets. Where that is refused each is taken by itself, which then counts.
    several: bool,
}

impl Target<'_> {
    fn violation(&mut self, code: Code, address: u64, length: u32) -> Code {
        if self.several {
            return code;
        }
        count(&mut self.stats.access_violations, 1);
        self.conn.resources.notify(Event::Violation {
            local_cid: self.conn.identity.cid,
            remote: self.conn.identity.remote,
            cause: code.name(),
            address,
            length,
        });
        code
    }

    fn meta(&self) -> MsgMeta {
        MsgMeta {
            local: self.conn.identity.local,
            remote: self.conn.identity.remote,
            cid: self.conn.cid(),
        }
    }

    fn queue_pair(&self, qpn: u32) -> Result<Arc<Qp>, Code> {
        let resources = &self.conn.resources;
        resources.qp(qpn).ok_or_else(|| resources.qp_missing(qpn))
    }

    /// Hands a whole message to the program, or refuses it. `ext`: its sender knows runs.
    fn deliver(
        &mut self,
        qp: &Qp,
        qpn: u32,
        message: SkBuff,
        ancillary: Ancillary,
        ext: bool,
    ) -> Result<(), Code> {
        let delivered = qp.deliver(&self.meta(), message, ancillary);
        self.answer(qpn, ext, delivered)?;
        count(&mut self.stats.rx_messages, 1);
        Ok(())
    }

    /// Copies a message that is all in this packet to where the program wants it, or refuses it.
    fn deliver_here(&mut self, to: &Queue, segment: &Segment, data: Block) -> Result<(), Code> {
        let ext = segment.ext.as_ref();
        let (skb, at) = self.part.at(data.offset);
        let bytes = Bytes::new(skb, at, data.len);
        let delivered = to.deliver(&self.meta(), bytes, Ancillary::MsgAttrs(attrs(ext)));
        self.answer(segment.qp, ext.is_some(), delivered)?;
        count(&mut self.stats.rx_messages, 1);
        Ok(())
    }

    /// Refuses a message that the program could not be handed now.
    fn room(&mut self, qp: &Qp, qpn: u32, ext: bool) -> Result<(), Code> {
        let room = qp.room(&self.meta());
        self.answer(qpn, ext, room)
    }

    /// Refuses for want of a buffer; the sender repeats.
    fn refuse(&self, qpn: u32, ext: bool) -> Code {
        let Some(qp) = self.conn.resources.qp(qpn).filter(|_| ext) else {
            return Code::NO_RECEIVE_BUFFER;
        };
        match qp.refuse(self.conn.cid()) {
            Ok(()) => Code::NO_RECEIVE_BUFFER,
            // Messages behind it could not be kept from being taken before it.
            Err(AllocError) => Code::RESOURCES,
        }
    }

    /// What the sender is told of a message that a queue pair did not take.
    fn answer<T>(&mut self, qpn: u32, ext: bool, taken: Result<T, RecvError>) -> Result<T, Code> {
        taken.map_err(|refused| match refused {
            RecvError::NoBuffer => {
                count(&mut self.stats.rx_no_buffer, 1);
                self.refuse(qpn, ext)
            }
            RecvError::TooLong => Code::RECEIVE_BUFFER_TOO_SHORT,
            RecvError::NoQp => self.conn.resources.qp_missing(qpn),
        })
    }

    /// Tells the owner of a receive context that a message is in it.
    fn tell_filled(&mut self, filling: Filling) -> Result<(), Code> {
        let Filling {
            key,
            qp,
            offset,
            length,
        } = filling;
        let region = self.conn.resources.regions().get(key);
        if !region.is_some_and(|region| region.is_of(&qp)) {
            return Err(Code::ACCESS_KEY);
        }
        let placed = Ancillary::Placed {
            key,
            offset,
            length,
        };
        match SkBuff::alloc(0, 0) {
            Some(empty) => self.deliver(&qp, qp.qpn(), empty, placed, false),
            None => Err(Code::NO_RECEIVE_BUFFER),
        }
    }

    /// A transaction begins. If it is of another message than the one of several transactions that is
    /// under way to the same queue pair, that was given up [proto 7].
    fn give_up(&mut self, segment: &Segment) {
        let ordered = self.conn.identity.config.ordered_rx;
        let Some(partial) = self
            .rx
            .partial(segment.qp)
            .and_then(|i| self.rx.partials.get(i))
        else {
            return;
        };
        let continued = segment.ext.as_ref().is_some_and(|ext| {
            partial.is_of(ext.message_len, attrs(Some(ext))) && !(ordered && ext.offset == 0)
        });
        if !continued {
            self.rx.take_partial(segment.qp);
        }
    }

    /// Lets the message of a transaction begin, or refuses it; whether there is room for it is not asked yet.
    fn admit(&mut self, qp: &Qp, segment: &Segment) -> Result<(), Code> {
        let ext = segment.ext.as_ref();
        self.give_up(segment);
        if ext.is_some_and(|e| e.message_len > qp.max_message()) {
            return Err(Code::RESOURCES);
        }
        if ext.is_some_and(|e| e.start) {
            qp.accept_again(self.conn.cid());
        } else if qp.is_refusing(self.conn.cid()) {
            return Err(Code::RECEIVE_AFTER_REFUSAL);
        }
        Ok(())
    }

    /// Begins the assembly of a transaction's message, or refuses it.
    fn begin(&mut self, qp: Arc<Qp>, segment: &Segment) -> Result<Assembly, Code> {
        let qpn = segment.qp;
        let ext = segment.ext.as_ref();
        // Later transactions of a message that was let in are let in.
        if self.rx.partial(qpn).is_none() {
            match self.several {
                true => qp.room(&self.meta()).map_err(|_| Code::NO_RECEIVE_BUFFER)?,
                false => self.room(&qp, qpn, ext.is_some())?,
            }
        }
        Ok(Assembly {
            qp,
            qpn,
            segments: SkbQueue::new(),
            bytes: 0,
            message_len: ext.map(|e| e.message_len),
            attrs: attrs(ext),
        })
    }

    /// Puts the transaction of a long message to the others of its message; gives the message when
    /// it is whole.
    fn join(&mut self, part: Assembly, message_len: u32) -> Result<Option<Partial>, Code> {
        let qpn = part.qpn;
        let first = part.segments.first_key() == Some(0);
        let begun = self.rx.take_partial(qpn);
        // With two first parts its sender has begun again.
        let begun =
            begun.filter(|old| old.is_of(message_len, part.attrs) && !(first && old.has_begun()));
        let mut whole = match begun {
            Some(begun) => begun,
            None => {
                let claim = part.qp.claim(&self.meta(), message_len);
                Partial::new(&part, message_len, self.answer(qpn, true, claim)?)
            }
        };
        let added = whole.add(part)?;
        self.answer(qpn, true, added)?;
        if whole.is_whole() {
            return Ok(Some(whole));
        }
        if !whole.keep() {
            return Err(self.conn.resources.qp_missing(qpn));
        }
        match self.rx.partials.push_within_capacity(whole) {
            Ok(()) => Ok(None),
            Err(_) => Err(Code::RESOURCES),
        }
    }

    /// Hands a message of several transactions to the program.
    fn deliver_whole(&mut self, whole: Partial) -> Result<(), Code> {
        if whole.is_exceeded() {
            return Err(Code::MALFORMED);
        }
        let ancillary = Ancillary::MsgAttrs(whole.attrs);
        match whole.store {
            Store::Kept(segments) => {
                let message = segments.into_message().ok_or(Code::RESOURCES)?;
                self.deliver(&whole.qp, whole.qpn, message, ancillary, true)
            }
            Store::Placed(claim) => {
                let finished = claim.finish(ancillary);
                self.answer(whole.qpn, true, finished)?;
                count(&mut self.stats.rx_messages, 1);
                Ok(())
            }
        }
    }
}

impl Owner for Target<'_> {
    fn write(&mut self, address: u64, data: Block) -> Result<(), Code> {
        let len = data.len as u64;
        let region = self.near.at(self.conn.resources.regions(), address);
        let placed = region.ok_or(Code::ACCESS_KEY).and_then(|region| {
            let partition = self.conn.identity.partition;
            let offset = region.remote_offset(address, len, region::REMOTE_WRITE, partition)?;
            let (skb, at) = self.part.at(data.offset);
            region
                .pages()
                .copy_from_skb(offset, skb, at, data.len)
                .map_err(|_| Code::MALFORMED)?;
            Ok(())
        });
        match placed {
            Ok(()) => {
                self.near.wrote(len);
                count(&mut self.stats.rx_write_bytes, len);
                Ok(())
            }
            Err(code) => Err(self.violation(code, address, data.len as u32)),
        }
    }

    fn read(&mut self, address: u64, len: u32) -> Result<(), Code> {
        let partition = self.conn.identity.partition;
        let allowed = self
            .near
            .at(self.conn.resources.regions(), address)
            .ok_or(Code::ACCESS_KEY)
            .and_then(|region| {
                region.remote_offset(address, len.into(), region::REMOTE_READ, partition)
            });
        match allowed {
            Ok(_) => {
                count(&mut self.stats.rx_read_bytes, len.into());
                Ok(())
            }
            Err(code) => Err(self.violation(code, address, len)),
        }
    }

    fn atomic(&mut self, atomic: Atomic) -> Result<u64, Code> {
        let partition = self.conn.identity.partition;
        let done = self
            .near
            .at(self.conn.resources.regions(), atomic.address)
            .ok_or(Code::ACCESS_KEY)
            .and_then(|region| {
                let access = region::REMOTE_ATOMIC;
                let offset = region.remote_offset(atomic.address, 8, access, partition)?;
                region.atomic(offset, &atomic)
            });
        match done {
            Ok(original) => {
                count(&mut self.stats.rx_atomics, 1);
                Ok(original)
            }
            Err(code) => Err(self.violation(code, atomic.address, 8)),
        }
    }

    /// A transaction is one message, to one context [proto 4.9].
    fn send(&mut self, xid: u16, key: u32, offset: u32, data: Block) -> Result<(), Code> {
        // CAST: a packet is shorter.
        let len = data.len as u32;
        let regions = self.conn.resources.regions();
        let checked = regions.get(key).ok_or(Code::ACCESS_KEY).and_then(|region| {
            let partition = self.conn.identity.partition;
            let place = region.context_offset(offset, len.into(), partition)?;
            Ok((region, place))
        });
        let (region, place) = checked.map_err(|code| {
            let address = u64::from(key) << 32 | u64::from(offset);
            self.violation(code, address, len)
        })?;
        // Only a socket can have the right to receive.
        let qp = region.owner().ok_or(Code::ACCESS_PERMISSION)?;
        match self.rx.filling(xid) {
            Some(Some(filling)) if filling.key == key && Arc::ptr_eq(&filling.qp, qp) => {}
            Some(Some(_)) => return Err(Code::MALFORMED),
            Some(None) => self.room(qp, qp.qpn(), false)?,
            None => return Err(Code::RESOURCES),
        }
        let (skb, at) = self.part.at(data.offset);
        region
            .pages()
            .copy_from_skb(place, skb, at, data.len)
            .map_err(|_| Code::MALFORMED)?;
        region.count_write(len.into());
        count(&mut self.stats.rx_write_bytes, len.into());
        if let Some(slot) = self.rx.filling(xid) {
            let filling = slot.get_or_insert_with(|| Filling {
                key,
                qp: qp.clone(),
                offset,
                length: 0,
            });
            filling.offset = filling.offset.min(offset);
            filling.length = filling.length.saturating_add(len);
        }
        Ok(())
    }

    fn send_qp(&mut self, segment: Segment, data: Block) -> Result<(), Code> {
        let begun = matches!(self.rx.slot(segment.xid), Some(Some(_)));
        if !begun {
            let qp = self.queue_pair(segment.qp)?;
            self.admit(&qp, &segment)?;
            if let (true, Some(queue)) = (segment.whole && !self.several, qp.ring()) {
                return self.deliver_here(queue, &segment, data);
            }
            let assembly = self.begin(qp, &segment)?;
            if let Some(slot) = self.rx.slot(segment.xid) {
                *slot = Some(assembly);
            }
        }
        let key = match &segment.ext {
            Some(ext) => u64::from(ext.offset),
            None => u64::from(segment.seqno) << 8 | u64::from(segment.opnum),
        };
        let Some(Some(assembly)) = self.rx.slot(segment.xid) else {
            return Err(Code::RESOURCES);
        };
        let ext = segment.ext.as_ref();
        let message_len = ext.map(|e| e.message_len);
        if assembly.qpn != segment.qp || !assembly.is_part_of(message_len, attrs(ext)) {
            return Err(Code::MALFORMED);
        }
        let bytes = assembly.bytes.saturating_add(data.len as u64);
        if bytes > u64::from(MAX_MESSAGE) {
            return Err(Code::RESOURCES);
        }
        let (skb, at) = self.part.at(data.offset);
        let Some(slice) = skb.slice(at, data.len) else {
            return Err(match self.several {
                true => Code::RESOURCES,
                false => self.refuse(segment.qp, ext.is_some()),
            });
        };
        let inserted = assembly.segments.insert(key, slice);
        inserted.map_err(|_| Code::MALFORMED)?;
        assembly.bytes = bytes;
        Ok(())
    }

    /// In its order among the messages. When it is refused, the sender repeats it alone: the bytes are in place.
    fn imm(&mut self, immediate: Immediate) -> Result<(), Code> {
        let qpn = immediate.qp;
        let qp = self.queue_pair(qpn)?;
        // As another message.
        self.rx.take_partial(qpn);
        if immediate.start {
            qp.accept_again(self.conn.cid());
        } else if qp.is_refusing(self.conn.cid()) {
            return Err(Code::RECEIVE_AFTER_REFUSAL);
        }
        let ancillary = Ancillary::Written {
            imm: immediate.imm,
            solicited: immediate.solicited,
            len: immediate.len,
        };
        match SkBuff::alloc(0, 0) {
            Some(empty) => self.deliver(&qp, qpn, empty, ancillary, true),
            None => Err(self.refuse(qpn, true)),
        }
    }

    fn complete(&mut self, xid: u16, _opcode: u8) -> Result<(), Code> {
        if let Some(filling) = self.rx.filling(xid).and_then(Option::take) {
            return self.tell_filled(filling);
        }
        let Some(assembly) = self.rx.slot(xid).and_then(Option::take) else {
            return Ok(());
        };
        if let Some(len) = assembly.message_len {
            if assembly.bytes > len.into() {
                return Err(Code::MALFORMED);
            }
            if assembly.bytes < len.into() {
                return match self.join(assembly, len)? {
                    Some(whole) => self.deliver_whole(whole),
                    None => Ok(()),
                };
            }
        }
        let message = assembly.segments.into_message().ok_or(Code::RESOURCES)?;
        let ext = assembly.message_len.is_some();
        let ancillary = Ancillary::MsgAttrs(assembly.attrs);
        self.deliver(&assembly.qp, assembly.qpn, message, ancillary, ext)
    }

    fn aborted(&mut self, xid: u16) {
        if let Some(filling) = self.rx.filling(xid) {
            *filling = None;
        }
        if let Some(assembly) = self.rx.slot(xid).and_then(Option::take) {
            if self.rx.partial(assembly.qpn).is_some() {
                self.rx.take_partial(assembly.qpn);
            }
        }
    }

    fn reply(
        &mut self,
        _xid: u16,
        token: u64,
        op: u32,
        offset: u32,
        data: Block,
    ) -> Result<(), Code> {
        let active = self
            .flows
            .active((token >> 32) as u32)
            .ok_or(Code::ABORTED)?;
        let (work, number) = active.request(op).ok_or(Code::ABORTED)?;
        let offset = first_byte(token).saturating_add(offset.into());
        let (skb, at) = self.part.at(data.offset);
        work.place(number, offset, skb, at, data.len)
    }
}

/// The packet from its first SUPERp header on. All are linear: [`Conn::receive`] saw to it.
fn parse<'a>(part: &Part<'a>, lite: bool) -> Result<Packet<'a>, DropReason> {
    match lite {
        true => Ok(Packet::parse_lite(part.head, part.len)?),
        false => Ok(Packet::parse(part.head, part.len)?),
    }
}

impl Inner {
    /// Gives one packet to the core. `release`: it was held and its turn has come.
    fn process(
        &mut self,
        conn: &Conn,
        part: Part<'_>,
        near: &mut RegionCache,
        now: u64,
        release: bool,
    ) -> Received {
        let packet = match parse(&part, conn.identity.config.lite) {
            Ok(packet) => packet,
            Err(reason) => return Received::Dropped(reason),
        };
        let (proto, mut target) = self.target(conn, part, near);
        if release {
            proto.release(now, &packet, &mut target)
        } else {
            proto.receive(now, &packet, &mut target)
        }
    }

    /// The core, and what it calls while it delivers a packet.
    fn target<'a>(
        &'a mut self,
        conn: &'a Conn,
        part: Part<'a>,
        near: &'a mut RegionCache,
    ) -> (&'a mut Connection<Kernel>, Target<'a>) {
        let Inner {
            proto,
            flows,
            rx,
            stats,
            ..
        } = self;
        let target = Target {
            conn,
            rx,
            flows,
            stats,
            part,
            near,
            several: false,
        };
        (proto, target)
    }
}

impl Inner {
    /// Takes this connection's part of what the node can take in; twice in a period at most, so that
    /// the connections do not meet at its lock.
    fn follow_budget(&mut self, resources: &Resources, now: u64) {
        if now < self.budget_due {
            return;
        }
        self.budget_due = now.saturating_add(BUDGET_PERIOD / 2);
        let share = resources.receive_share(now, &mut self.activity);
        self.proto.set_receive_limit(now, share.unwrap_or(u32::MAX));
    }
}

impl Conn {
    /// Takes packets that came together, whose data begins at their first SUPERp header, from the path
    /// of [`Conn::path_of`]. Softirq.
    pub(crate) fn receive(self: &Arc<Self>, path: usize, mut packets: Burst) {
        let now = timer::now();
        let mut inner = self.inner.lock();
        let mut near = RegionCache::new();
        while let Some(skb) = packets.pop() {
            match skb.packets() {
                1 => self.take(&mut inner, path, skb, &mut near, now),
                n => self.take_run(&mut inner, path, skb, n, &mut near, now),
            }
        }
        // Counts what was written, before the peer learns of it.
        drop(near);
        self.events(&mut inner, now);
        self.run(&mut inner, now);
        self.unlock(inner);
    }

    /// Gives a packet, and those that it releases, to the core.
    fn take(
        &self,
        inner: &mut Inner,
        path: usize,
        mut skb: SkBuff,
        near: &mut RegionCache,
        now: u64,
    ) {
        // What is parsed must be linear.
        let headers = match self.identity.config.lite {
            true => Packet::headers_len_lite(skb.head()),
            false => Packet::headers_len(skb.head()),
        };
        if !skb.may_pull(headers.min(skb.len())) {
            return self.resources.count_drop(DropReason::TooShort);
        }
        // Without memory it is lost on its way.
        let pdl = skb.head().first_chunk().map(PdlHeader::parse);
        if pdl.is_some_and(|pdl| inner.proto.would_hold(pdl.psn)) {
            let Some(own) = skb.own() else { return };
            skb = own;
        }
        match self.give(inner, path, Part::whole(&skb), near, now) {
            Some(Received::Held { slot }) => {
                if let Some(held) = inner.rx.held.get_mut(slot) {
                    *held = Some(skb);
                }
            }
            Some(Received::Delivered | Received::AckOnly) => skb.consume(),
            _ => {}
        }
        self.release(inner, near, now);
    }

    /// Gives the `n` packets of a run to the core.
    fn take_run(
        &self,
        inner: &mut Inner,
        path: usize,
        skb: SkBuff,
        n: u32,
        near: &mut RegionCache,
        now: u64,
    ) {
        if self.give_run(inner, path, &skb, near, now) {
            return skb.consume();
        }
        for i in 0..n {
            // It is laid out as it says, or it would not be here.
            let Some(part) = skb.part(i) else { return };
            let pdl = part.head.first_chunk().map(PdlHeader::parse);
            match pdl.filter(|pdl| u32::from(pdl.dcid) == self.cid()) {
                None => self.resources.count_drop(DropReason::NoConnection),
                // What waits for others has to be by itself. Without memory it is lost on its way.
                Some(pdl) if inner.proto.would_hold(pdl.psn) => {
                    if let Some(alone) = skb.run_part(0, i) {
                        self.take(inner, path, alone, near, now);
                    }
                }
                Some(_) => {
                    self.give(inner, path, part, near, now);
                    self.release(inner, near, now);
                }
            }
        }
        skb.consume();
    }

    /// Gives all packets of a run to the core at once. False: each has to be given by itself.
    fn give_run(
        &self,
        inner: &mut Inner,
        path: usize,
        skb: &SkBuff,
        near: &mut RegionCache,
        now: u64,
    ) -> bool {
        let Some((part, run)) = skb.whole() else {
            return false;
        };
        let gone = matches!(inner.state, ConnState::Removed | ConnState::Broken);
        if gone || u32::from(run.first().pdl().dcid) != self.cid() {
            return false;
        }
        let unacked = inner.proto.unacked_psn();
        let (proto, mut target) = inner.target(self, part, near);
        target.several = true;
        let Some(received) = proto.receive_run(now, &run, &mut target) else {
            return false;
        };
        self.came(inner, path, run.count().into(), unacked);
        inner.follow_budget(&self.resources, now);
        if let Received::Dropped(reason) = received {
            self.dropped(inner, reason, now);
        }
        true
    }

    /// So many packets came, when what was not acknowledged began with `unacked`.
    fn came(&self, inner: &mut Inner, path: usize, n: u64, unacked: u32) {
        inner.paths.received(path, n);
        if inner.proto.unacked_psn() != unacked {
            inner.paths.confirm(path);
        }
    }

    /// Gives a packet to the core; `None` to one that is no more.
    fn give(
        &self,
        inner: &mut Inner,
        path: usize,
        part: Part<'_>,
        near: &mut RegionCache,
        now: u64,
    ) -> Option<Received> {
        if matches!(inner.state, ConnState::Removed | ConnState::Broken) {
            self.resources.count_drop(DropReason::NotRunning);
            return None;
        }
        let unacked = inner.proto.unacked_psn();
        let received = inner.process(self, part, near, now, false);
        self.came(inner, path, 1, unacked);
        match received {
            Received::Held { .. } | Received::Delivered => {
                inner.follow_budget(&self.resources, now)
            }
            Received::Dropped(reason) => self.dropped(inner, reason, now),
            Received::Duplicate => inner.paths.repeated(path),
            Received::AckOnly => {}
        }
        Some(received)
    }

    fn dropped(&self, inner: &mut Inner, reason: DropReason, now: u64) {
        self.resources.count_drop(reason);
        // Now: there is little room for reports.
        self.events(inner, now);
    }

    /// Gives those packets to the core whose turn has come.
    fn release(&self, inner: &mut Inner, near: &mut RegionCache, now: u64) {
        while let Some(slot) = inner.proto.next_release() {
            let held = inner.rx.held.get_mut(slot).and_then(Option::take);
            let Some(held) = held else { continue };
            match inner.process(self, Part::whole(&held), near, now, true) {
                Received::Dropped(reason) => self.dropped(inner, reason, now),
                _ => held.consume(),
            }
        }
    }
}
