// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The receiver of the messages of one measurement: a thread with queue pairs of its own.

use super::slots::{first_difference, Slots};
use super::talk::Receive;
use super::{failed, registered};
use crate::failure::Failure;
use crate::xfer::Stop;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use superp_sys::Address;
use superp_verbs::{
    Access, Completion, CompletionQueue, Context, Memory, MemoryRegion, QueuePair,
    QueuePairOptions, ReceiveRequest,
};

/// Bytes of the buffers of one sender, at most.
const MOST_BYTES: u64 = 256 << 20;

/// Buffers of a queue pair, and completions of all of them, at most.
const MOST_BUFFERS: u32 = 8192;
const MOST_COMPLETIONS: u64 = 65536;

/// A sender of whom nothing comes for so long is asked whether it is there, and makes room for another.
const IDLE: Duration = Duration::from_secs(1);

/// Completions taken at once.
const BATCH: u32 = 64;

/// What the thread and its owner tell each other.
struct Shared {
    stop: AtomicBool,
    /// When something came last.
    last: Mutex<Instant>,
}

impl Shared {
    fn last(&self) -> MutexGuard<'_, Instant> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) messages: u64,
    /// The first that was not as it should be.
    pub(super) wrong: Option<String>,
}

pub(super) struct Receiver {
    shared: Arc<Shared>,
    thread: JoinHandle<Result<Tally, Failure>>,
}

impl Receiver {
    /// Receives from now on; also gives the numbers of the queue pairs.
    pub(super) fn start(wanted: &Receive, from: &Address) -> Result<(Self, Vec<u32>), Failure> {
        let work = Work::new(wanted, from)?;
        let numbers = work.lanes.iter().map(|lane| lane.qp.number()).collect();
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            last: Mutex::new(Instant::now()),
        });
        let thread = std::thread::spawn({
            let shared = shared.clone();
            move || work.run(&shared)
        });
        Ok((Self { shared, thread }, numbers))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Whether it may end because another needs its place.
    pub(super) fn is_idle(&self) -> bool {
        self.shared.last().elapsed() > IDLE
    }

    /// What came until now.
    pub(super) fn end(self) -> Result<Tally, Failure> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.unwrap_or_else(|_| Err(Failure::new("the receiver failed")))
    }
}

/// A queue pair, and what has come to it.
struct Lane {
    qp: QueuePair,
    arrivals: Arrivals,
}

struct Work {
    cq: CompletionQueue,
    lanes: Vec<Lane>,
    region: MemoryRegion,
    /// Buffers of a queue pair; buffer n of queue pair q has the token q * buffers + n.
    buffers: u32,
    size: u32,
    /// What messages are compared with.
    expected: Option<Expected>,
    tally: Tally,
}

impl Work {
    fn new(wanted: &Receive, from: &Address) -> Result<Self, Failure> {
        let queues = wanted.queues.len() as u64;
        let (size, depth) = (wanted.size, wanted.depth);
        if queues == 0 || !(1..=MOST_BUFFERS).contains(&depth) {
            return Err(Failure::new("this makes no sense"));
        }
        // As many as are under way, and as many again while those are posted anew; four times, if
        // there is room.
        let bytes = |buffers: u32| queues * u64::from(buffers) * u64::from(size.max(1));
        let fits = |buffers: &u32| {
            *buffers <= MOST_BUFFERS
                && bytes(*buffers) <= MOST_BYTES
                && queues * u64::from(*buffers) <= MOST_COMPLETIONS
        };
        let choices = [4, 2, 1].map(|times| depth.saturating_mul(times));
        let buffers = choices.into_iter().find(fits).ok_or_else(|| {
            Failure::new(format!(
                "size times depth times queue pairs is more than {MOST_BYTES} bytes"
            ))
        })?;
        let context = Context::open().map_err(failed("context"))?;
        let cq = context
            .create_completion_queue(buffers * wanted.queues.len() as u32)
            .map_err(failed("completion queue"))?;
        let memory =
            Memory::new(bytes(buffers) as usize).map_err(|error| Failure::io("memory", &error))?;
        let region = registered(&context, memory, Access::LOCAL_WRITE)?;
        let options = QueuePairOptions {
            send_entries: 1,
            receive_entries: buffers,
            ..Default::default()
        };
        let mut work = Self {
            cq,
            lanes: Vec::new(),
            region,
            buffers,
            size,
            expected: wanted
                .salt
                .map(|salt| Expected::new(wanted, salt))
                .transpose()?,
            tally: Tally::default(),
        };
        for peer in &wanted.queues {
            let qp = context
                .create_queue_pair(&work.cq, &work.cq, &options)
                .map_err(failed("queue pair"))?;
            let peer = Address {
                qpn: *peer,
                ..*from
            };
            let connected = qp.connect(&peer).map_err(failed("connect"))?;
            let arrivals = Arrivals::new(connected.ordered, depth);
            let lane = work.lanes.len();
            work.lanes.push(Lane { qp, arrivals });
            work.post(lane, 0..buffers)?;
        }
        Ok(work)
    }

    fn post(&mut self, lane: usize, buffers: impl IntoIterator<Item = u32>) -> Result<(), Failure> {
        let first = lane as u64 * u64::from(self.buffers);
        let requests: Result<Vec<_>, _> = buffers
            .into_iter()
            .map(|buffer| {
                let token = first + u64::from(buffer);
                let offset = token as usize * self.size as usize;
                let part = self.region.part(offset, self.size)?;
                Ok(ReceiveRequest::new(part).token(token))
            })
            .collect();
        let requests = requests.map_err(failed("memory"))?;
        let posted = self.lanes[lane].qp.post_receive(requests);
        posted.map_err(|error| failed("posting")(error.error))
    }

