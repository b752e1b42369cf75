// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The SUPERp protocol core.
//!
//! The core does no I/O, reads no clock, takes no lock and has no `unsafe`. It allocates only in
//! [`Connection::new`], [`TimeWait::new`] and [`Quarantine::make_room`]. No packet and no argument
//! makes it panic. The same files are compiled into the kernel module and into the host crate
//! `superp-proto`; `crate::proto` is their path in both.
//!
//! [`wire`] parses and writes headers. [`Connection`] is one connection: the Packet Delivery Layer
//! (`pdl`) under the Transaction Layer (`tal`). The code around a connection is its *owner*. The
//! owner passes in packets, requests and the time, and fetches packets, events and the next
//! deadline.
//!
//! The three functions that allocate need process context in the module. All others may run in
//! process context or softirq. Callers serialise the calls on one object; in the module the
//! spinlock `Conn::inner` does that for a connection.
//!
//! `[proto 3.8]` cites section and row of Documentation/protocol.md.

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
mod tuning;
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
pub use tuning::CongestionTuning;
pub use wire::{AtomicKind, Block, Packet, Run};
