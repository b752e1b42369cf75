// SPDX-License-Identifier: GPL-2.0

//! The requests of a connection: works become transactions.

use kernel::{list::List, prelude::*};

use super::{count, flow::Next, links::FLOWS_PER_LOCK, ConnState, Inner};
use crate::{
    proto::{Code, ReqOp, Request, SubmitError},
    qp::{
        work::{PackKey, Ticket, Work, WorkOp},
        CompletionBatch, MsgAttrs, RetryPolicy,
    },
};

/// The message operation of v0.4, to ask the core for lengths.
pub(super) const STRICT_SEND: ReqOp = ReqOp::SendQp { qp: 0 };

/// The operation for receive contexts, to ask the core for lengths.
pub(super) const KEYED_SEND: ReqOp = ReqOp::Send { key: 0, offset: 0 };

/// Refusals after which a message of a closed socket or queue pair fails: about two seconds.
const ORPHAN_REFUSALS: u32 = 100;

/// Whether the peer had no buffer, but may have one later.
fn is_refusal(code: Code) -> bool {
    code == Code::NO_RECEIVE_BUFFER || code == Code::RECEIVE_AFTER_REFUSAL
}

/// What became of the next transaction of a work.
enum SubmitOutcome {
    Submitted,
    /// The TAL window has no free slot.
    Full,
    /// It waits for the transactions before it. Their end wakes the flow.
    Blocked,
    /// The work fails with this code.
    Failed(Code),
}

impl Inner {
    /// Starts transactions while the TAL window is open. Flows take turns. Returns whether anything
    /// changed.
    pub(super) fn submit(&mut self, now: u64) -> bool {
        let draining = match self.state {
            ConnState::Established => false,
            ConnState::Draining => true,
            _ => return false,
        };
        let config = self.proto.config();
        let pipeline = self.proto.ext() == Some(true) && config.ordered_tx;
        let mut progress = false;
        let mut in_vain = 0usize;
        while let Some(flow) = self.flows.first_ready() {
            // Others want the lock. The timer continues.
            if in_vain >= FLOWS_PER_LOCK {
                self.resume = now;
                progress = false;
                break;
            }
            in_vain = in_vain.saturating_add(1);
            // Works that wait here can share packets later.
            if !self.proto.ready() {
                break;
            }
            let index = match self.flows.current(flow) {
                Some(index) => index,
                None if draining => {
                    self.flows.rotate(false);
                    continue;
                }
                None => match self.flows.next(flow, now, pipeline) {
                    Next::Nothing => {
                        self.flows.rotate(false);
                        continue;
                    }
                    Next::NotBefore(time) => {
                        self.resume = self.resume.min(time);
                        self.flows.rotate(false);
                        continue;
                    }
                    Next::Flushed(work) => {
                        progress = true;
                        work.flush();
                        continue;
                    }
                    Next::Work(work, start) => match self.flows.activate(flow, work, start) {
                        Some(index) => index,
                        None => continue,
                    },
                },
            };
            match self.submit_next(index, now) {
                SubmitOutcome::Submitted => {
                    progress = true;
                    in_vain = in_vain.saturating_sub(1);
                    self.flows.rotate(true);
                }
                SubmitOutcome::Full => break,
                SubmitOutcome::Blocked => self.flows.rotate(false),
                SubmitOutcome::Failed(code) => {
                    progress = true;
                    self.work_failed(index, code, now);
                }
            }
        }
        progress | (draining && self.submit_last_null(now))
    }

    /// Submits Last NULL once no work is active [proto 4.11].
    fn submit_last_null(&mut self, now: u64) -> bool {
        let request = Request {
            op: ReqOp::LastNull,
            count: 1,
            len: 0,
            // No work has this token.
            token: u64::MAX,
        };
        self.flows.none_active() && self.proto.submit(now, request).is_ok()
    }

