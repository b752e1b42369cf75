// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp`: the command for people. Objects of the kernel's netlink family are shown and changed as
//! `superp OBJECT VERB`; `superp fabric` asks the connection manager; `superp ping`, `superp xfer` and `superp perf` move data, `superp run` has other programs do so.

#![forbid(unsafe_code)]

mod batch;
mod cli;
mod conn;
mod connect;
mod dev;
mod doctor;
mod events;
#[cfg(feature = "fabric")]
mod fabric;
mod failure;
mod host;
mod manual;
mod memlock;
mod object;
mod out;
mod param;
mod partition;
mod perf;
mod ping;
mod route;
mod run;
mod words;
mod xfer;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use failure::Failure;
use out::Out;
use std::ffi::OsString;
use std::process::ExitCode;

fn run(command: Command, out: &mut Out) -> Result<(), Failure> {
    match command {
        Command::Node { verb } => object::node(verb, out),
        Command::Dev { verb } => dev::run(verb, out),
        Command::Route { verb } => route::run(verb, out),
        Command::Conn { verb } => conn::run(verb, out),
        Command::Connect(args) => connect::run(&args, out),
        Command::Param { verb } => param::run(verb, out),
        Command::Mr { verb: _ } => object::regions(out),
        Command::Qp { verb: _ } => object::qps(out),
        Command::Stats { all } => object::stats(all, out),
        Command::Events { count } => events::run(count, out),
        #[cfg(feature = "fabric")]
        Command::Fabric(args) => fabric::run(args, out),
        #[cfg(not(feature = "fabric"))]
        Command::Fabric { .. } => Err(Failure::new(
            "this superp was built without the client of the connection manager (cargo feature fabric)",
        )),
        Command::Doctor(args) => doctor::run(&args, out),
        Command::Ping(args) => ping::run(&args, out),
        Command::Xfer { what } => xfer::run(what, out),
        Command::Perf { what } => perf::run(what, out),
        Command::Batch(args) => batch::run(&args, out),
        Command::Run(args) => Err(run::run(&args)),
        Command::Generate(args) => args
            .run(Cli::command(), &manual::MANUAL)
            .map_err(|error| Failure::io(args.folder.display(), &error)),
    }
}

/// Whether a command line that is wrong asks for JSON; what "superp run" is given is for others.
fn wants_json(mut words: impl Iterator<Item = OsString>) -> bool {
    words.any(|word| {
        let word = word.to_string_lossy();
        let cluster = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        word == "--json" || cluster.is_some_and(|letters| letters.contains('j'))
    })
}

/// The help, the version, or what is wrong with the command line.
fn usage(error: &clap::Error) -> ExitCode {
    let words = std::env::args_os().skip(1);
    let mut out = Out::new(wants_json(
        words.take_while(|word| word != "--" && word != "run"),
    ));
    let printed = error.print().map_err(Failure::from);
    if !error.use_stderr() {
        return match printed.and_then(|()| out::check_open()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
            Err(failure) => {
                out.failure(&failure);
                ExitCode::FAILURE
            }
        };
    }
    out.failure_json(&Failure::usage(error));
    ExitCode::from(USAGE)
}

/// Exit status for a command line that is wrong, as clap has it.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let mut out = Out::new(cli.json);
    let result = run(cli.command, &mut out).and_then(|()| out.flush());
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            out.failure(&failure);
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_in_several_ways() {
        let wants = |words: &str| wants_json(words.split(' ').map(OsString::from));
        for words in ["-j conn", "conn --json start", "conn show -sj"] {
            assert!(wants(words), "{words}");
        }
        for words in ["conn start", "--jsonx", "job j"] {
            assert!(!wants(words), "{words}");
        }
    }
}
