// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Initiator: local transactions.

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

/// State of a slot. The states follow one another in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Unused. `submit` moves the slot to `Open`.
    #[default]
    Free,
    /// The transaction is under way. `end` moves it to `Complete`.
    Open,
    /// The transaction is over, and its event waits. `poll_complete` moves it to `Reported`.
    Complete(Result<(), Code>),
    /// The owner has the event; `true` if the transaction succeeded. `retire` frees the slot when
    /// ACK XID covers this transaction and all before it are reported.
    Reported(bool),
}

/// A local transaction.
#[derive(Clone, Copy, Debug)]
struct Transaction {
    xid: u16,
    state: State,
    request: Request,
    layout: Layout,
    /// Number of packets sent so far.
    sent: u16,
    /// Time of `submit`, in ns.
    submitted: u64,
    /// Received packets of the reply.
    reception: Reception,
    /// Number of data bytes received.
    bytes: u64,
    /// Original value, from the response to an atomic.
    original: Option<u64>,
    /// Index of the operation that the target refused, if the request has several.
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
    /// Index in the request of operation `opnum` of packet `seqno`. `None` if the request has one
    /// operation, or none at this position.
    fn operation(&self, seqno: u16, opnum: u8) -> Option<u32> {
        let number = u32::from(seqno)
            .checked_mul(self.layout.ops.into())?
            .checked_add(opnum.into())?;
        let several = self.request.count > 1 && opnum < self.layout.ops;
        (several && number < self.request.count.into()).then_some(number)
    }

    /// Checks that a complete reply has as many bytes as the reads asked for.
    fn check_reply_len(&self) -> Result<(), Code> {
        let expected = u64::from(self.request.len).saturating_mul(self.request.count.into());
        match self.bytes == expected {
            true => Ok(()),
            false => Err(Code::MALFORMED_REPLY),
        }
    }
}

/// Initiator window.
///
/// The states of the slots stand for the completed and retired bitmaps of the specification
/// [proto 4.3]. The window reads the state of a slot once, when its base reaches it.
pub(crate) struct Initiator<A: Slabs> {
    slots: Slots<A, Transaction>,
    /// Received Seqnos of replies.
    seqnos: SeqnoBitmaps<A>,
    /// XIDs of transactions in state `Complete`, in the order in which they ended.
    complete: Ring<A>,
    /// XID of the next request.
    next_ixid: u16,
    /// Lowest XID that has not retired.
    unacked_ixid: u16,
    /// First XID that ACK XID does not cover.
    acked_ixid: u16,
    /// First XID that may have packets to send.
    send_ixid: u16,
    /// Number of transactions in state `Open`.
    open: u32,
    /// Barrier for all requests: it ends when all XIDs before this one have retired.
    barrier_all: Option<u16>,
    /// Barrier for writes and atomics, likewise.
    barrier_writes: Option<u16>,
    /// A request was refused with `WindowFull`, so an `Event::Writable` must follow.
    writable_wanted: bool,
    last_null: LastNull,
    window: u32,
    /// Limits for the MTU that the connection was created with.
    limits: Limits,
    /// Limits for the present MTU of the path.
    path_limits: Limits,
    /// Longest life of a transaction in ns; 0 for no limit.
    timeout: u64,
}