    /// Whether a message can be sent. It may have been queued before the peer said that it has no
    /// extensions.
    fn can_send(&self, len: u32, imm: Option<u32>) -> bool {
        let strict = || {
            len >= self.proto.min_request_len(&STRICT_SEND)
                && u64::from(len) <= self.proto.max_request_len(&STRICT_SEND)
        };
        self.proto.ext() == Some(true) || (imm.is_none() && strict())
    }

    fn message_op(&self, qp: u32, offset: u64, len: u32, attrs: MsgAttrs, start: bool) -> ReqOp {
        if self.proto.ext() == Some(true) {
            ReqOp::SendQpExt {
                qp,
                offset: offset as u32,
                message_len: len,
                imm: attrs.imm,
                solicited: attrs.solicited,
                start,
            }
        } else {
            ReqOp::SendQp { qp }
        }
    }

    /// The operation of a write without an immediate.
    fn write_op(&self, address: u64, len: u32) -> ReqOp {
        let write = ReqOp::Write { address };
        // A write below the least block has an opcode of its own [proto 2.5, 7].
        match len < self.proto.min_request_len(&write) {
            true => ReqOp::WriteExt {
                address,
                qp: 0,
                imm: None,
                solicited: false,
            },
            false => write,
        }
    }

    /// Requests with key `pack_key` that fit in one packet.
    pub(super) fn per_packet(&self, pack_key: PackKey) -> u32 {
        let op = match pack_key.read {
            true => ReqOp::Read { address: 0 },
            false => self.write_op(0, pack_key.len),
        };
        self.proto.per_packet(&op, pack_key.len)
    }

    /// Submits the next transaction of an active work.
    fn submit_next(&mut self, index: u32, now: u64) -> SubmitOutcome {
        let life = self.flows.peer_life();
        let Some(active) = self.flows.active(index) else {
            return SubmitOutcome::Failed(Code::ABORTED);
        };
        let (submitted, total, op) = (active.submitted, active.work.len, active.work.op());
        let (dest, start) = (active.work.dest, active.start);
        let (placed, under_way) = (active.work.is_placed(life), active.transactions > 0);
        let (pack_key, solicited) = (active.work.like(), active.work.solicited);
        let rest = u64::from(total).saturating_sub(submitted);
        let op = match op {
            WorkOp::Send { imm } if !self.can_send(total, imm) => {
                return SubmitOutcome::Failed(Code::EXTENSION_NOT_ENABLED);
            }
            WorkOp::Send { imm } => {
                // Only the first transaction carries `start`: if the peer refuses it, it has to
                // refuse the others as well.
                let start = start && submitted == 0;
                self.message_op(dest, submitted, total, MsgAttrs { imm, solicited }, start)
            }
            WorkOp::SendKeyed { key, offset } => ReqOp::Send {
                key,
                offset: offset.wrapping_add(submitted as u32),
            },
            WorkOp::Write { imm: Some(imm), .. } if placed || submitted >= total.into() => {
                // Order on the wire is not enough: the peer may refuse a transaction of the write.
                if under_way {
                    return SubmitOutcome::Blocked;
                }
                let op = ReqOp::Written {
                    qp: dest,
                    write_len: total,
                    imm,
                    solicited,
                    start,
                };
                return self.submit_request(index, op, 0, total.into(), now);
            }
            // Without bytes there is nothing to access. Verbs expect a round trip.
            WorkOp::Write { .. } | WorkOp::Read { .. } if total == 0 => ReqOp::Noop,
            WorkOp::Write { remote, imm } => {
                let address = remote.wrapping_add(submitted);
                let ext = ReqOp::WriteExt {
                    address,
                    qp: imm.map_or(0, |_| dest),
                    imm,
                    solicited,
                };
                match imm {
                    None => self.write_op(address, total),
                    // A write of one transaction carries the immediate. Of a longer one the
                    // immediate follows when all transactions are complete.
                    Some(_) if u64::from(total) <= self.proto.max_request_len(&ext) => ext,
                    Some(_) => ReqOp::Write { address },
                }
            }
            WorkOp::Read { remote } => ReqOp::Read {
                address: remote.wrapping_add(submitted),
            },
            WorkOp::Atomic {
                remote,
                kind,
                operand,
                compare,
            } => {
                let op = ReqOp::Atomic {
                    address: remote,
                    kind,
                    operand,
                    compare,
                };
                // The core takes the operands from `op`, so there is no data.
                return self.submit_request(index, op, 0, total.into(), now);
            }
        };
        let mut len = rest.min(self.proto.max_request_len(&op));
        let tail = rest.saturating_sub(len);
        let min = u64::from(self.proto.min_request_len(&op));
        if tail > 0 && tail < min {
            len = len.saturating_sub(min);
        }
        if len == 0 && rest > 0 {
            return SubmitOutcome::Failed(Code::RESOURCES);
        }
        if let Some(pack_key) = pack_key.filter(|_| tail == 0 && submitted == 0) {
            let max = self.proto.per_packet(&op, pack_key.len);
            self.flows.gather(index, pack_key, max, now);
        }
        self.submit_request(index, op, len, submitted.saturating_add(len), now)
    }

