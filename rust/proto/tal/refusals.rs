// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Number and rate of the refusals that answer guesses. A peer that guesses keys or queue pair
//! numbers learns from each that a guess was wrong.

use super::super::config::Config;
use super::super::slab::{Ring, Slabs};

/// Refusals that may be sent at once after a time without any.
const BURST: u64 = 1000;

/// Transaction Errors that wait until the rate permits them. Until then the transaction takes its
/// place in the window.
pub(super) struct Refusals<A: Slabs> {
    /// XIDs, in the order of the refusals.
    waiting: Ring<A>,
    /// Time for each refusal, in ns. 0: there is no limit.
    interval: u64,
    /// Time up to which the rate is used up, in ns.
    used: u64,
    /// Refusals so far.
    count: u32,
}

impl<A: Slabs> Refusals<A> {
    pub(super) fn new(config: &Config) -> Option<Self> {
        Some(Self {
            waiting: Ring::new(config.tal_trans_window)?,
            interval: 1_000_000_000u64
                .checked_div(config.tal_refusal_rate.into())
                .unwrap_or(0),
            used: 0,
            count: 0,
        })
    }

    /// Appends the Transaction Error of transaction `xid`, which is not waiting yet.
    pub(super) fn push(&mut self, xid: u16) {
        self.count = self.count.saturating_add(1);
        self.waiting.push(xid);
    }

    /// Number of refusals so far.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Time at which the next refusal may be sent, in ns. `None` if none waits.
    pub(super) fn due(&self) -> Option<u64> {
        self.waiting.peek()?;
        Some(self.used)
    }

    /// Removes the next refusal if it may be sent at `now`.
    pub(super) fn pop(&mut self, now: u64) -> Option<u16> {
        if self.used > now {
            return None;
        }
        let xid = self.waiting.pop()?;
        let unused = now.saturating_sub(self.interval.saturating_mul(BURST));
        self.used = self.used.max(unused).saturating_add(self.interval);
        Some(xid)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::slab::test::Heap;
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn refusals(rate: u32) -> Refusals<Heap> {
        let config = Config {
            tal_refusal_rate: rate,
            ..Config::default()
        };
        Refusals::new(&config).unwrap()
    }

    /// How many refusals leave at `now`, of a peer that always has more.
    fn at_once(refusals: &mut Refusals<Heap>, now: u64) -> u64 {
        let mut n = 0;
        loop {
            refusals.push(n as u16);
            match refusals.pop(now) {
                Some(_) => n += 1,
                None => {
                    refusals.waiting.pop();
                    return n;
                }
            }
            assert!(n < 100_000);
        }
    }

    #[test]
    fn the_rate_limits_after_a_burst() {
        let mut refusals = refusals(100);
        assert_eq!(refusals.due(), None);
        let start = 1000 * SECOND;
        assert_eq!(at_once(&mut refusals, start), BURST + 1);
        refusals.push(7);
        assert_eq!(refusals.due(), Some(start + SECOND / 100));
        assert_eq!(refusals.pop(start + SECOND / 100 - 1), None);
        assert_eq!(refusals.pop(start + SECOND / 100), Some(7));
        assert_eq!(refusals.due(), None);
        assert_eq!(at_once(&mut refusals, start + SECOND), 99);
        assert_eq!(at_once(&mut refusals, start + 1000 * SECOND), BURST + 1);
    }

    #[test]
    fn rate_0_is_no_limit() {
        let mut refusals = refusals(0);
        for n in 0..5 * BURST {
            refusals.push(n as u16);
            assert_eq!(refusals.pop(1), Some(n as u16));
        }
    }
}
