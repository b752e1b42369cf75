// SPDX-License-Identifier: GPL-2.0 OR MIT
//! SUPERp: the protocol and nothing else.
//!
//! No I/O, no clock, no allocation outside [`Connection::new`], no `unsafe`, and no operation that
//! can panic on anything a packet or a caller brings. The same files are compiled into the kernel
//! module and into the host crate `superp-proto`; `crate::proto` is their path in both.
//!
//! [`wire`] lays packets out. [`Connection`] is one connection: the Packet Delivery Layer
//! (`pdl`) under the Transaction Layer (`tal`). Its owner gives it packets, requests and the time, and
//! takes from it packets, events and the next deadline.
//!
//! Rules are cited as `[proto 3.8]`: section and number in Documentation/protocol.md.

mod bitmap;
mod budget;
mod code;
mod config;
mod connection;
mod drop_reason;
mod event;
mod owner;
pub mod params;
mod pdl;
#[cfg(test)]
mod prop;
mod quarantine;
mod request;
mod seq;
mod slab;
mod stats;
mod tal;
mod time_wait;
mod transmit;
pub mod wire;

pub use budget::{Activity, Partition, ReceiveBudget};
pub use code::{Code, CODES};
pub use config::{Config, Extensions};
pub use connection::{Connection, NewError};
pub use drop_reason::DropReason;
pub use event::{BrokenCause, Event, Received, Report, State};
pub use owner::{Atomic, Immediate, Owner, Segment, SegmentExt};
pub use params::{ConfigError, Param, PARAMS};
pub use quarantine::Quarantine;
pub use request::{Barrier, ReqOp, Request, SubmitError};
pub use slab::Slabs;
pub use stats::Stats;
pub use time_wait::TimeWait;
pub use transmit::{Payload, ReplyPayload, ReplyRead, RequestPayload, Transmit};
pub use wire::{AtomicKind, Block, Packet, Run};
