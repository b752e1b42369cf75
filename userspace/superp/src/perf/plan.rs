// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a measurement is to do.

use super::args::{Measure, Run};
use super::slots::Slots;
use crate::failure::Failure;
use std::time::{Duration, SystemTime};
use superp_verbs::uapi;

/// Memory that requests go round in unless they are told a depth, bytes.
const SPAN: u64 = 16 << 20;

/// Requests under way at once: what a completion queue holds.
const MOST: u32 = 65536;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Write,
    Read,
    Send,
    Atomic,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Send => "send",
            Self::Atomic => "atomic",
        }
    }
}

/// What to do in a run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) operation: Operation,
    /// Every second queue pair moves bytes the other way.
    pub(super) bidirectional: bool,
    pub(super) slots: Slots,
    /// Requests posted at once.
    pub(super) batch: u32,
    /// Requests in all; else as many as the duration allows.
    pub(super) count: Option<u64>,
    pub(super) duration: Duration,
    pub(super) events: bool,
    /// A thread takes requests in.
    pub(super) poller: bool,
    pub(super) verify: bool,
    /// How long to wait for a completion.
    pub(super) patience: Duration,
    /// Record the time of each batch.
    pub(super) times: bool,
}

impl Plan {
    /// What a run is to do, with what was left out filled in.
    pub(super) fn new(operation: Operation, run: &Run) -> Result<Self, Failure> {
        let size = match (operation, run.size, run.measure) {
            (Operation::Atomic, None, _) | (_, None, Measure::Lat) => 8,
            (_, None, Measure::Rate) => 64,
            (_, None, Measure::Bw) => 64 << 10,
            (_, Some(size), _) => size.0,
        };
        if operation == Operation::Atomic && size != 8 {
            return Err(Failure::new("--size: an atomic operation has 8 bytes"));
        }
        if operation == Operation::Send && run.verify && size < 8 {
            let text = "--size: a message has the 8 bytes of its number at least, to be compared";
            return Err(Failure::new(text));
        }
        let longest = u64::from(match operation {
            Operation::Send => uapi::SUPERP_MAX_RING_MESSAGE,
            _ => uapi::SUPERP_MAX_RMA,
        });
        let size = match u32::try_from(size) {
            Ok(length @ 1..) if size <= longest => length,
            _ => return Err(Failure::new(format!("--size: not from 1 to {longest}"))),
        };
        let moves = matches!(operation, Operation::Write | Operation::Read);
        if run.bidirectional && (!moves || run.measure == Measure::Lat) {
            let text = "--bidirectional: only of write and read, bw and rate";
            return Err(Failure::new(text));
        }
        let queues = run.qps << u32::from(run.bidirectional);
        if queues > uapi::SUPERP_MAX_RING_QPS {
            let text = "--bidirectional: needs twice as many queue pairs, 1024 at most";
            return Err(Failure::new(text));
        }
        let fit = u32::try_from(SPAN / u64::from(size) / u64::from(queues))
            .unwrap_or(64)
            .clamp(1, 64);
        let (depth, queues) = match run.measure {
            Measure::Lat => (1, 1),
            Measure::Bw | Measure::Rate => (run.depth.unwrap_or(fit), queues),
        };
        if depth.saturating_mul(queues) > MOST {
            let text = format!("--depth times --qps: more than {MOST} requests under way at once");
            return Err(Failure::new(text));
        }
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let slots = Slots {
            size,
            depth,
            queues,
            salt: since_epoch.map_or(0, |time| time.as_nanos() as u64),
        };
        let batch = run.batch.unwrap_or(depth.div_ceil(4)).min(depth);
        Ok(Self {
            operation,
            bidirectional: run.bidirectional,
            slots,
            batch,
            count: run.count,
            duration: Duration::from_secs_f64(run.duration),
            events: run.events,
            poller: run.poller,
            verify: run.verify,
            patience: Duration::from_secs_f64(run.timeout),
            times: run.measure == Measure::Lat,
        })
    }
}
