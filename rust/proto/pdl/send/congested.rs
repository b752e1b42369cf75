// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The send window and its congestion window [proto 3.22].

use super::super::super::slab::Slabs;
use super::SendWindow;

/// Longest time in ns to an answer that is taken for a round trip.
const ANSWER_MAX: u64 = 5_000_000;

impl<A: Slabs> SendWindow<A> {
    /// Number of packets with content in flight: neither acknowledged nor lost.
    pub(crate) fn pipe(&self) -> u32 {
        self.pipe
    }

    /// Largest number of packets with content that the congestion window allows in flight; `None`
    /// if there is no such window.
    pub(crate) fn congestion_window(&self) -> Option<u32> {
        self.congestion.packets()
    }

    /// Number of packets with content that the congestion window allows now.
    pub(crate) fn congestion_room(&self, now: u64) -> u32 {
        self.congestion.room(now, self.pipe)
    }

    /// Number of packets that may follow the last one at once, see [`Congestion::room_to_follow`].
    pub(crate) fn room_to_follow(&self, ack_psn: u32) -> u32 {
        let free = self.free_slots(ack_psn);
        free.min(self.congestion.room_to_follow(self.pipe))
    }

    /// Uses the congestion window from now on, if that is configured: the peer has the extensions.
    pub(crate) fn start_congestion(&mut self) {
        self.congestion.start();
    }

    /// Records the time in ns that the answer to the question for extensions took.
    pub(crate) fn answered(&mut self, now: u64, rtt: u64) {
        if self.congestion.enabled() {
            self.congestion.measured(now, rtt);
            // The resolution of an address may be part of a long time.
            if rtt < ANSWER_MAX {
                self.rtt.measured(rtt);
            }
        }
    }

    /// Packets are sent again after a pause. What the congestion window was may be out of date.
    #[inline(never)]
    pub(super) fn rest(&mut self, now: u64) {
        let rested = self.timer_start.saturating_add(self.rtt.base_rto()) < now;
        if rested {
            self.congestion.rested();
        }
    }

    /// A packet with content is in flight from now on. Returns whether it is to ask for an
    /// acknowledgement. `pipe` is counted for the congestion window only.
    #[inline]
    pub(super) fn entered(&mut self, now: u64) -> bool {
        if !self.congestion.enabled() {
            return false;
        }
        self.pipe = self.pipe.saturating_add(1);
        self.congestion.asks() && self.congestion.sent(now, self.pipe)
    }
}
