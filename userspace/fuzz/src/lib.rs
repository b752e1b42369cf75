// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Fuzz targets of the protocol core: each takes any bytes and panics when something is wrong.
//!
//! The corpus of each target is in `corpus/`. It is run as a test, and is what the programs of the
//! feature `libfuzzer` start from, which search for more; see selftests/fuzz/run.

mod end;
mod input;
mod layout;
mod lives;
mod memory;
mod parse;
mod receive;
mod request;
mod run;
mod schedule;

pub use parse::parse;
pub use receive::receive;
pub use schedule::schedule;
