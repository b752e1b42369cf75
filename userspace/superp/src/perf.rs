// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp perf`: how fast it is, by the rings of crate `superp-verbs`.

mod args;
mod histogram;
mod peer;
mod plan;
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
use plan::{Operation, Plan};
use progress::Progress;
use serde_json::{json, Value};
use slots::Slots;
use superp_verbs::{Access, Context, Error, Memory, MemoryRegion};
use work::Runner;

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
        memlock::failure(what, bytes, &os, memlock::limit())
    }
}

/// Registers memory for this end.
fn registered(context: &Context, memory: Memory, access: Access) -> Result<MemoryRegion, Failure> {
    let bytes = memory.len() as u64;
    context
        .register(memory, access, None)
        .map_err(not_pinned("registering the memory", Some(bytes)))
}

fn measure(operation: Operation, run: &Run, out: &mut Out) -> Result<(), Failure> {
    measured(operation, run, out).map_err(|failure| failure.towards(run.addr))
}

fn measured(operation: Operation, run: &Run, out: &mut Out) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let plan = Plan::new(operation, run)?;
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
