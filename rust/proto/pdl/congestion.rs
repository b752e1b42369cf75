// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Congestion window: how many packets with content may be in flight, by delay [proto 3.22].
//!
//! The window grows while packets take little longer than the shortest time that was measured on
//! the path, and shrinks in proportion to what they take longer. Below one packet it is a rate:
//! packets leave one by one with pauses between them. After Swift (Kumar et al., SIGCOMM 2020).
//!
//! Delays are the peer's word. A peer that lies about them slows down or speeds up its own
//! connection. Neither window nor rate ever becomes 0.

use super::super::config::Config;
use super::super::tuning::CongestionTuning;

/// One packet, in the unit of the window.
const PACKET: u32 = 4096;

/// Smallest window: one packet in 256 round trips.
const WINDOW_MIN: u32 = PACKET / 256;

/// Longest pause between two packets, in ns.
const PAUSE_MAX: u64 = 10_000_000;

/// Longest delay that counts, in ns.
const DELAY_MAX: u64 = 1_000_000_000;

/// Time in ns after which a shortest delay is forgotten that has not been measured again. It is
/// forgotten after twice that time at the latest: the path may have become longer.
const BASE_PERIOD: u64 = 1_000_000_000;

/// What an acknowledgement tells about the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Age in ns of the packet that was sent last among those it acknowledged first.
    pub(crate) age: u64,
    /// The peer acknowledges that packet without delay.
    pub(crate) prompt: bool,
    /// Mean deviation of the round trip in ns, this packet included.
    pub(crate) deviation: u64,
}

/// Congestion window of one direction of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Congestion {
    tuning: CongestionTuning,
    /// `pdl_congestion` is 1.
    wanted: bool,
    /// The window limits what is sent. The peer must acknowledge at once what asks for it
    /// [proto 7]: one that delays its ACK of the last packet in a small window would stop it.
    enabled: bool,
    /// The window, in packets times `PACKET`.
    window: u32,
    /// Largest window: that of the configuration.
    window_max: u32,
    /// The delay has not yet exceeded the shortest one.
    starting: bool,
    /// Shortest delay in ns of the current period and of the one before; `u64::MAX`: none.
    base: [u64; 2],
    /// End of the current period, in ns.
    period_end: u64,
    /// Shortest delay in ns of the current round trip.
    shortest: u64,
    /// End of the current round trip, in ns.
    round_end: u64,
    /// Last delay, in ns.
    delay: u64,
    /// Mean deviation of the delay that lasts, in ns.
    deviation: u64,
    /// Delay in ns below which the largest window needs no calculation.
    quiet: u64,
    /// Time in ns at which the window last shrank.
    shrunk_at: u64,
    /// Time in ns before which no packet leaves, if the window is a rate.
    next_at: u64,
    /// Part of half a timeout, in 1/256, by which timeouts are longer.
    scatter: u8,
}

impl Congestion {
    pub(crate) fn new(config: &Config) -> Self {
        let tuning = config.congestion_tuning;
        let window_max = config.pdl_window_size.saturating_mul(PACKET);
        Self {
            tuning,
            wanted: config.pdl_congestion != 0,
            enabled: false,
            window: tuning.initial.saturating_mul(PACKET).min(window_max),
            window_max,
            starting: true,
            base: [u64::MAX; 2],
            period_end: 0,
            shortest: u64::MAX,
            round_end: 0,
            delay: 0,
            deviation: 0,
            quiet: 0,
            shrunk_at: 0,
            next_at: 0,
            // The multiplier of Fibonacci hashing makes neighbouring numbers very different.
            scatter: (config.remote_cid.wrapping_mul(0x9e37) >> 8) as u8,
        }
    }

    /// Lengthens a timeout (ns) by up to half, differently for each connection.
    pub(crate) fn scatter(&self, timeout: u64) -> u64 {
        match self.enabled {
            true => timeout.saturating_add((timeout / 512).saturating_mul(self.scatter.into())),
            false => timeout,
        }
    }

    /// Whether the window limits what is sent.
    pub(crate) fn enabled(&self) -> bool {
        self.enabled
    }

    /// Uses the window from now on, if that is configured: the peer has the extensions.
    pub(crate) fn start(&mut self) {
        self.enabled = self.wanted;
    }

    /// Largest number of packets in flight, at least 1; `None` if the window limits nothing.
    pub(crate) fn packets(&self) -> Option<u32> {
        self.enabled.then_some((self.window / PACKET).max(1))
    }

