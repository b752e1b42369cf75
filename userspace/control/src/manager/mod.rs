// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The REST interface of `superp-cm`, the connection manager: its documents, as JSON, and with the
//! feature `client` a client. `GET /openapi.json` of a manager describes it.

#[cfg(feature = "client")]
mod client;
mod jobs;
#[cfg(feature = "client")]
mod sse;

#[cfg(feature = "client")]
pub use client::{
    EventStream, Forward, Forwarded, ManagerClient, ManagerError, Scope, Streamed, Verb,
};
pub use jobs::{Job, JobSettings, JobSpec};

use crate::{ConnectionState, Extensions, NodeState, RmaSpace};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use utoipa::ToSchema;

/// The manager's TCP port, unless told otherwise.
pub const MANAGER_PORT: u16 = 7778;

/// Title of the [`Problem`] that a manager tells which does not lead: another one is to be asked.
pub const NOT_LEADING: &str = "This manager does not lead";

/// Kinds of events.
pub const EVENT_KINDS: [&str; 6] = ["apply", "connection", "job", "node", "phase", "report"];

/// Parameters by name, in the units of `superp param show`.
pub type Params = BTreeMap<String, u64>;

/// How far the fabric is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FabricStatus {
    /// Its name; empty before anything was applied.
    pub name: String,
    /// How far it is.
    pub phase: Phase,
    /// Number of the configuration that is wanted.
    pub generation: u64,
    /// Number of the last configuration that was started.
    pub started: u64,
    /// The manager's term.
    pub term: u64,
    /// Number of nodes.
    pub nodes: usize,
    /// Nodes that have the configuration that is wanted.
    pub nodes_ready: usize,
    /// Number of connections.
    pub connections: usize,
    /// Connections that run at both ends.
    pub connections_running: usize,
    /// What is waited for, a sentence each.
    pub waiting: Vec<String>,
    /// Number of the last event; 0 without one.
    #[serde(default)]
    pub last_event: u64,
}

/// A node.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Where its agent listens.
    pub agent: String,
    /// Its SUPERp address.
    pub address: String,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Its range of the RMA addresses, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rma: Option<RmaSpace>,
    /// Its state as its agent told; absent while that does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<NodeState>,
    /// The configuration that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Why it does not answer, or what it refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// It is removed from the fabric once it is shut down.
    pub leaving: bool,
    /// Those of its ports that cannot send and receive, as its agent told last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports_down: Vec<String>,
    /// Version of its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// Connections that it is to have.
    pub connections: usize,
    /// What its agent told of itself: the document `GET /v1/capabilities` of agents. Only when one node is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub capabilities: Option<serde_json::Value>,
}

/// A connection.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Connection {
    /// Its normalised 4-tuple, `CID@ADDRESS-CID@ADDRESS`.
    pub connection: String,
    /// Its ends, the lower first.
    pub ends: Vec<ConnectionEnd>,
    /// What is to become of it.
    pub want: Want,
    /// How many lives it had before.
    pub life: u32,
    /// First packet sequence number of this life.
    pub start_psn: u32,
    /// The job that it belongs to. What partition that is in is not told here: it is 0 in the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// What it is like.
    pub settings: Settings,
}

/// An end of a connection.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ConnectionEnd {
    /// The node.
    pub node: String,
    /// Its address.
    pub address: String,
    /// The id there.
    pub cid: u16,
    /// Its state, as last told; absent if the node does not answer or does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ConnectionState>,
    /// Why it is in that state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What it sent and received, once counters were asked for and its agent told them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    /// All its counters, named as in the netlink specification. Only when one connection is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<BTreeMap<String, u64>>,
}

/// What an end of a connection sent and received since it was created or reset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Traffic {
    /// When its agent told, in milliseconds since 1970.
    pub time_ms: u64,
    /// Packets sent, retransmissions included.
    pub tx_packets: u64,
    /// Packets received and taken.
    pub rx_packets: u64,
    /// Bytes of data blocks sent, retransmissions not included.
    pub tx_bytes: u64,
    /// Bytes of data blocks received and delivered.
    pub rx_bytes: u64,
    /// Packets sent again, for whatever reason.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retransmits: u64,
    /// Transactions completed with an error.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A refusal (RFC 9457).
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What kind of problem, in words.
    pub title: String,
    /// Status of the HTTP answer.
    pub status: u16,
    /// What is wrong. For a fabric file: every mistake with its line, its place and what would be right.
    pub detail: String,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Node {
    /// Where its agent listens: host and port.
    pub agent: String,
    /// Its SUPERp address.
    #[schema(value_type = String)]
    pub address: IpAddr,
    /// The devices that it uses.
    pub ports: Vec<Port>,
    /// Its range of the RMA addresses; without one they begin with the regions' keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rma: Option<RmaSpace>,
}

