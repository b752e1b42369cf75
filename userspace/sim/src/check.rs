// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Random schedules: a seed determines fabric, configurations, work and faults.

use crate::fabric::{Fabric, LinkConfig, Topology};
use crate::invariant::{Invariant, Violation};
use crate::node::Cpu;
use crate::rng::Rng;
use crate::sabotage::Sabotage;
use crate::sim::{Plan, Renewal, Sim};
use crate::source::{Random, Source};
use crate::work::Work;
use std::panic::{catch_unwind, AssertUnwindSafe};
use superp_proto::Config;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Virtual time within which every schedule ends.
const LIMIT: u64 = 7200 * SECOND;

/// A live peer is never taken for dead: with a fifth of all packets lost on each of four links both ways,
/// after a pause that has made the timeout long, an answer takes its time.
const PATIENCE: u64 = 600 * SECOND;

/// A node's death is noticed after this time.
const DEAD_TIME: u64 = SECOND;

/// What a schedule came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Hash of its trace.
    pub hash: u64,
    /// Events in the trace.
    pub events: u64,
    /// Virtual time until everything was at rest, in ns.
    pub time: u64,
    /// Packets lost or dropped on the way.
    pub lost: u64,
    /// Packets sent again.
    pub retransmits: u64,
    /// Connections that broke because a node died.
    pub broken: u64,
}

/// Runs the schedule of `seed`; with `print` its trace goes to standard output.
pub fn run(seed: u64, sabotage: Sabotage, print: bool) -> Result<Outcome, Violation> {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut sim = schedule(seed, sabotage, print);
        sim.run(LIMIT)?;
        let carried = sim.fabric.carried;
        let broken = sim.ends.iter().filter(|end| end.broken.is_some());
        Ok(Outcome {
            hash: sim.trace().hash(),
            events: sim.trace().events(),
            time: sim.active,
            lost: carried.lost + carried.tail_drops,
            retransmits: sim.totals().retransmits,
            broken: broken.count() as u64,
        })
    }));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Violation {
            invariant: Invariant::Contract,
            at: 0,
            end: 0,
            detail: format!("panic: {}", text.unwrap_or("without a message")),
        })
    })
}

fn schedule(seed: u64, sabotage: Sabotage, print: bool) -> Sim {
    let mut rng = Rng::new(seed);
    let nodes = rng.range(2, 6) as usize;
    let link = link(&mut rng);
    let topology = match rng.below(3) {
        0 => Topology::Mesh,
        1 => Topology::Star,
        _ => Topology::LeafSpine { leaf: 2, spines: 2 },
    };
    // The host's own queue holds what its windows allow; the switch's is short.
    let host = LinkConfig {
        queue: 0,
        ..link.clone()
    };
    let fabric = Fabric::new(topology, nodes, &host, &link, rng.fork());
    let cpu = Cpu {
        cost: rng.pick(&[0, 0, US, 50 * US]),
        batch: rng.pick(&[1, 16, 64]),
        ring: rng.pick(&[1024, 1024, 32]),
    };
    let mut sim = Sim::new(fabric, vec![cpu; nodes], rng.fork(), print);

    let dying = rng.chance(50).then(|| rng.below(nodes as u64) as usize);
    let connections = rng.range(1, nodes as u64 + 1);
    for _ in 0..connections {
        let a = rng.below(nodes as u64) as usize;
        let b = (a + rng.range(1, nodes as u64 - 1) as usize) % nodes;
        let heavy = link.loss >= 50;
        connect(&mut sim, &mut rng, [a, b], dying, heavy, sabotage);
    }
    if link.damage > 0 {
        // One connection bears it, the others must not notice.
        let victim = 2 * rng.below(connections) as usize;
        for end in &mut sim.ends[victim..victim + 2] {
            end.trusted = false;
        }
    }
    trouble(&mut sim, &mut rng, nodes);
    if let Some(node) = dying {
        let at = rng.below(20 * MS);
        sim.fabric.cut_off(node, at, u64::MAX);
    }
    if rng.chance(300) {
        renewals(&mut sim, &mut rng);
    }
    sim.sabotage(sabotage);
    sim
}

fn link(rng: &mut Rng) -> LinkConfig {
    LinkConfig {
        mbps: rng.pick(&[0, 1000, 10_000, 100_000]),
        delay: rng.pick(&[0, 500, 5 * US, 50 * US, 2 * MS]),
        jitter: rng.pick(&[0, 0, 0, 10 * US, 500 * US, 5 * MS]),
        queue: rng.pick(&[0, 20_000, 100_000]),
        loss: rng.pick(&[0, 0, 1, 10, 50, 200]),
        duplicate: rng.pick(&[0, 0, 10, 200]),
        late: 0,
        damage: rng.pick(&[0, 0, 0, 0, 50]),
    }
}

