// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Jobs: nodes that share a partition of their own, made and ended while the fabric runs.

use super::Params;
use crate::Extensions;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /v1/jobs`: a job that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Its name: 1 to 64 letters, digits, `-`, `_` and `.`.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,64}$")]
    pub name: String,
    /// Its nodes, a host list as in a fabric file: `xpu[01-04,07]`.
    pub hosts: String,
    /// What its connections are like.
    #[serde(default)]
    pub settings: JobSettings,
}

/// What the connections of a job are like, named as in a table `[[connections]]` of a fabric file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSettings {
    /// How packets are carried: `sunh` if left out, `udp`, `udp4` or `udp6`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(sunh|udp|udp4|udp6)$")]
    pub encap: Option<String>,
    /// `ordered` if left out, or `unordered`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(ordered|unordered)$")]
    pub order: Option<String>,
    /// Every packet is another flow to the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spray: Option<bool>,
    /// The extension opcodes: `true`, `false`, or `"auto"`, the default: if both ends have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ext: Option<Extensions>,
    /// Traffic Class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 255)]
    pub tclass: Option<u8>,
    /// Hop Limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 255)]
    pub hop_limit: Option<u8>,
    /// Largest packet, bytes from the packet delivery header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The same as `pdl_window_size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Parameters of connections.
    #[serde(default, skip_serializing_if = "Params::is_empty")]
    pub parameters: Params,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// Its nodes.
    pub hosts: Vec<String>,
    /// The number of its partition, which is its token: told to operators and to the job's nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// What its connections are like.
    pub settings: JobSettings,
    /// When it was made, in milliseconds since 1970.
    pub made_ms: u64,
    /// Connections that it has.
    pub connections: usize,
    /// Those of them that run at both ends; the job runs when all do.
    pub connections_running: usize,
    /// What is waited for until it runs, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
}

impl Job {
    /// Whether all its connections run.
    pub fn runs(&self) -> bool {
        self.connections_running == self.connections && self.waiting.is_empty()
    }
}