/// A device that a node uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Port {
    /// Its name.
    pub dev: String,
    /// SUNH is received there.
    pub sunh: bool,
    /// UDP is received there.
    pub udp: bool,
}

/// How packets of a connection are carried.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Encap {
    /// Ethernet and the SUNH header.
    Sunh,
    /// UDP over IPv4.
    Udp4,
    /// UDP over IPv6.
    Udp6,
}

/// What a connection is like; both ends alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Settings {
    /// How packets are carried.
    pub encap: Encap,
    /// Packets are delivered in order, both ways.
    pub ordered: bool,
    /// Every packet is another flow to the network.
    pub spray: bool,
    /// The extension opcodes are in use: `true`, `false`, or `"auto"`, if both ends have them.
    pub ext: Extensions,
    /// Partition, 0 for any.
    pub partition: u32,
    /// Traffic Class.
    pub tclass: u8,
    /// Hop Limit; the node's if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop_limit: Option<u8>,
    /// Largest packet, bytes from the packet delivery header; the port's if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Parameters of a connection, the global ones included.
    pub params: Params,
}

/// What applying a file does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// Name of the fabric.
    pub fabric: String,
    /// Number of the configuration: the one that is wanted now, if nothing changes.
    pub generation: u64,
    /// Whether anything changes.
    pub changed: bool,
    /// What changes, a sentence each.
    pub differences: Vec<String>,
    /// The nodes, with their connections.
    pub nodes: BTreeMap<String, NodePlan>,
}

/// What a node is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodePlan {
    /// The node.
    #[serde(flatten)]
    pub node: Node,
    /// Its connections.
    pub connections: Vec<ConnPlan>,
}

/// An end of a connection that is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnPlan {
    /// Its id at this node.
    pub cid: u16,
    /// The node at the other end.
    pub peer: String,
    /// Its id there.
    pub peer_cid: u16,
    /// What it is like.
    #[serde(flatten)]
    pub settings: Settings,
}

impl Plan {
    /// What applying it changes, in lines.
    pub fn changes(&self) -> String {
        if !self.changed {
            return format!(
                "nothing changes: configuration {} is this one\n",
                self.generation
            );
        }
        let lines = self.differences.iter().map(|line| format!("  {line}\n"));
        format!(
            "configuration {}\n{}",
            self.generation,
            lines.collect::<String>()
        )
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "fabric {}, configuration {}",
            self.fabric, self.generation
        )?;
        for (name, NodePlan { node, connections }) in &self.nodes {
            writeln!(
                f,
                "node {name}: address {}, agent {}",
                node.address, node.agent
            )?;
            if let Some(space) = node.rma {
                writeln!(f, "  RMA addresses {space}")?;
            }
            for conn in connections {
                let encap = format!("{:?}", conn.settings.encap).to_lowercase();
                let ConnPlan {
                    cid,
                    peer,
                    peer_cid,
                    ..
                } = conn;
                writeln!(f, "  connection {cid} to {peer}, there {peer_cid}, {encap}")?;
            }
        }
        Ok(())
    }
}

/// How far the fabric is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Nothing was ever wanted.
    #[default]
    Empty,
    /// The nodes are being configured; operations start when all are ready.
    Booting,
    /// Operations were started.
    Running,
    /// The nodes are being shut down.
    ShuttingDown,
    /// The nodes are shut down.
    Down,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "empty",
            Self::Booting => "booting",
            Self::Running => "running",
            Self::ShuttingDown => "shutting-down",
            Self::Down => "down",
        })
    }
}

/// What is to become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Want {
    /// To run.
    Run,
    /// To be shut down softly and started again.
    Restart,
    /// To be shut down softly.
    Stop,
    /// To be down at once.
    Hold,
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run => "run",
            Self::Restart => "restart",
            Self::Stop => "stop",
            Self::Hold => "hold",
        })
    }
}

/// A request to change something, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditRecord {
    /// Its number, 1 and up.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// The name in the certificate of who asked. Without TLS `loopback`, or the address.
    pub who: String,
    /// The role in the certificate: `viewer`, `operator`, `agent` or `manager`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// What was asked, as `POST /v1/apply`; cut after 256 bytes.
    pub request: String,
    /// Status of the HTTP answer. Without one, who asked went away before, or the manager ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The result: the configuration that was applied, or why nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its number, 1 and up; 0 until it is stored.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// The node that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The connection that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// What it is, one of [`EVENT_KINDS`]: `report` is one of an agent.
    pub kind: String,
    /// It in a sentence.
    pub text: String,
}
