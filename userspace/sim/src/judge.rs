// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What must hold of an end: after each of its steps, and when everything has come to rest.

use crate::end::End;
use crate::invariant::{Check, Invariant};

/// What can be looked at after every step of an end. Returns the rule and what was seen.
pub(crate) fn step(end: &mut End, now: u64) -> Check {
    let (conn, config) = (&end.conn, end.conn.config());
    if conn.inflight_packets() > end.window {
        let text = format!("{} packets in flight", conn.inflight_packets());
        return Err((Invariant::Window, text));
    }
    if end.work.open() > config.tal_trans_window as usize {
        let text = format!("{} transactions in flight", end.work.open());
        return Err((Invariant::Window, text));
    }
    let (timeouts, time_out) = (conn.stats().timeouts, config.pdl_retrans_time_out);
    end.timers.check(now, timeouts, time_out)
}

/// What must hold of an end after everything has come to rest, its peer's memory aside.
pub(crate) fn rest(end: &End) -> Check {
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
