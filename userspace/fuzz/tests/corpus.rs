// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Every input of the corpora, which are what the search for inputs has found to reach some code first,
//! and what was once wrong.

use std::fs;
use std::panic::{catch_unwind, resume_unwind, RefUnwindSafe};
use std::path::{Path, PathBuf};

/// Runs the corpus of a target in the order of its names; what comes of each input.
fn run<T>(name: &str, target: impl Fn(&[u8]) -> T + RefUnwindSafe) -> Vec<T> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let mut inputs: Vec<_> = fs::read_dir(&folder)
        .expect("the folder of the corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    inputs.sort();
    assert!(
        inputs.len() >= 50,
        "{} has lost its inputs",
        folder.display()
    );
    let one = |path: PathBuf| {
        let bytes = fs::read(&path).expect("an input");
        catch_unwind(|| target(&bytes)).unwrap_or_else(|panic| {
            eprintln!("failed with {}", path.display());
            resume_unwind(panic)
        })
    };
    inputs.into_iter().map(one).collect()
}

/// Checks that packets of many inputs were taken in runs.
fn check_runs(packets: &[usize]) {
    let inputs = packets.iter().filter(|&&packets| packets > 0).count();
    assert!(inputs >= 20, "runs in {inputs} inputs only");
}

#[test]
fn every_input_parses_or_is_refused_as_the_tables_say() {
    run("parse", superp_fuzz::parse);
}

#[test]
fn no_hostile_packet_of_the_corpus_makes_an_open_connection_do_wrong() {
    check_runs(&run("receive", superp_fuzz::receive));
}

#[test]
fn every_schedule_of_the_corpus_comes_to_rest_with_everything_done_once() {
    check_runs(&run("schedule", superp_fuzz::schedule));
}
