// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Command of the simulator.

use clap::{Parser, Subcommand};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use superp_sim::scenario::Name;
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
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
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
    let outcome = scenario::run(name, nodes, args.ordered, args.seed);
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
        print!("{}", report::table(&[outcome]));
    }
    Ok(())
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
