// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Round-trip estimate and retransmission timeout, after RFC 6298 in integers.

/// Least retransmission timeout beyond the round trip, in ns, whatever is configured: below it a
/// receiver that waits for its CPU once looks like a lost packet.
pub(crate) const RTO_FLOOR: u64 = 1_000_000;

/// Timeout before the first measurement, in ns. Only the loss of a connection's very first packets
/// waits for it, while address resolution and a slow first wake-up must fit into it.
const RTO_INITIAL: u64 = 50_000_000;

/// Largest timeout that back-off leads to, in ns, unless the round trip itself is longer.
pub(crate) const RTO_MAX: u64 = 200_000_000;

/// How often an answer to a repeated packet may end back-off between two measurements.
const REPAIRS_MAX: u32 = 64;

/// Largest round trip that is believed, in ns.
const RTT_MAX: u64 = 1_000_000_000;

/// Round-trip estimator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    /// Least variance term of the timeout, in ns.
    least: u64,
    /// Smoothed round trip, in ns times 8.
    srtt8: u64,
    /// Mean deviation, in ns times 4.
    rttvar4: u64,
    /// Expiries of the timer since back-off ended.
    backoff: u32,
    /// Times that [`Self::repaired`] may end back-off before the next measurement.
    repairs: u32,
}

impl Rtt {
    /// An estimator without measurement, for the configured `pdl_retrans_time_out`.
    pub(crate) fn new(retrans_time_out: u64) -> Self {
        Self {
            least: retrans_time_out.max(RTO_FLOOR),
            srtt8: 0,
            rttvar4: 0,
            backoff: 0,
            repairs: REPAIRS_MAX,
        }
    }

    /// Takes a measurement, of a packet that was sent once. Ends back-off (RFC 6298, section 5).
    pub(crate) fn measured(&mut self, rtt: u64) {
        let rtt = rtt.clamp(1, RTT_MAX);
        self.backoff = 0;
        self.repairs = REPAIRS_MAX;
        if self.srtt8 == 0 {
            self.srtt8 = rtt << 3;
            self.rttvar4 = rtt << 1;
            return;
        }
        let error = (self.srtt8 >> 3).abs_diff(rtt);
        let keep = |value: u64, shift: u32| value.saturating_sub(value >> shift);
        self.rttvar4 = keep(self.rttvar4, 2).saturating_add(error);
        self.srtt8 = keep(self.srtt8, 3).saturating_add(rtt);
    }

    /// Smoothed round trip in ns; 0 before the first measurement.
    pub(crate) fn srtt(&self) -> u64 {
        self.srtt8 >> 3
    }

    /// Mean deviation of the round trip in ns.
    pub(crate) fn rttvar(&self) -> u64 {
        self.rttvar4 >> 2
    }

    /// Timeout without back-off, in ns: an answer that has not come by then is overdue.
    ///
    /// The configured least time is added to the round trip: a steady path brings the deviation to
    /// nothing, and then one late ACK would be a timeout.
    pub(crate) fn overdue(&self) -> u64 {
        if self.srtt8 == 0 {
            return self.least.max(RTO_INITIAL);
        }
        self.srtt().saturating_add(self.rttvar4.max(self.least))
    }

    /// Retransmission timeout in ns, back-off included [proto 3.13].
    pub(crate) fn rto(&self) -> u64 {
        self.backed_off(self.backoff)
    }

    /// Time in ns from the last sign of the peer, or the last probe, to the next probe.
    pub(crate) fn probe_interval(&self, probes: u32) -> u64 {
        self.backed_off(probes)
    }

    fn backed_off(&self, expiries: u32) -> u64 {
        let base = self.overdue();
        let doubled = base.saturating_mul(1 << expiries.min(16));
        doubled.min(RTO_MAX.max(base))
    }

    /// Whether `age` is what was measured, in ns, of a packet that was acknowledged at once.
    pub(crate) fn is_usual(&self, age: u64) -> bool {
        self.srtt8 != 0 && (self.srtt() / 2..=self.guard()).contains(&age)
    }

    /// A packet that the timer had repeated was acknowledged a usual round trip after that: the path is
    /// as it was measured, and only lost something. Ends back-off, which a flight of losses with nothing
    /// new behind it would carry to its limit otherwise.
    ///
    /// By accident it was the first transmission that was acknowledged, because the round trip has
    /// become longer than the timeout. Then nothing could be measured if back-off never grew (Karn), so
    /// this ends it a number of times only.
    pub(crate) fn repaired(&mut self) {
        if self.backoff > 0 && self.repairs > 0 {
            self.repairs = self.repairs.saturating_sub(1);
            self.backoff = 0;
        }
    }