    /// Whether the window is a rate: packets leave one by one.
    fn is_rate(&self) -> bool {
        self.window < PACKET
    }

    /// Number of packets with content that may be sent now while `pipe` of them are in flight.
    #[inline]
    pub(crate) fn room(&self, now: u64, pipe: u32) -> u32 {
        if !self.enabled {
            return u32::MAX;
        }
        if !self.is_rate() {
            return (self.window / PACKET).saturating_sub(pipe);
        }
        (pipe == 0 && now >= self.next_at).into()
    }

    /// Number of packets that may follow a packet at once, with the same headers.
    pub(crate) fn room_to_follow(&self, pipe: u32) -> u32 {
        if !self.enabled {
            return u32::MAX;
        }
        if self.is_rate() {
            return 0;
        }
        // A packet that asks goes alone.
        let [half, whole] = self.ask_at();
        let until = if pipe < half { half } else { whole };
        until
            .saturating_sub(pipe)
            .saturating_sub(self.asks().into())
    }

    /// Time in ns before which no packet may leave, if the window is a rate and `pipe` packets are
    /// in flight; `None` if something else is waited for.
    pub(crate) fn pause_end(&self, pipe: u32) -> Option<u64> {
        let pauses = self.enabled && self.is_rate() && pipe == 0;
        pauses.then_some(self.next_at)
    }

    /// Whether some packets ask for an acknowledgement. The largest window needs none: the peer
    /// acknowledges often enough.
    #[inline]
    pub(crate) fn asks(&self) -> bool {
        self.window < self.window_max
    }

    /// Records that a packet with content is sent now, the `pipe`th in flight. Returns whether it
    /// is to ask for an acknowledgement. For a window that [`Self::asks`] only.
    #[inline(never)]
    pub(crate) fn sent(&mut self, now: u64, pipe: u32) -> bool {
        if self.is_rate() {
            let pause = self.delay.saturating_mul(PACKET.into());
            let pause = pause.checked_div(self.window.into()).unwrap_or(0);
            self.next_at = now.saturating_add(pause.min(PAUSE_MAX));
        }
        let [half, whole] = self.ask_at();
        pipe >= whole || pipe == half
    }

    /// Numbers of packets in flight at which one asks: half of the window, so that the wire does
    /// not stand still until the acknowledgement comes, and all of it.
    fn ask_at(&self) -> [u32; 2] {
        let whole = self.window / PACKET;
        match (self.asks(), whole) {
            (true, 4..) => [whole / 2, whole],
            _ => [0, whole],
        }
    }

    /// Records that nothing was in flight for longer than a retransmission timeout. What the
    /// window was says nothing about the path of today.
    pub(crate) fn rested(&mut self) {
        let initial = self.tuning.initial.saturating_mul(PACKET);
        self.window = self.window.min(initial);
        self.starting = true;
    }

    /// Records a delay in ns of a packet that met no queue of this connection.
    pub(crate) fn measured(&mut self, now: u64, delay: u64) {
        if now >= self.period_end {
            let [current, _] = self.base;
            self.base = [u64::MAX, current];
            self.period_end = now.saturating_add(BASE_PERIOD);
        }
        let [current, _] = &mut self.base;
        *current = delay.clamp(1, DELAY_MAX).min(*current);
    }

    /// Shortest delay in ns.
    fn base(&self) -> u64 {
        let [current, before] = self.base;
        current.min(before).min(DELAY_MAX)
    }

    /// Delay in ns beyond the shortest one that is wanted. On a path whose delay varies for other
    /// reasons than a queue, as one that reorders packets, it covers that.
    fn allowance(&self) -> u64 {
        let quarters = u64::from(self.tuning.allowance_quarters);
        (self.base().saturating_mul(quarters) / 4)
            .max(self.tuning.allowance.into())
            .max(self.deviation.saturating_mul(2))
    }

    /// The delay in ns that the window aims at.
    fn target(&self) -> u64 {
        let allowance = self.allowance();
        let scaled = allowance.saturating_mul(self.tuning.scaling_quarters.into()) / 4;
        let share = scaled.saturating_mul(PACKET.into());
        let share = share
            .checked_div(self.window.max(PACKET).into())
            .unwrap_or(0);
        self.base().saturating_add(allowance).saturating_add(share)
    }

