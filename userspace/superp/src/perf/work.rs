// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The requests of a measurement.

use super::failed;
use super::histogram::Histogram;
use crate::failure::Failure;
use crate::xfer::{Pattern, Stop};
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};
use superp_proto::Code;
use superp_verbs::{
    Access, Address, Atomic, Completion, CompletionQueue, Context, Error, Memory, MemoryRegion,
    QueuePair, QueuePairOptions, WorkRequest,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Write,
    Read,
    Atomic,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Atomic => "atomic",
        }
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) operation: Operation,
    /// Bytes of a request.
    pub(super) size: u32,
    /// Requests under way at once.
    pub(super) depth: u32,
    /// Requests posted at once.
    pub(super) batch: u32,
    /// Requests in all; else as many as the duration allows.
    pub(super) count: Option<u64>,
    pub(super) duration: Duration,
    pub(super) events: bool,
    pub(super) verify: bool,
    /// How long to wait for a completion.
    pub(super) patience: Duration,
    /// Record the time of each batch.
    pub(super) times: bool,
}

/// What came of it.
pub(super) struct Outcome {
    /// Requests.
    pub(super) done: u64,
    pub(super) time: Duration,
    pub(super) times: Histogram,
}

/// Bytes at either end of a slot that change with each request that is verified.
const STAMP: usize = 8;

