// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Round-trip estimate and retransmission timeout, after RFC 6298 in integers.

use super::super::config::RTO_MAX;

/// Smallest margin of the retransmission timeout beyond the round trip, in ns, whatever is
/// configured. With a smaller margin a receiver that waits for its CPU looks like a lost packet.
pub(crate) const RTO_FLOOR: u64 = 1_000_000;

/// Smallest timeout before the first measurement, in ns. It must allow for address resolution and a
/// slow first wake-up of the peer. It delays only the repair of a connection's very first packets.
const RTO_INITIAL: u64 = 50_000_000;

/// Smallest margin in ns beyond two round trips after which one packet is repeated. It allows for
/// a peer whose CPU has something else to do.
const TAIL_MARGIN: u64 = 200_000;

/// Number of times that the acknowledgement of a retransmitted packet may end back-off between two
/// measurements.
const REPAIRS_MAX: u32 = 64;

/// Largest round trip that counts, in ns. A longer measurement is cut to it.
const RTT_MAX: u64 = 1_000_000_000;

/// Round-trip estimator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    /// Smallest margin of the timeout beyond the round trip, in ns: `pdl_retrans_time_out`, at
    /// least `RTO_FLOOR`.
    min_margin: u64,
    /// Smoothed round trip, in ns times 8; 0 before the first measurement.
    srtt8: u64,
    /// Mean deviation of the round trip, in ns times 4.
    rttvar4: u64,
    /// Number of timer expiries since back-off last ended.
    backoff: u32,
    /// Number of times that [`Self::repaired`] may still end back-off before the next measurement.
    repairs: u32,
}

impl Rtt {
    /// Creates an estimator without measurement. `retrans_time_out` is `pdl_retrans_time_out` in
    /// ns.
    pub(crate) fn new(retrans_time_out: u64) -> Self {
        Self {
            min_margin: retrans_time_out.max(RTO_FLOOR),
            srtt8: 0,
            rttvar4: 0,
            backoff: 0,
            repairs: REPAIRS_MAX,
        }
    }

    /// Records the round trip, in ns, of a packet that was sent once. Ends back-off (RFC 6298,
    /// section 5).
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
        let decay = |value: u64, shift: u32| value.saturating_sub(value >> shift);
        self.rttvar4 = decay(self.rttvar4, 2).saturating_add(error);
        self.srtt8 = decay(self.srtt8, 3).saturating_add(rtt);
    }

    /// Smoothed round trip in ns; 0 before the first measurement.
    pub(crate) fn srtt(&self) -> u64 {
        self.srtt8 >> 3
    }

    /// Mean deviation of the round trip in ns.
    pub(crate) fn rttvar(&self) -> u64 {
        self.rttvar4 >> 2
    }

    /// Retransmission timeout without back-off, in ns.
    ///
    /// At least the configured margin is added to the round trip. On a steady path the deviation
    /// approaches 0, and without the margin one late ACK would cause a timeout.
    pub(crate) fn base_rto(&self) -> u64 {
        if self.srtt8 == 0 {
            return self.min_margin.max(RTO_INITIAL);
        }
        self.srtt()
            .saturating_add(self.rttvar4.max(self.min_margin))
    }

    /// Retransmission timeout in ns, back-off included [proto 3.13].
    pub(crate) fn rto(&self) -> u64 {
        self.backed_off(self.backoff)
    }

    /// Time in ns from the last progress or probe to the next probe. `probes` is the number of
    /// probes since the last progress.
    pub(crate) fn probe_interval(&self, probes: u32) -> u64 {
        self.backed_off(probes)
    }

    /// Time in ns without progress after which one packet is repeated, if the peer acknowledges the
    /// last packet of a flight at once.
    pub(crate) fn tail_timeout(&self) -> u64 {
        let margin = self.rttvar4.max(TAIL_MARGIN);
        self.srtt()
            .saturating_mul(2)
            .saturating_add(margin)
            .min(self.rto())
    }

    /// Timeout in ns after `expiries` doublings, up to `RTO_MAX`.
    fn backed_off(&self, expiries: u32) -> u64 {
        let base = self.base_rto();
        let doubled = base.saturating_mul(1 << expiries.min(16));
        doubled.min(RTO_MAX.max(base))
    }

    /// Whether `age` (ns) lies between half the smoothed round trip and the guard time, as it does
    /// when a packet is acknowledged at once. False before the first measurement.
    pub(crate) fn is_usual(&self, age: u64) -> bool {
        self.srtt8 != 0 && (self.srtt() / 2..=self.guard()).contains(&age)
    }

    /// Ends back-off, because a packet that the timer retransmitted was acknowledged a usual round
    /// trip later. The path is still as measured and lost only some packets. Without this, many
    /// losses in one flight, with no new packet to measure, would push back-off to its limit.
    ///
    /// The acknowledgement may, by accident, be of the first transmission, if the round trip has
    /// become longer than the timeout. Nothing could ever be measured again if back-off did not
    /// grow then (Karn's algorithm). The number of repairs between two measurements is therefore
    /// limited.
    pub(crate) fn repaired(&mut self) {
        if self.backoff > 0 && self.repairs > 0 {
            self.repairs = self.repairs.saturating_sub(1);
            self.backoff = 0;
        }
    }

    /// Doubles the timeout, up to its limit.
    pub(crate) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Guard time in ns [proto 3.12]. A hole below acknowledged packets is declared lost, for the
    /// first time or again, when its last transmission is older than this. Reordering explains
    /// younger holes.
    pub(crate) fn guard(&self) -> u64 {
        if self.srtt8 == 0 {
            return self.min_margin;
        }
        let slack = (self.srtt8 >> 5).max(self.rttvar4 >> 1).max(RTO_FLOOR);
        self.srtt().saturating_add(slack)
    }

    /// Lateness in ns from which on a timer proves that this CPU did not run, so that the timeout
    /// says nothing about the peer.
    pub(crate) fn grace(&self) -> u64 {
        self.min_margin / 2
    }

    /// Longest delay of an ACK in ns. It is a quarter of the smallest timeout of the peer, assuming
    /// that both ends have the same configuration.
    pub(crate) fn delayed_ack_max(&self) -> u64 {
        self.min_margin / 4
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
            // Without back-off a repair has no effect, and does not count.
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
        // Before the first measurement no age is usual.
        assert_eq!((rtt.guard(), rtt.is_usual(10 * MS)), (10 * MS, false));
        assert_eq!((rtt.grace(), rtt.delayed_ack_max()), (5 * MS, 5 * MS / 2));
        rtt.measured(8 * MS);
        // The deviation is 4 ms. The slack is half of four times that.
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
        // Without deviation the slack is a quarter of the round trip.
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
            assert!(rtt.rto() >= rtt.base_rto().min(RTO_MAX));
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
