// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A fabric as it is wanted: nodes, global parameters, and who is connected to whom.

mod check;
mod file;
pub mod hosts;
mod job;
mod mistake;
mod read;

pub use job::links as job_links;
pub use mistake::{show, Mistake};
pub use read::read;
pub use superp_control::manager::{Encap, Node, Params, Port, Settings};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use superp_proto::{Config, Param, PARAMS};
use utoipa::ToSchema;

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

/// How long the ids of such a connection are kept back after it is gone, milliseconds.
pub fn quarantine_ms(settings: &Settings) -> u64 {
    let mut config = Config::default();
    for (place, param) in PARAMS.iter().enumerate() {
        if let Some(value) = settings.params.get(param.name) {
            config.set_param(place, *value);
        }
    }
    config.quarantine_time().div_ceil(1_000_000)
}

#[cfg(test)]
mod tests;
