// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Initiator: transactions of this end.

use super::super::bitmap::SeqnoBitmaps;
use super::super::config::Config;
use super::super::pdl::Content;
use super::super::seq::xid_diff;
use super::super::slab::{Ring, Slabs, Slots};
use super::super::stats::Stats;
use super::super::wire::{Op, Packet, ReadResponseOp, Run, TalHeader};
use super::super::{
    Barrier, Block, Code, DropReason, Event, Owner, Report, ReqOp, Request, RequestPayload,
    SubmitError,
};
use super::layout::{Layout, Limits};
use super::reception::Reception;
use super::Step;

/// Where a transaction stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    /// Under way.
    Open,
    /// Over, and the owner has not been told.
    Complete(Result<(), Code>),
    /// Over, and the owner has been told; `true`: with success. Retires when ACK XID covers it.
    Told(bool),
}

/// One transaction of this end.
#[derive(Clone, Copy, Debug)]
struct Transaction {
    xid: u16,
    state: State,
    request: Request,
    layout: Layout,
    /// Packets sent so far.
    sent: u16,
    submitted: u64,
    /// Of the reply.
    reception: Reception,
    /// Data bytes of the reply that have come.
    bytes: u64,
    /// Answer to an atomic.
    original: Option<u64>,
    /// The operation of several that the target refused.
    failed_op: Option<u32>,
}

impl Default for Transaction {
    fn default() -> Self {
        Self {
            xid: 0,
            state: State::Free,
            request: Request {
                op: ReqOp::Noop,
                count: 0,
                len: 0,
                token: 0,
            },
            layout: Layout::default(),
            sent: 0,
            submitted: 0,
            reception: Reception::default(),
            bytes: 0,
            original: None,
            failed_op: None,
        }
    }
}

impl Transaction {
    /// Which of several operations is at this place of the request.
    fn operation(&self, seqno: u16, opnum: u8) -> Option<u32> {
        let number = u32::from(seqno)
            .checked_mul(self.layout.ops.into())?
            .checked_add(opnum.into())?;
        let several = self.request.count > 1 && opnum < self.layout.ops;
        (several && number < self.request.count.into()).then_some(number)
    }

    /// Whether what has come of a read is all of it.
    fn is_answered(&self) -> Result<(), Code> {
        let asked = u64::from(self.request.len).saturating_mul(self.request.count.into());
        match self.bytes == asked {
            true => Ok(()),
            false => Err(Code::MALFORMED_REPLY),
        }
    }
}

/// Initiator window.
///
/// The completed and retired bitmaps of the spec are the states of the slots: a slot's state is
/// looked at once when the base reaches it.
pub(crate) struct Initiator<A: Slabs> {
    slots: Slots<A, Transaction>,
    /// Seqnos of replies.
    seqnos: SeqnoBitmaps<A>,
    /// Transactions that are over and not told, in the order in which they ended.
    complete: Ring<A>,
    next_ixid: u16,
    /// Lowest XID that has not retired.
    unacked_ixid: u16,
    /// First XID that ACK XID does not cover.
    acked_ixid: u16,
    /// First XID that may have packets to send.
    send_ixid: u16,
    /// Transactions under way.
    open: u32,
    barrier_all: Option<u16>,
    barrier_writes: Option<u16>,
    /// A request was refused for lack of room.
    want_room: bool,
    last_null: LastNull,
    window: u32,
    limits: Limits,
    /// Those for the packets that the path takes now.
    narrow: Limits,
    /// In ns; 0 for none.
    timeout: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastNull {
    No,
    Submitted,
    Acknowledged,
}

impl<A: Slabs> Initiator<A> {
    pub(crate) fn new(config: &Config) -> Option<Self> {
        let window = config.tal_trans_window;
        let slots = Slots::<A, Transaction>::new(window)?;
        Some(Self {
            seqnos: SeqnoBitmaps::new(slots.len(), config.tal_max_pkt_per_trans)?,
            slots,
            complete: Ring::new(window)?,
            next_ixid: config.start_xid,
            unacked_ixid: config.start_xid,
            acked_ixid: config.start_xid,
            send_ixid: config.start_xid,
            open: 0,
            barrier_all: None,
            barrier_writes: None,
            want_room: false,
            last_null: LastNull::No,
            window,
            limits: Limits::new(config),
            narrow: Limits::new(config),
            timeout: config.tal_transaction_timeout.saturating_mul(10),
        })
    }

    pub(crate) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Cuts later requests into packets that are `less` bytes shorter than those that the connection began with.
    pub(crate) fn shorten(&mut self, less: u32) {
        self.narrow = self.limits.narrowed(less);
    }

