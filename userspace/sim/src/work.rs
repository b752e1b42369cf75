// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Requests of one end: what they carry, and what must have come of them.

use crate::invariant::{Check, Invariant};
use crate::memory::{untouched, Memory, Placed, BAD_KEY, BAD_QP, BEYOND, NOWHERE};
use crate::rng::Rng;
use crate::source::{Kind, Next, Source, Wish};
use std::collections::{BTreeMap, BTreeSet};
use superp_proto::{AtomicKind, Barrier, Code, Connection, Heap, ReqOp, Request, SubmitError};

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    request: Request,
    xid: u16,
    pub(crate) data: Vec<u8>,
    /// Places of the operations when there are several.
    pub(crate) addresses: Vec<u64>,
    expect: Result<(), Code>,
    submitted: u64,
    result: Option<Result<(), Code>>,
}

impl Job {
    fn bytes(&self) -> usize {
        self.request.len as usize * usize::from(self.request.count)
    }

    fn writes(&self) -> bool {
        matches!(
            self.request.op,
            ReqOp::Write { .. } | ReqOp::WriteExt { .. } | ReqOp::Atomic { .. }
        )
    }
}

/// What a look for work came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looked {
    /// Something was submitted.
    pub(crate) any: bool,
    /// Nothing more for so many ns.
    pub(crate) rest: Option<u64>,
}

/// All requests of one end.
#[derive(Debug)]
pub(crate) struct Work {
    source: Source,
    rng: Rng,
    jobs: BTreeMap<u64, Job>,
    open: BTreeSet<u64>,
    /// Refused for lack of room.
    waiting: Option<Job>,
    next_token: u64,
    /// Jobs stay until the end, and so do their places.
    keep: bool,
    free: Vec<u64>,
    /// Requests below this token must be complete before another of the kind is submitted.
    barrier_all: u64,
    barrier_writes: u64,
    pub(crate) no_barrier: bool,
    /// Time from submission to completion of each request that succeeded, in ns.
    pub(crate) latencies: Vec<u64>,
    /// When requests completed, and how many bytes they had.
    pub(crate) goodput: Vec<(u64, u64)>,
    /// Requests that ended in an error.
    pub(crate) failed: u64,
    done: bool,
}

impl Work {
    /// The requests of `source`. With `keep` everything is looked at again at the end; without, memory
    /// is used again and figures are kept.
    pub(crate) fn new(source: Source, rng: Rng, keep: bool) -> Self {
        Self {
            source,
            rng,
            jobs: BTreeMap::new(),
            open: BTreeSet::new(),
            waiting: None,
            next_token: 1,
            keep,
            free: Vec::new(),
            barrier_all: 0,
            barrier_writes: 0,
            no_barrier: false,
            latencies: Vec::new(),
            goodput: Vec::new(),
            failed: 0,
            done: false,
        }
    }

    /// Requests that are open.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// Everything that will ever be submitted has been and is over.
    pub(crate) fn done(&self) -> bool {
        self.done && self.open.is_empty()
    }

    /// A request.
    pub(crate) fn job(&self, token: u64) -> Option<&Job> {
        self.jobs.get(&token)
    }

    /// Submits what the source wants and there is room for.
    pub(crate) fn submit(
        &mut self,
        now: u64,
        conn: &mut Connection<Heap>,
        here: &mut Memory,
        peer: &mut Memory,
    ) -> Result<Looked, (Invariant, String)> {
        let mut looked = Looked::default();
        loop {
            let job = match self.waiting.take() {
                Some(job) => job,
                None => match self.source.next(self.open.len()) {
                    Next::Wish(wish) => {
                        if let Some(barrier) = wish.barrier {
                            self.barrier(barrier, conn);
                        }
                        self.prepare(&wish, peer)
                    }
                    Next::Rest(time) => {
                        looked.rest = Some(time);
                        return Ok(looked);
                    }
                    Next::Wait => return Ok(looked),
                    Next::Done => {
                        self.done = true;
                        return Ok(looked);
                    }
                },
            };
            match conn.submit(now, job.request) {
                Ok(xid) => {
                    self.accepted(now, Job { xid, ..job }, here, peer)?;
                    looked.any = true;
                }
                Err(SubmitError::WindowFull) => {
                    self.waiting = Some(job);
                    return Ok(looked);
                }
                // More than the limits of this connection allow: another one.
                Err(SubmitError::BadCount { .. } | SubmitError::TooLong { .. }) => {}
                Err(SubmitError::Stopped) => {
                    self.done = true;
                    return Ok(looked);
                }
                Err(error) => {
                    let text = format!("{error:?} for {:?}", job.request);
                    return Err((Invariant::Contract, text));
                }
            }
        }
    }

