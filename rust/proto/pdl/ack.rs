// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Schedule of acknowledgements: stretch ACKs and delayed ACKs.

/// Decides when an acknowledgement is sent that no other packet carries.
///
/// Every packet carries acknowledgement fields, so each packet sent resets the schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSchedule {
    /// Time in ns at which an acknowledgement is due; `None` if there is nothing to acknowledge.
    due: Option<u64>,
    /// Number of packets with content received since a packet was last sent.
    packets: u32,
    /// Number of pure ACKs received since a packet was last sent.
    pure_acks: u32,
    /// Longest delay of an acknowledgement, in ns.
    delay: u64,
    /// Configured `pdl_ack_every`.
    every_max: u32,
    /// Number of packets that make an acknowledgement due at once.
    every: u32,
    /// Number of pure ACKs that make an acknowledgement due at once.
    pure_acks_max: u32,
}

impl AckSchedule {
    /// Creates a schedule that delays an acknowledgement by at most `delay` ns and by at most
    /// `every` packets. `window` is the advertised receive window, in packets.
    pub(crate) fn new(delay: u64, every: u32, window: u32) -> Self {
        let mut schedule = Self {
            due: None,
            packets: 0,
            pure_acks: 0,
            delay,
            every_max: every,
            every: 0,
            pure_acks_max: 0,
        };
        schedule.set_window(window);
        schedule
    }

    /// Sets the advertised receive window, in packets.
    pub(crate) fn set_window(&mut self, window: u32) {
        // With four acknowledgements per window the sender does not stall between them.
        self.every = self.every_max.min(window / 4).max(1);
        // With a limit of 1 two ends would answer each other's pure ACKs for ever.
        self.pure_acks_max = (window / 2).max(2);
    }

    /// Records the arrival of `count` new packets with content [proto 3.15].
    pub(crate) fn packets(&mut self, now: u64, count: u32) {
        self.packets = self.packets.saturating_add(count);
        if self.packets >= self.every {
            self.at_once(now);
        } else {
            self.soon(now);
        }
    }

    /// Records the arrival of a new pure ACK. It asks for no acknowledgement, but it occupies a
    /// slot of the peer's send window. Half a window of pure ACKs makes an acknowledgement due, so
    /// that the peer's window moves [proto 3.10].
    pub(crate) fn pure_ack(&mut self, now: u64) {
        self.pure_acks = self.pure_acks.saturating_add(1);
        if self.pure_acks >= self.pure_acks_max {
            self.at_once(now);
        }
    }

    /// Makes an acknowledgement due now. It is sent after the current batch of packets.
    pub(crate) fn at_once(&mut self, now: u64) {
        self.due = Some(self.due.map_or(now, |due| due.min(now)));
    }

    /// Makes an acknowledgement due within the delay.
    pub(crate) fn soon(&mut self, now: u64) {
        let due = now.saturating_add(self.delay);
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// Records that a packet was sent, with acknowledgement fields.
    pub(crate) fn sent(&mut self) {
        self.due = None;
        self.packets = 0;
        self.pure_acks = 0;
    }

    /// Time in ns at which an acknowledgement is due; `None` if there is nothing to acknowledge.
    pub(crate) fn due(&self) -> Option<u64> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_runs_from_the_first_packet() {
        let mut ack = AckSchedule::new(500, 8, 32);
        ack.packets(1000, 1);
        ack.packets(1400, 1);
        assert_eq!(ack.due(), Some(1500));
        ack.sent();
        assert_eq!(ack.due(), None);
    }

    #[test]
    fn every_nth_packet_is_acknowledged_at_once() {
        let mut ack = AckSchedule::new(500, 8, 32);
        for _ in 0..7 {
            ack.packets(1000, 1);
        }
        assert_eq!(ack.due(), Some(1500));
        ack.packets(1001, 1);
        assert_eq!(ack.due(), Some(1001));
    }

    #[test]
    fn never_less_than_four_acknowledgements_a_window() {
        let mut ack = AckSchedule::new(500, 1000, 16);
        for _ in 0..4 {
            ack.packets(1, 1);
        }
        assert_eq!(ack.due(), Some(1));
    }

    #[test]
    fn half_a_window_of_pure_acks_is_answered_once() {
        let mut ack = AckSchedule::new(500, 8, 32);
        for _ in 0..15 {
            ack.pure_ack(7);
            assert_eq!(ack.due(), None);
        }
        ack.pure_ack(7);
        assert_eq!(ack.due(), Some(7));
        ack.sent();
        ack.pure_ack(8);
        assert_eq!(ack.due(), None);
    }

    #[test]
    fn smaller_window_is_acknowledged_more_often() {
        let mut ack = AckSchedule::new(500, 8, 32);
        ack.set_window(4);
        ack.packets(1, 1);
        assert_eq!(ack.due(), Some(1));
        ack.sent();
        ack.set_window(32);
        ack.packets(2, 1);
        assert_eq!(ack.due(), Some(502));
    }

    #[test]
    fn smallest_window_does_not_answer_every_pure_ack() {
        let mut ack = AckSchedule::new(500, 8, 1);
        ack.pure_ack(7);
        assert_eq!(ack.due(), None);
    }
}
