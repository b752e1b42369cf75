// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Two connections on virtual time, and a link between them that loses, duplicates, reorders, delays
//! and corrupts what a seed says.
//!
//! `SUPERP_SEED=n cargo test` runs one seed of each random test, `SUPERP_SEEDS=n` that many.

mod atomics;
mod clean;
mod congestion;
mod extensions;
mod hostile;
mod link;
mod lite;
mod loss;
mod next;
mod node;
mod pair;
mod random;
mod rng;
mod rules;
mod run;
#[path = "../sink/mod.rs"]
mod sink;
mod work;

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Runs `test` with many seeds, and says which fails.
fn seeds(count: u64, test: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let variable = |name| std::env::var(name).ok()?.parse().ok();
    if let Some(seed) = variable("SUPERP_SEED") {
        return test(seed);
    }
    for seed in 0..variable("SUPERP_SEEDS").unwrap_or(count) {
        if let Err(panic) = std::panic::catch_unwind(|| test(seed)) {
            eprintln!("failed with SUPERP_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
