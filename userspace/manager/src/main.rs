// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp-cm`: the connection manager. People talk to it with `superp fabric`.

#![forbid(unsafe_code)]

mod ask;
mod certificates;

use ask::What;
use clap::{Parser, Subcommand};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use superp_cm::engine::{Manager, Way};
use superp_cm::store::Sqlite;
use superp_cm::{api, fabric};
use superp_tls::{serve, Role, Tls};

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
    Serve(Serve),
    /// Make the authority of a fabric, and the certificate of its manager.
    Init(certificates::Init),
    /// Make a certificate, for an agent or for who talks to the manager.
    Issue(certificates::Issue),
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
}

#[derive(clap::Args)]
struct Serve {
    /// Where the state is kept: an SQLite database, made if there is none.
    #[arg(long, default_value = "/var/lib/superp/manager.db")]
    store: PathBuf,
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:7778")]
    listen: SocketAddr,
    /// TLS, here and to agents, with the ca.crt, tls.crt and tls.key in this directory: who asks must have
    /// a certificate of the same authority, whose role decides what is allowed.
    #[arg(long, value_name = "DIR", conflicts_with = "plain_tcp")]
    tls: Option<PathBuf>,
    /// Talk to agents on other hosts, and listen for other hosts, in clear and without asking who it is:
    /// for a management network that is trusted.
    #[arg(long)]
    plain_tcp: bool,
    /// Begin with this term at least: needed when the store was lost and agents have seen higher ones.
    #[arg(long, default_value_t = 1)]
    term: u64,
}

/// How long answers may be under way when the manager ends.
const FINISH: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let result = match (runtime, cli.verb) {
        (Err(error), _) => Err(format!("no threads: {error}")),
        (Ok(runtime), Verb::Serve(args)) => runtime.block_on(serve(args)),
        (Ok(_), Verb::Init(args)) => certificates::init(args),
        (Ok(_), Verb::Issue(args)) => certificates::issue(args),
        (Ok(runtime), Verb::Plan(args)) => runtime.block_on(ask::run(What::Plan, args)),
        (Ok(runtime), Verb::Diff(args)) => runtime.block_on(ask::run(What::Diff, args)),
        (Ok(runtime), Verb::Apply(args)) => runtime.block_on(ask::run(What::Apply, args)),
        (Ok(_), Verb::Check { file }) => check(&file),
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

async fn serve(args: Serve) -> Result<(), String> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let (way, config) = match &args.tls {
        Some(dir) => {
            let tls = Tls::read(dir)?;
            tls.expect(dir, Role::Manager)?;
            tls.warn();
            let config = tls.server()?;
            (Way::Tls(tls), Some(config))
        }
        None if args.plain_tcp => (Way::Plain, None),
        None if args.listen.ip().is_loopback() => (Way::Loopback, None),
        None => {
            return Err(format!(
                "{} can be reached from other hosts, and this manager talks in clear: \
                 add --tls DIR, which superp-cm init makes, or --plain-tcp if the network is trusted",
                args.listen
            ))
        }
    };
    // First the port: a second manager of this host must not take the store from the first.
    let listener = tokio::net::TcpListener::bind(args.listen).await;
    let listener = listener.map_err(|error| format!("{}: {error}", args.listen))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let store = Sqlite::open(&args.store).map_err(|error| error.to_string())?;
    let manager = Manager::start(Box::new(store), args.term, way);
    let manager = manager.map_err(|error| error.to_string())?;
    let term = manager.look(|_, _, term| term);
    tracing::info!("listening at {address}, term {term}");
    let signal = |kind| tokio::signal::unix::signal(kind).map_err(|error| error.to_string());
    let mut terminate = signal(tokio::signal::unix::SignalKind::terminate())?;
    let mut interrupt = signal(tokio::signal::unix::SignalKind::interrupt())?;
    let ending = manager.clone();
    let router = api::router(manager.clone());
    let served = tokio::spawn(serve::serve(listener, router, config, async move {
        // The manager that is waited for is there.
        let _ = ending.ending().wait_for(|ending| *ending).await;
    }));
    let result = tokio::select! {
        why = manager.failed() => Err(why),
        // Everything that matters is stored.
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    tracing::info!("ends; the fabric goes on without it");
    manager.end();
    if tokio::time::timeout(FINISH, served).await.is_err() {
        tracing::warn!("some who asked did not take their answers");
    }
    result
}
