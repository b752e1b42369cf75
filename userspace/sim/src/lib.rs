// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Fabrics of SUPERp nodes on virtual time, over the protocol core that the kernel module is built
//! from. One queue of events, one seed: the same seed gives the same run to the last bit.

#![forbid(unsafe_code)]

pub mod check;
mod end;
mod event;
mod fabric;
mod invariant;
mod judge;
mod memory;
mod node;
pub mod plot;
pub mod report;
mod rng;
mod sabotage;
pub mod scenario;
mod sim;
mod source;
mod timers;
mod trace;
mod work;

pub use invariant::{Invariant, Violation};
pub use sabotage::Sabotage;
