// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Target: the peer's transactions.

use super::super::bitmap::SeqnoBitmaps;
use super::super::config::{Config, Extensions};
use super::super::pdl::Content;
use super::super::seq::xid_diff;
use super::super::slab::{Ring, Slabs, Slots};
use super::super::stats::Stats;
use super::super::wire::{
    AtomicKind, AtomicResponseOp, Op, Opcode, Packet, Run, TalHeader, TransactionErrorOp,
};
use super::super::{
    Atomic, Block, Code, DropReason, Immediate, Owner, Payload, ReplyPayload, ReplyRead, Report,
    Segment, SegmentExt,
};
use super::layout::{pad, Limits};
use super::reads::{ReadList, Reads, NIL};
use super::reception::{segment_ext, Reception};
use super::refusals::Refusals;
use super::Step;

/// State of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// No packet arrived. The first one moves the slot to `Open`.
    #[default]
    Closed,
    /// Packets of the request arrive. The last one leads to `Answering` or, if the request has no
    /// answer, to `Retired`; an error to `Failed`.
    Open,
    /// The answer is being sent, or waits for acknowledgement, which leads to `Retired`.
    /// `refuse_reply` leads to `Failed`.
    Answering,
    /// A Transaction Error is to be sent, or waits for acknowledgement, which leads to `Retired`.
    Failed,
    /// The transaction is over; `true` if it failed. When all lower XIDs have retired, `retire`
    /// closes the slot.
    Retired(bool),
}

/// A transaction of the peer.
#[derive(Clone, Copy, Debug, Default)]
struct Transaction {
    xid: u16,
    state: State,
    opcode: u8,
    reception: Reception,
    /// Number of data bytes placed.
    bytes: u32,
    /// Immediate to deliver when the request is complete.
    immediate: Option<Immediate>,
    /// Original value of an atomic, stored for retransmissions of the response [proto 4.15].
    original: u64,
    reads: ReadList,
    /// Pool index of the read that the next reply packet answers, and offset in that read in bytes.
    next_read: u16,
    next_offset: u32,
    /// Limits for the packets of the reply, fixed when the reply begins.
    limits: Option<Limits>,
    /// Number of reply packets in all, and of those sent.
    reply_packets: u16,
    reply_sent: u16,
    error: TransactionErrorOp,
    error_sent: bool,
    /// The XID is in `Target::answers` or `Target::refusals`.
    queued: bool,
    /// Number of packets of the answer that were sent and are not acknowledged.
    unacked: u16,
}

impl Transaction {
    /// Initialises the slot for the first packet of a transaction.
    fn begin<A: Slabs>(&mut self, seqnos: &mut SeqnoBitmaps<A>, index: u16, tal: &TalHeader) {
        seqnos.reset(index);
        *self = Self {
            xid: tal.xid,
            opcode: tal.opcode,
            next_read: NIL,
            ..Self::default()
        };
    }
}

/// Target window.
///
/// The states of the slots stand for the completed and retired bitmaps of the specification
/// [proto 4.3]. The window reads the state of a slot once, when its base reaches it.
pub(crate) struct Target<A: Slabs> {
    slots: Slots<A, Transaction>,
    /// Received Seqnos of requests.
    seqnos: SeqnoBitmaps<A>,
    reads: Reads<A>,
    /// XIDs of transactions with packets of an answer to send.
    answers: Ring<A>,
    /// Refusals of access that have to wait before they enter `answers`.
    refusals: Refusals<A>,
    /// Lowest XID that has not retired.
    next_acked_txid: u16,
    /// XID of the peer's Last NULL, after its arrival.
    last_null: Option<u16>,
    window: u32,
    /// The target accepts the extension opcodes.
    ext: bool,
    /// Limits for the MTU that the connection was created with.
    limits: Limits,
    /// Limits for the present MTU of the path.
    path_limits: Limits,
}

