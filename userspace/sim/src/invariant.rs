// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The rules that every run must keep, and how a broken one is told.

use serde::Serialize;
use std::fmt;

/// A rule that every run must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Invariant {
    /// No byte, message or packet is delivered twice, and none is left out.
    ExactlyOnce,
    /// An ordered connection delivers packets by PSN and transactions by XID.
    Order,
    /// Neither packets nor transactions in flight exceed their window.
    Window,
    /// Memory holds what was written, reads bring what memory holds.
    Memory,
    /// Every request completes, once, with the result that it must have.
    Completion,
    /// A barrier holds later requests back until earlier ones are complete.
    Barrier,
    /// Timers expire no more often than there is cause.
    TimerStorm,
    /// While requests are open, something is going to happen; and it ends.
    Deadlock,
    /// When everything is done nothing is scheduled, held, or waits for an ACK.
    Quiescence,
    /// Nothing is reported as the peer's error, and no live peer is taken for dead.
    Peer,
    /// The core did something that its contract excludes: a panic, a packet above the MTU.
    Contract,
}

/// What a check comes to: the rule that is broken, and what was seen.
pub(crate) type Check = Result<(), (Invariant, String)>;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub invariant: Invariant,
    /// Virtual time in ns.
    pub at: u64,
    /// End of a connection, where it is of one.
    pub end: usize,
    /// What was seen.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            invariant,
            at,
            end,
            detail,
        } = self;
        write!(f, "{invariant:?} at {at} ns, end {end}: {detail}")
    }
}
