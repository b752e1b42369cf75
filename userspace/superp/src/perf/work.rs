// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The requests of a measurement.

use super::histogram::Histogram;
use super::peer::{Peer, ENDED, REFUSED, STALE, TOO_SMALL};
use super::plan::{Operation, Plan};
use super::progress::Progress;
use super::slots::{first_difference, Slots};
use super::{failed, registered};
use crate::failure::Failure;
use crate::xfer::{too_short, unconnected, Stop};
// By the processor's counter where it ticks evenly: a clock that is a system call would be measured, too.
use quanta::Instant;
use std::time::Duration;
use superp_proto::Code;
use superp_verbs::{
    Access, AccessFault, Address, Atomic, Completion, CompletionQueue, Connected, Context, Error,
    Memory, MemoryRegion, Poller, PostError, QueuePair, QueuePairOptions, WorkRequest,
};

/// What came of it.
pub(super) struct Outcome {
    /// Requests.
    pub(super) done: u64,
    pub(super) time: Duration,
    pub(super) times: Histogram,
}

/// A queue pair, and how far its requests are.
struct Lane {
    qp: QueuePair,
    posted: u64,
    done: u64,
}

/// Requests under way between slots of local memory and slots of the peer's.
///
/// The memory has two halves: what requests use, and what it is compared with.
pub(super) struct Runner<'a> {
    plan: &'a Plan,
    peer: Peer,
    cid: Option<u16>,
    context: Context,
    cq: CompletionQueue,
    lanes: Vec<Lane>,
    _poller: Option<Poller>,
    region: MemoryRegion,
    /// Completions that were taken and not yet counted.
    completions: Vec<Completion>,
    /// Where bytes are put to be compared.
    scratch: (Vec<u8>, Vec<u8>),
}

/// Bytes moved at once where nothing is measured.
const CHUNK: usize = 1 << 20;

/// Completions taken at once.
const BATCH: u32 = 64;

/// The token of request `number` of a queue pair.
fn token(lane: usize, number: u64) -> u64 {
    ((lane as u64) << NUMBER_BITS) | number
}

fn not_posted(error: PostError) -> Failure {
    failed("posting")(error.error)
}

/// Bits of a request's number: a year's worth, and more.
const NUMBER_BITS: u32 = 48;

impl<'a> Runner<'a> {
    pub(super) fn new(plan: &'a Plan, peer: Peer) -> Result<Self, Failure> {
        let Slots {
            size,
            depth,
            queues,
            ..
        } = plan.slots;
        let context = Context::open().map_err(failed("context"))?;
        let cq = context
            .create_completion_queue(depth.saturating_mul(queues))
            .map_err(failed("completion queue"))?;
        let memory = plan
            .slots
            .span()
            .and_then(|span| span.checked_mul(2))
            .ok_or(std::io::ErrorKind::OutOfMemory.into())
            .and_then(Memory::new)
            .and_then(|memory| plan.slots.fill(&memory).map(|()| memory))
            .map_err(|error| Failure::io("memory", &error))?;
        let region = registered(&context, memory, Access::LOCAL_WRITE)?;
        let scratch = vec![0; size as usize];
        let mut runner = Self {
            plan,
            peer,
            cid: None,
            context,
            cq,
            lanes: Vec::new(),
            _poller: None,
            region,
            completions: Vec::new(),
            scratch: (scratch.clone(), scratch),
        };
        for _ in 0..queues {
            let lane = runner.lane()?;
            runner.lanes.push(lane);
        }
        runner.connect()?;
        if plan.poller {
            runner._poller = Some(Poller::new(&runner.context).map_err(failed("poller"))?);
        }
        Ok(runner)
    }

    fn lane(&self) -> Result<Lane, Failure> {
        let options = QueuePairOptions {
            send_entries: self.plan.slots.depth,
            receive_entries: 0,
            ..Default::default()
        };
        let qp = self
            .context
            .create_queue_pair(&self.cq, &self.cq, &options)
            .map_err(failed("queue pair"))?;
        Ok(Lane {
            qp,
            posted: 0,
            done: 0,
        })
    }