impl<A: Slabs> Target<A> {
    pub(crate) fn new(config: &Config) -> Option<Self> {
        let window = config.tal_trans_window;
        let slots = Slots::<A, Transaction>::new(window)?;
        let reads = window.checked_mul(config.tal_max_ops_per_pkt)?;
        Some(Self {
            seqnos: SeqnoBitmaps::new(slots.len(), config.tal_max_pkt_per_trans)?,
            slots,
            reads: Reads::new(reads as usize)?,
            answers: Ring::new(window)?,
            refusals: Refusals::new(config)?,
            next_acked_txid: config.start_xid,
            last_null: None,
            window,
            // SUPERp-lite cannot ask the peer [proto 7].
            ext: config.ext == Extensions::On || config.ext == Extensions::Auto && !config.lite,
            limits: Limits::new(config),
            path_limits: Limits::new(config),
        })
    }

    /// Makes packets of later replies `reduction` bytes shorter than the configured MTU.
    pub(crate) fn reduce_mtu(&mut self, reduction: u32) {
        self.path_limits = self.limits.reduced(reduction);
    }

    /// The ACK XID to send.
    pub(crate) fn ack_xid(&self) -> u16 {
        self.next_acked_txid.wrapping_sub(1)
    }

    /// Whether the peer's Last NULL, and so every transaction before it, has retired [proto 4.11].
    pub(crate) fn drained(&self) -> bool {
        self.last_null
            .is_some_and(|xid| xid_diff(self.next_acked_txid, xid) > 0)
    }

    /// Processes a packet from the initiator. `Err`: the packet breaks a rule and is dropped. The
    /// state does not change then, except that a transaction with too many packets fails.
    pub(crate) fn receive<O: Owner>(
        &mut self,
        packet: &Packet<'_>,
        owner: &mut O,
        stats: &mut Stats,
    ) -> Result<Step, Report> {
        let tal = packet.tal();
        let xid = tal.xid;
        let report = |reason| Report {
            reason,
            value: xid.into(),
            low: self.next_acked_txid.into(),
            high: u32::from(self.next_acked_txid).wrapping_add(self.window) & 0xffff,
        };
        let index = self.slots.index(xid.into());
        let Some(slot) = self.slots.get_mut(xid.into()) else {
            return Ok(Step::Discarded);
        };
        let ahead = xid_diff(xid, self.next_acked_txid);
        if ahead < 0 && slot.xid == xid && slot.error_sent {
            // The transaction failed and has retired. The initiator sent this packet before it
            // received the error, and the acknowledgement of the error overtook it.
            return Ok(Step::Discarded);
        }
        if ahead < 0 || i32::from(ahead) >= self.window as i32 {
            return Err(report(DropReason::XidOutOfWindow));
        }
        match slot.state {
            State::Closed => slot.begin(&mut self.seqnos, index, tal),
            State::Open | State::Failed => {}
            State::Retired(true) => return Ok(Step::Discarded),
            State::Answering | State::Retired(false) => {
                return Err(report(DropReason::XidCompleted));
            }
        }
        if slot.opcode != tal.opcode {
            return Err(Report {
                reason: DropReason::OpcodeChanged,
                value: tal.opcode.into(),
                low: slot.opcode.into(),
                high: u32::from(slot.opcode).wrapping_add(1),
            });
        }
        let max_packets = self.limits.max_packets;
        let check = slot
            .reception
            .check(&self.seqnos, index, tal, 1, max_packets);
        if let Err(report) = check {
            // The two ends have different limits. Without an error the initiator would wait for
            // ever.
            if report.reason == DropReason::SeqnoTooLarge && slot.state != State::Failed {
                slot.state = State::Open;
                self.fail(xid, tal.seqno, 0, Code::RESOURCES_PACKETS, owner, stats);
            }
            return Err(report);
        }
        slot.reception.take(&mut self.seqnos, index, tal, 1);
        if slot.state == State::Failed {
            return Ok(Step::Discarded);
        }
        slot.state = State::Open;

        let done = self.place(packet, owner, stats).and_then(|()| {
            let opnum = tal.num_ops.saturating_sub(1);
            self.finish(xid, owner).map_err(|code| (opnum, code))
        });
        Ok(match done {
            Ok(step) => step,
            Err((opnum, code)) => self.refuse(xid, tal.seqno, opnum, code, owner, stats),
        })
    }

