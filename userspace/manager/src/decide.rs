// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What is to be done next: from what is wanted and what is seen to changes of the state, commands for
//! agents, and what is waited for. Everything here is a function of its arguments.
//!
//! Decisions are stored before they are carried out, and every command may be repeated. So a manager
//! that starts again looks at the agents and goes on wherever the last one ended.

use crate::fabric::{Encap, OnBroken};
use crate::plan::{jobs, next_life};
use crate::state::{Change, ConnKey, ConnRecord, Event, NodeRecord, Phase, State, Want};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use superp_control as agent;
use superp_control::{ConnectionState, ConnectionStatus, NodeState, Status};

/// A connection that breaks again sooner than this, in milliseconds, waits longer before it is started.
const RAN_WELL: u64 = 60_000;

/// The longest such wait, milliseconds.
const LONGEST_WAIT: u64 = 30_000;

/// What is asked of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// What can it do?
    Capabilities,
    /// Here is the configuration.
    Configure(Box<agent::Configuration>),
    /// Start operations, but for these connections.
    Start {
        /// Their ids at the node.
        hold: Vec<u16>,
    },
    /// Start a connection.
    StartConn(u16),
    /// Shut a connection down softly.
    StopConn(u16),
    /// Begin a new life of a connection.
    ResetConn {
        /// Its id at the node.
        cid: u16,
        /// What is under way ends with an error.
        hard: bool,
        /// First packet sequence number.
        start_psn: u32,
    },
    /// Shutdown node.
    Shutdown,
}

impl Command {
    /// What kinds there are.
    pub const NAMES: [&str; 7] = [
        "capabilities",
        "configure",
        "start",
        "start-connection",
        "stop-connection",
        "reset-connection",
        "shutdown",
    ];

    /// What kind it is.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Capabilities => "capabilities",
            Self::Configure(_) => "configure",
            Self::Start { .. } => "start",
            Self::StartConn(_) => "start-connection",
            Self::StopConn(_) => "stop-connection",
            Self::ResetConn { .. } => "reset-connection",
            Self::Shutdown => "shutdown",
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capabilities => f.write_str("capabilities"),
            Self::Configure(configuration) => {
                write!(f, "configuration {}", configuration.generation)
            }
            Self::Start { .. } => f.write_str("start operations"),
            Self::StartConn(cid) => write!(f, "start of connection {cid}"),
            Self::StopConn(cid) => write!(f, "stop of connection {cid}"),
            Self::ResetConn { cid, .. } => write!(f, "reset of connection {cid}"),
            Self::Shutdown => f.write_str("shutdown"),
        }
    }
}

/// What was seen of a node.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What its agent told last, or why it told nothing.
    pub status: Result<Status, String>,
    /// The command that failed last, and why.
    pub refused: Option<String>,
    /// Commands can be given now.
    pub idle: bool,
    /// Counters that it told with its status, if they were asked for.
    pub counters: Arc<Counters>,
}

/// Counters of a node's connections. Nothing is decided by them.
#[derive(Debug, Default)]
pub struct Counters {
    /// When they were told, milliseconds since 1970.
    pub time_ms: u64,
    /// By the id at this node, then by name.
    pub conns: BTreeMap<u16, BTreeMap<String, u64>>,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// To be stored before anything else.
    pub changes: Vec<Change>,
    /// For each node, in this order.
    pub commands: BTreeMap<String, Vec<Command>>,
}

/// Decides.
pub fn decide(state: &State, seen: &BTreeMap<String, Seen>, now: u64) -> Decision {
    let mut decider = Decider {
        state,
        seen,
        now,
        phase: state.fabric.phase,
        decision: Decision::default(),
        unsettled: BTreeSet::new(),
        lost: BTreeSet::new(),
        incomplete: BTreeSet::new(),
    };
    decider.run();
    decider.decision
}

/// What is waited for, a sentence each.
pub fn waiting(state: &State, seen: &BTreeMap<String, Seen>) -> Vec<String> {
    waiting_for(state, seen, |_| true)
}

/// What is waited for of some nodes, a sentence each.
pub fn waiting_for(
    state: &State,
    seen: &BTreeMap<String, Seen>,
    of: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut list = Vec::new();
    for (name, node) in state.nodes.iter().filter(|(name, _)| of(name)) {
        let seen = seen.get(name);
        let Some(what) = awaited(state, node, seen) else {
            continue;
        };
        let why = match seen {
            None => "not asked yet".into(),
            Some(Seen {
                status: Err(error), ..
            }) => error.clone(),
            Some(Seen {
                refused: Some(error),
                ..
            }) => error.clone(),
            Some(Seen {
                status: Ok(status), ..
            }) if status.differences.is_empty() => {
                format!("it is {}", status.state)
            }
            Some(Seen {
                status: Ok(status), ..
            }) => {
                format!("it is {}: {}", status.state, status.differences.join("; "))
            }
        };
        list.push(format!("node {name}: waiting for {what}: {why}"));
    }
    list
}

