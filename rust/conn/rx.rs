// SPDX-License-Identifier: GPL-2.0

//! The receive side of a connection: packets go to the core, and operations to memory and queue
//! pairs.

use kernel::{alloc::AllocError, prelude::*, sync::Arc};

use super::{
    count,
    flow::Flows,
    partial::{attrs, Assembly, InsertError, Partial, Parts, Store},
    receiver::{ContextAssembly, Receiver},
    token_offset, Conn, ConnState, ConnStats, Inner,
};
use crate::{
    event::Event,
    kapi::{
        skb::{Burst, SkBuff},
        timer,
    },
    params,
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

/// The core's owner while the core processes one packet or one run. It carries out the peer's
/// operations, and stores the answers to reads of this end.
struct RxOwner<'a> {
    conn: &'a Conn,
    rx: &'a mut Receiver,
    flows: &'a mut Flows,
    stats: &'a mut ConnStats,
    /// The packet. Offsets of the core's blocks count from its beginning.
    part: Part<'a>,
    region_cache: &'a mut RegionCache,
    /// The core takes a run as one. If it refuses the run, it gets each packet alone, and only
    /// those refusals are counted.
    is_run: bool,
}

impl RxOwner<'_> {
    /// Counts and reports an access that is refused with `code`. Returns the code for the peer.
    fn violation(&mut self, code: Code, address: u64, length: u32) -> Code {
        let told = self.conn.resources.told_to_peer(code);
        if self.is_run {
            return told;
        }
        count(&mut self.stats.access_violations, 1);
        self.conn.resources.notify(Event::Violation {
            local_cid: self.conn.identity.cid,
            remote: self.conn.identity.remote,
            cause: code.name(),
            address,
            length,
        });
        told
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

    /// Delivers a whole message to the program, or refuses it. `ext`: the message was sent by an
    /// extension, so its sender knows runs of messages.
    fn deliver(
        &mut self,
        qp: &Qp,
        qpn: u32,
        message: SkBuff,
        ancillary: Ancillary,
        ext: bool,
    ) -> Result<(), Code> {
        let delivered = qp.deliver(&self.meta(), message, ancillary);
        self.or_refuse(qpn, ext, delivered)?;
        count(&mut self.stats.rx_messages, 1);
        Ok(())
    }

    /// Copies a message that is wholly in this packet to the program's buffer, or refuses it.
    fn deliver_in_place(&mut self, to: &Queue, segment: &Segment, data: Block) -> Result<(), Code> {
        let ext = segment.ext.as_ref();
        let (skb, at) = self.part.at(data.offset);
        let bytes = Bytes::new(skb, at, data.len);
        let delivered = to.deliver(&self.meta(), bytes, Ancillary::MsgAttrs(attrs(ext)));
        self.or_refuse(segment.qp, ext.is_some(), delivered)?;
        count(&mut self.stats.rx_messages, 1);
        Ok(())
    }

    /// Memory of the message to `qpn` on this connection that is not complete, in bytes.
    fn own_parts(&self, qp: &Qp, qpn: u32) -> usize {
        match qp.parts_memory() {
            0 => 0,
            _ => self.rx.parts_memory(qpn),
        }
    }

    /// Most memory of messages of the connection that are not complete, in bytes.
    fn parts_limit(&self) -> usize {
        // CAST: The range of the parameter fits.
        self.conn.resources.param_get(params::RCVBUF_PER_CONN) as usize
    }

    /// Whether there is memory for one more message that is not complete. It is half of what there
    /// is. The other half is left to those that have begun: else all might be refused in turn, and
    /// none would ever be complete.
    fn has_room_for_parts(&self) -> bool {
        self.rx.account.used() <= self.parts_limit() / 2
    }

    /// Refuses a message that the queue pair could not accept now.
    fn check_room(&mut self, qp: &Qp, qpn: u32, ext: bool) -> Result<(), Code> {
        let space = qp.can_receive(&self.meta(), self.own_parts(qp, qpn));
        self.or_refuse(qpn, ext, space)
    }

    /// Refuses a message for want of a buffer, and with `ext` every later one until one carries
    /// `start`. The sender repeats them.
    fn refuse(&self, qpn: u32, ext: bool) -> Code {
        let Some(qp) = self.conn.resources.qp(qpn).filter(|_| ext) else {
            return Code::NO_RECEIVE_BUFFER;
        };
        match qp.refuse(self.conn.cid()) {
            Ok(()) => Code::NO_RECEIVE_BUFFER,
            // Without memory to note the refusal, later messages would overtake this one. RESOURCES
            // fails the message instead of having it repeated.
            Err(AllocError) => Code::RESOURCES,
        }
    }

    /// Turns the error of a queue pair that does not accept a message into the code for the sender.
    /// Without a buffer it refuses the message.
    fn or_refuse<T>(
        &mut self,
        qpn: u32,
        ext: bool,
        result: Result<T, RecvError>,
    ) -> Result<T, Code> {
        result.map_err(|error| match error {
            RecvError::NoBuffer => {
                count(&mut self.stats.rx_no_buffer, 1);
                self.refuse(qpn, ext)
            }
            RecvError::TooLong => Code::RECEIVE_BUFFER_TOO_SHORT,
            RecvError::NoQp => self.conn.resources.qp_missing(qpn),
        })
    }

    /// Notifies the owner of a receive context that a message is in it.
    fn deliver_context_message(&mut self, message: ContextAssembly) -> Result<(), Code> {
        let ContextAssembly {
            key,
            qp,
            offset,
            length,
        } = message;
        let region = self.conn.resources.regions().get(key);
        if !region.is_some_and(|region| region.is_of(&qp)) {
            return Err(self.conn.resources.told_to_peer(Code::ACCESS_KEY));
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

    /// A transaction begins. Drops the unfinished message to its queue pair, unless the transaction
    /// belongs to that: the sender has given it up [proto 7].
    fn drop_stale_partial(&mut self, segment: &Segment) {
        let ordered = self.conn.identity.config.ordered_rx;
        let Some(partial) = self
            .rx
            .partial_index(segment.qp)
            .and_then(|i| self.rx.partials.get(i))
        else {
            return;
        };
        let continued = segment.ext.as_ref().is_some_and(|ext| {
            partial.matches(ext.message_len, attrs(Some(ext))) && !(ordered && ext.offset == 0)
        });
        if !continued {
            self.rx.take_partial(segment.qp);
        }
    }

    /// Admits the message of a transaction, or refuses it. This does not check for a buffer.
    fn admit(&mut self, qp: &Qp, segment: &Segment) -> Result<(), Code> {
        let ext = segment.ext.as_ref();
        self.drop_stale_partial(segment);
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
    fn begin_assembly(&mut self, qp: Arc<Qp>, segment: &Segment) -> Result<Assembly, Code> {
        let qpn = segment.qp;
        let ext = segment.ext.as_ref();
        // Later transactions of an admitted message need no check: it has begun.
        if self.rx.partial_index(qpn).is_none() {
            let own = self.own_parts(&qp, qpn);
            let room = match segment.whole || own != 0 || self.has_room_for_parts() {
                true => qp.can_receive(&self.meta(), own),
                false => Err(RecvError::NoBuffer),
            };
            match self.is_run {
                true => room.map_err(|_| Code::NO_RECEIVE_BUFFER)?,
                false => self.or_refuse(qpn, ext.is_some(), room)?,
            }
        }
        let payer = (!segment.whole).then(|| (qp.clone(), self.rx.account.clone()));
        Ok(Assembly {
            segments: Parts::new(payer),
            qp,
            qpn,
            bytes: 0,
            message_len: ext.map(|e| e.message_len),
            attrs: attrs(ext),
        })
    }

    /// Adds a complete transaction to its message. Returns the message when it is complete.
    fn join_partial(&mut self, part: Assembly, message_len: u32) -> Result<Option<Partial>, Code> {
        let qpn = part.qpn;
        let first = part.segments.first_key() == Some(0);
        let begun = self.rx.take_partial(qpn);
        // A second first part means that the sender has begun again.
        let begun =
            begun.filter(|old| old.matches(message_len, part.attrs) && !(first && old.has_begun()));
        let mut partial = match begun {
            Some(begun) => begun,
            None => {
                let claim = part.qp.claim(&self.meta(), message_len);
                let claim = self.or_refuse(qpn, true, claim)?;
                Partial::new(&part, message_len, claim, &self.rx.account)
            }
        };
        let added = partial.add(part)?;
        self.or_refuse(qpn, true, added)?;
        if partial.is_complete() {
            return Ok(Some(partial));
        }
        if !partial.register() {
            return Err(self.conn.resources.qp_missing(qpn));
        }
        match self.rx.partials.push_within_capacity(partial) {
            Ok(()) => Ok(None),
            Err(_) => Err(Code::RESOURCES),
        }
    }

    /// Delivers a complete message of several transactions to the program, or refuses it.
    fn deliver_partial(&mut self, partial: Partial) -> Result<(), Code> {
        if partial.is_exceeded() {
            return Err(Code::MALFORMED);
        }
        let ancillary = Ancillary::MsgAttrs(partial.attrs);
        match partial.store {
            Store::Buffered(segments) => {
                let message = segments.into_message().ok_or(Code::RESOURCES)?;
                self.deliver(&partial.qp, partial.qpn, message, ancillary, true)
            }
            Store::Placed(claim) => {
                let finished = claim.finish(ancillary);
                self.or_refuse(partial.qpn, true, finished)?;
                count(&mut self.stats.rx_messages, 1);
                Ok(())
            }
        }
    }
}

impl Owner for RxOwner<'_> {
    fn write(&mut self, address: u64, data: Block) -> Result<(), Code> {
        let len = data.len as u64;
        let region = self.region_cache.at(self.conn.resources.regions(), address);
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
                self.region_cache.wrote(len);
                count(&mut self.stats.rx_write_bytes, len);
                Ok(())
            }
            Err(code) => Err(self.violation(code, address, data.len as u32)),
        }
    }

    fn read(&mut self, address: u64, len: u32) -> Result<(), Code> {
        let partition = self.conn.identity.partition;
        let allowed = self
            .region_cache
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
            .region_cache
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

    /// A transaction is one message, to one receive context [proto 4.9].
    fn message_to_context(
        &mut self,
        xid: u16,
        key: u32,
        offset: u32,
        data: Block,
    ) -> Result<(), Code> {
        // CAST: A packet is shorter than 4 GiB.
        let len = data.len as u32;
        let regions = self.conn.resources.regions();
        let checked = regions.get(key).ok_or(Code::ACCESS_KEY).and_then(|region| {
            let partition = self.conn.identity.partition;
            let region_offset = region.context_offset(offset, len.into(), partition)?;
            Ok((region, region_offset))
        });
        let (region, region_offset) = checked.map_err(|code| {
            let address = u64::from(key) << 32 | u64::from(offset);
            self.violation(code, address, len)
        })?;
        // Every region with this right has an owner, a socket.
        let qp = region.owner().ok_or(Code::ACCESS)?;
        match self.rx.context_slot(xid) {
            Some(Some(message)) if message.key == key && Arc::ptr_eq(&message.qp, qp) => {}
            Some(Some(_)) => return Err(Code::MALFORMED),
            Some(None) => self.check_room(qp, qp.qpn(), false)?,
            None => return Err(Code::RESOURCES),
        }
        let (skb, at) = self.part.at(data.offset);
        region
            .pages()
            .copy_from_skb(region_offset, skb, at, data.len)
            .map_err(|_| Code::MALFORMED)?;
        region.count_write(len.into());
        count(&mut self.stats.rx_write_bytes, len.into());
        if let Some(slot) = self.rx.context_slot(xid) {
            let message = slot.get_or_insert_with(|| ContextAssembly {
                key,
                qp: qp.clone(),
                offset,
                length: 0,
            });
            message.offset = message.offset.min(offset);
            message.length = message.length.saturating_add(len);
        }
        Ok(())
    }

    fn message_to_qp(&mut self, segment: Segment, data: Block) -> Result<(), Code> {
        let begun = matches!(self.rx.assembly_slot(segment.xid), Some(Some(_)));
        if !begun {
            let qp = self.queue_pair(segment.qp)?;
            self.admit(&qp, &segment)?;
            if let (true, Some(queue)) = (segment.whole && !self.is_run, qp.ring()) {
                return self.deliver_in_place(queue, &segment, data);
            }
            let assembly = self.begin_assembly(qp, &segment)?;
            if let Some(slot) = self.rx.assembly_slot(segment.xid) {
                *slot = Some(assembly);
            }
        }
        let key = match &segment.ext {
            Some(ext) => u64::from(ext.offset),
            None => u64::from(segment.seqno) << 8 | u64::from(segment.opnum),
        };
        let limit = self.parts_limit();
        let Some(Some(assembly)) = self.rx.assembly_slot(segment.xid) else {
            return Err(Code::RESOURCES);
        };
        let ext = segment.ext.as_ref();
        let message_len = ext.map(|e| e.message_len);
        if assembly.qpn != segment.qp || !assembly.matches(message_len, attrs(ext)) {
            return Err(Code::MALFORMED);
        }
        let bytes = assembly.bytes.saturating_add(data.len as u64);
        if bytes > u64::from(MAX_MESSAGE) {
            return Err(Code::RESOURCES);
        }
        let (skb, at) = self.part.at(data.offset);
        let Some(slice) = skb.slice(at, data.len) else {
            return Err(match self.is_run {
                true => Code::RESOURCES,
                false => self.refuse(segment.qp, ext.is_some()),
            });
        };
        match assembly.segments.insert(key, slice, limit) {
            Ok(()) => {
                assembly.bytes = bytes;
                Ok(())
            }
            Err(InsertError::Exists) => Err(Code::MALFORMED),
            Err(InsertError::NoRoom) if self.is_run => Err(Code::NO_RECEIVE_BUFFER),
            Err(InsertError::NoRoom) => {
                self.or_refuse(segment.qp, ext.is_some(), Err(RecvError::NoBuffer))
            }
        }
    }

    /// An immediate takes its place in the order of the messages. When it is refused, the sender
    /// repeats it alone, because the bytes of the write are in place.
    fn immediate(&mut self, immediate: Immediate) -> Result<(), Code> {
        let qpn = immediate.qp;
        let qp = self.queue_pair(qpn)?;
        // Like any other message, it ends an unfinished one.
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
        if let Some(message) = self.rx.context_slot(xid).and_then(Option::take) {
            return self.deliver_context_message(message);
        }
        let Some(assembly) = self.rx.assembly_slot(xid).and_then(Option::take) else {
            return Ok(());
        };
        if let Some(len) = assembly.message_len {
            if assembly.bytes > len.into() {
                return Err(Code::MALFORMED);
            }
            if assembly.bytes < len.into() {
                return match self.join_partial(assembly, len)? {
                    Some(partial) => self.deliver_partial(partial),
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
        if let Some(message) = self.rx.context_slot(xid) {
            *message = None;
        }
        if let Some(assembly) = self.rx.assembly_slot(xid).and_then(Option::take) {
            if self.rx.partial_index(assembly.qpn).is_some() {
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
        let offset = token_offset(token).saturating_add(offset.into());
        let (skb, at) = self.part.at(data.offset);
        work.place(number, offset, skb, at, data.len)
    }
}

impl Inner {
    /// Gives one packet to the core. All of its headers are linear, see [`Conn::receive_packet`].
    /// `release`: the packet was held, and is in order now.
    fn process(
        &mut self,
        conn: &Conn,
        skb: &SkBuff,
        region_cache: &mut RegionCache,
        now: u64,
        release: bool,
    ) -> Received {
        let parsed = match conn.identity.config.lite {
            true => Packet::parse_lite(skb.head(), skb.len()),
            false => Packet::parse(skb.head(), skb.len()),
        };
        let packet = match parsed {
            Ok(packet) => packet,
            Err(error) => return Received::Dropped(error.into()),
        };
        let (proto, mut owner) = self.core_and_owner(conn, Part::packet(skb), region_cache);
        if release {
            proto.release(now, &packet, &mut owner)
        } else {
            proto.receive(now, &packet, &mut owner)
        }
    }

    /// The core, and its owner for one packet or run.
    fn core_and_owner<'a>(
        &'a mut self,
        conn: &'a Conn,
        part: Part<'a>,
        region_cache: &'a mut RegionCache,
    ) -> (&'a mut Connection<Kernel>, RxOwner<'a>) {
        let Inner {
            proto,
            flows,
            rx,
            stats,
            ..
        } = self;
        let owner = RxOwner {
            conn,
            rx,
            flows,
            stats,
            part,
            region_cache,
            is_run: false,
        };
        (proto, owner)
    }
}

impl Inner {
    /// Sets the receive window to this connection's share of the node's receive budget. It asks at
    /// most twice in a period, so that connections do not contend for the budget's lock.
    fn update_receive_limit(&mut self, resources: &Resources, now: u64) {
        if now < self.budget_due {
            return;
        }
        self.budget_due = now.saturating_add(BUDGET_PERIOD / 2);
        let share = resources.receive_share(now, &mut self.activity);
        self.proto.set_receive_limit(now, share.unwrap_or(u32::MAX));
    }
}

impl Conn {
    /// Receives packets that arrived together, on the path of [`Conn::path_of`]. Each begins with
    /// its first SUPERp header. Softirq.
    pub(crate) fn receive(self: &Arc<Self>, path: usize, mut packets: Burst) {
        let mut inner = self.inner.lock();
        // Behind the lock: time must not go back for the core.
        let now = timer::now();
        let mut region_cache = RegionCache::new();
        while let Some(skb) = packets.pop() {
            match skb.packets() {
                1 => self.receive_packet(&mut inner, path, skb, &mut region_cache, now),
                _ => self.receive_run(&mut inner, path, skb, &mut region_cache, now),
            }
        }
        // Dropping the cache counts the written bytes in their region, before the peer can know of
        // them.
        drop(region_cache);
        self.check_refusals(&mut inner);
        self.events(&mut inner, now);
        self.run(&mut inner, now);
        self.unlock(inner);
    }

    /// Breaks the connection if the peer has guessed wrong more often than `tal_max_refusals`
    /// permits. The caller holds `inner` and releases it by [`Conn::unlock`].
    fn check_refusals(&self, inner: &mut Inner) {
        let most = self.identity.config.tal_max_refusals;
        if most != 0 && inner.proto.refusals() >= most {
            inner.proto.stop();
            self.set_broken(inner, "the peer was refused too often", Code::ABORTED);
        }
    }

    /// Gives a packet to the core, and those that it releases.
    fn receive_packet(
        &self,
        inner: &mut Inner,
        path: usize,
        mut skb: SkBuff,
        region_cache: &mut RegionCache,
        now: u64,
    ) {
        // The headers are parsed in place, so they must be linear.
        let headers = match self.identity.config.lite {
            true => Packet::headers_len_lite(skb.head()),
            false => Packet::headers_len(skb.head()),
        };
        if !skb.may_pull(headers.min(skb.len())) {
            return self.resources.count_drop(DropReason::TooShort);
        }
        // A held packet must not share memory that its sender may change. Without memory for a copy
        // it counts as lost.
        let pdl = skb.head().first_chunk().map(PdlHeader::parse);
        if pdl.is_some_and(|pdl| inner.proto.would_hold(pdl.psn)) {
            let Some(own) = skb.own() else {
                return self.resources.count_drop(DropReason::NoMemory);
            };
            skb = own;
        }
        match self.process_packet(inner, path, &skb, region_cache, now) {
            Some(Received::Held { slot }) => {
                if let Some(held) = inner.rx.held.get_mut(slot) {
                    *held = Some(skb);
                }
            }
            Some(Received::Delivered | Received::AckOnly) => skb.consume(),
            _ => {}
        }
        self.release(inner, region_cache, now);
    }

    /// Gives the packets of a run to the core: as one, or each as if it had come alone.
    fn receive_run(
        &self,
        inner: &mut Inner,
        path: usize,
        skb: SkBuff,
        region_cache: &mut RegionCache,
        now: u64,
    ) {
        if !self.process_run(inner, path, &skb, region_cache, now) {
            for packet in skb.split_run(0) {
                match packet.and_then(|packet| self.check_cid(packet)) {
                    Ok(packet) => self.receive_packet(inner, path, packet, region_cache, now),
                    Err(reason) => self.resources.count_drop(reason),
                }
            }
        }
        skb.consume();
    }

    /// Returns a packet of a run if it is for this connection. The connection was found by the
    /// first packet only.
    fn check_cid(&self, packet: SkBuff) -> Result<SkBuff, DropReason> {
        let pdl = packet.head().first_chunk().map(PdlHeader::parse);
        match pdl.is_some_and(|pdl| u32::from(pdl.dcid) == self.cid()) {
            true => Ok(packet),
            false => Err(DropReason::NoConnection),
        }
    }

    /// Gives the packets of a run to the core as one. Returns `false` if each has to be given
    /// alone.
    fn process_run(
        &self,
        inner: &mut Inner,
        path: usize,
        skb: &SkBuff,
        region_cache: &mut RegionCache,
        now: u64,
    ) -> bool {
        let Some((part, run)) = skb.run() else {
            return false;
        };
        let gone = matches!(inner.state, ConnState::Removed | ConnState::Broken);
        if gone || u32::from(run.first().pdl().dcid) != self.cid() {
            return false;
        }
        let unacked = inner.proto.unacked_psn();
        let (proto, mut owner) = inner.core_and_owner(self, part, region_cache);
        owner.is_run = true;
        let Some(received) = proto.receive_run(now, &run, &mut owner) else {
            return false;
        };
        self.note_received(inner, path, run.count().into(), unacked);
        inner.update_receive_limit(&self.resources, now);
        if let Received::Dropped(reason) = received {
            self.note_drop(inner, reason, now);
        }
        true
    }

    /// Notes `n` received packets. `unacked` was the lowest unacknowledged PSN before them.
    fn note_received(&self, inner: &mut Inner, path: usize, n: u64, unacked: u32) {
        inner.paths.received(path, n);
        if inner.proto.unacked_psn() != unacked {
            inner.paths.confirm(path);
        }
    }

    /// Gives a packet to the core. `None`: the connection does not run.
    fn process_packet(
        &self,
        inner: &mut Inner,
        path: usize,
        skb: &SkBuff,
        region_cache: &mut RegionCache,
        now: u64,
    ) -> Option<Received> {
        if matches!(inner.state, ConnState::Removed | ConnState::Broken) {
            self.resources.count_drop(DropReason::NotRunning);
            return None;
        }
        let unacked = inner.proto.unacked_psn();
        let received = inner.process(self, skb, region_cache, now, false);
        self.note_received(inner, path, 1, unacked);
        match received {
            Received::Held { .. } | Received::Delivered => {
                inner.update_receive_limit(&self.resources, now)
            }
            Received::Dropped(reason) => self.note_drop(inner, reason, now),
            Received::Duplicate => inner.paths.duplicate_received(path),
            Received::AckOnly => {}
        }
        Some(received)
    }

    /// Counts and reports a dropped packet.
    fn note_drop(&self, inner: &mut Inner, reason: DropReason, now: u64) {
        self.resources.count_drop(reason);
        // The core keeps few reports, so they are fetched at once.
        self.events(inner, now);
    }

    /// Gives held packets to the core that are in order now.
    fn release(&self, inner: &mut Inner, region_cache: &mut RegionCache, now: u64) {
        while let Some(slot) = inner.proto.next_release() {
            let held = inner.rx.held.get_mut(slot).and_then(Option::take);
            let Some(held) = held else { continue };
            match inner.process(self, &held, region_cache, now, true) {
                Received::Dropped(reason) => self.note_drop(inner, reason, now),
                _ => held.consume(),
            }
        }
    }
}