    /// Processes all packets of a run at once. Returns `None`, without a change of state, if the
    /// run needs the checks of [`Self::receive`].
    pub(crate) fn receive_run<O: Owner>(
        &mut self,
        run: &Run<'_>,
        owner: &mut O,
        stats: &mut Stats,
    ) -> Option<Step> {
        let tal = run.tal();
        let xid = tal.xid;
        match run.op() {
            Op::Write(_) => {}
            Op::WriteExt(_) | Op::SendQpExt(_) if self.ext => {}
            _ => return None,
        }
        let index = self.slots.index(xid.into());
        let slot = self.slots.get_mut(xid.into())?;
        let ahead = xid_diff(xid, self.next_acked_txid);
        if ahead < 0 || i32::from(ahead) >= self.window as i32 {
            return None;
        }
        match slot.state {
            State::Closed => slot.begin(&mut self.seqnos, index, &tal),
            State::Open if slot.opcode == tal.opcode => {}
            _ => return None,
        }
        let max_packets = self.limits.max_packets;
        slot.reception
            .check(&self.seqnos, index, &tal, run.count(), max_packets)
            .ok()?;
        let mut data = run.data();
        match run.op() {
            Op::Write(write) => owner.write(write.address, data),
            Op::WriteExt(write) => owner.write(write.address, data),
            Op::SendQpExt(send) => segment_ext(&send, &mut data).and_then(|ext| {
                let segment = Segment {
                    xid,
                    seqno: tal.seqno,
                    opnum: 0,
                    qp: send.qp,
                    ext: Some(ext),
                    whole: false,
                };
                owner.message_to_qp(segment, data)
            }),
            _ => return None,
        }
        .ok()?;
        slot.reception
            .take(&mut self.seqnos, index, &tal, run.count());
        slot.state = State::Open;
        slot.bytes = slot.bytes.saturating_add(data.len as u32);
        stats.rx_operations = stats.rx_operations.wrapping_add(run.count().into());
        stats.rx_bytes = stats.rx_bytes.wrapping_add(data.len as u64);
        Some(match self.finish(xid, owner) {
            Ok(step) => step,
            Err(code) => {
                let last = tal.seqno.saturating_add(run.count()).saturating_sub(1);
                self.refuse(xid, last, 0, code, owner, stats)
            }
        })
    }

    /// Fails a transaction because of a packet, and returns the step for that packet.
    fn refuse<O: Owner>(
        &mut self,
        xid: u16,
        seqno: u16,
        opnum: u8,
        code: Code,
        owner: &mut O,
        stats: &mut Stats,
    ) -> Step {
        self.fail(xid, seqno, opnum, code, owner, stats);
        Step::Refused(match code {
            Code::MALFORMED_BLOCK => DropReason::ShortBlock,
            code if code.major == Code::UNKNOWN_OPCODE.major => DropReason::UnknownOpcode,
            _ => DropReason::TransactionFailed,
        })
    }

    /// Carries out the operations of a packet, up to the first that fails. `Err` has the position
    /// of that operation and its code.
    fn place<O: Owner>(
        &mut self,
        packet: &Packet<'_>,
        owner: &mut O,
        stats: &mut Stats,
    ) -> Result<(), (u8, Code)> {
        let opcode = packet.opcode().ok_or((0, Code::UNKNOWN_OPCODE))?;
        if opcode.is_extension() && !self.ext {
            return Err((0, Code::EXTENSION_NOT_ENABLED));
        }
        if packet.has_short_blocks() {
            return Err((0, Code::MALFORMED_BLOCK));
        }
        if opcode == Opcode::Write {
            return self.place_writes(packet, owner, stats);
        }
        let mut next = 0u8;
        for op in packet.ops() {
            let opnum = next;
            next = opnum.wrapping_add(1);
            let block = packet.block(opnum.into()).unwrap_or_default();
            let len = self
                .operation(packet.tal(), opnum, op, block, owner)
                .map_err(|code| (opnum, code))?;
            stats.rx_operations = stats.rx_operations.wrapping_add(1);
            stats.rx_bytes = stats.rx_bytes.wrapping_add(len as u64);
        }
        Ok(())
    }

