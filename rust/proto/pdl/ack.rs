// SPDX-License-Identifier: GPL-2.0 OR MIT
//! When an acknowledgement is due.

/// Decides when acknowledgements are sent that no packet happens to carry.
///
/// Sending anything acknowledges everything, so whatever is sent resets all of this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSchedule {
    /// When an acknowledgement is due; `None` when none is owed.
    due: Option<u64>,
    /// Packets that ask for an acknowledgement, since the last was sent.
    asked: u32,
    /// Pure ACKs since anything was sent.
    pure: u32,
    delay: u64,
    /// As configured, and as the window allows.
    every_max: u32,
    every: u32,
    pure_max: u32,
}

impl AckSchedule {
    /// For acknowledgements delayed by at most `delay` ns and by at most `every` packets of a window
    /// of `window`.
    pub(crate) fn new(delay: u64, every: u32, window: u32) -> Self {
        let mut schedule = Self {
            due: None,
            asked: 0,
            pure: 0,
            delay,
            every_max: every,
            every: 0,
            pure_max: 0,
        };
        schedule.set_window(window);
        schedule
    }

    /// The window that is advertised changes.
    pub(crate) fn set_window(&mut self, window: u32) {
        // Four a window keep the sender from standing still between them.
        self.every = self.every_max.min(window / 4).max(1);
        // Two at least, or two ends would answer each other's pure ACKs for ever.
        self.pure_max = (window / 2).max(2);
    }

    /// `count` new packets came that ask for an acknowledgement [proto 3.15].
    pub(crate) fn packets(&mut self, now: u64, count: u32) {
        self.asked = self.asked.saturating_add(count);
        if self.asked >= self.every {
            self.at_once(now);
        } else {
            self.soon(now);
        }
    }

    /// A new pure ACK came: it asks for nothing, but its sender's window must move [proto 3.10].
    pub(crate) fn pure_ack(&mut self, now: u64) {
        self.pure = self.pure.saturating_add(1);
        if self.pure >= self.pure_max {
            self.at_once(now);
        }
    }

    /// An acknowledgement is due at the end of this batch of packets.
    pub(crate) fn at_once(&mut self, now: u64) {
        self.due = Some(self.due.map_or(now, |due| due.min(now)));
    }

    /// An acknowledgement is due within the delay.
    pub(crate) fn soon(&mut self, now: u64) {
        let due = now.saturating_add(self.delay);
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// A packet with acknowledgements is sent.
    pub(crate) fn sent(&mut self) {
        self.due = None;
        self.asked = 0;
        self.pure = 0;
    }

    /// When an acknowledgement is due.
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