    fn barrier(&mut self, barrier: Barrier, conn: &mut Connection<Heap>) {
        match barrier {
            Barrier::All => self.barrier_all = self.next_token,
            Barrier::Writes => self.barrier_writes = self.next_token,
        }
        if !self.no_barrier {
            conn.barrier(barrier);
        }
    }

    /// Finds places and data for a request.
    fn prepare(&mut self, wish: &Wish, peer: &mut Memory) -> Job {
        let token = self.next_token;
        self.next_token += 1;
        let (count, len) = (wish.count, wish.len);
        let bytes = len as usize * usize::from(count);
        // Bad places are of requests with one operation and some data.
        let whole = matches!(wish.kind, Kind::Atomic | Kind::Written);
        let bad = wish.bad && count == 1 && (len > 0 || whole);
        let id = token as u32 + 0x1000;
        let mut expect = Ok(());
        let mut addresses = Vec::new();
        if matches!(wish.kind, Kind::Read | Kind::Write | Kind::WriteExt) {
            let start = match self.free.pop() {
                Some(start) => start,
                None => peer.grow(bytes),
            };
            addresses.extend((0..u64::from(count)).map(|i| start + i * u64::from(len)));
            if bad {
                let (place, code) = match token % 2 {
                    0 => (NOWHERE, Code::ACCESS_KEY),
                    _ => (BEYOND, Code::ACCESS_BOUNDS),
                };
                (addresses[0], expect) = (place, Err(code));
            }
        }
        if wish.kind == Kind::Atomic {
            // A multiple of 8 with 8 bytes behind it.
            addresses.push(peer.grow(15).next_multiple_of(8));
            if bad {
                (addresses[0], expect) = (BEYOND, Err(Code::ACCESS_BOUNDS));
            }
        }
        let address = addresses.first().copied().unwrap_or(0);
        let bad_qp = |qp, expect: &mut Result<(), Code>| {
            if !bad {
                return qp;
            }
            *expect = Err(Code::NO_QUEUE_PAIR);
            BAD_QP
        };
        let op = match wish.kind {
            Kind::Noop => ReqOp::Noop,
            Kind::LastNull => ReqOp::LastNull,
            Kind::Read => ReqOp::Read { address },
            Kind::Write => ReqOp::Write { address },
            Kind::WriteExt => ReqOp::WriteExt {
                address,
                qp: id,
                imm: wish.imm,
                solicited: false,
            },
            Kind::Send => {
                let key = if bad { BAD_KEY } else { id };
                if bad {
                    expect = Err(Code::ACCESS_KEY);
                }
                let places = 0..u64::from(count);
                addresses = places
                    .map(|i| (u64::from(key) << 32) | (i * u64::from(len)))
                    .collect();
                ReqOp::Send { key, offset: 0 }
            }
            Kind::Atomic => self.atomic(address),
            Kind::SendQp => ReqOp::SendQp {
                qp: bad_qp(id, &mut expect),
            },
            Kind::SendQpExt => ReqOp::SendQpExt {
                qp: bad_qp(id, &mut expect),
                offset: 0,
                message_len: len,
                imm: wish.imm,
                solicited: true,
                start: false,
            },
            Kind::Written => ReqOp::Written {
                qp: bad_qp(id, &mut expect),
                write_len: id,
                imm: id,
                solicited: true,
                start: false,
            },
        };
        let data = match op.opcode().has_data() {
            true => pattern(&mut self.rng, bytes),
            false => Vec::new(),
        };
        Job {
            request: Request {
                op,
                count,
                len,
                token,
            },
            xid: 0,
            data,
            addresses,
            expect,
            submitted: 0,
            result: None,
        }
    }