    /// [`Self::place`] for plain writes, which are the most frequent operations.
    fn place_writes<O: Owner>(
        &mut self,
        packet: &Packet<'_>,
        owner: &mut O,
        stats: &mut Stats,
    ) -> Result<(), (u8, Code)> {
        let (mut placed, mut bytes) = (0u8, 0usize);
        let mut result = Ok(());
        for (write, block) in packet.writes() {
            if let Err(code) = owner.write(write.address, block) {
                result = Err((placed, code));
                break;
            }
            placed = placed.saturating_add(1);
            bytes = bytes.saturating_add(block.len);
        }
        if let Some(slot) = self.slots.get_mut(packet.tal().xid.into()) {
            slot.bytes = slot.bytes.saturating_add(bytes as u32);
        }
        stats.rx_operations = stats.rx_operations.wrapping_add(placed.into());
        stats.rx_bytes = stats.rx_bytes.wrapping_add(bytes as u64);
        result
    }

    /// Carries out one operation. Returns its number of data bytes.
    fn operation<O: Owner>(
        &mut self,
        tal: &TalHeader,
        opnum: u8,
        op: Op,
        mut block: Block,
        owner: &mut O,
    ) -> Result<usize, Code> {
        let (xid, seqno) = (tal.xid, tal.seqno);
        let slot = self.slots.get_mut(xid.into()).ok_or(Code::RESOURCES)?;
        let only = seqno == 0 && tal.eom && tal.num_ops == 1;
        let segment = |qp, ext: Option<SegmentExt>, len| Segment {
            xid,
            seqno,
            opnum,
            qp,
            ext,
            whole: only && ext.is_none_or(|ext| (ext.offset, ext.message_len as usize) == (0, len)),
        };
        match op {
            Op::Read(read) => {
                owner.read(read.address, read.length)?;
                let (address, length) = (read.address, read.length);
                let stored = self
                    .reads
                    .push(&mut slot.reads, address, length, seqno, opnum);
                if !stored {
                    return Err(Code::RESOURCES_READS);
                }
            }
            // `place_writes` handles plain writes.
            Op::Write(_) => return Err(Code::MALFORMED),
            Op::Send(send) => owner.message_to_context(xid, send.key, send.offset, block)?,
            Op::SendQp(send) => owner.message_to_qp(segment(send.qp, None, block.len), block)?,
            Op::WriteExt(write) => {
                let flags = write.flags;
                block.len = block.len.saturating_sub(flags.pad.into());
                if flags.immediate {
                    if slot.immediate.is_some() {
                        return Err(Code::MALFORMED_IMMEDIATE);
                    }
                    slot.immediate = Some(Immediate {
                        xid,
                        qp: write.qp,
                        imm: write.immediate,
                        solicited: flags.solicited,
                        len: 0,
                        start: false,
                    });
                }
                owner.write(write.address, block)?;
            }
            Op::SendQpExt(send) if send.flags.written => {
                if !send.flags.immediate {
                    return Err(Code::MALFORMED);
                }
                if slot.immediate.is_some() {
                    return Err(Code::MALFORMED_IMMEDIATE);
                }
                slot.immediate = Some(Immediate {
                    xid,
                    qp: send.qp,
                    imm: send.immediate,
                    solicited: send.flags.solicited,
                    len: send.message_len,
                    start: send.flags.start,
                });
                block.len = 0;
            }
            Op::SendQpExt(send) => {
                block.len = block.len.saturating_sub(send.flags.pad.into());
                let ext = segment_ext(&send, &mut block)?;
                owner.message_to_qp(segment(send.qp, Some(ext), block.len), block)?;
            }
            Op::Atomic(atomic) => {
                let kind = AtomicKind::from_u8(atomic.kind).ok_or(Code::MALFORMED_ATOMIC)?;
                if atomic.address % 8 != 0 {
                    return Err(Code::MALFORMED_ATOMIC);
                }
                slot.original = owner.atomic(Atomic {
                    address: atomic.address,
                    kind,
                    operand: atomic.operand,
                    compare: atomic.compare,
                })?;
            }
            // Packets with these opcodes go to the initiator, see `Opcode::is_reply`.
            Op::TransactionError(_) | Op::ReadResponse(_) | Op::AtomicResponse(_) => {
                return Err(Code::MALFORMED);
            }
        }
        slot.bytes = slot.bytes.saturating_add(block.len as u32);
        Ok(block.len)
    }

