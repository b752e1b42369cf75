// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Shared configuration of the property tests.

pub(super) use proptest::bool::weighted;
pub(super) use proptest::collection::vec as collection;
use proptest::test_runner::{Config, RngSeed};

/// Every run has the same cases, from seed 1. `PROPTEST_CASES` sets their number and
/// `PROPTEST_RNG_SEED` another seed.
pub(super) fn config() -> Config {
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    match config.rng_seed {
        RngSeed::Random => Config {
            rng_seed: RngSeed::Fixed(1),
            ..config
        },
        RngSeed::Fixed(_) => config,
    }
}