    /// A change of what nobody has written to.
    fn atomic(&mut self, address: u64) -> ReqOp {
        let compare = match self.rng.chance(500) {
            true => untouched_value(address),
            false => self.rng.bits(),
        };
        let kind = match self.rng.below(3) {
            0 => AtomicKind::FetchAdd,
            1 => AtomicKind::CompareSwap,
            _ => AtomicKind::Swap,
        };
        ReqOp::Atomic {
            address,
            kind,
            operand: self.rng.bits(),
            compare,
        }
    }

    /// Notes a request that the connection has taken.
    fn accepted(&mut self, now: u64, job: Job, here: &mut Memory, peer: &mut Memory) -> Check {
        let token = job.request.token;
        let first = self.open.first().copied().unwrap_or(u64::MAX);
        let writes = job.writes() && first < self.barrier_writes && token >= self.barrier_writes;
        if writes || (first < self.barrier_all && token >= self.barrier_all) {
            let text = format!("{:?} taken before {first} was complete", job.request);
            return Err((Invariant::Barrier, text));
        }
        match job.request.op {
            ReqOp::Read { .. } => {
                let buffer = Placed::new(job.bytes());
                here.reads.insert(token, (buffer, job.request.len));
            }
            ReqOp::Send { key, .. } if job.expect.is_ok() => {
                peer.contexts.insert(key, Placed::new(job.bytes()));
            }
            _ => {}
        }
        self.open.insert(token);
        self.jobs.insert(
            token,
            Job {
                submitted: now,
                ..job
            },
        );
        Ok(())
    }

    /// Takes a completion: XID, token, result, original value of an atomic. `trusted`: nothing on the way was damaged.
    pub(crate) fn completed(
        &mut self,
        now: u64,
        (xid, token, result, original): (u16, u64, Result<(), Code>, Option<u64>),
        trusted: bool,
        here: &mut Memory,
        peer: &mut Memory,
    ) -> Check {
        let err = |text: String| Err((Invariant::Completion, text));
        let Some(job) = self.jobs.get_mut(&token) else {
            return err(format!("request {token} was never submitted, or is over"));
        };
        if job.xid != xid || job.result.is_some() {
            return err(format!(
                "{:?} completes again, or as XID {xid}",
                job.request
            ));
        }
        job.result = Some(result);
        self.open.remove(&token);
        if result.is_err() {
            self.failed += 1;
        }
        if trusted && result.is_ok() {
            self.jobs[&token].verify(here, peer)?;
            let expected = match self.jobs[&token].request.op {
                ReqOp::Atomic { address, .. } => Some(untouched_value(address)),
                _ => None,
            };
            if original != expected {
                return err(format!(
                    "original value {original:x?} instead of {expected:x?}"
                ));
            }
        }
        let job = &self.jobs[&token];
        let aborted = matches!(result, Err(code) if code.major == Code::ABORTED.major);
        if trusted && !aborted && result != job.expect {
            return err(format!(
                "{:?}: {result:?} instead of {:?}",
                job.request, job.expect
            ));
        }
        if self.keep {
            return Ok(());
        }
        if let Some(job) = self.jobs.remove(&token) {
            if result.is_ok() {
                self.latencies.push(now - job.submitted);
                self.goodput.push((now, job.bytes() as u64));
            }
            if let ReqOp::Write { address } = job.request.op {
                peer.renew(address, job.bytes());
                self.free.push(address);
            }
        }
        Ok(())
    }

