// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The results in the documentation: the table of simulator.md, and its plots.

use crate::plot;
use crate::scenario::{self, Name, Outcome, Variant, COLUMNS};
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

/// What comes before and after the results in simulator.md.
const MARKS: [&str; 2] = ["<!-- results -->\n", "<!-- end of results -->"];

/// Loads of the report: name, nodes, ordered.
const RUNS: [(Name, usize, bool); 10] = [
    (Name::Incast, 64, false),
    (Name::IncastPartitioned, 64, false),
    (Name::AllToAll, 64, false),
    (Name::Permutation, 64, false),
    (Name::Permutation, 64, true),
    (Name::OneDeadNode, 64, false),
    (Name::Incast, 1024, false),
    (Name::IncastPartitioned, 1024, false),
    (Name::Permutation, 1024, false),
    (Name::OneDeadNode, 1024, false),
];

/// Rows for people, with a line under the head.
pub fn table(outcomes: &[Outcome]) -> String {
    let head = COLUMNS.map(str::to_owned);
    let rows: Vec<_> = outcomes.iter().map(Outcome::row).collect();
    let mut width = [0; COLUMNS.len()];
    for row in std::iter::once(&head).chain(&rows) {
        for (width, cell) in width.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let mut text = String::new();
    let mut line = |row: &[String]| {
        for (column, (cell, width)) in row.iter().zip(width).enumerate() {
            // Names to the left, numbers to the right.
            let _ = match column {
                0 | 1 => write!(text, "| {cell:<width$} "),
                _ => write!(text, "| {cell:>width$} "),
            };
        }
        text.push_str("|\n");
    };
    line(&head);
    let rule = width.map(|width| "-".repeat(width));
    line(&rule);
    rows.iter().for_each(|row| line(row));
    text
}

/// Runs the loads and writes table and plots into a directory that has a simulator.md.
pub fn write(dir: &Path, seed: u64) -> Result<(), Box<dyn Error>> {
    let file = dir.join("simulator.md");
    let before = std::fs::read_to_string(&file)?;
    let (head, rest) = before
        .split_once(MARKS[0])
        .ok_or("no mark in simulator.md")?;
    let (_, tail) = rest
        .split_once(MARKS[1])
        .ok_or("no end mark in simulator.md")?;

    let outcomes = [run_all(false, seed)?, run_all(true, seed)?];
    for nodes in [64, 1024] {
        let of = outcomes.iter().flatten();
        let of = of.filter(|outcome| outcome.nodes == nodes && !outcome.ordered);
        let curves: Vec<_> = of
            .map(|o| plot::distribution(&label(o), &o.latencies))
            .collect();
        let title = format!("Completion times of writes, {nodes} nodes");
        let file = dir.join(format!("simulator-latency-{nodes}.svg"));
        plot::latency(&file, &title, &curves)?;
    }
    let [without, with] = &outcomes;
    let curves: Vec<_> = [&without[0], &without[1], &with[0]]
        .map(|o| plot::rate(&label(o), &o.deliveries))
        .into();
    let file_rate = dir.join("simulator-incast-64.svg");
    plot::goodput(&file_rate, "Incast of 63 nodes over time", &curves)?;

    let command = format!("superp-sim report --out Documentation --seed {seed}");
    let [without, with] = [table(without), table(with)];
    let text = format!(
        "{head}{}\nBy `{command}`.\n\nWithout a congestion window (`pdl_congestion` 0):\n\n{without}\n\
         With one (`pdl_congestion` 1):\n\n{with}\n{}{tail}",
        MARKS[0], MARKS[1]
    );
    std::fs::write(&file, text)?;
    Ok(())
}

/// Runs all loads, with or without a congestion window.
fn run_all(congestion: bool, seed: u64) -> Result<Vec<Outcome>, String> {
    let run = |(name, nodes, ordered)| {
        let variant = Variant {
            ordered,
            ..Variant::congestion(congestion)
        };
        scenario::run(name, nodes, &variant, seed).map_err(|violation| violation.to_string())
    };
    RUNS.into_iter().map(run).collect()
}

/// Name of a curve.
pub fn label(outcome: &Outcome) -> String {
    let ordered = if outcome.ordered { ", one path" } else { "" };
    let window = match outcome.congestion {
        true => ", congestion window",
        false => "",
    };
    format!("{}{ordered}{window}", outcome.scenario.text())
}