    /// Doubles the timeout.
    pub(crate) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Time in ns after which a hole below acknowledged packets is no mere reordering, and after which
    /// a hole may be re-sent again [proto 3.12].
    pub(crate) fn guard(&self) -> u64 {
        if self.srtt8 == 0 {
            return self.least;
        }
        let slack = (self.srtt8 >> 5).max(self.rttvar4 >> 1).max(RTO_FLOOR);
        self.srtt().saturating_add(slack)
    }

    /// Time in ns by which a timer may be late before this CPU, not the peer, is to blame.
    pub(crate) fn grace(&self) -> u64 {
        self.least / 2
    }

    /// Longest delay of an ACK that the peer's least timeout, taken to be ours, allows.
    pub(crate) fn delayed_ack_max(&self) -> u64 {
        self.least / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn first_measurement_sets_estimate() {
        let mut rtt = Rtt::new(10 * MS);
        assert_eq!(rtt.rto(), RTO_INITIAL);
        rtt.measured(8 * MS);
        assert_eq!((rtt.srtt(), rtt.rttvar()), (8 * MS, 4 * MS));
        assert_eq!(rtt.rto(), 24 * MS);
    }

    #[test]
    fn steady_path_keeps_a_margin() {
        let mut rtt = Rtt::new(10 * MS);
        for _ in 0..1000 {
            rtt.measured(50 * MS);
        }
        assert_eq!(rtt.srtt(), 50 * MS);
        assert!(rtt.rttvar() < MS / 1000);
        assert!(rtt.rto() >= 60 * MS);
    }

    #[test]
    fn back_off_doubles_and_is_capped() {
        let mut rtt = Rtt::new(10 * MS);
        rtt.measured(MS);
        let base = rtt.rto();
        rtt.back_off();
        assert_eq!(rtt.rto(), 2 * base);
        for _ in 0..100 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), RTO_MAX);
        rtt.measured(MS);
        assert!(rtt.rto() <= base);
    }

    #[test]
    fn repairs_end_back_off_until_a_measurement_is_overdue() {
        let mut rtt = Rtt::new(10 * MS);
        for _ in 0..3 {
            rtt.measured(MS);
            let base = rtt.rto();
            // Without back-off there is nothing to end.
            rtt.repaired();
            for _ in 0..REPAIRS_MAX {
                rtt.back_off();
                rtt.back_off();
                rtt.repaired();
                assert_eq!(rtt.rto(), base);
            }
            rtt.back_off();
            rtt.repaired();
            assert_eq!(rtt.rto(), 2 * base);
        }
    }

    #[test]
    fn times_follow_from_round_trip_and_least_timeout() {
        let mut rtt = Rtt::new(10 * MS);
        // Before a measurement there is nothing to compare with.
        assert_eq!((rtt.guard(), rtt.is_usual(10 * MS)), (10 * MS, false));
        assert_eq!((rtt.grace(), rtt.delayed_ack_max()), (5 * MS, 5 * MS / 2));
        rtt.measured(8 * MS);
        // A deviation of 4 ms: half of four times that is the slack.
        assert_eq!(rtt.guard(), 16 * MS);
        let usual = [4 * MS - 1, 4 * MS, 16 * MS, 16 * MS + 1].map(|age| rtt.is_usual(age));
        assert_eq!(usual, [false, true, true, false]);
        assert_eq!(
            [0, 1, 3].map(|probes| rtt.probe_interval(probes)),
            [24 * MS, 48 * MS, 192 * MS]
        );
        for _ in 0..1000 {
            rtt.measured(64 * MS);
        }
        // Without a deviation it is a quarter of the round trip.
        assert_eq!(rtt.guard(), 80 * MS);
        for _ in 0..1000 {
            rtt.measured(MS);
        }
        assert_eq!(rtt.guard(), MS + RTO_FLOOR);
    }

    #[test]
    fn round_trip_above_the_cap_is_not_cut() {
        let mut rtt = Rtt::new(10 * MS);
        for _ in 0..100 {
            rtt.measured(900 * MS);
        }
        assert!(rtt.rto() >= 910 * MS);
    }

    #[test]
    fn absurd_measurements_do_not_overflow() {
        let mut rtt = Rtt::new(u64::MAX);
        for sample in [u64::MAX, 0, u64::MAX, 1, u64::MAX] {
            rtt.measured(sample);
            rtt.back_off();
            assert!(rtt.rto() >= rtt.overdue().min(RTO_MAX));
            assert!(rtt.guard() > 0);
        }
    }

    #[test]
    fn delayed_ack_is_at_most_a_quarter_of_the_least_timeout() {
        for configured in [100, MS, 10 * MS, 500 * MS] {
            let mut rtt = Rtt::new(configured);
            assert!(rtt.delayed_ack_max() <= rtt.rto() / 4);
            rtt.measured(1000);
            assert!(rtt.delayed_ack_max() <= rtt.rto() / 4);
        }
    }
}
