// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the agent tells when it is asked.

use crate::{Encap, PortEncap};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use utoipa::ToSchema;

/// `GET /v1/capabilities`: what the node can do and has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capabilities {
    /// Version of the REST interface, major and minor.
    pub api_version: String,
    /// Version of the agent.
    pub agent_version: String,
    /// Changes whenever the agent starts.
    pub instance: String,
    /// Name of the host.
    pub host: String,
    /// The kernel module.
    pub module: ModuleVersion,
    /// The protocol.
    pub protocol: Protocol,
    /// The network devices of the node, loopback aside, ports or not.
    pub devices: Vec<Device>,
    /// Memory for RMA.
    pub memory: Memory,
    /// Largest window of a connection, packets.
    pub window_max: u64,
    /// Connection ids.
    pub cids: Cids,
    /// Every parameter that there is.
    pub parameters: Vec<Parameter>,
}

/// The kernel module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModuleVersion {
    /// Its version, for people.
    pub version: String,
    /// Version of its user interface. It grows when something is added.
    pub uapi: u32,
}

/// What of the protocol there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Protocol {
    /// Version of the specification that is implemented.
    pub version: String,
    /// What a connection may use, by the names of its members: `ext`, `lite`, `paths`, `spray`,
    /// `sunh`, `udp4`, `udp6`, `unordered`.
    pub features: Vec<String>,
    /// EtherType of SUNH.
    pub ethertype: u16,
    /// Next Header of SUPERp.
    pub next_header: u8,
    /// UDP destination port.
    pub udp_port: u16,
    /// Bits of an address in a SUNH header.
    pub caddr_bits: u8,
}

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Device {
    /// Its name.
    pub device: String,
    /// Its index.
    pub index: u32,
    /// Its Ethernet address, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Bytes.
    pub mtu: u32,
    /// Whether it can send and receive.
    pub state: LinkState,
    /// Its addresses.
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<IpAddr>,
    /// What SUPERp receives there; empty if it is no port.
    pub port: Vec<PortEncap>,
}

/// Whether a device or path can send and receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// It can.
    Up,
    /// It cannot.
    Down,
}

/// Memory that programs of the node can give to RMA. Regions are ordinary memory of their programs,
/// pinned, so what there is depends on what else runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Memory {
    /// Memory of the host, bytes.
    pub total: u64,
    /// What new programs could have of it now without swapping (MemAvailable), bytes.
    pub available: u64,
    /// RLIMIT_MEMLOCK of the agent, bytes: what a program without CAP_IPC_LOCK can register if it is
    /// given the same limit. Absent when there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memlock: Option<u64>,
}

/// Connection ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cids {
    /// The lowest that can be used.
    pub first: u16,
    /// The highest.
    pub last: u16,
    /// Largest number of connections at a time.
    pub connections_max: u64,
    /// Those in use; all others in the range are free.
    pub in_use: Vec<u16>,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Parameter {
    /// Its name in the specification.
    pub name: String,
    /// Value in force.
    pub value: u64,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Value when nothing was set.
    pub default: u64,
    /// Unit of the values; empty for plain numbers.
    pub unit: String,
    /// Whether a connection may have its own.
    pub per_connection: bool,
    /// What it does.
    pub doc: String,
}

/// State of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// Nothing is configured.
    Unconfigured,
    /// The configuration is in force; targets answer, initiators wait for the start. This is what
    /// "READY" means.
    Ready,
    /// Operations have been started.
    Started,
    /// The kernel is not as configured: a request failed half way, or somebody else changed something.
    /// `Status::differences` says what. The same `PUT` again goes on.
    Partial,
    /// "Node shutdown complete". The next configuration may be of another fabric.
    ShutDown,
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unconfigured => "unconfigured",
            Self::Ready => "ready",
            Self::Started => "started",
            Self::Partial => "partial",
            Self::ShutDown => "shut-down",
        })
    }
}