fn awaited(state: &State, node: &NodeRecord, seen: Option<&Seen>) -> Option<&'static str> {
    let status = seen.and_then(|seen| seen.status.as_ref().ok());
    let at = |wanted: &[NodeState]| {
        status.is_some_and(|status| {
            status.generation == Some(state.fabric.generation) && wanted.contains(&status.state)
        })
    };
    if node.shut_down {
        return Some("\"node shutdown complete\"");
    }
    match state.fabric.phase {
        Phase::Booting if !at(&[NodeState::Ready, NodeState::Started]) => Some("READY"),
        Phase::Running if !at(&[NodeState::Started]) => Some("the start of its operations"),
        _ => None,
    }
}

/// One end of a connection as it is seen.
#[derive(Clone, Copy)]
enum EndSeen<'a> {
    /// The node does not answer, or does not have the configuration.
    Unknown,
    /// The kernel does not have it.
    Missing,
    There(&'a ConnectionStatus),
}

struct Decider<'a> {
    state: &'a State,
    seen: &'a BTreeMap<String, Seen>,
    now: u64,
    phase: Phase,
    decision: Decision,
    /// Nodes with connections that must be reset before operations are started.
    unsettled: BTreeSet<String>,
    /// Nodes that had the configuration and have lost it.
    lost: BTreeSet<String>,
    /// Nodes whose kernel lacks a connection.
    incomplete: BTreeSet<String>,
}

impl<'a> Decider<'a> {
    fn run(&mut self) {
        let (fabric, mut after) = (&self.state.fabric, self.state.fabric.clone());
        match fabric.phase {
            Phase::Empty => return,
            Phase::Booting | Phase::Running => {
                let ready = self.nodes();
                self.conns();
                self.complete();
                if self.phase == Phase::ShuttingDown {
                    // A broken connection was taken for an error of the system.
                    self.decision.commands.clear();
                } else if self.phase == Phase::Booting && ready {
                    after.started = fabric.generation;
                    self.phase = Phase::Running;
                    self.tell(
                        "phase",
                        None,
                        None,
                        "every node is ready: start operations".into(),
                    );
                } else if self.phase == Phase::Running {
                    self.start();
                }
            }
            Phase::ShuttingDown | Phase::Down => {
                let done = self.shut_down();
                if fabric.phase == Phase::ShuttingDown && done {
                    self.phase = Phase::Down;
                    let away = |(name, node): &(&String, &NodeRecord)| {
                        node.shut_down && self.status(name).is_none()
                    };
                    let lost = self.state.nodes.iter().filter(away);
                    let lost: Vec<_> = lost.map(|(name, _)| name.as_str()).collect();
                    let text = match lost.as_slice() {
                        [] => "node shutdown complete, from every node".into(),
                        lost => format!(
                            "node shutdown complete, from every node that answers; without {}",
                            lost.join(", ")
                        ),
                    };
                    self.tell("phase", None, None, text);
                }
            }
        }
        if self.phase != fabric.phase {
            after.phase = self.phase;
            self.decision.changes.push(Change::Fabric(after));
        }
    }

    fn tell(&mut self, kind: &str, node: Option<&str>, conn: Option<&ConnKey>, text: String) {
        self.decision.changes.push(Change::Event(Event {
            seq: 0,
            time_ms: self.now,
            node: node.map(str::to_owned),
            connection: conn.map(ToString::to_string),
            kind: kind.into(),
            text,
        }));
    }

    /// Commands for a node that takes them.
    fn command(&mut self, node: &str, command: Command) {
        if self.seen.get(node).is_some_and(|seen| seen.idle) {
            let list = self.decision.commands.entry(node.into()).or_default();
            if !list.contains(&command) {
                list.push(command);
            }
        }
    }

