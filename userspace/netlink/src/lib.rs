// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Typed client of the generic netlink family `superp`: nodes, ports, connections, parameters,
//! memory regions, queue pairs, counters, events.
//!
//! Everything is that of the network namespace in which [`Client::open`] was called. Changes need
//! `CAP_NET_ADMIN` there. Numbers are generated from `Documentation/netlink/specs/superp.yaml`.
//!
//! ```no_run
//! let mut client = superp_netlink::Client::open()?;
//! for conn in client.conns(true)? {
//!     println!("{} {} {:?}", conn.local_cid, conn.remote_addr, conn.state);
//! }
//! # Ok::<(), superp_netlink::Error>(())
//! ```

mod client;
mod codec;
mod conn;
mod error;
mod event;
mod object;
mod transport;
pub mod uapi;

pub use client::Client;
pub use conn::{Conn, ConnSpec, Path, PathSpec};
pub use error::{Error, Refusal};
pub use event::{Event, EventKind, Events};
pub use object::{
    ConnState, Counters, Encap, Mac, Node, Param, Port, PortEncap, PortState, Prefix, Qp, Region,
    Route, Via,
};

/// Result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;
