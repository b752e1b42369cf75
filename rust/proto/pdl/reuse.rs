// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Check that a PSN is not used again within two seconds [proto 3.16].

/// Least time between two uses of a PSN, in ns.
const REUSE_TIME: u64 = 2_000_000_000;

/// Quarters of the PSN space.
const QUARTERS: usize = 4;

/// When each quarter of the PSN space was last left.
///
/// The last use of a PSN is 2^32 packets back, far outside the window whose slots keep send times.
/// What a quarter's first PSN is checked against is the time its last one was assigned, which is
/// later: the check is stricter than the rule by a quarter of the time a wrap takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PsnReuse {
    left: [Option<u64>; QUARTERS],
    last: Option<u32>,
}

impl PsnReuse {
    /// Notes that `psn` is assigned at `now`; whether that is too soon after its last use.
    pub(crate) fn assign(&mut self, psn: u32, now: u64) -> bool {
        let quarter = |psn: u32| (psn >> 30) as usize;
        let left = self.last.map(quarter);
        self.last = Some(psn);
        let entered = quarter(psn);
        if left == Some(entered) {
            return false;
        }
        if let Some(slot) = left.and_then(|left| self.left.get_mut(left)) {
            *slot = Some(now);
        }
        let since = self.left.get(entered).copied().flatten();
        since.is_some_and(|time| now.saturating_sub(time) < REUSE_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Assigns the first and last PSN of each quarter in turn, `step` ns apart.
    fn wrap(reuse: &mut PsnReuse, now: &mut u64, step: u64) -> bool {
        let mut violated = false;
        for quarter in 0..QUARTERS as u32 {
            for psn in [quarter << 30, (quarter << 30) + (u32::MAX >> 2)] {
                *now += step;
                violated |= reuse.assign(psn, *now);
            }
        }
        violated
    }

    impl PsnReuse {
        /// As if all of the PSN space had been used up at `now`, to its last PSN.
        pub(crate) fn wrapped(now: u64) -> Self {
            Self {
                left: [Some(now); QUARTERS],
                last: Some(u32::MAX),
            }
        }
    }

    #[test]
    fn slow_wrap_is_fine_and_fast_wrap_is_reported() {
        let (mut reuse, mut now) = (PsnReuse::default(), 0);
        assert!(!wrap(&mut reuse, &mut now, 1));
        assert!(wrap(&mut reuse, &mut now, 1));
        assert!(!wrap(&mut reuse, &mut now, REUSE_TIME));
    }
}
