// SPDX-License-Identifier: GPL-2.0 OR MIT
//! When a doorbell may wait for what follows.
//!
//! A program that posts one request after the other would ring for each, and each would go in a packet of its
//! own. Here it is noticed by the time between two doorbells: far shorter than a doorbell takes, several times
//! in a row. Who waits for what a request does, for the peer or for a completion, is away for longer.

/// Doorbells in a row before the first that says that more follows.
const STREAK: u32 = 4;
/// Requests for which one doorbell rings then.
const BATCH: u32 = 16;
/// Doorbells for so many that make up for one that nobody rang: the program was only kept from going on.
const FORGIVEN: u32 = 64;

/// How a submission ring is posted to. Times are those of [`ticks`].
#[derive(Debug)]
pub(crate) struct Pace {
    /// Doorbells shortly after one another.
    streak: u32,
    /// So many it takes: more, for who waited for what nobody had rung for.
    needed: u32,
    /// Requests since the last doorbell.
    waiting: u32,
    /// Doorbells for so many, since one was forgotten or forgiven.
    full: u32,
    /// When the last doorbell had rung, and how long it had taken.
    end: u64,
    took: u64,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self {
            streak: 0,
            needed: STREAK,
            waiting: 0,
            full: 0,
            end: 0,
            took: 0,
        }
    }

    /// A request for which a doorbell is needed. `forgotten`: nobody has rung for those that waited.
    /// Whether the doorbell may say that more follows.
    pub(crate) fn rings(&mut self, forgotten: bool, now: u64) -> bool {
        if forgotten && self.waiting > 0 {
            self.needed = self.needed.saturating_mul(2);
            self.full = 0;
        }
        let away = now.saturating_sub(self.end);
        self.streak = match away < self.took / 2 {
            true => self.streak.saturating_add(1),
            false => 0,
        };
        self.streak >= self.needed
    }

    /// The doorbell that was begun then has rung.
    pub(crate) fn rang(&mut self, begun: u64, now: u64) {
        self.waiting = 0;
        self.end = now;
        self.took = now.saturating_sub(begun);
    }

    /// A request that may wait; `first`: none waits, somebody has rung for those before. Whether that is
    /// enough.
    pub(crate) fn waits(&mut self, first: bool) -> bool {
        if first {
            self.waiting = 0;
        }
        self.waiting += 1;
        if self.waiting < BATCH {
            return false;
        }
        self.full += 1;
        if self.full >= FORGIVEN {
            self.needed = (self.needed / 2).max(STREAK);
            self.full = 0;
        }
        true
    }

    /// Whether a request waits, as far as is known here.
    pub(crate) fn any_waits(&self) -> bool {
        self.waiting > 0
    }
}

/// A clock that is read without a system call; of what frequency does not matter here. Where there is none it
/// stands still, and no doorbell waits.
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: Every processor of this architecture has it.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let now: u64;
        // SAFETY: The kernel lets programs read it.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) now, options(nomem, nostack)) };
        now
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rings so many doorbells of 100 ticks, that long after one another; how many say that more follows.
    fn ring(pace: &mut Pace, now: &mut u64, count: usize, away: u64) -> usize {
        let more = (0..count).filter(|_| {
            *now += away;
            let more = pace.rings(false, *now);
            pace.rang(*now, *now + 100);
            *now += 100;
            more
        });
        more.count()
    }

    #[test]
    fn doorbells_in_a_row_say_that_more_follows() {
        let (mut pace, mut now) = (Pace::new(), 1000);
        assert_eq!(ring(&mut pace, &mut now, 10, 5), 6);
        assert_eq!(ring(&mut pace, &mut now, 3, 60), 0);
    }

    #[test]
    fn who_is_away_as_long_as_a_doorbell_takes_rings_each_time() {
        let (mut pace, mut now) = (Pace::new(), 1000);
        assert_eq!(ring(&mut pace, &mut now, 1000, 50), 0);
    }

    #[test]
    fn one_doorbell_is_for_sixteen() {
        let mut pace = Pace::new();
        let enough = (0..48).filter(|number| {
            let enough = pace.waits(*number == 0);
            if enough {
                pace.rang(0, 0);
            }
            enough
        });
        assert_eq!(enough.collect::<Vec<_>>(), [15, 31, 47]);
    }

    #[test]
    fn those_for_which_somebody_rang_do_not_count() {
        let mut pace = Pace::new();
        assert!((0..15).all(|_| !pace.waits(false)));
        assert!((0..15).all(|number| !pace.waits(number == 0)));
        assert!(pace.waits(false));
    }

    #[test]
    fn who_forgets_to_ring_needs_a_longer_row() {
        let (mut pace, mut now) = (Pace::new(), 1000);
        pace.waits(true);
        pace.rings(true, now);
        pace.rang(now, now + 100);
        now += 100;
        assert_eq!(ring(&mut pace, &mut now, 10, 5), 3);
        // Nothing waited: nothing was forgotten.
        pace.rings(true, now);
        pace.rang(now, now + 100);
        now += 100;
        assert_eq!(ring(&mut pace, &mut now, 10, 5), 10);
    }

    #[test]
    fn who_forgot_once_is_forgiven() {
        let (mut pace, mut now) = (Pace::new(), 1000);
        pace.waits(true);
        pace.rings(true, now);
        pace.rang(now, now + 100);
        for _ in 0..FORGIVEN * BATCH {
            if pace.waits(false) {
                pace.rang(now, now + 100);
            }
        }
        now += 100;
        assert_eq!(ring(&mut pace, &mut now, 10, 5), 7);
    }

    #[test]
    fn a_clock_that_stands_still_never_says_that_more_follows() {
        let mut pace = Pace::new();
        let more = (0..100).filter(|_| {
            let more = pace.rings(false, 0);
            pace.rang(0, 0);
            more
        });
        assert_eq!(more.count(), 0);
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn the_clock_goes() {
        let start = ticks();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(ticks() > start);
    }
}