/// Requests under way between slots of local memory and slots of the peer's. Request number n uses
/// slot n modulo the depth.
///
/// The memory has two halves: what requests use, and what it is compared with.
pub(super) struct Runner<'a> {
    plan: &'a Plan,
    remote: u64,
    cid: Option<u16>,
    cq: CompletionQueue,
    qp: QueuePair,
    region: MemoryRegion,
    /// Makes the bytes of this run those of no other.
    salt: u64,
    /// Where bytes are put to be compared.
    scratch: (Vec<u8>, Vec<u8>),
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        addr: IpAddr,
        cid: Option<u16>,
        remote: u64,
    ) -> Result<Self, Failure> {
        let context = Context::open().map_err(failed("context"))?;
        let cq = context
            .create_completion_queue(plan.depth)
            .map_err(failed("completion queue"))?;
        let options = QueuePairOptions {
            send_entries: plan.depth,
            receive_entries: 0,
            number: 0,
        };
        let qp = context
            .create_queue_pair(&cq, &cq, &options)
            .map_err(failed("queue pair"))?;
        let connected = qp
            .connect(&Address { addr, qpn: 0, cid })
            .map_err(|error| {
                let hint = matches!(error, Error::NoConnection);
                let failure = failed(format_args!("connect to {addr}"))(error);
                match hint {
                    true => failure.hint("see superp conn, superp conn start"),
                    false => failure,
                }
            })?;
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let salt = since_epoch.map_or(0, |time| time.as_nanos() as u64);
        let span = plan.depth as usize * plan.size as usize;
        let memory = span
            .checked_mul(2)
            .ok_or(std::io::ErrorKind::OutOfMemory.into());
        let memory = memory
            .and_then(Memory::new)
            .and_then(|memory| memory.fill(&mut Pattern::new(salt)).map(|_| memory))
            .map_err(|error| Failure::io("memory", &error))?;
        let region = context
            .register(memory, Access::LOCAL_WRITE, 0)
            .map_err(failed("registering the memory"))?;
        let scratch = vec![0; plan.size as usize];
        Ok(Self {
            plan,
            remote,
            cid: connected.peer.cid,
            cq,
            qp,
            region,
            salt,
            scratch: (scratch.clone(), scratch),
        })
    }

    /// The connection in use.
    pub(super) fn cid(&self) -> Option<u16> {
        self.cid
    }

    pub(super) fn run(&mut self, stop: &Stop) -> Result<Outcome, Failure> {
        if self.plan.verify {
            self.prepare()?;
        }
        let outcome = self.go(stop)?;
        if self.plan.verify {
            self.compare_all(outcome.done)?;
        }
        Ok(outcome)
    }

    fn go(&mut self, stop: &Stop) -> Result<Outcome, Failure> {
        let (depth, batch) = (u64::from(self.plan.depth), u64::from(self.plan.batch));
        let mut times = Histogram::new();
        let (mut posted, mut done) = (0, 0);
        let mut requests = Vec::new();
        let mut most = self.plan.count.unwrap_or(u64::MAX);
        let start = Instant::now();
        let mut last = start;
        while done < most {
            while posted < most && posted + batch.min(most - posted) <= done + depth {
                let next = posted + batch.min(most - posted);
                requests.clear();
                for number in posted..next {
                    if self.plan.verify {
                        self.before(number)?;
                    }
                    let request = self.request(number)?.token(number);
                    let last = number + 1 == next;
                    requests.push(if last { request } else { request.unsignaled() });
                }
                let error = |error: superp_verbs::PostError| failed("posting")(error.error);
                self.qp.post_send(requests.iter().copied()).map_err(error)?;
                posted = next;
            }
            let number = self.wait(last)?;
            let now = Instant::now();
            if self.plan.times {
                let ns = now.duration_since(last).as_nanos();
                times.add(u64::try_from(ns).unwrap_or(u64::MAX));
            }
            last = now;
            if self.plan.verify {
                for number in done..=number {
                    self.after(number)?;
                }
                last = Instant::now();
            }
            done = number + 1;
            let late = self.plan.count.is_none() && now.duration_since(start) >= self.plan.duration;
            if late || stop.wanted() {
                most = posted.min(most);
            }
        }
        Ok(Outcome {
            done,
            time: last.duration_since(start),
            times,
        })
    }

    /// The number of the last request that has completed.
    fn wait(&mut self, since: Instant) -> Result<u64, Failure> {
        let end = since + self.plan.patience;
        let completion = if self.plan.events {
            let left = end.saturating_duration_since(Instant::now());
            self.cq.wait(Some(left)).map_err(failed("waiting"))?
        } else {
            let mut spins = 0u32;
            loop {
                let one = self.cq.poll_one().map_err(failed("polling"))?;
                if one.is_some() {
                    break one;
                }
                std::hint::spin_loop();
                spins = spins.wrapping_add(1);
                if spins % 4096 == 0 && Instant::now() > end {
                    break None;
                }
            }
        };
        let Some(completion) = completion else {
            let seconds = self.plan.patience.as_secs_f64();
            let name = self.plan.operation.name();
            let text = format!("{name}: nothing completed for {seconds} s");
            return Err(Failure::new(text));
        };
        self.check(&completion)?;
        Ok(completion.token)
    }

    fn check(&self, completion: &Completion) -> Result<(), Failure> {
        let Err(error) = completion.result else {
            return Ok(());
        };
        let (major, minor) = error.code;
        let name = self.plan.operation.name();
        let what = format!("{name} of {} bytes", completion.length);
        let failure = Failure::refused(what, Code { major, minor }, error.errno);
        Err(match error.fault {
            superp_verbs::Fault::Access(_) => {
                failure.hint("size times depth must fit the memory of perf serve")
            }
            superp_verbs::Fault::Unsupported | superp_verbs::Fault::Length => {
                failure.hint("this needs a connection with ext on, at both ends")
            }
            _ => failure,
        })
    }

    /// The slot of a request: its number, the place in local memory, and that at the peer.
    fn slot(&self, number: u64) -> (usize, u64) {
        let slot = number % u64::from(self.plan.depth);
        let place = slot * u64::from(self.plan.size);
        let remote = match self.plan.operation {
            // One number, which all requests change.
            Operation::Atomic => self.remote,
            Operation::Write | Operation::Read => self.remote.wrapping_add(place),
        };
        (place as usize, remote)
    }

    /// Bytes of a half of the memory.
    fn half(&self) -> usize {
        self.region.memory().len() / 2
    }

    fn request(&self, number: u64) -> Result<WorkRequest, Failure> {
        let (place, remote) = self.slot(number);
        let part = self
            .region
            .part(place, self.plan.size)
            .map_err(failed("memory"))?;
        Ok(match self.plan.operation {
            Operation::Write => WorkRequest::write(part, remote),
            Operation::Read => WorkRequest::read(part, remote),
            Operation::Atomic => WorkRequest::atomic(part, remote, Atomic::FetchAdd(1)),
        })
    }

    /// Carries out one request, outside of the measurement.
    fn one(&mut self, request: WorkRequest) -> Result<(), Failure> {
        let error = |error: superp_verbs::PostError| failed("posting")(error.error);
        self.qp.post_send([request]).map_err(error)?;
        self.wait(Instant::now()).map(drop)
    }

    /// Puts what is read, or the number that is changed, into the peer's memory: the second half.
    fn prepare(&mut self) -> Result<(), Failure> {
        match self.plan.operation {
            Operation::Write => Ok(()),
            Operation::Read => {
                for number in 0..u64::from(self.plan.depth) {
                    let (place, remote) = self.slot(number);
                    let part = self.part(self.half() + place)?;
                    self.one(WorkRequest::write(part, remote))?;
                }
                Ok(())
            }
            Operation::Atomic => {
                let part = self.part(self.half())?;
                self.one(WorkRequest::atomic(part, self.remote, Atomic::Swap(0)))
            }
        }
    }

    fn part(&self, offset: usize) -> Result<superp_verbs::Part, Failure> {
        self.region
            .part(offset, self.plan.size)
            .map_err(failed("memory"))
    }

    /// Offsets in a slot, and how many bytes there change with each request.
    fn stamps(&self) -> ([usize; 2], usize) {
        let size = self.plan.size as usize;
        let len = size.min(STAMP);
        ([0, size - len], len)
    }

    /// Makes the bytes of a slot those of no other request.
    fn before(&mut self, number: u64) -> Result<(), Failure> {
        let (place, _) = self.slot(number);
        let (offsets, len) = self.stamps();
        let stamp = match self.plan.operation {
            Operation::Write => (number ^ self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            Operation::Read | Operation::Atomic => u64::MAX - number,
        };
        for offset in offsets {
            let bytes = &stamp.to_le_bytes()[..len];
            let written = self.region.memory().write(place + offset, bytes);
            written.map_err(|error| Failure::io("memory", &error))?;
        }
        Ok(())
    }

    /// Checks what a request brought.
    fn after(&mut self, number: u64) -> Result<(), Failure> {
        let (place, _) = self.slot(number);
        match self.plan.operation {
            Operation::Write => Ok(()),
            Operation::Read => {
                let (offsets, len) = self.stamps();
                let half = self.half();
                offsets
                    .into_iter()
                    .try_for_each(|offset| self.compare(place + offset, half + place + offset, len))
            }
            Operation::Atomic => {
                let mut old = [0; 8];
                let read = self.region.memory().read(place, &mut old);
                read.map_err(|error| Failure::io("memory", &error))?;
                match u64::from_ne_bytes(old) {
                    old if old == number => Ok(()),
                    old => Err(Failure::new(format!(
                        "verification: addition {number} found {old}"
                    ))),
                }
            }
        }
    }

    /// Compares all bytes of the last request of each slot.
    fn compare_all(&mut self, done: u64) -> Result<(), Failure> {
        let (half, size) = (self.half(), self.plan.size as usize);
        if self.plan.operation == Operation::Atomic {
            let part = self.part(half)?;
            self.one(WorkRequest::read(part, self.remote))?;
            let mut sum = [0; 8];
            let read = self.region.memory().read(half, &mut sum);
            read.map_err(|error| Failure::io("memory", &error))?;
            return match u64::from_ne_bytes(sum) {
                sum if sum == done => Ok(()),
                sum => Err(Failure::new(format!(
                    "verification: after {done} additions the number is {sum}"
                ))),
            };
        }
        for number in 0..done.min(self.plan.depth.into()) {
            let (place, remote) = self.slot(number);
            if self.plan.operation == Operation::Write {
                let part = self.part(half + place)?;
                self.one(WorkRequest::read(part, remote))?;
            }
            self.compare(place, half + place, size)?;
        }
        Ok(())
    }

    /// Compares bytes of both halves.
    fn compare(&mut self, a: usize, b: usize, len: usize) -> Result<(), Failure> {
        let memory = self.region.memory();
        let (left, right) = (&mut self.scratch.0[..len], &mut self.scratch.1[..len]);
        let read = memory.read(a, left).and_then(|()| memory.read(b, right));
        read.map_err(|error| Failure::io("memory", &error))?;
        match left
            .iter()
            .zip(&*right)
            .position(|(left, right)| left != right)
        {
            None => Ok(()),
            Some(at) => Err(Failure::new(format!(
                "verification: {} moved wrong bytes, the first at {}",
                self.plan.operation.name(),
                a + at
            ))),
        }
    }
}
