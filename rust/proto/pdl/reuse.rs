// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Check that no PSN is used again within two seconds [proto 3.16].

use super::super::config::REUSE_TIME;

/// Number of parts into which the PSN space is divided.
const QUARTERS: usize = 4;

/// Time at which each quarter of the PSN space was last in use.
///
/// The previous use of a PSN is 2^32 packets back. The slots of the send window do not go back that
/// far, so the check works on quarters of the PSN space. It compares the first PSN of a quarter
/// with the time at which the previous use of that quarter ended. That time is later than the
/// previous use of the PSN itself, so the check is stricter than the rule by a quarter of the time
/// of a wrap.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PsnReuse {
    /// Time in ns at which the assigned PSNs last left each quarter; `None` if they never did.
    left_at: [Option<u64>; QUARTERS],
    /// PSN that was assigned last.
    last: Option<u32>,
}

impl PsnReuse {
    /// Records that `psn` is assigned at `now`. Returns true if that is too soon after its last
    /// use.
    pub(crate) fn assign(&mut self, psn: u32, now: u64) -> bool {
        let quarter = |psn: u32| (psn >> 30) as usize;
        let previous = self.last.map(quarter);
        self.last = Some(psn);
        let entered = quarter(psn);
        if previous == Some(entered) {
            return false;
        }
        if let Some(slot) = previous.and_then(|previous| self.left_at.get_mut(previous)) {
            *slot = Some(now);
        }
        let since = self.left_at.get(entered).copied().flatten();
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
        /// State after the last PSN, 0xffffffff, was assigned and every quarter was used until
        /// `now`.
        pub(crate) fn wrapped(now: u64) -> Self {
            Self {
                left_at: [Some(now); QUARTERS],
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
