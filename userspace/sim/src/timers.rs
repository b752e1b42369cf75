// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the timers of an end do.

use crate::invariant::{Check, Invariant};

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

    /// Whether timers expire more often than there is cause. `timeouts` is the number of timeouts
    /// of the connection so far, `time_out` how long it waits for an acknowledgement, in ns.
    pub(crate) fn check(&mut self, now: u64, timeouts: u64, time_out: u64) -> Check {
        if now >= self.second + SECOND {
            self.second = now;
            self.timeouts_before = timeouts;
            self.expiries_before = self.expiries;
            self.packets_before = [self.packets_before[1], self.packets];
        }
        let least = time_out.max(TIMER_LEAST);
        let timeouts = timeouts - self.timeouts_before;
        if timeouts > SECOND / least + 2 {
            let text = format!("{timeouts} timeouts in a second");
            return Err((Invariant::TimerStorm, text));
        }
        // A timeout may come in two steps when it is late.
        let cause = 2 * (self.packets - self.packets_before[0]) + 2 * timeouts + 8;
        let expiries = self.expiries - self.expiries_before;
        if expiries > cause {
            let text = format!("{expiries} expiries in a second, cause for {cause}");
            return Err((Invariant::TimerStorm, text));
        }
        Ok(())
    }
}