fn config(rng: &mut Rng) -> Config {
    let window = rng.pick(&[16, 32, 32, 33, 100, 1024]);
    Config {
        mtu: rng.pick(&[528, 568, 1452, 1484, 4056]),
        ext: rng.chance(500).into(),
        start_psn: rng.pick(&[0, u32::MAX - 20, 1 << 31, u32::MAX]),
        start_xid: rng.pick(&[0, u16::MAX - 5, 1 << 15]),
        pdl_window_size: window,
        pdl_receive_win: rng.pick(&[window, window, window / 2, 4, 1]),
        pdl_ack_every: rng.pick(&[1, 8, 1000]),
        pdl_delayed_ack_time: rng.pick(&[100, 500 * US, 100 * MS]),
        pdl_retrans_time_out: rng.pick(&[10 * MS, 10 * MS, 100, 50 * MS]),
        pdl_rtx_max_pkts: rng.pick(&[8, 8, 8, 0, 64]),
        pdl_rtx_time_win: rng.pick(&[0, 0, MS]),
        tal_trans_window: rng.pick(&[1, 7, 32, 32, 256]),
        tal_max_pkt_per_trans: rng.pick(&[32, 32, 5, 64]),
        tal_max_ops_per_pkt: rng.pick(&[8, 4, 15]),
        pdl_congestion: rng.pick(&[0, 1]),
        ..Config::default()
    }
}

fn connect(
    sim: &mut Sim,
    rng: &mut Rng,
    nodes: [usize; 2],
    dying: Option<usize>,
    heavy: bool,
    sabotage: Sabotage,
) {
    let base = config(rng);
    let mortal = dying.is_some_and(|node| nodes.contains(&node));
    let ordered = [rng.chance(500), rng.chance(500)];
    let count = if heavy { 10 } else { 30 };
    let shutdown = rng.chance(300);
    let ends = [0, 1].map(|end: usize| {
        let mut config = Config {
            ordered_tx: ordered[end],
            ordered_rx: ordered[1 - end],
            pdl_dead_time: if mortal { DEAD_TIME } else { PATIENCE },
            ..base.clone()
        };
        let requests = rng.below(count + 1) as u32;
        let source = Random::new(rng.fork(), &config, requests, shutdown);
        if sabotage == Sabotage::WideWindow {
            config.pdl_window_size = (base.pdl_window_size * 2).min(1024);
            config.pdl_receive_win = config.pdl_window_size;
        }
        let work = Work::new(Source::Random(source), rng.fork(), true);
        (nodes[end], config, work)
    });
    let first = sim.connect(ends);
    for end in &mut sim.ends[first..first + 2] {
        end.window = base.pdl_window_size;
        end.mortal = mortal;
        end.shutdown = shutdown;
    }
}

/// Connections that have several lives, with late copies of packets of the lives before.
fn renewals(sim: &mut Sim, rng: &mut Rng) {
    sim.fabric.late(rng.pick(&[0, 10, 200]));
    for first in (0..sim.ends.len()).step_by(2) {
        let ends = &sim.ends[first..first + 2];
        if !ends
            .iter()
            .all(|end| end.trusted && !end.mortal && !end.shutdown)
        {
            continue;
        }
        let mut at = rng.below(MS);
        for _ in 0..rng.below(4) {
            at += rng.pick(&[1, 20 * US, MS, 50 * MS, 400 * MS]);
            let plan = Plan {
                renewal: rng.pick(&[Renewal::Reset, Renewal::Reset, Renewal::Recreate]),
                at,
                gap: rng.pick(&[0, 10 * US, MS, 20 * MS, SECOND]),
                first: rng.below(2) as usize,
            };
            at += plan.gap;
            sim.renew(first, plan);
        }
    }
}

/// Partitions and pauses.
fn trouble(sim: &mut Sim, rng: &mut Rng, nodes: usize) {
    if rng.chance(300) {
        for _ in 0..rng.range(1, 4) {
            let link = rng.below(sim.fabric.links() as u64) as usize;
            let from = rng.below(50 * MS);
            let time = rng.pick(&[100 * US, 5 * MS, 300 * MS, 3 * SECOND]);
            sim.fabric.cut(link, from, from + time);
        }
    }
    if rng.chance(300) {
        for _ in 0..rng.range(1, 4) {
            let node = rng.below(nodes as u64) as usize;
            let from = rng.below(50 * MS);
            let time = rng.pick(&[100 * US, 5 * MS, 30 * MS, 500 * MS]);
            sim.pause(node, from, from + time);
        }
    }
}
