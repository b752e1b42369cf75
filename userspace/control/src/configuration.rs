// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the manager asks for.

use crate::Extensions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use utoipa::openapi::schema::{
    ArrayBuilder, KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type,
};
use utoipa::openapi::RefOr;
use utoipa::ToSchema;

/// `PUT /v1/configuration`: a configuration, with the term of the manager that sends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Configure {
    /// The manager's term.
    pub term: u64,
    /// What the node is to be.
    pub configuration: Configuration,
}

/// Everything that is configured on a node. It is the whole: ports and connections that the kernel
/// has and the configuration has not are removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Name of the fabric, for people. A node is of one fabric until it is shut down.
    pub fabric: String,
    /// Number of this configuration, 1 and up. A number names one content: the same one again changes
    /// nothing, with another content it is refused, and so is a lower one.
    pub generation: u64,
    /// The node itself.
    #[serde(default)]
    pub node: Node,
    /// The network devices that SUPERp uses.
    #[serde(default)]
    pub ports: Vec<Port>,
    /// The connections.
    #[serde(default)]
    pub connections: Vec<Connection>,
}

/// What is configured for the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Parameters by their names, as `GET /v1/capabilities` lists them. One that is not given has its
    /// default.
    #[serde(default)]
    pub parameters: BTreeMap<String, u64>,
    /// Address of the connection manager, for programs on the node that want to talk to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub manager: Option<IpAddr>,
    /// The partitions that connections of this node may be in. A region is accessible only to
    /// connections of its own partition. When the list is empty connections are in none, that is 0.
    #[serde(default)]
    pub partitions: Vec<u32>,
    /// The node's part of a global address space of RMA. When left out there is none: the addresses of
    /// regions begin with their keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rma: Option<RmaSpace>,
}

/// The part of a global address space of RMA that is one node's: regions that are registered get
/// addresses in it. Those that there are keep theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RmaSpace {
    /// Its first address, a multiple of the node's page size and not 0.
    pub base: u64,
    /// Its bytes, a multiple of the node's page size and not 0; it ends at 2^64 at the latest.
    pub size: u64,
}

impl RmaSpace {
    /// The last address; none if there is none or it is beyond 2^64.
    pub fn last(&self) -> Option<u64> {
        self.base.checked_add(self.size.checked_sub(1)?)
    }
}

impl fmt::Display for RmaSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} bytes from {:#x}", self.size, self.base)
    }
}

/// A network device that SUPERp uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Name of the device.
    pub device: String,
    /// What is received there; all when left out.
    #[serde(default = "every_encap")]
    pub encap: Vec<PortEncap>,
}

fn every_encap() -> Vec<PortEncap> {
    vec![PortEncap::Sunh, PortEncap::Udp]
}

/// What a port receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PortEncap {
    /// Frames of the SUNH EtherType.
    Sunh,
    /// Datagrams of the UDP port of SUPERp.
    Udp,
}

