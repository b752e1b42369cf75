// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The one source of chance. PCG's streams are the same on every machine and in every release.

use rand_pcg::rand_core::{Rng as _, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Random numbers that a seed determines.
#[derive(Clone, Debug)]
pub(crate) struct Rng(Pcg64Mcg);

impl Rng {
    /// The stream of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A stream of its own, so that what one user draws does not shift what another gets.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.bits())
    }

    /// From 0 to `n - 1`; 0 when `n` is 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.bits().checked_rem(n).unwrap_or(0)
    }

    /// From `from` to `to`, both included.
    pub(crate) fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// True in `parts` of a thousand cases.
    pub(crate) fn chance(&mut self, parts: u64) -> bool {
        parts > 0 && self.below(1000) < parts
    }

    /// One of `from`.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
