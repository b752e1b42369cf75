// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What must hold, and the ways in which it can fail to.

use crate::end::End;
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

/// Least time from one expiry of a retransmission timer to the next, in ns: less than the core's own
/// lower bound for it whatever is configured.
const TIMER_LEAST: u64 = 1_000_000;

const SECOND: u64 = 1_000_000_000;

/// What an end's timers have done.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimerWatch {
    /// Calls of `expire` that were due.
    expiries: u64,
    /// Packets sent and received: each may start an ACK's delay or a wait for a packet overtaken.
    packets: u64,
    /// Start of the second that is being watched, and the timeouts and expiries before it.
    second: u64,
    timeouts_before: u64,
    expiries_before: u64,
    /// Packets before it and before the one watched last: what they started may expire in this one.
    packets_before: [u64; 2],
}

impl TimerWatch {
    pub(crate) fn packet(&mut self) {
        self.packets += 1;
    }

    pub(crate) fn expired(&mut self) {
        self.expiries += 1;
    }
}

/// What can be looked at after every step of an end. Returns the rule and what was seen.
pub(crate) fn step(end: &mut End, now: u64) -> Result<(), (Invariant, String)> {
    let (conn, config) = (&end.conn, end.conn.config());
    if conn.inflight_packets() > end.window {
        let text = format!("{} packets in flight", conn.inflight_packets());
        return Err((Invariant::Window, text));
    }
    if end.work.open() > config.tal_trans_window as usize {
        let text = format!("{} transactions in flight", end.work.open());
        return Err((Invariant::Window, text));
    }
    let (watch, timeouts) = (&mut end.timers, conn.stats().timeouts);
    if now >= watch.second + SECOND {
        watch.second = now;
        watch.timeouts_before = timeouts;
        watch.expiries_before = watch.expiries;
        watch.packets_before = [watch.packets_before[1], watch.packets];
    }
    let least = config.pdl_retrans_time_out.max(TIMER_LEAST);
    let timeouts = timeouts - watch.timeouts_before;
    if timeouts > SECOND / least + 2 {
        let text = format!("{timeouts} timeouts in a second");
        return Err((Invariant::TimerStorm, text));
    }
    // A timeout may come in two steps when it is late.
    let cause = 2 * (watch.packets - watch.packets_before[0]) + 2 * timeouts + 8;
    let expiries = watch.expiries - watch.expiries_before;
    if expiries > cause {
        let text = format!("{expiries} expiries in a second, cause for {cause}");
        return Err((Invariant::TimerStorm, text));
    }
    Ok(())
}

/// What must hold of an end after everything has come to rest, its peer's memory aside.
pub(crate) fn rest(end: &End) -> Result<(), (Invariant, String)> {
    let err = |invariant, text: &str| Err((invariant, text.to_owned()));
    if end.work.open() > 0 {
        return err(Invariant::Deadlock, "requests are open and nothing happens");
    }
    if let Some(at) = end.conn.deadline() {
        return err(Invariant::Quiescence, &format!("deadline {at}"));
    }
    if end.broken.is_some() {
        return Ok(());
    }
    if !end.conn.idle() {
        return err(Invariant::Quiescence, "not idle");
    }
    if end.mortal {
        // The peer may have died in the middle of something.
        return Ok(());
    }
    if end.held() > 0 {
        return err(Invariant::Quiescence, "packets are held");
    }
    if end.memory.unfinished() > 0 {
        return err(Invariant::Quiescence, "pieces of unfinished messages");
    }
    if end.shutdown && !end.drained {
        return err(Invariant::Completion, "shut down, and never drained");
    }
    Ok(())
}