/// State of the local Last NULL.
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
            writable_wanted: false,
            last_null: LastNull::No,
            window,
            limits: Limits::new(config),
            path_limits: Limits::new(config),
            timeout: config.tal_transaction_timeout.saturating_mul(10),
        })
    }

    pub(crate) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Makes packets of later requests `reduction` bytes shorter than the configured MTU.
    pub(crate) fn reduce_mtu(&mut self, reduction: u32) {
        self.path_limits = self.limits.reduced(reduction);
    }

    /// Largest length in bytes of a request with one operation. A message that must be one
    /// transaction may use packets of the configured MTU, so that its limit does not shrink with
    /// the path's.
    pub(crate) fn max_len(&self, op: &ReqOp) -> u64 {
        match op {
            ReqOp::SendQp { .. } | ReqOp::Send { .. } => self.limits.max_len(op),
            _ => self.path_limits.max_len(op),
        }
    }

    /// Number of operations of `len` bytes each that fit one packet.
    pub(crate) fn per_packet(&self, op: &ReqOp, len: u32) -> u32 {
        self.path_limits.per_packet(op, len)
    }

    /// Whether the transaction window has a free slot.
    pub(crate) fn has_slot(&self) -> bool {
        let used = self.next_ixid.wrapping_sub(self.unacked_ixid);
        u32::from(used) < self.window
    }

    /// Smallest length in bytes of each operation of a request.
    pub(crate) fn min_len(&self, op: &ReqOp) -> u32 {
        self.limits.min_len(op)
    }

    /// Number of transactions under way.
    pub(crate) fn open(&self) -> u32 {
        self.open
    }

    /// Whether this end waits for an answer or an ACK XID.
    pub(crate) fn waiting(&self) -> bool {
        self.open > 0 || self.acked_ixid != self.next_ixid
    }

    /// Whether all transactions have retired. The owner has the events of retired transactions.
    pub(crate) fn idle(&self) -> bool {
        self.unacked_ixid == self.next_ixid
    }

    /// Whether a Last NULL was submitted.
    pub(crate) fn shutting_down(&self) -> bool {
        self.last_null != LastNull::No
    }

    /// Whether the local Last NULL was acknowledged.
    pub(crate) fn drained(&self) -> bool {
        self.last_null == LastNull::Acknowledged
    }

    /// Time in ns at which the oldest transaction times out, and its XID.
    pub(crate) fn deadline(&self) -> Option<(u64, u16)> {
        if self.timeout == 0 || self.idle() {
            return None;
        }
        let oldest = self.slots.get(self.unacked_ixid.into())?;
        Some((oldest.submitted.saturating_add(self.timeout), oldest.xid))
    }

    /// Starts a transaction, see [`super::super::Connection::submit`].
    pub(crate) fn submit(&mut self, now: u64, request: Request) -> Result<u16, SubmitError> {
        if self.shutting_down() {
            return Err(SubmitError::Stopped);
        }
        // The owner may have sized the request before the path's MTU shrank. A request that is now
        // too large uses packets of the configured MTU.
        let layout = match self.path_limits.layout(&request) {
            Err(SubmitError::TooLong { .. } | SubmitError::BadCount { .. }) => {
                self.limits.layout(&request)?
            }
            layout => layout?,
        };
        if !self.has_room(&request.op) {
            self.writable_wanted = true;
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

    /// Sets a barrier behind all transactions that have not retired.
    pub(crate) fn barrier(&mut self, barrier: Barrier) {
        let at = (!self.idle()).then_some(self.next_ixid);
        match barrier {
            Barrier::All => self.barrier_all = at,
            Barrier::Writes => self.barrier_writes = at,
        }
    }

    /// Requests an `Event::Writable`.
    pub(crate) fn want_writable(&mut self) {
        self.writable_wanted = true;
    }

    /// Whether window and barriers allow a request with `op`.
    fn has_room(&self, op: &ReqOp) -> bool {
        let writes = matches!(
            op,
            ReqOp::Write { .. } | ReqOp::WriteExt { .. } | ReqOp::Atomic { .. }
        );
        self.has_slot() && self.barrier_all.is_none() && !(writes && self.barrier_writes.is_some())
    }

    /// Whether `Event::Writable` is due: it was requested, and any request is allowed again. Clears
    /// `writable_wanted` then.
    pub(crate) fn take_writable(&mut self) -> bool {
        let held = self.barrier_all.is_some() || self.barrier_writes.is_some();
        let allowed = self.has_slot() && !held;
        let due = self.writable_wanted && allowed;
        self.writable_wanted &= !due;
        due
    }

    /// Whether a packet of a request waits to be sent. Moves `send_ixid` to its transaction.
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

    /// Dequeues the next packet of a request.
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

    /// Builds Transaction header and payload of a packet of a request. Returns `None` if the
    /// transaction is over, so that the packet is not needed any more.
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
            let remaining = u32::from(request.count).saturating_sub(first_op);
            ops = remaining.min(ops.into()) as u8;
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

    /// Dequeues up to `max` packets that follow the packet `tal`, `request`, if they belong to the
    /// same request with one operation and are the next to send. Changes `tal` and `request` to
    /// those of the last of them. Returns their number and their bytes of data.
    pub(crate) fn follow(
        &mut self,
        tal: &mut TalHeader,
        request: &mut RequestPayload,
        max: u16,
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
        let count = slot.layout.packets.saturating_sub(first).min(max);
        if !next || slot.request.count != 1 || !request.has_data || count == 0 {
            return (0, 0);
        }
        slot.sent = first.saturating_add(count);
        tal.seqno = tal.seqno.saturating_add(count);
        tal.eom = slot.sent >= slot.layout.packets;
        let start = request.offset.saturating_add(request.len);
        request.last = tal.eom;
        request.offset = u32::from(tal.seqno).saturating_mul(slot.layout.block);
        if request.last {
            request.len = slot.request.len.saturating_sub(request.offset);
        }
        let end = request.offset.saturating_add(request.len);
        (count, end.saturating_sub(start))
    }

    /// Checks an ACK XID. Changes no state.
    ///
    /// # Errors
    ///
    /// The ACK XID is that of a transaction never started.
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

    /// Processes an ACK XID that [`Self::check_ack`] accepted. Completes the transactions that it
    /// covers, except reads and atomics, which their answer completes [proto 4.4]. Returns true if
    /// the ACK XID is newer than all before.
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

    /// Processes a packet from the target.
    ///
    /// # Errors
    ///
    /// The packet breaks a rule and is dropped. A Read response or Atomic response with wrong
    /// fields also fails its request.
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
            return Ok(Step::Discarded);
        };
        match slot.state {
            State::Open => {}
            State::Complete(Err(_)) | State::Reported(false) => return Ok(Step::Discarded),
            _ => return Err(report(DropReason::XidCompleted)),
        }
        // The target can answer only when the whole request was sent. A Transaction Error may come
        // after the first packet [proto 4.6].
        let early = report(DropReason::EarlyReply);
        if slot.sent == 0 {
            return Err(early);
        }
        let mismatch = report(DropReason::ReplyMismatch);
        match packet.ops().next() {
            Some(Op::TransactionError(op)) => {
                // Users take code 0 for success, so it must not stand for an error.
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

    /// Delivers the data of a packet of a reply. Padding is cut off [proto 4.10].
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
        let result = result.and_then(|()| slot.check_reply_len());
        self.end(xid, result);
        Ok(Step::Complete)
    }

    /// Processes all packets of a run at once. Returns `None`, without a change of state, if the
    /// run needs the checks of [`Self::receive`].
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
        let expected = matches!(slot.request.op, ReqOp::Read { .. })
            && slot.state == State::Open
            && slot.sent != 0
            && slot.sent >= slot.layout.packets;
        let max_packets = self.limits.max_packets;
        slot.reception
            .check(&self.seqnos, index, &tal, run.count(), max_packets)
            .ok()
            .filter(|()| expected)?;
        let op = reply_parts(run.first(), slot).next()??.op;
        // The last packet must have at least one byte that is not padding.
        let mut data = run.data();
        let full_blocks = run
            .first()
            .block_len()
            .checked_mul(run.count().checked_sub(1)?.into())?;
        let remaining = slot.request.len.checked_sub(response.offset)? as usize;
        if full_blocks >= remaining {
            return None;
        }
        data.len = data.len.min(remaining);
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
        let result = slot.check_reply_len();
        self.end(xid, result);
        Some(Step::Complete)
    }

    /// Ends a transaction, if it is under way.
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

    /// Ends all transactions, because the connection ended. They retire without an ACK XID.
    pub(crate) fn abort(&mut self, code: Code) {
        let mut xid = self.unacked_ixid;
        while xid != self.next_ixid {
            self.end(xid, Err(code));
            xid = xid.wrapping_add(1);
        }
        self.acked_ixid = self.next_ixid;
        self.send_ixid = self.next_ixid;
        self.writable_wanted = false;
        self.retire();
    }

    /// Returns the event of the next transaction that is over.
    pub(crate) fn poll_complete(&mut self) -> Option<Event> {
        let xid = self.complete.pop()?;
        let slot = self.slots.get_mut(xid.into())?;
        let State::Complete(result) = slot.state else {
            return None;
        };
        slot.state = State::Reported(result.is_ok());
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

    /// Slides the window over transactions that are reported and acknowledged. Ends barriers.
    fn retire(&mut self) {
        while self.unacked_ixid != self.acked_ixid {
            match self.slots.get_mut(self.unacked_ixid.into()) {
                Some(slot) if matches!(slot.state, State::Reported(_)) => slot.state = State::Free,
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
    /// Index of the read in the request.
    op: u32,
    /// Offset of the block in the data of the read, in bytes.
    offset: u32,
    /// The data in the packet, without padding.
    data: Block,
}

/// Matches each block of a reply to its read. `None` stands for a block that the request did not
/// ask for.
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
        let remaining = len.checked_sub(offset)?;
        let mut data = packet.block(index.into())?;
        let known = opnum < ops && number < count.into();
        if !known || (remaining == 0 && len != 0) {
            return None;
        }
        data.len = data.len.min(remaining as usize);
        Some(Part {
            op: number,
            offset,
            data,
        })
    })
}
