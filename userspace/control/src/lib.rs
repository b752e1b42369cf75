// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The REST interface of `superp-agent`: its documents, as JSON, and with the feature `client` a
//! client. That of the connection manager, which people and programs ask, is in [`manager`].
//!
//! Every path begins with [`API`]. Requests are refused when they hold a member that is not known,
//! so that nothing asked for is passed over silently; who reads an answer must pass over what it
//! does not know. A refusal is a [`Problem`] with the media type `application/problem+json`.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `GET /v1/capabilities` | | [`Capabilities`] |
//! | `PUT /v1/configuration` | [`Configure`] | [`Configured`] |
//! | `GET /v1/configuration` | | [`Configure`]; 404 without one |
//! | `GET /v1/status[?counters=false]` | | [`Status`] |
//! | `POST /v1/start` | [`Start`] | [`Configured`] |
//! | `POST /v1/connections/{cid}/start` | [`Command`] | [`ConnectionStatus`] |
//! | `POST /v1/connections/{cid}/stop` | [`Command`] | [`ConnectionStatus`] |
//! | `POST /v1/connections/{cid}/reset` | [`Reset`] | [`ConnectionStatus`] |
//! | `PUT /v1/revocations` | [`Revocations`] | [`Revoked`] |
//! | `POST /v1/shutdown` | [`Shutdown`] | [`ShutdownComplete`] |
//! | `GET /v1/events[?after=SEQ][&instance=ID][&wait=SECONDS]` | | [`Reports`] |
//!
//! **Fencing.** Every request that changes something, but for `revocations`, carries a term: the number of the manager's
//! leadership. The agent keeps the highest that it has seen, across its own restarts, and refuses a
//! lower one with the problem `stale-term`.

#[cfg(feature = "client")]
mod client;
mod configuration;
mod extensions;
pub mod manager;
mod number;
pub mod openapi;
mod problem;
pub mod prometheus;
mod report;
mod revocations;
mod status;

#[cfg(feature = "client")]
pub use client::{http, AgentClient, ClientError, Http, Life};
pub use configuration::{
    Command, Configuration, Configure, Connection, Encap, Node, Path, Port, PortEncap, Reset,
    RmaSpace, Shutdown, Start,
};
pub use extensions::Extensions;
pub use number::Number;
pub use problem::{Fault, Problem, ProblemKind};
pub use report::{Report, ReportKind, Reports};
pub use revocations::{Revocations, Revoked};
pub use status::{
    Action, Capabilities, Cids, Configured, ConnectionState, ConnectionStatus, Device, LinkState,
    Memory, ModuleVersion, NodeState, Object, Outcome, Parameter, PathStatus, Process, Protocol,
    ShutdownComplete, Status,
};

/// What the paths of this version of the interface begin with.
pub const API: &str = "/v1";

/// Version of the interface. Minor versions add members and requests; nothing is changed or taken
/// away. Answers may have members that are not known; requests may not: they are refused, so whoever asks
/// leaves out what the other's version has not.
pub const API_VERSION: &str = "1.2";

/// The first version with `hold` in [`Start`].
pub const API_HOLD: (u32, u32) = (1, 2);

/// The parts of a version of the interface, major and minor; `None`: it is none.
pub fn api_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The agent's TCP port, unless told otherwise.
pub const AGENT_PORT: u16 = 7779;

#[cfg(test)]
mod tests;