    fn status(&self, node: &str) -> Option<&'a Status> {
        self.seen.get(node)?.status.as_ref().ok()
    }

    /// Brings every node to be ready; whether all are.
    fn nodes(&mut self) -> bool {
        let mut all = true;
        for (name, node) in &self.state.nodes {
            let Some(status) = self.status(name) else {
                all &= node.leaving;
                continue;
            };
            if node.shut_down {
                all &= node.leaving;
                self.shut_down_node(name, node, status);
                continue;
            }
            if node.instance != status.instance || node.capabilities.is_none() {
                self.command(name, Command::Capabilities);
            }
            let generation = self.state.fabric.generation;
            let right = status.generation == Some(generation)
                && matches!(status.state, NodeState::Ready | NodeState::Started);
            if !right {
                all = false;
                if node.ready == generation && status.generation != Some(generation) {
                    self.lost.insert(name.clone());
                    let text = format!("has lost its configuration, it is {}", status.state);
                    self.node_ready(name, node, 0, text);
                }
                let configuration = configuration(self.state, name, node);
                self.command(name, Command::Configure(Box::new(configuration)));
            } else if node.ready != generation {
                let text = format!("ready with configuration {generation}");
                self.node_ready(name, node, generation, text);
            }
        }
        all
    }

    /// Notes the configuration that a node is ready with, 0 for none.
    fn node_ready(&mut self, name: &str, node: &NodeRecord, ready: u64, text: String) {
        let record = NodeRecord {
            ready,
            ..node.clone()
        };
        let change = Change::Node(name.into(), Box::new(record));
        self.decision.changes.push(change);
        // Every job is a configuration for every node: that would push out all other events.
        if self.phase == Phase::Booting || ready == 0 || node.ready == 0 {
            self.tell("node", Some(name), None, text);
        }
    }

    fn shut_down_node(&mut self, name: &str, node: &NodeRecord, status: &Status) {
        if matches!(status.state, NodeState::ShutDown) {
            let change = match node.leaving {
                true => Change::NodeGone(name.into()),
                false => {
                    let record = NodeRecord {
                        shut_down: false,
                        ready: 0,
                        ..node.clone()
                    };
                    Change::Node(name.into(), Box::new(record))
                }
            };
            self.decision.changes.push(change);
            self.tell("node", Some(name), None, "node shutdown complete".into());
        } else {
            self.command(name, Command::Shutdown);
        }
    }

    /// Shuts the nodes down; whether all that answer are.
    fn shut_down(&mut self) -> bool {
        let mut done = true;
        for (name, node) in &self.state.nodes {
            if !node.shut_down {
                continue;
            }
            match self.seen.get(name) {
                // Not asked yet.
                None => done = false,
                Some(Seen { status: Err(_), .. }) => {}
                Some(Seen {
                    status: Ok(status), ..
                }) => {
                    done &= matches!(status.state, NodeState::ShutDown);
                    self.shut_down_node(name, node, status);
                }
            }
        }
        done
    }

    /// "Start operations", for nodes whose connections are all in the right life.
    fn start(&mut self) {
        for (name, _) in self.state.members() {
            let ready = self.status(name).is_some_and(|status| {
                status.state == NodeState::Ready
                    && status.generation == Some(self.state.fabric.generation)
            });
            if ready && !self.unsettled.contains(name) {
                let hold = self.held(name);
                self.command(name, Command::Start { hold });
            }
        }
    }

    /// The ids of a node's connections that are not to run, or not yet.
    fn held(&self, node: &str) -> Vec<u16> {
        let all = self.state.conns.iter();
        let held = all.filter(|(_, conn)| conn.want != Want::Run || self.now < conn.not_before);
        held.filter_map(|(key, conn)| {
            let side = conn.nodes.iter().position(|name| name == node)?;
            Some(key.ends()[side].cid)
        })
        .collect()
    }

    /// Nodes that lack a connection get their configuration again.
    fn complete(&mut self) {
        for name in std::mem::take(&mut self.incomplete) {
            if let Some(node) = self.state.nodes.get(&name) {
                let configuration = configuration(self.state, &name, node);
                self.command(&name, Command::Configure(Box::new(configuration)));
                self.unsettled.insert(name);
            }
        }
    }

    fn end(&self, node: &str, cid: u16) -> EndSeen<'a> {
        let Some(status) = self.status(node) else {
            return EndSeen::Unknown;
        };
        if status.generation != Some(self.state.fabric.generation) {
            return EndSeen::Unknown;
        }
        let conn = status.connections.iter().find(|conn| conn.cid == cid);
        conn.map_or(EndSeen::Missing, EndSeen::There)
    }

    fn conns(&mut self) {
        let state = self.state;
        for (key, conn) in &state.conns {
            self.conn(key, conn);
            if self.phase == Phase::ShuttingDown {
                return;
            }
        }
    }

    fn conn(&mut self, key: &ConnKey, old: &ConnRecord) {
        let cids = key.ends().map(|end| end.cid);
        let ends = [0, 1].map(|side| self.end(&old.nodes[side], cids[side]));
        // The state of an end that is in the life that is wanted, or in another one.
        let at = |side: usize, psn: u32| match ends[side] {
            EndSeen::There(status) if status.start_psn == psn => Some(status.state),
            _ => None,
        };
        let now_at = [0, 1].map(|side| at(side, old.start_psn));
        let any = |wanted: ConnectionState| now_at.contains(&Some(wanted));
        let down = |state: &Option<ConnectionState>| {
            matches!(
                state,
                Some(ConnectionState::Stopped | ConnectionState::Created | ConnectionState::Broken)
            )
        };
        let known = |side: usize| !matches!(ends[side], EndSeen::Unknown);
        let again = [0, 1].into_iter().any(|side| {
            old.up[side]
                && known(side)
                && matches!(now_at[side], None | Some(ConnectionState::Created))
        }) || (old.born <= self.state.fabric.started
            && old.nodes.iter().any(|name| self.lost.contains(name)));
        let packets = ends.iter().map(|end| match end {
            EndSeen::There(status) => packets_of(status),
            _ => 0,
        });
        let packets = packets.max().unwrap_or(0);
        let cause = ends.iter().find_map(|end| match end {
            EndSeen::There(status) if status.state == ConnectionState::Broken => {
                status.cause.clone()
            }
            _ => None,
        });

        let mut conn = old.clone();
        for side in [0, 1] {
            conn.up[side] |= now_at[side] == Some(ConnectionState::Established);
        }
        let mut told = None;
        let broken = any(ConnectionState::Broken);
        if broken {
            let cause = cause.unwrap_or_else(|| "broken".into());
            conn = next_life(old, packets);
            match (old.want, self.state.fabric.broken) {
                (Want::Run | Want::Restart, OnBroken::Restart) => {
                    conn.want = Want::Run;
                    self.back_off(&mut conn);
                    told = Some(format!(
                        "hard error: {cause}; both ends are reset and started again"
                    ));
                }
                (Want::Run | Want::Restart, OnBroken::Shutdown) => {
                    let text = format!("hard error: {cause}; the system is shut down");
                    self.tell("connection", None, Some(key), text);
                    self.begin_shut_down();
                    return;
                }
                _ => {
                    conn.want = Want::Hold;
                    told = Some(format!(
                        "hard error: {cause}; both ends are reset and stay down"
                    ));
                }
            }
        } else if again {
            conn = next_life(old, packets);
            told = Some("an end has lost its state; both ends are reset".into());
        } else {
            match old.want {
                Want::Run if any(ConnectionState::Stopped) && now_at.iter().all(down) => {
                    conn = next_life(old, packets);
                    told = Some("stopped; both ends go on in a new life".into());
                }
                Want::Restart if now_at.iter().all(down) => {
                    conn = next_life(old, packets);
                    conn.want = Want::Run;
                    told = Some("quiescent; both ends go on in a new life".into());
                }
                Want::Hold
                    if any(ConnectionState::Established) || any(ConnectionState::Draining) =>
                {
                    conn = next_life(old, packets);
                }
                _ => {}
            }
        }

        for side in [0, 1] {
            let status = match ends[side] {
                EndSeen::There(status) => status,
                EndSeen::Missing => {
                    self.incomplete.insert(conn.nodes[side].clone());
                    continue;
                }
                EndSeen::Unknown => continue,
            };
            if status.start_psn != conn.start_psn {
                let command = Command::ResetConn {
                    cid: cids[side],
                    hard: status.state != ConnectionState::Stopped,
                    start_psn: conn.start_psn,
                };
                self.reset(&conn.nodes[side], command);
            }
        }
        let in_life = [0, 1].map(|side| match ends[side] {
            EndSeen::There(status) if status.start_psn == conn.start_psn => Some(status.state),
            _ => None,
        });
        let mut commands = Vec::new();
        for side in [0, 1] {
            let node = &conn.nodes[side];
            match (conn.want, in_life[side]) {
                (Want::Run, Some(ConnectionState::Created))
                    if self.started(node)
                        && self.now >= conn.not_before
                        && in_life.iter().all(|state| {
                            matches!(
                                state,
                                Some(ConnectionState::Created | ConnectionState::Established)
                            )
                        }) =>
                {
                    commands.push((node.clone(), Command::StartConn(cids[side])));
                }
                (Want::Stop | Want::Restart, Some(ConnectionState::Established)) => {
                    commands.push((node.clone(), Command::StopConn(cids[side])));
                }
                _ => {}
            }
        }
        if conn != *old {
            self.decision
                .changes
                .push(Change::Conn(*key, Box::new(conn)));
        }
        if let Some(text) = told {
            self.tell("connection", None, Some(key), text);
        }
        for (node, command) in commands {
            self.command(&node, command);
        }
    }

    fn reset(&mut self, node: &str, command: Command) {
        self.unsettled.insert(node.into());
        self.command(node, command);
    }

    fn started(&self, node: &str) -> bool {
        self.status(node)
            .is_some_and(|status| status.state == NodeState::Started)
    }

    /// One that breaks again and again is started at longer and longer intervals.
    fn back_off(&self, conn: &mut ConnRecord) {
        if self.now > conn.not_before.saturating_add(RAN_WELL) {
            conn.breaks = 0;
        }
        let wait = match conn.breaks {
            0 => 0,
            breaks => 500_u64
                .checked_shl(breaks.min(10))
                .unwrap_or(LONGEST_WAIT)
                .min(LONGEST_WAIT),
        };
        conn.breaks = conn.breaks.saturating_add(1);
        conn.not_before = self.now.saturating_add(wait);
    }

    fn begin_shut_down(&mut self) {
        self.phase = Phase::ShuttingDown;
        self.decision
            .changes
            .extend(shut_down(self.state, self.now));
    }
}

