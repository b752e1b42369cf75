// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the manager remembers: the fabric that is wanted, and how far it is.

use crate::fabric::{Fabric, Link, Node, OnBroken, Params, Settings};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use superp_control::manager::JobSettings;
pub use superp_control::manager::{Event, Phase, Want};

/// What the manager remembers, without the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The fabric as a whole.
    pub fabric: FabricRecord,
    /// Global parameters that are set.
    pub params: Params,
    /// The nodes, by name.
    pub nodes: BTreeMap<String, NodeRecord>,
    /// The connections.
    pub conns: BTreeMap<ConnKey, ConnRecord>,
    /// Ids that are kept back, by node and id: until when, milliseconds since 1970.
    pub retired: BTreeMap<(String, u16), u64>,
    /// Jobs, by their partitions; also those whose partition is not to be used again yet.
    pub jobs: BTreeMap<u32, JobRecord>,
}

/// A job: nodes that share a partition of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Its name; of those that have not ended each has another one.
    pub name: String,
    /// Its nodes, sorted.
    pub hosts: Vec<String>,
    /// What its connections are like.
    pub settings: JobSettings,
    /// When it was made, milliseconds since 1970.
    pub made_ms: u64,
    /// When it ended, milliseconds since 1970.
    pub ended_ms: Option<u64>,
}

/// The fabric as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricRecord {
    /// Its name.
    pub name: String,
    /// What is done about a connection that breaks.
    pub broken: OnBroken,
    /// Number of the configuration that is wanted.
    pub generation: u64,
    /// Number of the last configuration that was started; connections as old as it may run.
    pub started: u64,
    /// How far it is.
    pub phase: Phase,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// What the fabric file says of it.
    pub node: Node,
    /// The last configuration that it was ready with; 0 for none, or when it lost it.
    pub ready: u64,
    /// It has to be told "shutdown node" before anything else.
    pub shut_down: bool,
    /// It is not in the fabric any more: it is forgotten once it is shut down.
    pub leaving: bool,
    /// What its agent said of itself when it was last asked, as JSON.
    pub capabilities: Option<serde_json::Value>,
    /// The agent's instance that said so.
    pub instance: String,
    /// The agent's instance whose reports are stored, and the last of them.
    pub reports: (String, u64),
}

/// One end of a connection: an address and an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// The node's address.
    pub addr: IpAddr,
    /// The id at this node.
    pub cid: u16,
}

/// The normalised 4-tuple of a connection: the lower end stands first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnKey {
    low: End,
    high: End,
}

impl ConnKey {
    /// The key of the connection between two ends, in any order.
    pub fn new(one: End, other: End) -> Self {
        Self {
            low: one.min(other),
            high: one.max(other),
        }
    }

    /// The ends, the lower first.
    pub fn ends(&self) -> [End; 2] {
        [self.low, self.high]
    }
}

impl fmt::Display for ConnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { low, high } = self;
        write!(f, "{}@{}-{}@{}", low.cid, low.addr, high.cid, high.addr)
    }
}

impl FromStr for ConnKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let end = |text: &str| {
            let (cid, addr) = text.split_once('@')?;
            Some(End {
                addr: addr.parse().ok()?,
                cid: cid.parse().ok()?,
            })
        };
        let both = text
            .split_once('-')
            .and_then(|(one, other)| Some((end(one)?, end(other)?)));
        let (one, other) = both.ok_or_else(|| {
            format!(
                "\"{text}\" is not a connection: write CID@ADDRESS-CID@ADDRESS, as they are listed"
            )
        })?;
        Ok(Self::new(one, other))
    }
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnRecord {
    /// Names of the nodes, in the order of the ends of the key.
    pub nodes: [String; 2],
    /// What it is like.
    pub settings: Settings,
    /// The configuration that it came with.
    pub born: u64,
    /// First packet sequence number of the life that it is to be in; both ends alike.
    pub start_psn: u32,
    /// How many lives it had before.
    pub life: u32,
    /// What is to become of it.
    pub want: Want,
    /// The ends that were seen running in this life.
    pub up: [bool; 2],
    /// It is not started before this time, milliseconds since 1970; 0 for any.
    pub not_before: u64,
    /// How often it broke since it last ran well.
    pub breaks: u32,
}

/// A change of the state. A list of them is stored as a whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The fabric as a whole.
    Fabric(FabricRecord),
    /// All global parameters.
    Params(Params),
    /// A node, new or changed.
    Node(String, Box<NodeRecord>),
    /// A node is forgotten.
    NodeGone(String),
    /// A connection, new or changed.
    Conn(ConnKey, Box<ConnRecord>),
    /// A connection is forgotten.
    ConnGone(ConnKey),
    /// An id of a node is kept back until this time, milliseconds since 1970.
    Retire(String, u16, u64),
    /// The job of a partition, new or changed.
    Job(u32, Box<JobRecord>),
    /// A job that ended long ago is forgotten.
    JobGone(u32),
    /// The time of ids that were kept back until then is over.
    Expire(u64),
    /// Something to tell.
    Event(Event),
}

impl State {
    /// Carries out a change; events are not part of the state.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Fabric(fabric) => self.fabric = fabric.clone(),
            Change::Params(params) => self.params = params.clone(),
            Change::Node(name, record) => {
                self.nodes.insert(name.clone(), (**record).clone());
            }
            Change::NodeGone(name) => {
                self.nodes.remove(name);
            }
            Change::Conn(key, record) => {
                self.conns.insert(*key, (**record).clone());
            }
            Change::ConnGone(key) => {
                self.conns.remove(key);
            }
            Change::Retire(node, cid, until) => {
                self.retired.insert((node.clone(), *cid), *until);
            }
            Change::Job(partition, record) => {
                self.jobs.insert(*partition, (**record).clone());
            }
            Change::JobGone(partition) => {
                self.jobs.remove(partition);
            }
            Change::Expire(now) => self.retired.retain(|_, until| *until > *now),
            Change::Event(_) => {}
        }
    }

    /// The job of this name, and its partition.
    pub fn job(&self, name: &str) -> Option<(u32, &JobRecord)> {
        self.live_jobs().find(|(_, job)| job.name == name)
    }

    /// The jobs that have not ended, and their partitions.
    pub fn live_jobs(&self) -> impl Iterator<Item = (u32, &JobRecord)> {
        let live = self.jobs.iter().filter(|(_, job)| job.ended_ms.is_none());
        live.map(|(partition, job)| (*partition, job))
    }

    /// The job that a connection belongs to.
    pub fn job_of(&self, conn: &ConnRecord) -> Option<&JobRecord> {
        let job = self.jobs.get(&conn.settings.partition);
        job.filter(|job| job.ended_ms.is_none())
    }

    /// The nodes that are in the fabric, and all connections, those of jobs too.
    pub fn as_fabric(&self) -> Fabric {
        let nodes = self.members();
        let links = self.conns.values().map(|conn| {
            let [a, b] = conn.nodes.clone();
            Link {
                a: a.clone().min(b.clone()),
                b: a.max(b),
                settings: conn.settings.clone(),
            }
        });
        Fabric {
            name: self.fabric.name.clone(),
            broken: self.fabric.broken,
            params: self.params.clone(),
            nodes: nodes
                .map(|(name, record)| (name.clone(), record.node.clone()))
                .collect(),
            links: links.collect(),
        }
    }

    /// The nodes that are in the fabric.
    pub fn members(&self) -> impl Iterator<Item = (&String, &NodeRecord)> {
        self.nodes.iter().filter(|(_, node)| !node.leaving)
    }
}

/// The time, milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
