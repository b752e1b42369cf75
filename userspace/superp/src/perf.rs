// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp perf`: how fast it is, by the rings of crate `superp-verbs`.

mod args;
mod histogram;
mod peer;
mod progress;
mod receive;
mod serve;
mod slots;
mod talk;
mod work;

pub(crate) use args::Perf;

use crate::failure::Failure;
use crate::memlock;
use crate::out::{self, Out};
use crate::xfer::Stop;
use args::{Measure, Run};
use histogram::Histogram;
use peer::Peer;
use progress::Progress;
use serde_json::{json, Value};
use slots::Slots;
use std::time::{Duration, SystemTime};
use superp_verbs::{uapi, Access, Context, Error, Memory, MemoryRegion};
use work::{Operation, Plan, Runner};

/// Memory that requests go round in unless they are told a depth, bytes.
const SPAN: u64 = 16 << 20;

/// Requests under way at once: what a completion queue holds.
const MOST: u32 = 65536;

pub(crate) fn run(what: Perf, out: &mut Out) -> Result<(), Failure> {
    match what {
        Perf::Serve(args) => serve::run(&args, out),
        Perf::Write { run } => measure(Operation::Write, &run, out),
        Perf::Read { run } => measure(Operation::Read, &run, out),
        Perf::Send { run } => measure(Operation::Send, &run, out),
        Perf::Atomic { run } => measure(Operation::Atomic, &run, out),
    }
}

/// A failed call of the library.
fn failed(what: impl std::fmt::Display) -> impl FnOnce(Error) -> Failure {
    move |error| match error {
        Error::NoMemory => not_pinned(what, None)(error),
        Error::Os(os) => Failure::io(what, &os),
        error => Failure::new(format!("{what}: {error}")).errno(error.errno()),
    }
}

/// A call that failed and was to pin so many bytes.
fn not_pinned(what: impl std::fmt::Display, bytes: Option<u64>) -> impl FnOnce(Error) -> Failure {
    move |error| {
        let os = std::io::Error::from_raw_os_error(error.errno());
        Failure::memory(what, bytes, &os, memlock::limit())
    }
}

/// Registers memory for this end.
fn registered(context: &Context, memory: Memory, access: Access) -> Result<MemoryRegion, Failure> {
    let bytes = memory.len() as u64;
    context
        .register(memory, access, None)
        .map_err(not_pinned("registering the memory", Some(bytes)))
}

/// What a run is to do, with what was left out filled in.
fn plan(operation: Operation, run: &Run) -> Result<Plan, Failure> {
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
    Ok(Plan {
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

fn measure(operation: Operation, run: &Run, out: &mut Out) -> Result<(), Failure> {
    measured(operation, run, out).map_err(|failure| failure.towards(run.addr))
}

fn measured(operation: Operation, run: &Run, out: &mut Out) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let plan = plan(operation, run)?;
    let Slots {
        size,
        depth,
        queues,
        ..
    } = plan.slots;
    let peer = Peer::new(operation, run, &plan.slots)?;
    let mut runner = Runner::new(&plan, peer)?;
    let cid = runner.cid();
    let progress = Progress::new(plan.count);
    let result = runner.run(&stop, &progress);
    progress.end();
    let result = result?;
    let seconds = result.time.as_secs_f64();
    let bytes = result.done * u64::from(size);
    let per_second = |amount: u64| {
        if seconds > 0.0 {
            amount as f64 / seconds
        } else {
            0.0
        }
    };
    let mut object = json!({
        "operation": operation.name(), "measure": format!("{:?}", run.measure).to_lowercase(),
        "peer": run.addr, "local-cid": cid, "size": size, "depth": depth,
        "queue-pairs": queues, "connections": run.connections, "bidirectional": run.bidirectional, "batch": plan.batch, "events": plan.events, "poller": plan.poller, "verified": plan.verify,
        "operations": result.done, "bytes": bytes, "seconds": seconds,
        "operations-per-second": per_second(result.done), "bytes-per-second": per_second(bytes),
    });
    if plan.times {
        object["latency-ns"] = latency(&result.times);
    }
    out.either(&object, |out| {
        let done = out::count(result.done);
        let checked = if plan.verify {
            ", all bytes compared"
        } else {
            ""
        };
        let queues = match queues {
            1 => String::new(),
            queues => format!(" of {queues} queue pairs"),
        };
        let (name, size) = (operation.name(), out::bytes(size.into()));
        let name = match run.bidirectional {
            true => "write and read",
            false => name,
        };
        out.line(format_args!(
            "{done} x {name} of {size}, depth {depth}{queues}{checked}"
        ))?;
        match run.measure {
            Measure::Bw => out.line(format_args!("bandwidth {}", out::rate(bytes, seconds))),
            Measure::Rate => {
                let rate = out::count(per_second(result.done) as u64);
                out.line(format_args!("rate {rate}/s"))
            }
            Measure::Lat => {
                let shares = SHARES.iter().map(|(name, share)| {
                    let time = out::time(result.times.percentile(*share));
                    format!("{name} {time}")
                });
                let shares: Vec<_> = shares.collect();
                let (min, max) = (result.times.min(), result.times.max());
                let (min, max) = (out::time(min), out::time(max));
                out.line(format_args!(
                    "latency min {min}, {}, max {max}",
                    shares.join(", ")
                ))
            }
        }
    })
}

/// Percentiles that are told, in parts of 10 000.
const SHARES: [(&str, u64); 5] = [
    ("p50", 5_000),
    ("p90", 9_000),
    ("p99", 9_900),
    ("p99.9", 9_990),
    ("p99.99", 9_999),
];

fn latency(times: &Histogram) -> Value {
    let mut object = json!({
        "samples": times.count(), "min": times.min(), "mean": times.mean(), "max": times.max(),
    });
    for (name, share) in SHARES {
        object[name] = times.percentile(share).into();
    }
    object
}