    /// Submits a transaction of an active work, with `len` bytes. Afterwards `end` bytes of the
    /// work are submitted.
    fn submit_request(
        &mut self,
        index: u32,
        op: ReqOp,
        len: u64,
        end: u64,
        now: u64,
    ) -> SubmitOutcome {
        let Some(active) = self.flows.active(index) else {
            return SubmitOutcome::Failed(Code::ABORTED);
        };
        let total = u64::from(active.work.len);
        let request = Request {
            op,
            count: active.request_count,
            len: len as u32,
            token: u64::from(index) << 32 | active.submitted,
        };
        match self.proto.submit(now, request) {
            Ok(_) => {}
            Err(SubmitError::WindowFull) => return SubmitOutcome::Full,
            Err(SubmitError::Stopped) => return SubmitOutcome::Failed(Code::ABORTED),
            Err(SubmitError::NeedsExt | SubmitError::TooShort { .. }) => {
                return SubmitOutcome::Failed(Code::EXTENSION_NOT_ENABLED)
            }
            Err(_) => return SubmitOutcome::Failed(Code::RESOURCES),
        }
        if let Some(active) = self.flows.active(index) {
            active.transactions = active.transactions.saturating_add(1);
            active.submitted = end;
            active.imm_submitted |= matches!(
                op,
                ReqOp::WriteExt { imm: Some(_), .. } | ReqOp::Written { .. }
            );
            let needs_imm = matches!(active.work.op(), WorkOp::Write { imm: Some(_), .. });
            if end >= total && (active.imm_submitted || !needs_imm) {
                self.flows.close(index);
            }
        }
        SubmitOutcome::Submitted
    }

    /// A transaction has ended. With the last one its work ends. `original`: the value that an
    /// atomic has replaced.
    pub(super) fn transaction_ended(
        &mut self,
        token: u64,
        mut result: Result<(), Code>,
        original: Option<u64>,
        failed_op: Option<u32>,
        now: u64,
    ) {
        let index = (token >> 32) as u32;
        let Some(active) = self.flows.active(index) else {
            return;
        };
        if active.request_count > 1 {
            return self.packed_ended(index, result, failed_op);
        }
        active.transactions = active.transactions.saturating_sub(1);
        if let Some(value) = original {
            result = result.and_then(|()| active.work.place_original(value));
        }
        match result {
            Ok(()) if active.transactions > 0 => {}
            Ok(()) if active.closed => self.work_ended(index, now),
            Ok(()) => {
                let flow = active.flow;
                self.flows.wake(flow);
            }
            Err(code) => self.work_failed(index, code, now),
        }
    }