    /// A message that has to be one transaction may be as long as ever.
    pub(crate) fn max_len(&self, op: &ReqOp) -> u64 {
        match op {
            ReqOp::SendQp { .. } | ReqOp::Send { .. } => self.limits.max_len(op),
            _ => self.narrow.max_len(op),
        }
    }

    pub(crate) fn per_packet(&self, op: &ReqOp, len: u32) -> u32 {
        self.narrow.per_packet(op, len)
    }

    /// Whether a slot is free.
    pub(crate) fn has_slot(&self) -> bool {
        let used = self.next_ixid.wrapping_sub(self.unacked_ixid);
        u32::from(used) < self.window
    }

    pub(crate) fn min_len(&self, op: &ReqOp) -> u32 {
        self.limits.min_len(op)
    }

    /// Transactions under way.
    pub(crate) fn open(&self) -> u32 {
        self.open
    }

    /// The target owes something: an answer, or an ACK XID.
    pub(crate) fn waiting(&self) -> bool {
        self.open > 0 || self.acked_ixid != self.next_ixid
    }

    /// Nothing is left to do, not even to tell.
    pub(crate) fn idle(&self) -> bool {
        self.unacked_ixid == self.next_ixid
    }

    pub(crate) fn shutting_down(&self) -> bool {
        self.last_null != LastNull::No
    }

    /// Last NULL has been acknowledged.
    pub(crate) fn drained(&self) -> bool {
        self.last_null == LastNull::Acknowledged
    }

    /// When the oldest transaction has lived too long, and its XID.
    pub(crate) fn deadline(&self) -> Option<(u64, u16)> {
        if self.timeout == 0 || self.idle() {
            return None;
        }
        let oldest = self.slots.get(self.unacked_ixid.into())?;
        Some((oldest.submitted.saturating_add(self.timeout), oldest.xid))
    }

    pub(crate) fn submit(&mut self, now: u64, request: Request) -> Result<u16, SubmitError> {
        if self.shutting_down() {
            return Err(SubmitError::Stopped);
        }
        // What was measured before the path became narrow goes in the packets that it was measured for.
        let layout = match self.narrow.layout(&request) {
            Err(SubmitError::TooLong { .. } | SubmitError::BadCount { .. }) => {
                self.limits.layout(&request)?
            }
            layout => layout?,
        };
        if !self.has_room(&request.op) {
            self.want_room = true;
            return Err(SubmitError::WindowFull);
        }
        let xid = self.next_ixid;
        if let Some(slot) = self.slots.get_mut(xid.into()) {
            *slot = Transaction {
                xid,
                state: State::Open,
                request,
                layout,
                submitted: now,
                ..Transaction::default()
            };
        }
        self.seqnos.reset(self.slots.index(xid.into()));
        self.next_ixid = xid.wrapping_add(1);
        self.open = self.open.saturating_add(1);
        if request.op == ReqOp::LastNull {
            self.last_null = LastNull::Submitted;
        }
        Ok(xid)
    }

    pub(crate) fn barrier(&mut self, barrier: Barrier) {
        let at = (!self.idle()).then_some(self.next_ixid);
        match barrier {
            Barrier::All => self.barrier_all = at,
            Barrier::Writes => self.barrier_writes = at,
        }
    }

    /// The owner was refused, and is told when it may try again.
    pub(crate) fn wants_room(&mut self) {
        self.want_room = true;
    }

    fn has_room(&self, op: &ReqOp) -> bool {
        let writes = matches!(
            op,
            ReqOp::Write { .. } | ReqOp::WriteExt { .. } | ReqOp::Atomic { .. }
        );
        self.has_slot() && self.barrier_all.is_none() && !(writes && self.barrier_writes.is_some())
    }

    /// Whether the owner, having been refused, may try again now. Tells once.
    pub(crate) fn take_room(&mut self) -> bool {
        let held = self.barrier_all.is_some() || self.barrier_writes.is_some();
        let room = self.has_slot() && !held;
        let tell = self.want_room && room;
        self.want_room &= !tell;
        tell
    }

    /// Whether a packet waits to be sent.
    pub(crate) fn has_packet(&mut self) -> bool {
        while self.send_ixid != self.next_ixid {
            match self.slots.get(self.send_ixid.into()) {
                Some(slot) if slot.state == State::Open && slot.sent < slot.layout.packets => {
                    return true;
                }
                _ => self.send_ixid = self.send_ixid.wrapping_add(1),
            }
        }
        false
    }