/// How packets of a connection are carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encap {
    /// Directly on Ethernet.
    #[default]
    Sunh,
    /// In UDP over IPv4.
    Udp4,
    /// In UDP over IPv6.
    Udp6,
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// Its id at this node, 1 to 65535; 0 to 65535 for a lite one.
    #[schema(maximum = 65535)]
    pub cid: u16,
    /// Address of the peer.
    #[schema(value_type = String)]
    pub peer: IpAddr,
    /// Its id at the peer; 0 for a lite one.
    #[schema(maximum = 65535)]
    pub peer_cid: u16,
    /// How packets are carried.
    #[serde(default)]
    pub encap: Encap,
    /// Own address; when left out the one that suits the device or the route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub local: Option<IpAddr>,
    /// Device that packets leave by, one of the configured ports. When left out: over SUNH the only
    /// port, over UDP by route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Ethernet address of the peer or of the next hop, as `02:00:00:00:00:01`; over SUNH only. When
    /// left out the neighbour table resolves the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lladdr: Option<String>,
    /// The paths, 2 to 4, in place of `device` and `lladdr`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<Path>,
    /// The peer delivers our packets in order.
    #[serde(default = "yes")]
    pub ordered_tx: bool,
    /// The peer's packets are delivered in order here.
    #[serde(default = "yes")]
    pub ordered_rx: bool,
    /// Every packet takes another path and is another flow to the network; needs `ordered_tx` off.
    #[serde(default)]
    pub spray: bool,
    /// The extension opcodes: `true`, `false`, or `"auto"`, which uses them if the peer has them. Of
    /// a lite connection `"auto"` is off, because its packets do not tell.
    #[serde(default, skip_serializing_if = "Extensions::is_auto")]
    pub ext: Extensions,
    /// SUPERp-lite: without the packet delivery layer, over SUNH; both ends alike.
    #[serde(default)]
    pub lite: bool,
    /// Partition, 0 for none.
    #[serde(default)]
    #[schema(format = Int64, maximum = 4_294_967_295_u32)]
    pub partition: u32,
    /// Traffic Class, DSCP in bits 7 to 2.
    #[serde(default)]
    #[schema(maximum = 255)]
    pub tclass: u8,
    /// Hop Limit or TTL, 1 to 15 over SUNH; when left out the parameter `nh_hop_limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 255)]
    pub hop_limit: Option<u8>,
    /// Flow Label, 12 bits over SUNH, else 20; when left out one is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
    /// Largest packet in bytes, from the packet delivery header on; when left out what the path
    /// carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// First packet sequence number, both ends alike. That of a successor must keep the predecessor's
    /// late packets out ("Start of life" in Documentation/protocol.md).
    #[serde(default)]
    #[schema(format = Int64, maximum = 4_294_967_295_u32)]
    pub start_psn: u32,
    /// First transaction id, both ends alike.
    #[serde(default)]
    #[schema(maximum = 65535)]
    pub start_xid: u16,
    /// Parameters that differ from the node's, for instance `pdl_window_size`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, u64>,
}

/// A way between the ends of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Device, one of the configured ports.
    pub device: String,
    /// Own address; when left out that of the connection, or the one that suits the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub local: Option<IpAddr>,
    /// Address of the peer; when left out that of the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub peer: Option<IpAddr>,
    /// Ethernet address of the peer or of the next hop, over SUNH only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lladdr: Option<String>,
}

fn yes() -> bool {
    true
}

/// `POST /v1/start`: start the connections of this configuration ("start operations").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The manager's term.
    pub term: u64,
    /// The configuration that is meant; refused if it is not the one in force.
    pub generation: u64,
    /// Ids of connections that are to stay as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = connection_ids)]
    pub hold: Vec<u16>,
}

fn connection_ids() -> impl Into<RefOr<Schema>> {
    let id = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
        .minimum(Some(0))
        .maximum(Some(u16::MAX));
    ArrayBuilder::new()
        .items(id)
        .description(Some("Ids of connections that are to stay as they are."))
}

/// `POST /v1/connections/{cid}/start` and `…/stop`.
///
/// `start` starts a connection in the state `created`. `stop` is the soft shutdown: what was begun
/// is completed, what is queued later waits, and Last NULL is exchanged with the peer, whose agent
/// has to be told as well. It answers at once; the connection is `stopped` when its status says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The manager's term.
    pub term: u64,
    /// The configuration that is meant; refused if it is not the one in force.
    pub generation: u64,
}

/// `POST /v1/connections/{cid}/reset`: back to the state `created`, in a new life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// The manager's term.
    pub term: u64,
    /// The configuration that is meant; refused if it is not the one in force.
    pub generation: u64,
    /// False: refused unless the connection is `stopped`, and what waits is kept; this is the second
    /// half of a soft restart. True: at once, and what is under way ends with an error; this is the
    /// hard shutdown.
    #[serde(default)]
    pub hard: bool,
    /// First packet sequence number of the new life, both ends alike; the last one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = Int64, maximum = 4_294_967_295_u32)]
    pub start_psn: Option<u32>,
    /// First transaction id of the new life, both ends alike; the last one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 65535)]
    pub start_xid: Option<u16>,
}

/// `POST /v1/shutdown`: "shutdown node". Ends every connection, kills the processes that have queue
/// pairs or regions, and removes the ports. The answer comes when that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Shutdown {
    /// The manager's term.
    pub term: u64,
    /// Milliseconds from SIGTERM to SIGKILL, 60,000 at most.
    #[serde(default = "grace")]
    #[schema(maximum = 60_000)]
    pub grace_ms: u64,
}

fn grace() -> u64 {
    5_000
}