    /// Everything once more, when all has come to rest.
    pub(crate) fn verify(&self, here: &Memory, peer: &Memory) -> Check {
        let (mut placed, mut messages, mut immediates) = (0, 0, 0);
        for job in self.jobs.values() {
            match job.result {
                Some(Ok(())) => job.verify(here, peer)?,
                Some(Err(code)) if code.major == Code::ABORTED.major => {
                    let part = job.verify_part(here, peer)?;
                    placed += part.0;
                    messages += part.1;
                    immediates += part.2;
                    continue;
                }
                _ => continue,
            }
            match job.request.op {
                ReqOp::Write { .. } | ReqOp::WriteExt { .. } => placed += job.bytes() as u64,
                ReqOp::Atomic { .. } => placed += 8,
                ReqOp::SendQp { .. } | ReqOp::SendQpExt { .. } => messages += 1,
                _ => {}
            }
            let with_imm = matches!(
                job.request.op,
                ReqOp::WriteExt { imm: Some(_), .. } | ReqOp::Written { .. }
            );
            immediates += usize::from(with_imm);
        }
        if !self.keep {
            return Ok(());
        }
        let seen = (peer.totals().1, peer.messages.len(), peer.immediates.len());
        if seen != (placed, messages, immediates) {
            let text = format!(
                "(bytes, messages, immediates) {seen:?} came of {:?}",
                (placed, messages, immediates)
            );
            return Err((Invariant::ExactlyOnce, text));
        }
        Ok(())
    }
}

/// Whether the peer was told of a write of `len` bytes, once.
fn immediate(peer: &Memory, qp: u32, imm: u32, len: u32) -> Check {
    let expected = (imm, len, 1);
    match peer.immediates.get(&qp) {
        None => Err((Invariant::ExactlyOnce, "did not come".to_owned())),
        Some(came) if *came == expected => Ok(()),
        Some(came) => {
            let text = format!("immediate {came:?} instead of {expected:?}");
            Err((Invariant::ExactlyOnce, text))
        }
    }
}

impl Job {
    /// Whether the peer has exactly what was sent, and this end exactly what was read.
    fn verify(&self, here: &Memory, peer: &Memory) -> Check {
        self.look(here, peer)
            .map_err(|(invariant, text)| (invariant, format!("{:?}: {text}", self.request)))
    }

    fn look(&self, here: &Memory, peer: &Memory) -> Check {
        let none = || Err((Invariant::ExactlyOnce, "did not come".to_owned()));
        let len = self.request.len as usize;
        match self.request.op {
            ReqOp::Noop | ReqOp::LastNull => Ok(()),
            ReqOp::Atomic {
                address,
                kind,
                operand,
                compare,
            } => {
                let Some((bytes, times)) = peer.at(address, 8) else {
                    return none();
                };
                let value = kind.apply(untouched_value(address), operand, compare);
                check_write(bytes, times, &value.to_le_bytes())
            }
            ReqOp::Read { .. } => {
                let Some((buffer, _)) = here.reads.get(&self.request.token) else {
                    return none();
                };
                let ranges = self.addresses.iter().map(|&at| at..at + len as u64);
                let expected: Vec<u8> = ranges.flatten().map(untouched).collect();
                buffer.check(&expected)
            }
            ReqOp::Write { .. } | ReqOp::WriteExt { .. } => {
                for (op, &address) in self.addresses.iter().enumerate() {
                    let Some((bytes, times)) = peer.at(address, len) else {
                        return none();
                    };
                    check_write(bytes, times, &self.data[op * len..(op + 1) * len])?;
                }
                let ReqOp::WriteExt {
                    qp, imm: Some(imm), ..
                } = self.request.op
                else {
                    return Ok(());
                };
                immediate(peer, qp, imm, self.data.len() as u32)
            }
            ReqOp::Written {
                qp, write_len, imm, ..
            } => immediate(peer, qp, imm, write_len),
            ReqOp::Send { key, .. } => match peer.contexts.get(&key) {
                Some(context) => context.check(&self.data),
                None => none(),
            },
            ReqOp::SendQp { qp } => self.message(peer, qp, None),
            ReqOp::SendQpExt { qp, imm, .. } => self.message(peer, qp, imm),
        }
    }

