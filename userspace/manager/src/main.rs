// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp-cm`: the connection manager. People talk to it with `superp fabric`.

#![forbid(unsafe_code)]

mod ask;
mod certificates;
mod manual;
mod serve;

use ask::What;
use clap::{CommandFactory, Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use superp_cm::fabric;

/// SUPERp connection manager: from a fabric file to a running fabric.
///
/// "superp fabric" talks to it by its REST interface, which GET /openapi.json describes.
#[derive(Parser)]
#[command(name = "superp-cm", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Be the manager.
    Serve(serve::Serve),
    /// Make the authority of a fabric, and the certificate of its manager.
    Init(certificates::Init),
    /// Make a certificate, for an agent or for who talks to the manager.
    Issue(certificates::Issue),
    /// Revoke certificates before they expire.
    Revoke(certificates::Revoke),
    /// Make a token, for which who has it gets such a certificate, once.
    Token(certificates::TokenArgs),
    /// Redeem tokens, beside the authority: anybody may ask.
    Enrolment(certificates::Enrolment),
    /// Redeem a token: make a key, and get the certificate for it.
    Enrol(certificates::Enrol),
    /// Show what a fabric file makes: every node with its connections. Nothing is changed.
    Plan(ask::Ask),
    /// Show what applying a fabric file would change. Nothing is changed.
    Diff(ask::Ask),
    /// Apply a fabric file. Applied again it changes nothing.
    Apply(ask::Ask),
    /// Read a fabric file and tell its mistakes; no manager is needed.
    Check {
        /// The fabric file.
        file: PathBuf,
    },
    /// Write manual pages or shell completions into a folder.
    #[command(hide = true)]
    Generate(superp_pages::Generate),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let result = match (runtime, cli.verb) {
        (Err(error), _) => Err(format!("no threads: {error}")),
        (Ok(runtime), Verb::Serve(args)) => runtime.block_on(serve::run(args)),
        (Ok(_), Verb::Init(args)) => certificates::init(args),
        (Ok(_), Verb::Issue(args)) => certificates::issue(args),
        (Ok(_), Verb::Revoke(args)) => certificates::revoke(args),
        (Ok(_), Verb::Token(args)) => certificates::token(args),
        (Ok(runtime), Verb::Enrolment(args)) => runtime.block_on(certificates::enrolment(args)),
        (Ok(runtime), Verb::Enrol(args)) => runtime.block_on(certificates::enrol(args)),
        (Ok(runtime), Verb::Plan(args)) => runtime.block_on(ask::run(What::Plan, args)),
        (Ok(runtime), Verb::Diff(args)) => runtime.block_on(ask::run(What::Diff, args)),
        (Ok(runtime), Verb::Apply(args)) => runtime.block_on(ask::run(What::Apply, args)),
        (Ok(_), Verb::Check { file }) => check(&file),
        (Ok(_), Verb::Generate(args)) => args
            .run(Cli::command(), &manual::MANUAL)
            .map_err(|error| format!("{}: {error}", args.folder.display())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{}", text.trim_end());
            ExitCode::FAILURE
        }
    }
}

fn check(file: &Path) -> Result<(), String> {
    let (path, text) = ask::read(file)?;
    let fabric = fabric::read(&text).map_err(|mistakes| fabric::show(&path, &text, &mistakes))?;
    println!(
        "{path}: the fabric {} of {} nodes and {} connections",
        fabric.name,
        fabric.nodes.len(),
        fabric.links.len()
    );
    Ok(())
}