    /// Takes the packet that `has_packet` saw.
    pub(crate) fn next_packet(&mut self) -> Option<Content> {
        if !self.has_packet() {
            return None;
        }
        let slot = self.slots.get_mut(self.send_ixid.into())?;
        let seqno = slot.sent;
        slot.sent = seqno.saturating_add(1);
        Some(Content::Request {
            xid: slot.xid,
            seqno,
        })
    }

    /// Header and content of a request packet; `None` when the transaction is over, so that the packet
    /// is not needed any more.
    pub(crate) fn packet(&self, xid: u16, seqno: u16) -> Option<(TalHeader, RequestPayload)> {
        let slot = self.slots.get(xid.into())?;
        if slot.xid != xid || slot.state != State::Open {
            return None;
        }
        let Transaction {
            request, layout, ..
        } = slot;
        let last = seqno.saturating_add(1) >= layout.packets;
        let (mut ops, mut len) = (layout.ops, layout.block);
        let (mut first_op, mut offset) = (0, 0);
        if request.count > 1 {
            first_op = u32::from(seqno).saturating_mul(ops.into());
            let left = u32::from(request.count).saturating_sub(first_op);
            ops = left.min(ops.into()) as u8;
        } else {
            offset = u32::from(seqno).saturating_mul(layout.block);
            if last {
                len = request.len.saturating_sub(offset);
            }
        }
        let opcode = request.op.opcode();
        let tal = TalHeader {
            eom: last,
            num_ops: ops,
            opcode: opcode as u8,
            seqno,
            xid,
            ..TalHeader::default()
        };
        let payload = RequestPayload {
            xid,
            token: request.token,
            op: request.op,
            count: request.count,
            first_op,
            offset,
            len,
            pad: layout.pad,
            has_data: opcode.has_data(),
            last,
        };
        Some((tal, payload))
    }

    /// Takes up to `most` packets after this one, of a request with one operation, if they are the next of all: makes
    /// of its header and content those of the last of them. Gives how many, and their bytes of data.
    pub(crate) fn follow(
        &mut self,
        tal: &mut TalHeader,
        request: &mut RequestPayload,
        most: u16,
    ) -> (u16, u32) {
        let Some(slot) = self.slots.get_mut(self.send_ixid.into()) else {
            return (0, 0);
        };
        let xid = request.xid;
        let first = tal.seqno.saturating_add(1);
        let next = self.send_ixid == xid
            && slot.xid == xid
            && slot.state == State::Open
            && slot.sent == first;
        let count = slot.layout.packets.saturating_sub(first).min(most);
        if !next || slot.request.count != 1 || !request.has_data || count == 0 {
            return (0, 0);
        }
        slot.sent = first.saturating_add(count);
        tal.seqno = tal.seqno.saturating_add(count);
        tal.eom = slot.sent >= slot.layout.packets;
        let before = request.offset.saturating_add(request.len);
        request.last = tal.eom;
        request.offset = u32::from(tal.seqno).saturating_mul(slot.layout.block);
        if request.last {
            request.len = slot.request.len.saturating_sub(request.offset);
        }
        let end = request.offset.saturating_add(request.len);
        (count, end.saturating_sub(before))
    }

    /// Judges an ACK XID. `Err`: of a transaction never started. Changes nothing.
    pub(crate) fn check_ack(&self, ack_xid: u16) -> Result<(), Report> {
        if xid_diff(ack_xid, self.next_ixid) < 0 {
            return Ok(());
        }
        Err(Report {
            reason: DropReason::AckXidOutOfWindow,
            value: ack_xid.into(),
            low: self.acked_ixid.wrapping_sub(1).into(),
            high: self.next_ixid.into(),
        })
    }

    /// Takes an ACK XID that was checked: completes what it covers, except what has an answer
    /// [proto 4.4]. Whether it
    /// was news.
    pub(crate) fn acknowledge(&mut self, ack_xid: u16) -> bool {
        if xid_diff(ack_xid, self.acked_ixid) < 0 {
            return false;
        }
        while xid_diff(ack_xid, self.acked_ixid) >= 0 {
            let xid = self.acked_ixid;
            self.acked_ixid = xid.wrapping_add(1);
            let Some(slot) = self.slots.get(xid.into()) else {
                continue;
            };
            match slot.request.op {
                ReqOp::Read { .. } | ReqOp::Atomic { .. } => continue,
                ReqOp::LastNull => self.last_null = LastNull::Acknowledged,
                _ => {}
            }
            self.end(xid, Ok(()));
        }
        self.retire();
        true
    }

