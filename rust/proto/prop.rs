// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the property tests share.

pub(super) use proptest::bool::weighted;
pub(super) use proptest::collection::vec as collection;
use proptest::test_runner::{Config, RngSeed};

/// The same cases each time; `PROPTEST_CASES` says how many, and `PROPTEST_RNG_SEED` from which number.
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