    /// Completes a transaction if all of its packets arrived.
    fn finish<O: Owner>(&mut self, xid: u16, owner: &mut O) -> Result<Step, Code> {
        let Some(slot) = self.slots.get_mut(xid.into()) else {
            return Ok(Step::Discarded);
        };
        if !slot.reception.is_complete() {
            return Ok(Step::Partial);
        }
        if let Some(immediate) = slot.immediate {
            let len = match Opcode::from_u8(slot.opcode) {
                Some(Opcode::WriteExt) => slot.bytes,
                _ => immediate.len,
            };
            owner.immediate(Immediate { len, ..immediate })?;
        }
        match Opcode::from_u8(slot.opcode) {
            Some(Opcode::Read) => {
                let head = slot.reads.head;
                let (limits, packets) = self.reply_limits(head).ok_or(Code::RESOURCES_REPLY)?;
                if let Some(slot) = self.slots.get_mut(xid.into()) {
                    slot.limits = Some(limits);
                }
                self.answer(xid, head, packets);
                return Ok(Step::Partial);
            }
            Some(Opcode::Atomic) => {
                self.answer(xid, NIL, 1);
                return Ok(Step::Partial);
            }
            Some(Opcode::LastNull) => self.last_null = Some(xid),
            Some(opcode) if opcode.has_data() => owner.complete(xid, slot.opcode)?,
            _ => {}
        }
        if let Some(slot) = self.slots.get_mut(xid.into()) {
            slot.state = State::Retired(false);
        }
        self.retire();
        Ok(Step::Complete)
    }

    /// Queues the answer to a complete request: `packets` packets that begin with read `read`.
    fn answer(&mut self, xid: u16, read: u16, packets: u16) {
        if let Some(slot) = self.slots.get_mut(xid.into()) {
            slot.state = State::Answering;
            slot.next_read = read;
            slot.reply_packets = packets;
            slot.queued = true;
            self.answers.push(xid);
        }
    }

    /// Fails a transaction and tells the owner. A Transaction Error is sent [proto 4.6, 4.15].
    fn fail<O: Owner>(
        &mut self,
        xid: u16,
        seqno: u16,
        opnum: u8,
        code: Code,
        owner: &mut O,
        stats: &mut Stats,
    ) {
        owner.aborted(xid);
        stats.refused = stats.refused.wrapping_add(1);
        self.set_failed(xid, seqno, opnum, code);
    }

    /// Moves a transaction to `Failed` and queues its Transaction Error.
    fn set_failed(&mut self, xid: u16, seqno: u16, opnum: u8, code: Code) {
        let Some(slot) = self.slots.get_mut(xid.into()) else {
            return;
        };
        slot.state = State::Failed;
        slot.error = TransactionErrorOp {
            seqno,
            opnum,
            major: code.major,
            minor: code.minor,
        };
        if !core::mem::replace(&mut slot.queued, true) {
            match code.answers_a_guess() {
                true => self.refusals.push(xid),
                false => self.answers.push(xid),
            }
        }
    }

    /// Number of refusals so far that answer guesses.
    pub(crate) fn refusals(&self) -> u32 {
        self.refusals.count()
    }

    /// Time at which the next refusal of a guess may be sent, in ns. `None` if none waits.
    pub(crate) fn refusal_due(&self) -> Option<u64> {
        self.refusals.due()
    }

    /// Queues the refusals of guesses that may be sent at `now`.
    pub(crate) fn release_refusals(&mut self, now: u64) {
        while let Some(xid) = self.refusals.pop(now) {
            self.answers.push(xid);
        }
    }

    /// Replaces the rest of the answer to a read by an error. Returns false if no answer to a read
    /// is under way.
    pub(crate) fn refuse_reply(&mut self, xid: u16, code: Code) -> bool {
        let answering = |slot: &&Transaction| {
            let read = slot.opcode == Opcode::Read as u8;
            slot.xid == xid && slot.state == State::Answering && read
        };
        let Some(slot) = self.slots.get(xid.into()).filter(answering) else {
            return false;
        };
        let (seqno, opnum) = self
            .reads
            .get(slot.next_read)
            .map_or((0, 0), |read| (read.seqno(), read.opnum()));
        self.set_failed(xid, seqno, opnum, code);
        true
    }