    /// Takes a packet from the target.
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
            low: self.unacked_ixid.into(),
            high: self.next_ixid.into(),
        };
        if xid_diff(xid, self.unacked_ixid) < 0 || xid_diff(xid, self.next_ixid) >= 0 {
            return Err(report(DropReason::XidOutOfWindow));
        }
        let Some(slot) = self.slots.get(xid.into()) else {
            return Ok(Step::Swallowed);
        };
        match slot.state {
            State::Open => {}
            State::Complete(Err(_)) | State::Told(false) => return Ok(Step::Swallowed),
            _ => return Err(report(DropReason::XidCompleted)),
        }
        // The target cannot answer before the request is sent; all of it, except for an error.
        let early = report(DropReason::EarlyReply);
        if slot.sent == 0 {
            return Err(early);
        }
        let mismatch = report(DropReason::ReplyMismatch);
        match packet.ops().next() {
            Some(Op::TransactionError(op)) => {
                // No error is success, to whoever looks at codes.
                let code = match op.major {
                    0 => Code::MALFORMED_REPLY,
                    major => Code {
                        major,
                        minor: op.minor,
                    },
                };
                if let Some(slot) = self.slots.get_mut(xid.into()) {
                    slot.failed_op = slot.operation(op.seqno, op.opnum);
                }
                self.end(xid, Err(code));
                Ok(Step::Complete)
            }
            Some(Op::ReadResponse(_)) if matches!(slot.request.op, ReqOp::Read { .. }) => {
                if slot.sent < slot.layout.packets {
                    return Err(early);
                }
                self.receive_data(packet, owner, stats, mismatch)
            }
            Some(Op::AtomicResponse(op)) if matches!(slot.request.op, ReqOp::Atomic { .. }) => {
                if (op.seqno, op.opnum, tal.seqno) != (0, 0, 0) {
                    self.end(xid, Err(Code::MALFORMED_REPLY));
                    return Err(mismatch);
                }
                if let Some(slot) = self.slots.get_mut(xid.into()) {
                    slot.original = Some(op.original);
                }
                stats.rx_operations = stats.rx_operations.wrapping_add(1);
                self.end(xid, Ok(()));
                Ok(Step::Complete)
            }
            _ => Err(mismatch),
        }
    }

    /// Takes data for a read that is under way; padding is cut off [proto 4.10].
    fn receive_data<O: Owner>(
        &mut self,
        packet: &Packet<'_>,
        owner: &mut O,
        stats: &mut Stats,
        mismatch: Report,
    ) -> Result<Step, Report> {
        let tal = packet.tal();
        let xid = tal.xid;
        let index = self.slots.index(xid.into());
        let Some(slot) = self.slots.get_mut(xid.into()) else {
            return Err(mismatch);
        };
        let max_packets = self.limits.max_packets;
        slot.reception
            .check(&self.seqnos, index, tal, 1, max_packets)?;
        let mut parts = reply_parts(packet, slot);
        let (first, others) = (parts.next(), parts.clone());
        let unfit = |part: Option<Part>| part.is_none();
        if packet.has_short_blocks() || first.is_none_or(unfit) || parts.any(unfit) {
            self.end(xid, Err(Code::MALFORMED_REPLY));
            return Err(mismatch);
        }
        slot.reception.take(&mut self.seqnos, index, tal, 1);
        let mut result = Ok(());
        for part in first.into_iter().chain(others).flatten() {
            let token = slot.request.token;
            result = owner.reply(xid, token, part.op, part.offset, part.data);
            if result.is_err() {
                break;
            }
            slot.bytes = slot.bytes.saturating_add(part.data.len as u64);
            stats.rx_bytes = stats.rx_bytes.wrapping_add(part.data.len as u64);
            stats.rx_operations = stats.rx_operations.wrapping_add(1);
        }
        if result.is_ok() && !slot.reception.is_complete() {
            return Ok(Step::Partial);
        }
        let result = result.and_then(|()| slot.is_answered());
        self.end(xid, result);
        Ok(Step::Complete)
    }

    /// Takes the packets of a run as one. `None` if anything is out of the ordinary; then nothing has changed.
    pub(crate) fn receive_run<O: Owner>(
        &mut self,
        run: &Run<'_>,
        owner: &mut O,
        stats: &mut Stats,
    ) -> Option<Step> {
        let Op::ReadResponse(response) = run.op() else {
            return None;
        };
        let tal = run.tal();
        let xid = tal.xid;
        if xid_diff(xid, self.unacked_ixid) < 0 || xid_diff(xid, self.next_ixid) >= 0 {
            return None;
        }
        let index = self.slots.index(xid.into());
        let slot = self.slots.get_mut(xid.into())?;
        let asked = matches!(slot.request.op, ReqOp::Read { .. })
            && slot.state == State::Open
            && slot.sent != 0
            && slot.sent >= slot.layout.packets;
        let max_packets = self.limits.max_packets;
        slot.reception
            .check(&self.seqnos, index, &tal, run.count(), max_packets)
            .ok()
            .filter(|()| asked)?;
        let op = reply_parts(run.first(), slot).next()??.op;
        // In the last packet, too, there is a byte that is not pad.
        let mut data = run.data();
        let before = run
            .first()
            .block_len()
            .checked_mul(run.count().checked_sub(1)?.into())?;
        let left = slot.request.len.checked_sub(response.offset)? as usize;
        if before >= left {
            return None;
        }
        data.len = data.len.min(left);
        owner
            .reply(xid, slot.request.token, op, response.offset, data)
            .ok()?;
        slot.reception
            .take(&mut self.seqnos, index, &tal, run.count());
        slot.bytes = slot.bytes.saturating_add(data.len as u64);
        stats.rx_bytes = stats.rx_bytes.wrapping_add(data.len as u64);
        stats.rx_operations = stats.rx_operations.wrapping_add(run.count().into());
        if !slot.reception.is_complete() {
            return Some(Step::Partial);
        }
        let result = slot.is_answered();
        self.end(xid, result);
        Some(Step::Complete)
    }

    /// Ends a transaction that is under way.
    fn end(&mut self, xid: u16, result: Result<(), Code>) {
        let Some(slot) = self.slots.get_mut(xid.into()) else {
            return;
        };
        if slot.xid == xid && slot.state == State::Open {
            slot.state = State::Complete(result);
            self.open = self.open.saturating_sub(1);
            self.complete.push(xid);
        }
    }

    /// Ends everything that is under way; nothing more will be acknowledged.
    pub(crate) fn abort(&mut self, code: Code) {
        let mut xid = self.unacked_ixid;
        while xid != self.next_ixid {
            self.end(xid, Err(code));
            xid = xid.wrapping_add(1);
        }
        self.acked_ixid = self.next_ixid;
        self.send_ixid = self.next_ixid;
        self.want_room = false;
        self.retire();
    }

    /// The next transaction that is over.
    pub(crate) fn poll_complete(&mut self) -> Option<Event> {
        let xid = self.complete.pop()?;
        let slot = self.slots.get_mut(xid.into())?;
        let State::Complete(result) = slot.state else {
            return None;
        };
        slot.state = State::Told(result.is_ok());
        let token = slot.request.token;
        let (original, failed_op) = (slot.original, slot.failed_op);
        self.retire();
        Some(Event::Completed {
            xid,
            token,
            result,
            original,
            failed_op,
        })
    }

    /// Slides the window over what is over, told and acknowledged.
    fn retire(&mut self) {
        while self.unacked_ixid != self.acked_ixid {
            match self.slots.get_mut(self.unacked_ixid.into()) {
                Some(slot) if matches!(slot.state, State::Told(_)) => slot.state = State::Free,
                _ => break,
            }
            self.unacked_ixid = self.unacked_ixid.wrapping_add(1);
        }
        let base = self.unacked_ixid;
        if xid_diff(base, self.send_ixid) > 0 {
            self.send_ixid = base;
        }
        let holds = |barrier: &u16| xid_diff(base, *barrier) < 0;
        self.barrier_all = self.barrier_all.filter(holds);
        self.barrier_writes = self.barrier_writes.filter(holds);
    }
}

/// One block of a reply.
#[derive(Clone, Copy)]
struct Part {
    op: u32,
    offset: u32,
    data: Block,
}

/// The blocks of a reply with what they are for; `None` for one that was not asked for.
fn reply_parts<'a>(
    packet: &'a Packet<'_>,
    slot: &Transaction,
) -> impl Iterator<Item = Option<Part>> + Clone + 'a {
    let (len, count, ops) = (slot.request.len, slot.request.count, slot.layout.ops);
    (0..=u8::MAX).zip(packet.ops()).map(move |(index, op)| {
        let Op::ReadResponse(ReadResponseOp {
            seqno,
            opnum,
            offset,
        }) = op
        else {
            return None;
        };
        let number = u32::from(seqno)
            .checked_mul(ops.into())?
            .checked_add(opnum.into())?;
        let left = len.checked_sub(offset)?;
        let mut data = packet.block(index.into())?;
        let known = opnum < ops && number < count.into();
        if !known || (left == 0 && len != 0) {
            return None;
        }
        data.len = data.len.min(left as usize);
        Some(Part {
            op: number,
            offset,
            data,
        })
    })
}
