// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Loads that fabrics are judged by.

use crate::fabric::{Fabric, LinkConfig, Topology};
use crate::invariant::Violation;
use crate::node::Cpu;
use crate::rng::Rng;
use crate::sim::Sim;
use crate::source::{Source, Stream};
use crate::work::Work;
use clap::ValueEnum;
use serde::Serialize;
use superp_proto::{Config, CongestionTuning, Extensions};

const SECOND: u64 = 1_000_000_000;

/// Bytes of a port's queue in a switch.
const SWITCH_QUEUE: u64 = 512 << 10;

/// Largest packet, from the Packet Delivery header on.
const MTU: u32 = 4096;

/// Most nodes in all-to-all: the number of connections grows with the square.
const ALL_TO_ALL_MAX: usize = 256;

/// When the work begins, in ns. Until then the ends find out what the other has.
const START: u64 = 1_000_000;

/// When the dead node dies, in ns.
const DEATH: u64 = START + 100_000;

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// All nodes write to one.
    Incast,
    /// The same, with the receiver's window divided among the senders to fit the switch's queue.
    IncastPartitioned,
    /// Each node writes to each.
    AllToAll,
    /// Each node writes to one other, and is written to by one.
    Permutation,
    /// Each node writes to three others; one node dies.
    OneDeadNode,
}

impl Name {
    /// As on the command line.
    pub fn text(self) -> &'static str {
        match self {
            Self::Incast => "incast",
            Self::IncastPartitioned => "incast-partitioned",
            Self::AllToAll => "all-to-all",
            Self::Permutation => "permutation",
            Self::OneDeadNode => "one-dead-node",
        }
    }

    /// Most nodes that it runs with.
    pub fn nodes_max(self) -> usize {
        match self {
            Self::AllToAll => ALL_TO_ALL_MAX,
            _ => 4096,
        }
    }

    /// Pairs of nodes that are connected; the first of each writes, with `true` both do.
    fn pairs(self, nodes: usize) -> (Vec<[usize; 2]>, bool) {
        let shift = |by: usize| (0..nodes).map(move |node| [node, (node + by) % nodes]);
        match self {
            Self::Incast | Self::IncastPartitioned => {
                ((1..nodes).map(|node| [node, 0]).collect(), false)
            }
            Self::AllToAll => {
                let pairs = (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| [a, b]));
                (pairs.collect(), true)
            }
            Self::Permutation => (shift(nodes / 2).collect(), false),
            Self::OneDeadNode => {
                let mut distances = vec![1, nodes / 3, nodes / 2];
                distances.retain(|&by| by > 0);
                distances.dedup();
                (distances.into_iter().flat_map(shift).collect(), false)
            }
        }
    }

    /// Writes of each writer on each connection, and bytes of each write.
    fn writes(self, nodes: usize) -> (u32, u32) {
        match self {
            Self::Incast | Self::IncastPartitioned => (16, 64 << 10),
            Self::AllToAll => (4, 16 << 10),
            Self::Permutation if nodes > 64 => (16, 64 << 10),
            Self::Permutation => (64, 64 << 10),
            Self::OneDeadNode => (8, 64 << 10),
        }
    }
}

/// How the connections of a load are configured.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// Packets of a connection keep their order and one path.
    pub ordered: bool,
    /// The ends speak version 0.4 only.
    pub strict: bool,
    /// `pdl_congestion`; `None`: the default.
    pub congestion: Option<bool>,
    /// Constants of the congestion window.
    pub tuning: CongestionTuning,
}

impl Variant {
    /// What connections of the module have unless told otherwise.
    pub const DEFAULT: Self = Self {
        ordered: false,
        strict: false,
        congestion: None,
        tuning: CongestionTuning::DEFAULT,
    };

    /// As [`Self::DEFAULT`], with or without a congestion window.
    pub fn congestion(on: bool) -> Self {
        Self {
            congestion: Some(on),
            ..Self::DEFAULT
        }
    }
}

/// What came of a load. Times are virtual.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The load.
    pub scenario: Name,
    /// Packets of a connection keep their order and one path.
    pub ordered: bool,
    /// Connections have a congestion window.
    pub congestion: bool,
    /// Nodes.
    pub nodes: usize,
    /// Seed.
    pub seed: u64,
    /// Connections.
    pub connections: usize,
    /// Writes that completed.
    pub completed: usize,
    /// Writes that failed, to or from the dead node.
    pub failed: u64,
    /// Ends of connections that broke.
    pub broken: usize,
    /// Time until the last write that completed did, in ns.
    pub time_ns: u64,
    /// Bytes of completed writes over that time, in Gbit/s.
    pub goodput_gbps: f64,
    /// Median of the time from submission to completion, in ns.
    pub p50_ns: u64,
    /// Its 99th percentile.
    pub p99_ns: u64,
    /// Its 99.9th percentile.
    pub p999_ns: u64,
    /// Packets sent.
    pub packets: u64,
    /// Of these, sent again.
    pub retransmits: u64,
    /// Packets that queues of switches dropped.
    pub tail_drops: u64,
    /// Packets that receive rings dropped.
    pub ring_drops: u64,
    /// Packets lost to the dead node's links.
    pub lost: u64,
    /// Expiries of retransmission timers.
    pub timeouts: u64,
    /// Completion times, sorted, in ns.
    #[serde(skip)]
    pub latencies: Vec<u64>,
    /// Times of completion and bytes, in order of time.
    #[serde(skip)]
    pub deliveries: Vec<(u64, u64)>,
}

