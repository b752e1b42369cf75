// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Who is who between the connection manager, its agents, and people: one authority for each fabric,
//! whose certificates say a [`Role`], and TLS 1.3 in which both sides show one.
//!
//! A [`Tls`] is what one program has, a directory with `ca.crt`, `tls.crt` and `tls.key`. The feature
//! `authority` makes such directories, the features `client` and `server` ask and answer over HTTP with
//! them.

#![forbid(unsafe_code)]

#[cfg(feature = "client")]
mod ask;
#[cfg(feature = "authority")]
pub mod authority;
#[cfg(all(feature = "authority", feature = "client"))]
mod enrol;
#[cfg(feature = "authority")]
pub mod enrolment;
mod explain;
mod files;
#[cfg(feature = "server")]
mod live;
mod revocation;
#[cfg(feature = "authority")]
mod revoke;
mod role;
#[cfg(feature = "server")]
pub mod serve;
mod verify;

#[cfg(feature = "client")]
pub use ask::send;
#[cfg(all(feature = "authority", feature = "client"))]
pub use enrol::enrol;
pub use explain::explain;
pub use files::{Tls, AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE};
#[cfg(feature = "server")]
pub use live::Live;
pub use revocation::{Revocations, REVOCATIONS_MAX, REVOCATION_FILE};
#[cfg(feature = "authority")]
pub use revoke::{revoke, Which};
pub use role::{Identity, Role};

#[cfg(all(test, feature = "authority", feature = "client", feature = "server"))]
mod tests;