/// `GET /v1/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Changes whenever the agent starts.
    pub instance: String,
    /// State of the node.
    pub state: NodeState,
    /// Fabric of the configuration in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<String>,
    /// Generation of the configuration in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// The highest term seen.
    pub term: u64,
    /// Where the kernel is not as configured, in sentences.
    pub differences: Vec<String>,
    /// The network devices, as in the capabilities.
    pub devices: Vec<Device>,
    /// Every connection that the kernel has.
    pub connections: Vec<ConnectionStatus>,
    /// Number of queue pairs.
    pub queue_pairs: u32,
    /// Number of memory regions.
    pub regions: u32,
    /// Packets received and dropped, by reason; only those that happened.
    pub drops: BTreeMap<String, u64>,
    /// Number of the last report; where to begin with `GET /v1/events`.
    pub last_report: u64,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionState {
    /// Configured: answers the peer, takes no requests of its own node.
    Created,
    /// Started.
    Established,
    /// Completes what was begun; later requests wait.
    Draining,
    /// Ended in order at both ends.
    Stopped,
    /// Ended because the peer could not be reached or broke the protocol.
    Broken,
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Created => "created",
            Self::Established => "established",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
            Self::Broken => "broken",
        })
    }
}

/// A connection as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionStatus {
    /// Its id at this node.
    pub cid: u16,
    /// Address of the peer.
    #[schema(value_type = String)]
    pub peer: IpAddr,
    /// Its id at the peer.
    pub peer_cid: u16,
    /// How packets are carried.
    pub encap: Encap,
    /// Own address.
    #[schema(value_type = String)]
    pub local: IpAddr,
    /// Its state.
    pub state: ConnectionState,
    /// Why it is in that state, when there is something to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Largest packet, bytes.
    pub mtu: u32,
    /// First packet sequence number of this life.
    pub start_psn: u32,
    /// First transaction id of this life.
    pub start_xid: u16,
    /// Its paths.
    pub paths: Vec<PathStatus>,
    /// Its counters since it was created or reset, named as in the netlink specification; absent if
    /// they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<BTreeMap<String, u64>>,
}

/// A path of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathStatus {
    /// Device, unless packets are routed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Own address.
    #[schema(value_type = String)]
    pub local: IpAddr,
    /// Address of the peer.
    #[schema(value_type = String)]
    pub peer: IpAddr,
    /// Whether packets can leave by it.
    pub state: LinkState,
    /// Packets sent by it.
    pub tx_packets: u64,
    /// Packets received by it.
    pub rx_packets: u64,
}

/// The answer to `PUT /v1/configuration` and `POST /v1/start`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Configured {
    /// State of the node now.
    pub state: NodeState,
    /// Generation in force.
    pub generation: u64,
    /// Whether anything was changed.
    pub changed: bool,
    /// What became of each object.
    pub outcomes: Vec<Outcome>,
}

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Outcome {
    /// What it is.
    pub object: Object,
    /// What was done.
    pub action: Action,
    /// Why, in a sentence, where there is something to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// An object of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", content = "id", rename_all = "lowercase")]
pub enum Object {
    /// A parameter, by its name.
    Parameter(String),
    /// The address of the manager.
    Manager,
    /// The node's part of a global address space of RMA.
    #[serde(rename = "rma-space")]
    RmaSpace,
    /// A port, by its device.
    Port(String),
    /// A connection, by its id at this node.
    Connection(u16),
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameter(name) => write!(f, "parameter {name}"),
            Self::Manager => f.write_str("address of the manager"),
            Self::RmaSpace => f.write_str("space of RMA addresses"),
            Self::Port(device) => write!(f, "port {device}"),
            Self::Connection(cid) => write!(f, "connection {cid}"),
        }
    }
}

/// What was done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Nothing: it was so.
    Unchanged,
    /// A value was set.
    Set,
    /// Created.
    Created,
    /// Removed and created again, because it differs in something that cannot be changed.
    Replaced,
    /// Removed.
    Removed,
    /// Started.
    Started,
    /// It was tried and the kernel refused; `detail` says why.
    Failed,
    /// It was done, and undone because something else failed.
    Undone,
    /// It was to be done and was not tried, because something else failed.
    NotTried,
}

/// The answer to `POST /v1/shutdown`: "node shutdown complete".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShutdownComplete {
    /// [`NodeState::ShutDown`].
    pub state: NodeState,
    /// Number of connections ended.
    pub connections: u32,
    /// Number of ports removed.
    pub ports: u32,
    /// The processes that were ended.
    pub processes: Vec<Process>,
}

/// A process that had queue pairs or regions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Name of its program.
    pub program: String,
    /// Whether it had to be killed: SIGTERM did not end it in time.
    pub killed: bool,
}