/// Packets that an end has sent, or received if that is more.
pub fn packets_of(conn: &ConnectionStatus) -> u64 {
    let sum = |of: fn(&agent::PathStatus) -> u64| {
        let paths = conn.paths.iter();
        paths.fold(0, |sum: u64, path| sum.saturating_add(of(path)))
    };
    sum(|path| path.tx_packets).max(sum(|path| path.rx_packets))
}

/// What makes every node one that has to be shut down, and ends the jobs. The phase is the caller's.
pub fn shut_down(state: &State, now: u64) -> Vec<Change> {
    let nodes = state.nodes.iter().map(|(name, node)| {
        let record = NodeRecord {
            shut_down: true,
            ..node.clone()
        };
        Change::Node(name.clone(), Box::new(record))
    });
    nodes.chain(jobs::end_all(state, now)).collect()
}

/// The configuration of a node. Start numbers of connections that the node has already are for resets to
/// change: whoever sends this leaves them as the node has them.
pub fn configuration(state: &State, name: &str, node: &NodeRecord) -> agent::Configuration {
    let mut connections = Vec::new();
    let mut partitions = BTreeSet::new();
    for (key, conn) in &state.conns {
        let ends = key.ends();
        for (side, other) in [(0, 1), (1, 0)] {
            if conn.nodes[side] != name {
                continue;
            }
            let settings = &conn.settings;
            let sunh = settings.encap == Encap::Sunh;
            let port = node.node.ports.iter().find(|port| port.sunh);
            let own = |(name, value): (&String, &u64)| {
                (state.params.get(name) != Some(value)).then(|| (name.clone(), *value))
            };
            if settings.partition != 0 {
                partitions.insert(settings.partition);
            }
            connections.push(agent::Connection {
                cid: ends[side].cid,
                peer: ends[other].addr,
                peer_cid: ends[other].cid,
                encap: match settings.encap {
                    Encap::Sunh => agent::Encap::Sunh,
                    Encap::Udp4 => agent::Encap::Udp4,
                    Encap::Udp6 => agent::Encap::Udp6,
                },
                local: Some(ends[side].addr),
                device: port.filter(|_| sunh).map(|port| port.dev.clone()),
                lladdr: None,
                paths: Vec::new(),
                ordered_tx: settings.ordered,
                ordered_rx: settings.ordered,
                spray: settings.spray,
                ext: settings.ext,
                lite: false,
                partition: settings.partition,
                tclass: settings.tclass,
                hop_limit: settings.hop_limit,
                flow_label: None,
                mtu: settings.mtu,
                start_psn: conn.start_psn,
                start_xid: 0,
                parameters: settings.params.iter().filter_map(own).collect(),
            });
        }
    }
    connections.sort_by_key(|conn| conn.cid);
    let port = |port: &crate::fabric::Port| {
        let sunh = port.sunh.then_some(agent::PortEncap::Sunh);
        let udp = port.udp.then_some(agent::PortEncap::Udp);
        agent::Port {
            device: port.dev.clone(),
            encap: sunh.into_iter().chain(udp).collect(),
        }
    };
    agent::Configuration {
        fabric: state.fabric.name.clone(),
        generation: state.fabric.generation,
        node: agent::Node {
            parameters: state.params.clone(),
            manager: None,
            partitions: partitions.into_iter().collect(),
            rma: node.node.rma,
        },
        ports: node.node.ports.iter().map(port).collect(),
        connections,
    }
}

#[cfg(test)]
mod tests;