    /// A transaction of several requests has ended. As a rule each request gets its result.
    ///
    /// If the peer has refused one of them, writes before that one are done [proto 4.18], and reads
    /// before it are repeated. Requests behind it fail if they are of a ring, because its queue
    /// pair fails: a repeated write could land after what follows. Requests of sockets are
    /// repeated, because one that the peer does not allow is no fault of the others.
    fn packed_ended(&mut self, index: u32, result: Result<(), Code>, failed_op: Option<u32>) {
        let Some(active) = self.flows.finish(index) else {
            return;
        };
        let refused = failed_op.filter(|_| self.is_running()).zip(result.err());
        let writes = matches!(active.work.op(), WorkOp::Write { .. });
        let ring = matches!(active.work.ticket, Ticket::Ring(..));
        active.work.set_slot(active.flow);
        let mut works = active.packed;
        works.push_front(active.work);
        let mut requeued = List::new();
        let mut completions = CompletionBatch::new();
        let mut number = 0u32;
        while let Some(work) = works.pop_front() {
            let first = number;
            number = number.saturating_add(work.count().into());
            let outcome = match refused {
                None => Some(result),
                Some((at, _)) if number <= at => writes.then_some(Ok(())),
                Some((at, code)) if first <= at => {
                    // CAST: A packet has 15 operations at most.
                    let n = at.saturating_sub(first) as u16;
                    work.cut(n, code);
                    (writes || n == 0).then_some(Ok(()))
                }
                Some(_) => ring.then_some(Err(Code::ABORTED)),
            };
            match outcome {
                Some(outcome) => completions.complete(work, outcome),
                None => requeued.push_back(work),
            }
        }
        while let Some(work) = requeued.pop_back() {
            self.flows.requeue_first(work);
        }
    }

    /// A work has failed. It ends when none of its transactions is under way.
    fn work_failed(&mut self, index: u32, code: Code, now: u64) {
        self.flows.close(index);
        let Some(active) = self.flows.active(index) else {
            return;
        };
        // Any other error counts more than a refusal for want of a buffer, which would be repeated.
        match active.error {
            Some(first) if !is_refusal(first) => {}
            _ => active.error = Some(code),
        }
        if active.transactions == 0 {
            self.work_ended(index, now);
        }
    }

    fn work_ended(&mut self, index: u32, now: u64) {
        let Some(active) = self.flows.finish(index) else {
            return;
        };
        // A refusal of the immediate says that the bytes of the write are in place.
        let placed = active.imm_submitted;
        let work = active.work;
        match active.error {
            None => CompletionBatch::complete_done(work),
            Some(code) if is_refusal(code) && self.may_retry(&work, placed) => {
                count(&mut self.stats.tx_no_buffer, 1);
                let life = self.flows.peer_life();
                work.set_placed(if placed { life } else { 0 });
                work.set_refused(code);
                self.flows.hold_refused(active.flow, work);
            }
            Some(code) => work.complete(Err(code)),
        }
        if let Some(end) = self.flows.restart_run(active.flow, now) {
            self.resume = self.resume.min(end);
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.state, ConnState::Established | ConnState::Draining)
    }

    /// Whether a refused message is repeated.
    fn may_retry(&self, work: &Work, placed: bool) -> bool {
        let is_message = match work.op() {
            WorkOp::Send { .. } | WorkOp::SendKeyed { .. } => true,
            WorkOp::Write { imm, .. } => imm.is_some() && placed,
            _ => false,
        };
        let retries_left = || match work.ticket.retry_policy() {
            RetryPolicy::Unlimited => true,
            RetryPolicy::Limited => work.count_refusal() < ORPHAN_REFUSALS,
            RetryPolicy::Never => false,
        };
        self.is_running() && is_message && retries_left()
    }

    pub(super) fn count_posted(&mut self, work: &Work) {
        let counter = match work.op() {
            WorkOp::Send { .. } | WorkOp::SendKeyed { .. } => &mut self.stats.tx_messages,
            WorkOp::Write { .. } => &mut self.stats.tx_writes,
            WorkOp::Read { .. } => &mut self.stats.tx_reads,
            WorkOp::Atomic { .. } => &mut self.stats.tx_atomics,
        };
        count(counter, work.count().into());
    }
}
