// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A fabric as it is wanted: nodes, global parameters, and who is connected to whom.

mod check;
mod file;
pub mod hosts;
mod mistake;

pub use file::read;
pub use mistake::{show, Mistake};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use superp_control::RmaSpace;
use superp_proto::{Config, Param, PARAMS};
use utoipa::ToSchema;

/// Parameters by name, in the units of `superp param show`.
pub type Params = BTreeMap<String, u64>;

/// A fabric file that is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// Its name.
    pub name: String,
    /// What is done about a connection that breaks.
    pub broken: OnBroken,
    /// Global parameters that are set.
    pub params: Params,
    /// The nodes, by name.
    pub nodes: BTreeMap<String, Node>,
    /// The connections, in the file's order.
    pub links: Vec<Link>,
}

/// What is done about a connection that breaks (a hard error). Its peer is stopped at once in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnBroken {
    /// Both ends are reset with new start numbers and started again.
    #[default]
    Restart,
    /// It stays down until it is restarted by request.
    Stop,
    /// The error is taken for one of the whole system: every node is shut down.
    Shutdown,
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
    /// The extension opcodes are in use.
    pub ext: bool,
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

/// A connection between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The node whose name sorts first.
    pub a: String,
    /// The other node.
    pub b: String,
    /// What it is like.
    pub settings: Settings,
}

/// Whether a parameter is one of connections; otherwise it is the node's own.
pub(crate) fn of_connections(name: &str) -> bool {
    let place = PARAMS.iter().position(|param| param.name == name);
    place.is_some_and(|place| Config::default().param(place).is_some())
}

/// The value of a parameter that may be set.
pub(crate) fn param(params: &Params, name: &str) -> u64 {
    let default = Param::find(name).map_or(0, |param| param.default);
    params.get(name).copied().unwrap_or(default)
}

impl Settings {
    /// How long the ids of such a connection are kept back after it is gone, milliseconds.
    pub fn quarantine_ms(&self) -> u64 {
        let mut config = Config::default();
        for (place, param) in PARAMS.iter().enumerate() {
            if let Some(value) = self.params.get(param.name) {
                config.set_param(place, *value);
            }
        }
        config.quarantine_time().div_ceil(1_000_000)
    }
}

#[cfg(test)]
mod tests;
