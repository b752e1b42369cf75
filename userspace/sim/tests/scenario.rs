// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Loads do what they say, and a seed determines them.

use superp_sim::scenario::{run, Name, Outcome, Variant};
use superp_sim::{plot, report};

fn outcome(name: Name, nodes: usize, ordered: bool) -> Outcome {
    let variant = Variant {
        ordered,
        ..Variant::congestion(false)
    };
    run(name, nodes, &variant, 1).expect("every invariant holds")
}

/// A load on connections with a congestion window.
fn controlled(name: Name, nodes: usize) -> Outcome {
    run(name, nodes, &Variant::congestion(true), 1).expect("every invariant holds")
}

#[test]
fn incast_overflows_the_queue_and_completes() {
    let outcome = outcome(Name::Incast, 16, false);
    assert_eq!((outcome.completed, outcome.failed), (15 * 16, 0));
    assert!(outcome.tail_drops > 0 && outcome.retransmits >= outcome.tail_drops);
    // All of it goes over one link of 100 Gbit/s.
    assert!(outcome.goodput_gbps < 100.0);
}

/// Time in ns that a write takes if `senders` with two writes of 64 KiB each share 100 Gbit/s.
fn fair_share(senders: u64) -> u64 {
    2 * senders * (64 << 10) * 8 / 100
}

#[test]
fn congestion_window_fills_the_link_and_loses_next_to_nothing() {
    for nodes in [8, 32, 64] {
        let outcome = controlled(Name::Incast, nodes);
        assert_eq!((outcome.completed, outcome.failed), ((nodes - 1) * 16, 0));
        assert!(
            outcome.goodput_gbps > 92.0,
            "{} Gbit/s",
            outcome.goodput_gbps
        );
        assert!(outcome.again() < 0.5, "{} % sent again", outcome.again());
        assert_eq!(outcome.timeouts, 0);
        // The load of few senders is over before their windows are equal.
        let fair = fair_share(nodes.max(16) as u64 - 1);
        assert!(
            outcome.p99_ns < fair * 3 / 2,
            "{} of {fair} ns",
            outcome.p99_ns
        );
    }
}

#[test]
fn congestion_window_repairs_what_more_senders_lose_than_the_queue_takes() {
    let outcome = controlled(Name::Incast, 256);
    assert_eq!((outcome.completed, outcome.failed), (255 * 16, 0));
    assert!(
        outcome.goodput_gbps > 80.0,
        "{} Gbit/s",
        outcome.goodput_gbps
    );
    assert!(outcome.again() < 5.0, "{} % sent again", outcome.again());
}

#[test]
fn congestion_window_serves_all_to_all() {
    let [without, with] = [
        outcome(Name::AllToAll, 32, false),
        controlled(Name::AllToAll, 32),
    ];
    assert_eq!(with.completed, without.completed);
    assert!(with.goodput_gbps > 2.0 * without.goodput_gbps);
    assert!(with.again() < 0.5, "{} % sent again", with.again());
}

#[test]
fn connections_without_extensions_have_no_congestion_window() {
    let [without, with] = [false, true].map(|on| {
        let variant = Variant {
            strict: true,
            ..Variant::congestion(on)
        };
        run(Name::Incast, 8, &variant, 1).expect("every invariant holds")
    });
    assert_eq!(
        (without.packets, without.time_ns),
        (with.packets, with.time_ns)
    );
    assert_eq!(without.latencies, with.latencies);
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
        let outcome = run(Name::Incast, 12, &Variant::DEFAULT, seed);
        let outcome = outcome.expect("every invariant holds");
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
