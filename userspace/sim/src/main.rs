// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Command of the simulator.

use clap::{Parser, Subcommand};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use superp_proto::CongestionTuning;
use superp_sim::scenario::{Name, Outcome, Variant};
use superp_sim::{check, plot, report, scenario, Sabotage};

/// Simulates fabrics of SUPERp nodes on virtual time
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs random schedules and checks every invariant
    Check(Check),
    /// Runs a load on a leaf-spine fabric and prints how it went
    Scenario(Scenario),
    /// Writes the results of all scenarios into the documentation
    Report(Report),
}

#[derive(clap::Args)]
struct Check {
    /// Schedules to run
    #[arg(long, default_value_t = 10_000)]
    schedules: u64,
    /// Seed of the first; the others follow
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Prints what happens in each schedule
    #[arg(long)]
    trace: bool,
    /// Has the simulator do something wrong, which must be found
    #[arg(long, value_enum, default_value_t = Sabotage::None)]
    sabotage: Sabotage,
}

#[derive(clap::Args)]
struct Scenario {
    /// The load
    #[arg(value_enum)]
    name: Name,
    /// Nodes
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(2..=4096))]
    nodes: u16,
    /// Ordered connections, which keep one path, instead of unordered ones, which use all
    #[arg(long)]
    ordered: bool,
    /// Connections of version 0.4, without extensions
    #[arg(long)]
    strict: bool,
    /// `pdl_congestion`, instead of its default
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1))]
    congestion: Option<u8>,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Constants of the congestion window: ten numbers with commas, see CongestionTuning
    #[arg(long, value_name = "LIST")]
    tuning: Option<String>,
    /// Fails if the goodput is less, in Gbit/s
    #[arg(long, value_name = "GBPS")]
    goodput_min: Option<f64>,
    /// Fails if a larger part of all packets is sent again, in percent
    #[arg(long, value_name = "PERCENT")]
    again_max: Option<f64>,
    /// Fails if the 99th percentile of completion times is longer, in us
    #[arg(long, value_name = "US")]
    p99_max: Option<f64>,
    /// Prints JSON
    #[arg(short, long)]
    json: bool,
    /// Draws the distribution of completion times
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Report {
    /// Directory of simulator.md
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Check(args) => return run_check(&args),
        Command::Scenario(args) => run_scenario(&args),
        Command::Report(args) => report::write(&args.out, args.seed),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("superp-sim: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_scenario(args: &Scenario) -> Result<(), Box<dyn Error>> {
    let (name, nodes) = (args.name, usize::from(args.nodes));
    if nodes > name.nodes_max() {
        return Err(format!("{} takes at most {} nodes", name.text(), name.nodes_max()).into());
    }
    let mut variant = Variant {
        ordered: args.ordered,
        strict: args.strict,
        congestion: args.congestion.map(|on| on > 0),
        ..Variant::DEFAULT
    };
    if let Some(tuning) = &args.tuning {
        variant.tuning =
            parse_tuning(tuning).ok_or("ten numbers in the order of CongestionTuning")?;
    }
    let outcome = scenario::run(name, nodes, &variant, args.seed);
    let outcome = outcome.map_err(|violation| violation.to_string())?;
    if let Some(file) = &args.svg {
        let label = report::label(&outcome);
        let title = format!("Completion times of writes, {nodes} nodes");
        let curve = plot::distribution(&label, &outcome.latencies);
        plot::latency(file, &title, &[curve])?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcome)?);
    } else {
        print!("{}", report::table(std::slice::from_ref(&outcome)));
    }
    require(args, &outcome)
}

/// Checks that a load reached what was required of it.
fn require(args: &Scenario, outcome: &Outcome) -> Result<(), Box<dyn Error>> {
    let (again, late) = (outcome.again(), outcome.p99_ns as f64 / 1e3);
    if args
        .goodput_min
        .is_some_and(|min| outcome.goodput_gbps < min)
    {
        return Err(format!("{:.1} Gbit/s are too few", outcome.goodput_gbps).into());
    }
    if args.again_max.is_some_and(|max| again > max) {
        return Err(format!("{again:.2} % sent again are too many").into());
    }
    if args.p99_max.is_some_and(|max| late > max) {
        return Err(format!("a 99th percentile of {late:.1} us is too long").into());
    }
    Ok(())
}

fn parse_tuning(text: &str) -> Option<CongestionTuning> {
    let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    let numbers: [u32; 10] = numbers.ok()?.try_into().ok()?;
    let [initial, start, allowance, allowance_quarters, scaling_quarters, rest @ ..] = numbers;
    let [increase, increase_part, increase_small, decrease, decrease_lost] = rest;
    Some(CongestionTuning {
        initial,
        start,
        allowance,
        allowance_quarters,
        scaling_quarters,
        increase,
        increase_part,
        increase_small,
        decrease,
        decrease_lost,
    })
}

fn run_check(args: &Check) -> ExitCode {
    // A panic of the core is a violation like others, with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let (mut events, mut lost, mut retransmits, mut broken) = (0, 0, 0, 0);
    for seed in args.seed..args.seed.saturating_add(args.schedules) {
        match check::run(seed, args.sabotage, args.trace) {
            Ok(outcome) => {
                events += outcome.events;
                lost += outcome.lost;
                retransmits += outcome.retransmits;
                broken += outcome.broken;
                if args.trace {
                    println!("seed {seed}: {outcome:x?}");
                }
            }
            Err(violation) => {
                println!("seed {seed}: {violation}");
                let sabotage = match args.sabotage {
                    Sabotage::None => String::new(),
                    other => format!(
                        " --sabotage {}",
                        clap::ValueEnum::to_possible_value(&other)
                            .map_or(String::new(), |value| value.get_name().to_owned())
                    ),
                };
                println!("replay: superp-sim check --schedules 1 --seed {seed} --trace{sabotage}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!(
        "{} schedules from seed {}: every invariant holds; {events} events, {lost} packets lost, \
         {retransmits} sent again, {broken} ends broke with a dead node",
        args.schedules, args.seed
    );
    ExitCode::SUCCESS
}