    /// What was cut short may have been carried out in part, but no part of it twice or wrongly: the
    /// bytes, messages and immediates that came.
    fn verify_part(
        &self,
        here: &Memory,
        peer: &Memory,
    ) -> Result<(u64, usize, usize), (Invariant, String)> {
        let len = self.request.len as usize;
        let part = |bytes: &[u8], times: &[u8], expected: &[u8]| {
            let each = bytes.iter().zip(times).zip(expected);
            for (at, ((byte, times), expected)) in each.enumerate() {
                let text = format!("{:?}: byte {at} came {times} times", self.request);
                if *times > 1 {
                    return Err((Invariant::ExactlyOnce, text));
                }
                if *times == 1 && byte != expected {
                    return Err((Invariant::Memory, text + " and differs"));
                }
            }
            Ok(times.iter().map(|&times| u64::from(times)).sum::<u64>())
        };
        let mut came = (0, 0, 0);
        match self.request.op {
            ReqOp::Noop | ReqOp::LastNull => {}
            ReqOp::Atomic {
                address,
                kind,
                operand,
                compare,
            } => {
                let value = kind.apply(untouched_value(address), operand, compare);
                if let Some((bytes, times)) = peer.at(address, 8) {
                    came.0 = part(bytes, times, &value.to_le_bytes())?;
                }
            }
            ReqOp::Read { .. } => {
                if let Some((buffer, _)) = here.reads.get(&self.request.token) {
                    let ranges = self.addresses.iter().map(|&at| at..at + len as u64);
                    let expected: Vec<u8> = ranges.flatten().map(untouched).collect();
                    part(&buffer.bytes, &buffer.times, &expected)?;
                }
            }
            ReqOp::Write { .. } | ReqOp::WriteExt { .. } => {
                for (op, &address) in self.addresses.iter().enumerate() {
                    if let Some((bytes, times)) = peer.at(address, len) {
                        came.0 += part(bytes, times, &self.data[op * len..(op + 1) * len])?;
                    }
                }
                if let ReqOp::WriteExt { qp, .. } = self.request.op {
                    came.2 = self.immediate_part(peer, qp)?;
                }
            }
            ReqOp::Written { qp, .. } => came.2 = self.immediate_part(peer, qp)?,
            ReqOp::Send { key, .. } => {
                if let Some(context) = peer.contexts.get(&key) {
                    part(&context.bytes, &context.times, &self.data)?;
                }
            }
            ReqOp::SendQp { qp } | ReqOp::SendQpExt { qp, .. } => {
                if let Some(message) = peer.messages.get(&qp) {
                    self.message(peer, qp, message.imm)?;
                    came.1 = 1;
                }
            }
        }
        Ok(came)
    }

    /// How many immediates came of one that may have come.
    fn immediate_part(&self, peer: &Memory, qp: u32) -> Result<usize, (Invariant, String)> {
        match peer.immediates.get(&qp) {
            Some((_, _, times @ 2..)) => {
                let text = format!("{:?}: immediate came {times} times", self.request);
                Err((Invariant::ExactlyOnce, text))
            }
            came => Ok(usize::from(came.is_some())),
        }
    }

    fn message(&self, peer: &Memory, qp: u32, imm: Option<u32>) -> Check {
        let Some(message) = peer.messages.get(&qp) else {
            return Err((Invariant::ExactlyOnce, "message did not come".to_owned()));
        };
        if message.times != 1 {
            let text = format!("message came {} times", message.times);
            return Err((Invariant::ExactlyOnce, text));
        }
        if message.data.len() != self.data.len() {
            let text = format!("{} bytes of {}", message.data.len(), self.data.len());
            return Err((Invariant::ExactlyOnce, text));
        }
        if message.data != self.data || message.imm != imm {
            let text = "message or immediate differs".to_owned();
            return Err((Invariant::Memory, text));
        }
        Ok(())
    }
}

/// Whether each byte was placed once and is as expected.
fn check_write(bytes: &[u8], times: &[u8], expected: &[u8]) -> Check {
    if let Some(at) = times.iter().position(|&times| times != 1) {
        let text = format!("byte {at} placed {} times", times[at]);
        return Err((Invariant::ExactlyOnce, text));
    }
    match bytes == expected {
        true => Ok(()),
        false => Err((Invariant::Memory, "bytes differ".to_owned())),
    }
}

/// The 64 bits at an address that nobody wrote to.
fn untouched_value(address: u64) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| untouched(address + i as u64)))
}

/// Random bytes.
fn pattern(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(len + 8);
    while data.len() < len {
        data.extend_from_slice(&rng.bits().to_le_bytes());
    }
    data.truncate(len);
    data
}
