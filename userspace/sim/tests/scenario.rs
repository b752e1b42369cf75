// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Loads do what they say, and a seed determines them.

use superp_sim::scenario::{run, Name, Outcome};
use superp_sim::{plot, report};

fn outcome(name: Name, nodes: usize, ordered: bool) -> Outcome {
    run(name, nodes, ordered, 1).expect("every invariant holds")
}

#[test]
fn incast_overflows_the_queue_and_completes() {
    let outcome = outcome(Name::Incast, 16, false);
    assert_eq!((outcome.completed, outcome.failed), (15 * 16, 0));
    assert!(outcome.tail_drops > 0 && outcome.retransmits >= outcome.tail_drops);
    // All of it goes over one link of 100 Gbit/s.
    assert!(outcome.goodput_gbps < 100.0);
}

#[test]
fn all_to_all_completes_both_ways() {
    let outcome = outcome(Name::AllToAll, 9, true);
    assert_eq!((outcome.completed, outcome.failed), (9 * 8 * 4, 0));
    assert_eq!(outcome.connections, 9 * 8 / 2);
}

#[test]
fn permutation_over_all_paths_drops_nothing_and_beats_one_path() {
    let [all, one] = [false, true].map(|ordered| outcome(Name::Permutation, 16, ordered));
    for outcome in [&all, &one] {
        assert_eq!((outcome.completed, outcome.failed), (16 * 64, 0));
        assert_eq!(outcome.tail_drops + outcome.ring_drops + outcome.lost, 0);
    }
    assert!(all.goodput_gbps > one.goodput_gbps);
}

#[test]
fn dead_node_takes_nothing_with_it_but_its_own_connections() {
    let outcome = outcome(Name::OneDeadNode, 16, false);
    // Three peers that write to it and three that it writes to; 8 writes each elsewhere.
    assert!(outcome.failed > 0 && outcome.broken <= 12);
    assert!(outcome.completed >= (16 * 3 - 6) * 8);
    assert!(outcome.lost > 0);
}

#[test]
fn seed_determines_the_outcome() {
    let json = |seed| {
        let outcome = run(Name::Incast, 12, false, seed).expect("every invariant holds");
        serde_json::to_string(&outcome).expect("plain values")
    };
    assert_eq!(json(7), json(7));
    assert_ne!(json(7), json(8));
}

#[test]
fn results_become_a_table_and_a_plot() {
    let outcome = outcome(Name::Permutation, 4, false);
    let curve = plot::distribution("permutation", &outcome.latencies);
    assert_eq!(curve.1.last().map(|point| point.1), Some(100.0));
    let file = std::env::temp_dir().join(format!("superp-sim-{}.svg", std::process::id()));
    plot::latency(&file, "title", &[curve]).expect("a plot");
    let svg = std::fs::read_to_string(&file).expect("a file");
    std::fs::remove_file(&file).expect("the file");
    assert!(svg.starts_with("<svg") && svg.contains("<polyline"));
    let table = report::table(&[outcome]);
    let widths: Vec<_> = table.lines().map(str::len).collect();
    assert!(widths.len() == 3 && widths.iter().all(|&width| width == widths[0]));
}
