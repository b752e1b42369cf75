// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Two connections on virtual time, and a link between them that loses, duplicates, reorders, delays
//! and corrupts what a seed says.

mod clean;
mod link;
mod node;
mod pair;
mod random;
mod rng;
mod rules;
mod work;

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;
