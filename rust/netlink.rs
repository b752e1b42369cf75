// SPDX-License-Identifier: GPL-2.0

//! The generic netlink family: requests and dumps become calls of the engine, its refusals become
//! sentences, and what happens is told to those who listen.
//!
//! Handlers run in process context, in parallel; the engine locks for itself. Numbers, policies and
//! the table of operations are generated from `Documentation/netlink/specs/superp.yaml`; the entry
//! points are in [`crate::kapi::nl`].

pub(crate) mod conn;
mod event;
pub(crate) mod node;
pub(crate) mod object;
pub(crate) mod param;
pub(crate) mod port;
pub(crate) mod route;

pub(crate) use event::{notify, Event, ReportLimit};

use crate::{
    kapi::nl::{Attr, Request},
    node::Refusal,
};
use kernel::prelude::*;

/// Version of the module, for people.
const VERSION: &str = "0.1.0";

/// Tells why the engine refused a request. `at` is the attribute at fault.
fn refused(request: Request<'_>, at: Option<Attr<'_>>, refusal: Refusal) -> Error {
    match refusal.retry_ms {
        None => request.refuse(at, refusal.errno, refusal.msg),
        Some(ms) => request.refuse_fmt(
            at,
            refusal.errno,
            fmt!("{}: try again in {ms} ms", refusal.msg),
        ),
    }
}
