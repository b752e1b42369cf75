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
mod manual;
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

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = Out::new(cli.json);
    let result = run(cli.command, &mut out).and_then(|()| out.flush());
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell(&mut out);
            ExitCode::FAILURE
        }
    }
}