    /// Returns limits and number of packets for the reply to the reads from `read` on. `None` if
    /// the reply has too many packets. If shorter packets would be too many, the reply uses packets
    /// of the configured MTU, with which the peer computed that the reply fits.
    fn reply_limits(&self, read: u16) -> Option<(Limits, u16)> {
        let packets = self.reads.reply_packets(&self.path_limits, read);
        match packets {
            Some(packets) => Some((self.path_limits, packets)),
            None => Some((self.limits, self.reads.reply_packets(&self.limits, read)?)),
        }
    }

    /// Whether a packet of an answer waits to be sent.
    pub(crate) fn has_packet(&self) -> bool {
        self.answers.peek().is_some()
    }

    /// Dequeues the next packet of an answer.
    pub(crate) fn next_packet(&mut self) -> Option<Content> {
        let xid = self.answers.peek()?;
        let slot = self.slots.get(xid.into())?;
        let (content, next_read, next_offset, last) = if slot.state == State::Failed {
            (Content::Error { xid }, NIL, 0, true)
        } else if slot.opcode == Opcode::Atomic as u8 {
            (Content::AtomicResponse { xid }, NIL, 0, true)
        } else {
            let (read, offset) = (slot.next_read, slot.next_offset);
            let limits = slot.limits.as_ref().unwrap_or(&self.limits);
            let (count, _, next, next_offset) = self.reads.reply_step(limits, read, offset)?;
            let reply = Content::Reply {
                xid,
                seqno: slot.reply_sent,
                read,
                count,
                offset,
            };
            let last = slot.reply_sent.saturating_add(1) >= slot.reply_packets;
            (reply, next, next_offset, last)
        };
        let slot = self.slots.get_mut(xid.into())?;
        slot.next_read = next_read;
        slot.next_offset = next_offset;
        slot.unacked = slot.unacked.saturating_add(1);
        match content {
            Content::Error { .. } => slot.error_sent = true,
            _ => slot.reply_sent = slot.reply_sent.saturating_add(1),
        }
        if last {
            slot.queued = false;
            self.answers.pop();
        }
        Some(content)
    }

    /// Dequeues up to `max` packets that follow the packet `tal`, `reply`, if they answer the same
    /// read and are the next to send. Changes `tal` and `reply` to those of the last of them.
    /// Returns their number and their bytes of data.
    pub(crate) fn follow(
        &mut self,
        tal: &mut TalHeader,
        reply: &mut ReplyPayload,
        max: u16,
    ) -> (u16, u32) {
        let next = self.answers.peek().filter(|&xid| xid == reply.xid);
        let Some(slot) = next.and_then(|xid| self.slots.get_mut(xid.into())) else {
            return (0, 0);
        };
        let offset = reply.offset.saturating_add(reply.len);
        let same = slot.state == State::Answering
            && slot.opcode == Opcode::Read as u8
            && (slot.next_read, slot.next_offset) == (reply.read, offset)
            && offset != 0;
        let Some(read) = self.reads.get(reply.read).filter(|_| same) else {
            return (0, 0);
        };
        // All blocks of a read except the last have one size.
        let (block, remaining) = (reply.len, read.length.saturating_sub(offset));
        let count = remaining.div_ceil(block.max(1)).min(max.into());
        // CAST: `count` is at most `max`, a `u16`.
        let count = count as u16;
        if count == 0 {
            return (0, 0);
        }
        let bytes = block.saturating_mul(count.into()).min(remaining);
        let end = offset.saturating_add(bytes);
        let full = block.saturating_mul(count.saturating_sub(1).into());
        (reply.offset, reply.len) = (offset.saturating_add(full), bytes.saturating_sub(full));
        reply.pad = pad(reply.len);
        (slot.next_read, slot.next_offset) = match bytes == remaining {
            true => (self.reads.next(reply.read), 0),
            false => (reply.read, end),
        };
        slot.unacked = slot.unacked.saturating_add(count);
        slot.reply_sent = slot.reply_sent.saturating_add(count);
        tal.seqno = slot.reply_sent.saturating_sub(1);
        tal.eom = slot.reply_sent >= slot.reply_packets;
        if tal.eom {
            slot.queued = false;
            self.answers.pop();
        }
        (count, bytes)
    }

