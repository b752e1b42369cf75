// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Command of the simulator.

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use superp_sim::{check, Sabotage};

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

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Check(args) => run_check(&args),
    }
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