    fn run(mut self, shared: &Shared) -> Result<Tally, Failure> {
        let mut completions = Vec::new();
        loop {
            // First, so that what was complete before is taken.
            let stopped = shared.stop.load(Ordering::Relaxed);
            let poll = self.cq.poll(BATCH, |one| completions.push(one));
            poll.map_err(failed("polling"))?;
            if completions.is_empty() {
                if stopped {
                    return Ok(self.tally);
                }
                let one = self.cq.wait(Some(Stop::PERIOD));
                completions.extend(one.map_err(failed("waiting"))?);
                continue;
            }
            *shared.last() = Instant::now();
            // A batch is in the order of the queue pairs' numbers hardly ever: one post for each run.
            for run in completions.chunk_by(|a, b| a.queue_pair == b.queue_pair) {
                if run.iter().any(|one| one.result.is_err()) {
                    // The connection ended.
                    return Ok(self.tally);
                }
                self.take(run)?;
            }
            completions.clear();
        }
    }

    /// Messages that have come to one queue pair.
    fn take(&mut self, run: &[Completion]) -> Result<(), Failure> {
        let buffers = u64::from(self.buffers);
        let Some(lane) = run.first().map(|one| (one.token / buffers) as usize) else {
            return Ok(());
        };
        for one in run {
            self.tally.messages += 1;
            let Some(expected) = &mut self.expected else {
                continue;
            };
            let place = one.token as usize * self.size as usize;
            let arrivals = &mut self.lanes[lane].arrivals;
            let wrong = match expected.check(&self.region, place, one.length, lane)? {
                Ok(number) => arrivals.add(number).err(),
                Err(wrong) => Some(wrong),
            };
            self.tally.wrong = self.tally.wrong.take().or(wrong);
        }
        self.post(lane, run.iter().map(|one| (one.token % buffers) as u32))
    }
}

/// What messages are compared with: the sender's memory as it was at first.
struct Expected {
    slots: Slots,
    memory: Memory,
    /// Bytes as they came, and as they should be.
    scratch: (Vec<u8>, Vec<u8>),
}

impl Expected {
    fn new(wanted: &Receive, salt: u64) -> Result<Self, Failure> {
        let slots = Slots {
            size: wanted.size,
            depth: wanted.depth,
            queues: wanted.queues.len() as u32,
            salt,
        };
        let memory = slots.span().ok_or(std::io::ErrorKind::OutOfMemory.into());
        let memory = memory
            .and_then(Memory::new)
            .and_then(|memory| slots.fill(&memory).map(|()| memory))
            .map_err(|error| Failure::io("memory", &error))?;
        let scratch = vec![0; wanted.size as usize];
        Ok(Self {
            slots,
            memory,
            scratch: (scratch.clone(), scratch),
        })
    }

    /// The number of a message of a queue pair, if its bytes are right, or else what is wrong.
    fn check(
        &mut self,
        region: &MemoryRegion,
        place: usize,
        length: u32,
        queue: usize,
    ) -> Result<Result<u64, String>, Failure> {
        let (came, right) = &mut self.scratch;
        region
            .memory()
            .read(place, came)
            .map_err(|error| Failure::io("memory", &error))?;
        let number = match self.slots.number(came) {
            Some(number) if length == self.slots.size => number,
            _ => return Ok(Err(format!("a message has {length} bytes"))),
        };
        self.memory
            .read(self.slots.place(queue, number), right)
            .map_err(|error| Failure::io("memory", &error))?;
        for part in self.slots.stamps() {
            right[part].copy_from_slice(&self.slots.stamp(number));
        }
        Ok(match first_difference(came, right) {
            None => Ok(number),
            Some(at) => Err(format!("message {number} has a wrong byte at {at}")),
        })
    }
}

/// Which messages of a queue pair have come: each comes once.
struct Arrivals {
    ordered: bool,
    /// Messages under way at once.
    depth: u64,
    /// The lowest that has not come.
    next: u64,
    /// Those above it that have.
    early: BTreeSet<u64>,
}

impl Arrivals {
    fn new(ordered: bool, depth: u32) -> Self {
        Self {
            ordered,
            depth: depth.into(),
            next: 0,
            early: BTreeSet::new(),
        }
    }

    fn add(&mut self, number: u64) -> Result<(), String> {
        let next = self.next;
        if number < next || self.early.contains(&number) {
            return Err(format!("message {number} came twice"));
        }
        if self.ordered && number != next || number - next >= self.depth {
            return Err(format!("message {number} came before number {next}"));
        }
        self.early.insert(number);
        while self.early.remove(&self.next) {
            self.next += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_comes_once() {
        let mut arrivals = Arrivals::new(false, 4);
        for number in [1, 0, 3, 5, 2, 4, 6] {
            assert_eq!(arrivals.add(number), Ok(()));
        }
        assert_eq!(arrivals.add(8), Ok(()));
        for number in [3, 8] {
            assert_eq!(
                arrivals.add(number),
                Err(format!("message {number} came twice"))
            );
        }
    }

    #[test]
    fn a_message_that_is_not_under_way_is_wrong() {
        let mut arrivals = Arrivals::new(false, 4);
        assert!(arrivals.add(4).is_err());
        assert_eq!(arrivals.add(3), Ok(()));
    }

    #[test]
    fn an_ordered_connection_keeps_the_order() {
        let mut arrivals = Arrivals::new(true, 4);
        assert_eq!(arrivals.add(0), Ok(()));
        assert!(arrivals.add(2).is_err());
        assert_eq!(arrivals.add(1), Ok(()));
    }
}