    /// Builds Transaction header and payload of a packet of an answer. Returns `None` if the packet
    /// is not needed any more.
    pub(crate) fn packet(&self, content: Content) -> Option<(TalHeader, Payload)> {
        let (Content::Reply { xid, .. } | Content::AtomicResponse { xid } | Content::Error { xid }) =
            content
        else {
            return None;
        };
        let slot = self.slots.get(xid.into()).filter(|slot| slot.xid == xid)?;
        match content {
            Content::Error { .. } if slot.state == State::Failed => {
                let tal = TalHeader {
                    eom: true,
                    num_ops: 1,
                    opcode: Opcode::TransactionError as u8,
                    xid,
                    ..TalHeader::default()
                };
                Some((tal, Payload::Error(slot.error)))
            }
            Content::AtomicResponse { .. } if slot.state == State::Answering => {
                let tal = TalHeader {
                    eom: true,
                    num_ops: 1,
                    opcode: Opcode::AtomicResponse as u8,
                    xid,
                    ..TalHeader::default()
                };
                let response = AtomicResponseOp {
                    seqno: 0,
                    opnum: 0,
                    original: slot.original,
                };
                Some((tal, Payload::AtomicResponse(response)))
            }
            Content::Reply {
                seqno,
                read,
                count,
                offset,
                ..
            } if slot.state == State::Answering => {
                let tal = TalHeader {
                    eom: seqno.saturating_add(1) >= slot.reply_packets,
                    num_ops: count,
                    opcode: Opcode::ReadResponse as u8,
                    seqno,
                    xid,
                    ..TalHeader::default()
                };
                Some((tal, Payload::Reply(self.reply(xid, read, count, offset)?)))
            }
            _ => None,
        }
    }

    /// Payload of a packet of a reply.
    fn reply(&self, xid: u16, read: u16, count: u8, offset: u32) -> Option<ReplyPayload> {
        let first = self.reads.get(read)?;
        let limits = self.slots.get(xid.into())?.limits;
        let (len, _) = limits
            .unwrap_or(self.limits)
            .reply_block(first.length, offset);
        Some(ReplyPayload {
            xid,
            read,
            count,
            offset,
            len,
            pad: pad(len),
        })
    }

    /// Returns the reads that a packet of a reply answers.
    pub(crate) fn reply_reads(&self, reply: &ReplyPayload) -> impl Iterator<Item = ReplyRead> + '_ {
        let (mut at, offset) = (reply.read, reply.offset);
        (0..reply.count).map_while(move |_| {
            let read = self.reads.get(at)?;
            at = self.reads.next(at);
            Some(ReplyRead {
                address: read.address.wrapping_add(offset.into()),
                seqno: read.seqno(),
                opnum: read.opnum(),
            })
        })
    }

    /// Records that a packet of an answer was acknowledged cumulatively. Returns true if that
    /// retired the transaction [proto 4.15].
    pub(crate) fn acknowledged(&mut self, xid: u16) -> bool {
        let Some(slot) = self.slots.get_mut(xid.into()) else {
            return false;
        };
        if slot.xid != xid {
            return false;
        }
        slot.unacked = slot.unacked.saturating_sub(1);
        let answered = match slot.state {
            State::Answering => slot.reply_sent >= slot.reply_packets,
            State::Failed => slot.error_sent,
            _ => false,
        };
        if slot.unacked > 0 || !answered {
            return false;
        }
        slot.state = State::Retired(slot.state == State::Failed);
        self.reads.release(&mut slot.reads);
        self.retire();
        true
    }

    /// Slides the window over retired transactions.
    fn retire(&mut self) {
        while let Some(slot) = self.slots.get_mut(self.next_acked_txid.into()) {
            if !matches!(slot.state, State::Retired(_)) {
                return;
            }
            slot.state = State::Closed;
            self.next_acked_txid = self.next_acked_txid.wrapping_add(1);
        }
    }
}
