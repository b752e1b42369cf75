// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A histogram of times, exact to one part in 512 whatever their range.

/// Bits of a value that are kept.
const BITS: u32 = 10;
const EXACT: usize = 1 << BITS;
const HALF: usize = EXACT / 2;

/// Counts of values.
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// The place of a value: small ones have their own, larger ones share it with those of the same
/// leading bits.
fn place(value: u64) -> usize {
    let shift = value.checked_ilog2().unwrap_or(0).saturating_sub(BITS - 1);
    match shift {
        0 => value as usize,
        _ => EXACT + (shift as usize - 1) * HALF + (value >> shift) as usize - HALF,
    }
}

/// The largest value of a place.
fn largest(place: usize) -> u64 {
    match place.checked_sub(EXACT) {
        None => place as u64,
        Some(above) => {
            let shift = (above / HALF + 1) as u32;
            let leading = (above % HALF + HALF) as u128;
            u64::try_from(((leading + 1) << shift) - 1).unwrap_or(u64::MAX)
        }
    }
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self {
            counts: vec![0; place(u64::MAX) + 1],
            total: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    pub(super) fn add(&mut self, value: u64) {
        self.counts[place(value)] += 1;
        self.total += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// How many values there are.
    pub(super) fn count(&self) -> u64 {
        self.total
    }

    pub(super) fn min(&self) -> u64 {
        self.min.min(self.max)
    }

    pub(super) fn max(&self) -> u64 {
        self.max
    }

    pub(super) fn mean(&self) -> u64 {
        let mean = self.sum.checked_div(u128::from(self.total)).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// The least value that `share` of all values, in parts of 10 000, do not exceed.
    pub(super) fn percentile(&self, share: u64) -> u64 {
        let rank = (u128::from(self.total) * u128::from(share))
            .div_ceil(10_000)
            .max(1);
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += u128::from(*count);
            seen >= rank
        });
        reached.map_or(self.max, largest).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_order_and_lose_one_part_in_512() {
        let mut before = None;
        for shift in 0..64 {
            for low in [0, 1, 511, 513] {
                let value = (1u64 << shift).saturating_add(low << shift.max(9) >> 9);
                let upper = largest(place(value));
                assert!(upper >= value && upper - value <= value / 512, "{value}");
                assert_eq!(place(upper), place(value));
                if let Some((value_before, place_before)) = before {
                    assert!(value < value_before || place(value) >= place_before);
                }
                before = Some((value, place(value)));
            }
        }
        assert_eq!(largest(place(u64::MAX)), u64::MAX);
    }

    #[test]
    fn percentiles_of_known_values() {
        let mut histogram = Histogram::new();
        for value in 1..=1000 {
            histogram.add(value);
        }
        assert_eq!(histogram.percentile(5_000), 500);
        assert_eq!(histogram.percentile(9_900), 990);
        assert_eq!(histogram.percentile(9_999), 1000);
        assert_eq!(histogram.percentile(0), 1);
        assert_eq!(
            (histogram.min(), histogram.max(), histogram.mean()),
            (1, 1000, 500)
        );
        assert_eq!(histogram.count(), 1000);
    }

    #[test]
    fn empty_histogram_is_zero_everywhere() {
        let histogram = Histogram::new();
        assert_eq!(histogram.percentile(9_999), 0);
        assert_eq!(
            (histogram.min(), histogram.max(), histogram.mean()),
            (0, 0, 0)
        );
    }
}
