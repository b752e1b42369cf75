// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Constants that are no parameters: nobody configures them, but the simulator looks for better ones.

/// Constants of the congestion window. `selftests/sim/search` looks for better ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CongestionTuning {
    /// Window of a new connection, and of one that was idle, in packets.
    pub initial: u32,
    /// Packets by which each acknowledged packet widens the window at the start.
    pub start: u32,
    /// Delay beyond the shortest one that is wanted: this in ns, at least ...
    pub allowance: u32,
    /// ... and this many quarters of the shortest delay.
    pub allowance_quarters: u32,
    /// Quarters of the allowance that a window of one packet or less gets on top. A window of n
    /// packets gets a part of n of it. So small windows grow and large ones shrink, and
    /// connections that share a queue become equal.
    pub scaling_quarters: u32,
    /// Growth in a round trip, in 1/64 packet.
    pub increase: u32,
    /// Growth in a round trip, in 1/64 of the window.
    pub increase_part: u32,
    /// Growth of a window below one packet for each acknowledged packet, in 1/256 packet.
    pub increase_small: u32,
    /// Part of the excess delay by which the window shrinks, in 1/256.
    pub decrease: u32,
    /// Part of the window, in 1/256, that a lost packet costs if the delay was short, so that the
    /// loss is probably none of a queue.
    pub decrease_lost: u32,
}

impl CongestionTuning {
    /// What the search found.
    pub const DEFAULT: Self = Self {
        initial: 2,
        start: 5,
        allowance: 12_000,
        allowance_quarters: 1,
        scaling_quarters: 6,
        increase: 64,
        increase_part: 16,
        increase_small: 128,
        decrease: 128,
        decrease_lost: 32,
    };
}