    /// Connects all queue pairs: to those of the receiver, or for remote memory only.
    fn connect(&mut self) -> Result<(), Failure> {
        let numbers = match self.plan.operation {
            Operation::Send => {
                let own = self.lanes.iter().map(|lane| lane.qp.number()).collect();
                self.peer.receive(own, &self.plan.slots, self.plan.verify)?
            }
            _ => vec![0; self.lanes.len()],
        };
        let addr = self.peer.addr;
        let cids = self.peer.cids.iter().copied().cycle();
        for ((lane, qpn), cid) in self.lanes.iter().zip(numbers).zip(cids) {
            let connected = lane.qp.connect(&Address { addr, qpn, cid });
            let connected = connected.map_err(|error| match error {
                Error::NoConnection => unconnected(addr).errno(error.errno()),
                error => failed(format_args!("connect to {addr}"))(error),
            })?;
            self.check_length(&connected)?;
            self.cid = self.cid.or(connected.peer.cid);
        }
        Ok(())
    }

    /// Fails if requests are shorter than the connection takes.
    fn check_length(&self, connected: &Connected) -> Result<(), Failure> {
        let (size, least) = (self.plan.slots.size, connected.min_message);
        let name = match self.plan.operation {
            Operation::Send => "message",
            Operation::Write => "write",
            // Its other half.
            Operation::Read if self.plan.bidirectional => "write",
            Operation::Read | Operation::Atomic => return Ok(()),
        };
        match size < least {
            true => {
                let what = format!("{name} of {size} bytes");
                Err(too_short(what, connected.peer.cid, least))
            }
            false => Ok(()),
        }
    }

    /// The connection in use, or the first of them.
    pub(super) fn cid(&self) -> Option<u16> {
        self.cid
    }

    pub(super) fn run(&mut self, stop: &Stop, progress: &Progress) -> Result<Outcome, Failure> {
        if self.plan.verify {
            self.prepare()?;
        }
        let outcome = self.go(stop, progress)?;
        if self.plan.operation == Operation::Send {
            self.peer.end(outcome.done)?;
        } else if self.plan.verify {
            self.compare_all(outcome.done)?;
        }
        Ok(outcome)
    }

