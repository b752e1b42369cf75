// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Bytes and numbers that look random and come out the same from the same seed.

use std::io::{Read, Result};

/// A generator (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Pattern(u64);

impl Pattern {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        match high.saturating_sub(low).checked_add(1) {
            Some(choices) => low + self.next() % choices,
            None => self.next(),
        }
    }
}

/// Endless bytes.
impl Read for Pattern {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
        Ok(buffer.len())
    }
}

/// Sizes of `count` messages that add up to `total`, each from `min` to `max`: the shortest, and
/// those around the least block, come up as well as long ones. `None`: it cannot be done.
pub(super) fn sizes(total: u64, count: u64, min: u64, max: u64, seed: u64) -> Option<Vec<u64>> {
    if total < min.checked_mul(count)? || total > max.saturating_mul(count) {
        return None;
    }
    let mut pattern = Pattern::new(seed);
    let mut sizes = Vec::new();
    let mut left = total;
    for after in (0..count).rev() {
        // What is left must remain possible.
        let low = min.max(left.saturating_sub(max.saturating_mul(after)));
        let high = max.min(left - min * after);
        let mean = left / (after + 1);
        let wish = match pattern.between(0, 9) {
            0 => pattern.between(0, 17),
            1..=3 => pattern.between(min, min + 1500),
            4..=8 => pattern.between(min, mean.saturating_mul(2)),
            _ => pattern.between(mean, mean.saturating_mul(8)),
        };
        let size = wish.clamp(low, high);
        sizes.push(size);
        left -= size;
    }
    Some(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers that the author of splitmix64 gives for seed 1234567.
    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut pattern = Pattern::new(1_234_567);
        assert_eq!(pattern.next(), 6_457_827_717_110_365_317);
        assert_eq!(pattern.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn bytes_do_not_depend_on_how_they_are_read() {
        let mut whole = [0; 64];
        Pattern::new(7).read_exact(&mut whole).unwrap();
        let mut parts = [0; 64];
        let mut pattern = Pattern::new(7);
        for part in parts.chunks_mut(16) {
            pattern.read_exact(part).unwrap();
        }
        assert_eq!(whole, parts);
        Pattern::new(8).read_exact(&mut parts).unwrap();
        assert_ne!(whole, parts);
    }

    #[test]
    fn sizes_add_up_within_their_bounds() {
        for (total, count, min, max) in [
            (16 << 20, 1000, 0, 16 << 20),
            (16 << 20, 1000, 16, 44_000),
            (16_000, 1000, 16, 44_000),
            (44_000_000, 1000, 16, 44_000),
            (5, 1000, 0, 10),
            (0, 3, 0, 0),
            (100, 1, 16, 100),
        ] {
            for seed in 0..20 {
                let sizes = sizes(total, count, min, max, seed).unwrap();
                assert_eq!(sizes.len() as u64, count);
                assert_eq!(sizes.iter().sum::<u64>(), total);
                assert!(sizes.iter().all(|size| (min..=max).contains(size)));
            }
        }
        assert_eq!(sizes(15, 1, 16, 100, 1), None);
        assert_eq!(sizes(201, 2, 16, 100, 1), None);
        assert_eq!(sizes(0, u64::MAX, 16, 100, 1), None);
    }

    #[test]
    fn sizes_are_mixed() {
        let sizes = sizes(16 << 20, 1000, 0, 16 << 20, 1).unwrap();
        assert!(sizes.iter().any(|size| *size < 16));
        assert!(sizes.iter().any(|size| *size > 60_000));
    }
}