/// Columns of the table.
pub const COLUMNS: [&str; 13] = [
    "scenario",
    "paths",
    "nodes",
    "writes",
    "failed",
    "time ms",
    "Gbit/s",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "sent again %",
    "drops",
    "timeouts",
];

impl Outcome {
    /// Percentage of all packets that were sent again.
    pub fn again(&self) -> f64 {
        100.0 * self.retransmits as f64 / self.packets.max(1) as f64
    }

    /// A row of the table.
    pub fn row(&self) -> [String; COLUMNS.len()] {
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        [
            self.scenario.text().to_owned(),
            if self.ordered { "one" } else { "all" }.to_owned(),
            self.nodes.to_string(),
            self.completed.to_string(),
            self.failed.to_string(),
            format!("{:.3}", self.time_ns as f64 / 1e6),
            format!("{:.1}", self.goodput_gbps),
            us(self.p50_ns),
            us(self.p99_ns),
            us(self.p999_ns),
            format!("{:.2}", self.again()),
            (self.tail_drops + self.ring_drops + self.lost).to_string(),
            self.timeouts.to_string(),
        ]
    }
}

/// Runs a load. Invariants are checked as in random schedules.
pub fn run(name: Name, nodes: usize, variant: &Variant, seed: u64) -> Result<Outcome, Violation> {
    let mut sim = build(name, nodes, variant, seed);
    sim.run(100 * SECOND)?;
    let mut latencies = Vec::new();
    let mut deliveries = Vec::new();
    let (mut failed, mut broken) = (0, 0);
    for end in &mut sim.ends {
        latencies.append(&mut end.work.latencies);
        let since = |(at, bytes): (u64, u64)| (at - START, bytes);
        deliveries.extend(end.work.goodput.drain(..).map(since));
        failed += end.work.failed;
        broken += usize::from(end.broken.is_some());
    }
    latencies.sort_unstable();
    deliveries.sort_unstable();
    let bytes: u64 = deliveries.iter().map(|delivery| delivery.1).sum();
    let time_ns = deliveries.last().map_or(0, |delivery| delivery.0);
    let percentile = |parts: usize| {
        let at = (latencies.len() * parts).div_ceil(1000).saturating_sub(1);
        latencies.get(at).copied().unwrap_or(0)
    };
    let (totals, carried) = (sim.totals(), sim.fabric.carried);
    Ok(Outcome {
        scenario: name,
        ordered: variant.ordered,
        congestion: sim.ends[0].conn.config().pdl_congestion != 0,
        nodes,
        seed,
        connections: sim.ends.len() / 2,
        completed: latencies.len(),
        failed,
        broken,
        time_ns,
        goodput_gbps: (bytes * 8) as f64 / time_ns.max(1) as f64,
        p50_ns: percentile(500),
        p99_ns: percentile(990),
        p999_ns: percentile(999),
        packets: totals.tx_packets,
        retransmits: totals.retransmits,
        tail_drops: carried.tail_drops,
        ring_drops: totals.ring_drops,
        lost: carried.lost,
        timeouts: totals.timeouts,
        latencies,
        deliveries,
    })
}

fn build(name: Name, nodes: usize, variant: &Variant, seed: u64) -> Sim {
    let mut rng = Rng::new(seed);
    let link = LinkConfig {
        mbps: 100_000,
        delay: 500,
        queue: SWITCH_QUEUE,
        ..LinkConfig::default()
    };
    let host = LinkConfig {
        queue: 0,
        ..link.clone()
    };
    // As many spines as a leaf has nodes: the fabric itself has room for every permutation.
    let leaf = nodes.isqrt().max(1);
    let topology = Topology::LeafSpine { leaf, spines: leaf };
    let fabric = Fabric::new(topology, nodes, &host, &link, rng.fork());
    let cpu = Cpu {
        cost: 200,
        batch: 64,
        ring: 4096,
    };
    let mut sim = Sim::new(fabric, vec![cpu; nodes], rng.fork(), false);
    let mut config = Config {
        mtu: MTU,
        ordered_tx: variant.ordered,
        ordered_rx: variant.ordered,
        ext: match variant.strict {
            true => Extensions::Off,
            false => Extensions::Auto,
        },
        congestion_tuning: variant.tuning,
        ..Config::default()
    };
    if let Some(on) = variant.congestion {
        config.pdl_congestion = on.into();
    }
    if name == Name::IncastPartitioned {
        let share = SWITCH_QUEUE / u64::from(MTU) / (nodes as u64 - 1).max(1);
        config.pdl_receive_win = share.clamp(1, 32) as u32;
    }
    let dead = (name == Name::OneDeadNode).then_some(0);
    if let Some(node) = dead {
        sim.fabric.cut_off(node, DEATH, u64::MAX);
        config.pdl_dead_time = 50_000_000;
    }
    let (pairs, both) = name.pairs(nodes);
    let (writes, len) = name.writes(nodes);
    for pair in pairs {
        let ends = [0, 1].map(|end: usize| {
            let left = if end == 0 || both { writes } else { 0 };
            let stream = Stream {
                left,
                len,
                depth: 2,
            };
            let work = Work::new(Source::Stream(stream), rng.fork(), false);
            (pair[end], config.clone(), work)
        });
        let first = sim.connect(ends);
        // Connections do not come into being in the same microsecond.
        let created = rng.below(START / 2);
        sim.rest(first, created, START);
        sim.rest(first + 1, created, START);
        for end in &mut sim.ends[first..first + 2] {
            end.mortal = dead.is_some_and(|node| pair.contains(&node));
        }
    }
    sim
}