    /// Processes an acknowledgement of `packets` packets. `pipe` packets were in flight before it.
    /// For an enabled window only.
    #[inline(never)]
    pub(crate) fn acknowledged(&mut self, now: u64, packets: u32, sample: Sample, pipe: u32) {
        let age = sample.age;
        // The common case of a path without congestion.
        let [shortest, _] = self.base;
        let is_known = now < self.period_end && (shortest..self.quiet).contains(&age);
        if is_known && !self.asks() {
            self.shortest = self.shortest.min(age);
            self.delay = age;
            return;
        }
        self.measured(now, age);
        self.deviation = self.deviation.min(sample.deviation);
        self.quiet = self.base().saturating_add(self.allowance());
        let target = self.target();
        // The peer may have waited before it acknowledged.
        if !sample.prompt && age >= target {
            return;
        }
        let delay = age.clamp(1, DELAY_MAX);
        self.delay = delay;
        self.shortest = self.shortest.min(delay);
        if now >= self.round_end {
            // It rises slowly: a queue that grows or shrinks makes the delay vary, too, for a time.
            let rise = sample.deviation.saturating_sub(self.deviation) / 16;
            self.deviation = self.deviation.saturating_add(rise);
            let shortest = self.begin_round(now);
            self.judge(now, shortest, target);
        }
        if delay >= target {
            return;
        }

        let allowance = self.allowance();
        let excess = delay.saturating_sub(self.base()).saturating_mul(2);
        let spare = allowance.saturating_sub(excess);
        if spare == 0 {
            self.starting = false;
        }
        // A window that is not used says nothing about what fits the path.
        if pipe.saturating_mul(2) < self.window / PACKET {
            return;
        }
        let start = spare.saturating_mul(self.tuning.start.saturating_mul(PACKET).into());
        let start = start.checked_div(allowance).unwrap_or(0) as u32;
        self.grow(packets, start);
    }

    /// Narrows the window if no packet of a round trip met the delay `target` or a shorter one:
    /// `delay` is the shortest.
    fn judge(&mut self, now: u64, delay: u64, target: u64) {
        let excess = delay.saturating_sub(target);
        if excess > 0 {
            self.starting = false;
            let part = excess.saturating_mul(self.tuning.decrease.into());
            // CAST: The quotient is at most `decrease`.
            self.shrink(now, part.checked_div(delay).unwrap_or(0) as u32);
        }
    }

    /// Widens the window for `packets` acknowledged packets.
    fn grow(&mut self, packets: u32, start: u32) {
        let tuning = self.tuning;
        let growth = if self.starting && start > 0 {
            packets.saturating_mul(start)
        } else if self.window < PACKET {
            packets
                .saturating_mul(tuning.increase_small)
                .saturating_mul(PACKET / 256)
        } else {
            // The acknowledgements of a window are those of a round trip.
            let fixed = u64::from(tuning.increase).saturating_mul((PACKET / 64).into());
            let part = u64::from(tuning.increase_part).saturating_mul((self.window / 64).into());
            let growth = fixed.saturating_add(part).saturating_mul(packets.into());
            let growth = growth.saturating_mul(PACKET.into());
            let growth = growth.checked_div(self.window.into()).unwrap_or(0);
            u32::try_from(growth).unwrap_or(u32::MAX)
        };
        self.window = self.window.saturating_add(growth).min(self.window_max);
    }

    /// Begins a round trip, and returns the shortest delay in ns of the one before.
    fn begin_round(&mut self, now: u64) -> u64 {
        self.round_end = now.saturating_add(self.delay);
        core::mem::replace(&mut self.shortest, u64::MAX)
    }

    /// Narrows the window by `part` of 256, at most to half.
    fn shrink(&mut self, now: u64, part: u32) {
        self.shrunk_at = now;
        // What was sent before says nothing about the new window.
        self.begin_round(now);
        let part = u64::from(part.min(128));
        let less = u64::from(self.window).saturating_mul(part) / 256;
        // CAST: Half of the window at most.
        self.window = self.window.saturating_sub(less as u32).max(WINDOW_MIN);
    }

    /// Records that a packet was declared lost because later ones arrived. All losses of a round
    /// trip count as one.
    pub(crate) fn lost(&mut self, now: u64) {
        if !self.enabled || now < self.shrunk_at.saturating_add(self.delay) {
            return;
        }
        self.starting = false;
        let is_queued = self.delay > self.base().saturating_add(self.allowance());
        let part = match is_queued {
            true => 128,
            false => self.tuning.decrease_lost,
        };
        self.shrink(now, part);
    }

    /// Records that the retransmission timer expired.
    pub(crate) fn timed_out(&mut self, now: u64) {
        if self.enabled {
            self.starting = false;
            self.shrink(now, 128);
        }
    }
}

#[cfg(test)]
mod tests;
