// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the agent tells of its own accord.

use crate::{ConnectionState, LinkState};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use utoipa::ToSchema;

/// `GET /v1/events`: the reports with numbers above `after`, oldest first. When there are none and
/// `wait` was given, the agent waits so many seconds (60 at most) for one.
///
/// Who gives the `instance` it knows and finds another one here, or `lost` above 0, has missed
/// something and reads the status. With another instance everything kept is told: `after` is of the
/// old numbering.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reports {
    /// Changes whenever the agent starts; the numbers begin with 1 again.
    pub instance: String,
    /// Number of the last report that there is; 0 for none.
    pub last: u64,
    /// How many reports above `after` are not kept any more.
    pub lost: u64,
    /// The reports.
    pub reports: Vec<Report>,
}

/// Something that happened. What does not apply to its kind is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Report {
    /// Its number.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// What it tells.
    pub kind: ReportKind,
    /// Connection, its id at this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cid: Option<u16>,
    /// Its id at the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_cid: Option<u16>,
    /// Address of the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub peer: Option<IpAddr>,
    /// State of the connection now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_state: Option<ConnectionState>,
    /// Device of the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// State of the port now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_state: Option<LinkState>,
    /// What happened, in words of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The offending value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// First value that would have been in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<u64>,
    /// First value after `low` that would not have been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<u64>,
    /// Bytes of a refused access. Its address is not told: it may hold a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u32>,
    /// Kernel reports that were not told before this one, because there were too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppressed: Option<u32>,
}

/// What a report tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReportKind {
    /// A connection was created or changed its state. `broken` is a hard error.
    ConnectionState,
    /// A connection was removed.
    ConnectionRemoved,
    /// A port was created, came up or went down.
    PortState,
    /// A port was removed.
    PortRemoved,
    /// A peer broke a rule of the protocol, or something else that the protocol reports.
    Protocol,
    /// A remote access was refused.
    AccessViolation,
    /// The kernel's events came faster than they were read, and some are lost.
    EventsLost,
    /// The agent started.
    AgentStarted,
    /// A kind that this version does not know.
    #[serde(other)]
    Other,
}