    fn go(&mut self, stop: &Stop, progress: &Progress) -> Result<Outcome, Failure> {
        let mut times = Histogram::new();
        let (mut posted, mut done) = (0, 0);
        let mut most = self.plan.count.unwrap_or(u64::MAX);
        let start = Instant::now();
        let mut last = start;
        while done < most {
            posted += self.post(most - posted)?;
            self.wait(last)?;
            let now = Instant::now();
            if self.plan.times {
                let ns = now.duration_since(last).as_nanos();
                times.add(u64::try_from(ns).unwrap_or(u64::MAX));
            }
            last = now;
            done += self.count()?;
            progress.at(done);
            if self.plan.verify {
                last = Instant::now();
            }
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

    /// Posts on every queue pair what it has room for, in whole batches and `most` requests in all.
    /// Gives how many those were.
    fn post(&mut self, most: u64) -> Result<u64, Failure> {
        let mut lanes = std::mem::take(&mut self.lanes);
        let posted = self.post_on(&mut lanes, most);
        self.lanes = lanes;
        posted
    }

    fn post_on(&self, lanes: &mut [Lane], most: u64) -> Result<u64, Failure> {
        let depth = u64::from(self.plan.slots.depth);
        let mut posted = 0;
        let mut bell = false;
        for (index, lane) in lanes.iter_mut().enumerate() {
            loop {
                let batch = u64::from(self.plan.batch).min(most - posted);
                let (first, next) = (lane.posted, lane.posted + batch);
                if batch == 0 || next > lane.done + depth {
                    break;
                }
                if self.plan.verify {
                    (first..next).try_for_each(|number| self.before(index, number))?;
                }
                let mut failed = None;
                let requests = (first..next).map_while(|number| {
                    let request = self.request(index, number);
                    let request = request.map_err(|error| failed = Some(error)).ok()?;
                    let request = request.token(token(index, number));
                    let last = number + 1 == next;
                    Some(if last { request } else { request.unsignaled() })
                });
                bell |= lane.qp.post_send_quietly(requests).map_err(not_posted)?;
                failed.map_or(Ok(()), Err)?;
                lane.posted = next;
                posted += batch;
            }
        }
        if bell {
            self.context.doorbell().map_err(failed("posting"))?;
        }
        Ok(posted)
    }

    /// Takes completions; waits for one at least.
    fn wait(&mut self, since: Instant) -> Result<(), Failure> {
        let end = since + self.plan.patience;
        let mut spins = 0u32;
        loop {
            let taken = &mut self.completions;
            let poll = self.cq.poll(BATCH, |one| taken.push(one));
            if poll.map_err(failed("polling"))? > 0 {
                return Ok(());
            }
            if self.plan.events {
                let left = end.saturating_duration_since(Instant::now());
                let one = self.cq.wait(Some(left)).map_err(failed("waiting"))?;
                let Some(one) = one else { break };
                self.completions.push(one);
                return Ok(());
            }
            std::hint::spin_loop();
            spins = spins.wrapping_add(1);
            if spins % 4096 == 0 && Instant::now() > end {
                break;
            }
        }
        let seconds = self.plan.patience.as_secs_f64();
        let name = self.plan.operation.name();
        let text = format!("{name}: nothing completed for {seconds} s");
        Err(Failure::new(text).errno(libc::ETIMEDOUT))
    }

    /// Counts the requests whose completions were taken.
    fn count(&mut self) -> Result<u64, Failure> {
        let completions = std::mem::take(&mut self.completions);
        let mut count = 0;
        for completion in &completions {
            self.check(completion)?;
            let index = (completion.token >> NUMBER_BITS) as usize;
            let next = (completion.token & ((1 << NUMBER_BITS) - 1)) + 1;
            // Those without a completion of their own are complete, too.
            let first = self.lanes[index].done;
            if self.plan.verify {
                for number in first..next {
                    self.after(index, number)?;
                }
            }
            self.lanes[index].done = next;
            count += next - first;
        }
        self.completions = completions;
        self.completions.clear();
        Ok(count)
    }

    fn check(&self, completion: &Completion) -> Result<(), Failure> {
        let Err(error) = completion.result else {
            return Ok(());
        };
        let (major, minor) = error.code;
        let lane = completion.token >> NUMBER_BITS;
        let name = self.operation(lane as usize).name();
        let what = format!("{name} of {} bytes", completion.length);
        let failure = Failure::refused(what, Code { major, minor }, error.errno);
        Err(match error.fault {
            superp_verbs::Fault::Access(AccessFault::Bounds) => failure.hint(TOO_SMALL),
            superp_verbs::Fault::Access(AccessFault::Key) => failure.hint(STALE),
            superp_verbs::Fault::Access(AccessFault::Other) => failure.hint(REFUSED),
            superp_verbs::Fault::NoQueuePair => failure.hint(ENDED),
            superp_verbs::Fault::Unsupported | superp_verbs::Fault::Length => {
                failure.hint("this needs a connection with ext on, at both ends")
            }
            _ => failure,
        })
    }

    /// What the requests of a queue pair do.
    fn operation(&self, lane: usize) -> Operation {
        match (
            self.plan.operation,
            self.plan.bidirectional && lane % 2 == 1,
        ) {
            (Operation::Write, true) => Operation::Read,
            (Operation::Read, true) => Operation::Write,
            (operation, _) => operation,
        }
    }

    /// The place of a request in a half of the local memory, and at the peer.
    fn slot(&self, lane: usize, number: u64) -> (usize, u64) {
        let place = self.plan.slots.place(lane, number);
        let remote = match self.operation(lane) {
            // One number, which all requests change.
            Operation::Atomic => self.peer.remote,
            _ => self.peer.remote.wrapping_add(place as u64),
        };
        (place, remote)
    }

    /// Bytes of a half of the memory.
    fn half(&self) -> usize {
        self.region.memory().len() / 2
    }

    fn request(&self, lane: usize, number: u64) -> Result<WorkRequest<'static>, Failure> {
        let (place, remote) = self.slot(lane, number);
        let part = self.part(place)?;
        Ok(match self.operation(lane) {
            Operation::Write => WorkRequest::write(part, remote),
            Operation::Read => WorkRequest::read(part, remote),
            Operation::Send => WorkRequest::send(part),
            Operation::Atomic => WorkRequest::atomic(part, remote, Atomic::FetchAdd(1)),
        })
    }

    fn part(&self, offset: usize) -> Result<superp_verbs::Part, Failure> {
        self.region
            .part(offset, self.plan.slots.size)
            .map_err(failed("memory"))
    }

    /// Carries out one request, outside of the measurement.
    fn one(&mut self, request: WorkRequest<'_>) -> Result<(), Failure> {
        let posted = self.lanes[0].qp.post_send([request]);
        posted.map_err(not_posted)?;
        self.wait(Instant::now())?;
        let completions = std::mem::take(&mut self.completions);
        completions.iter().try_for_each(|one| self.check(one))
    }

    /// Moves all bytes between the second half and the peer's memory, outside of the measurement.
    fn exchange(
        &mut self,
        request: impl Fn(superp_verbs::Part, u64) -> WorkRequest<'static>,
    ) -> Result<(), Failure> {
        let half = self.half();
        let span = self.plan.slots.span().unwrap_or(half);
        for at in (0..span).step_by(CHUNK) {
            let len = CHUNK.min(span - at) as u32;
            let part = self.region.part(half + at, len).map_err(failed("memory"))?;
            self.one(request(part, self.peer.remote.wrapping_add(at as u64)))?;
        }
        Ok(())
    }

    /// Every slot that was used when so many requests of each queue pair were done: the queue pair,
    /// and the number of the last request.
    fn used(&self) -> Vec<(usize, u64)> {
        let depth = u64::from(self.plan.slots.depth);
        let lanes = self.lanes.iter().enumerate();
        lanes
            .flat_map(|(index, lane)| (0..lane.done.min(depth)).map(move |number| (index, number)))
            .collect()
    }

    /// Puts what is read, or the number that is changed, into the peer's memory: the second half.
    fn prepare(&mut self) -> Result<(), Failure> {
        match self.plan.operation {
            Operation::Write | Operation::Read if self.plan.bidirectional => {
                self.exchange(WorkRequest::write)
            }
            Operation::Write | Operation::Send => Ok(()),
            Operation::Read => self.exchange(WorkRequest::write),
            Operation::Atomic => {
                let part = self.part(self.half())?;
                self.one(WorkRequest::atomic(part, self.peer.remote, Atomic::Swap(0)))
            }
        }
    }

    /// Makes the bytes of a slot those of no other request.
    fn before(&self, lane: usize, number: u64) -> Result<(), Failure> {
        let (place, _) = self.slot(lane, number);
        let stamp = match self.operation(lane) {
            Operation::Write | Operation::Send => self.plan.slots.stamp(number),
            Operation::Read | Operation::Atomic => (u64::MAX - number).to_le_bytes(),
        };
        for part in self.plan.slots.stamps() {
            let bytes = &stamp[..part.len()];
            let written = self.region.memory().write(place + part.start, bytes);
            written.map_err(|error| Failure::io("memory", &error))?;
        }
        Ok(())
    }

    /// Checks what a request brought.
    fn after(&mut self, lane: usize, number: u64) -> Result<(), Failure> {
        let (place, _) = self.slot(lane, number);
        match self.operation(lane) {
            Operation::Write | Operation::Send => Ok(()),
            Operation::Read => {
                let half = self.half();
                self.plan.slots.stamps().into_iter().try_for_each(|part| {
                    let at = place + part.start;
                    self.compare(at, half + at, part.len())
                })
            }
            Operation::Atomic => {
                let mut old = [0; 8];
                let read = self.region.memory().read(place, &mut old);
                read.map_err(|error| Failure::io("memory", &error))?;
                // Others than those of this queue pair come in between.
                match (u64::from_ne_bytes(old), self.lanes.len()) {
                    (old, 1) if old == number => Ok(()),
                    (old, 2..) if old >= number => Ok(()),
                    (old, _) => Err(Failure::new(format!(
                        "verification: addition {number} found {old}"
                    ))),
                }
            }
        }
    }

    /// Compares all bytes of the last request of each slot.
    fn compare_all(&mut self, done: u64) -> Result<(), Failure> {
        let (half, size) = (self.half(), self.plan.slots.size as usize);
        if self.plan.operation == Operation::Atomic {
            let part = self.part(half)?;
            self.one(WorkRequest::read(part, self.peer.remote))?;
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
        if self.plan.operation == Operation::Write || self.plan.bidirectional {
            self.exchange(WorkRequest::read)?;
        }
        for (lane, number) in self.used() {
            let (place, _) = self.slot(lane, number);
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
        match first_difference(left, right) {
            None => Ok(()),
            Some(at) => Err(Failure::new(format!(
                "verification: {} moved wrong bytes, the first at {}",
                self.plan.operation.name(),
                a + at
            ))),
        }
    }
}
