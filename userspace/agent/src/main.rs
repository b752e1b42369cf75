// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp-agent`: the agent of one SUPERp node. See `Documentation/agent.md`.

mod agent;
mod api;
mod apply;
mod check;
mod device;
mod kernel;
mod manual;
mod metrics;
mod plan;
mod reap;
mod reports;
mod store;

use agent::Agent;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use reports::Log;
use sd_notify::NotifyState;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::{Lock, Store};
use superp_control::AGENT_PORT;
use superp_netlink::{Error, Events};
use superp_tls::{serve, Live, Role, REVOCATION_FILE};
use tokio::net::TcpListener;
use tokio::signal::unix::{signal, SignalKind};
use tracing_subscriber::EnvFilter;

/// The SUPERp agent of this network namespace: configures the kernel for the connection manager, and
/// reports to it.
#[derive(Parser)]
#[command(name = "superp-agent", version)]
struct Args {
    /// Address to serve: loopback only, or any with --tls
    #[arg(long, value_name = "ADDR:PORT", env = "SUPERP_AGENT_LISTEN", default_value_t = SocketAddr::from(([127, 0, 0, 1], AGENT_PORT)))]
    listen: SocketAddr,

    /// TLS, with the ca.crt, tls.crt and tls.key in this directory: who asks must have a certificate of
    /// the same authority, and only the manager commands
    #[arg(
        long,
        value_name = "DIR",
        env = "SUPERP_AGENT_TLS",
        conflicts_with = "insecure_listen"
    )]
    tls: Option<PathBuf>,

    /// Address to serve without any protection besides: whoever reaches it controls this node
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "listen")]
    insecure_listen: Option<SocketAddr>,

    /// Directory of what is kept: one for each network namespace
    #[arg(long, value_name = "DIR", default_value = "/var/lib/superp")]
    state_dir: PathBuf,

    /// Directory of the lock of the network namespace
    #[arg(long, value_name = "DIR", default_value = "/run/superp")]
    run_dir: PathBuf,

    /// What is logged: error, warn, info, debug, or a filter of the Rust crate tracing
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "info",
        env = "SUPERP_AGENT_LOG"
    )]
    log: String,

    /// How it is logged, to standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

/// The command line: what the pages are made of is not in them.
#[derive(Parser)]
#[command(name = "superp-agent", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    args: Args,

    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    /// Write manual pages or shell completions into a folder
    #[command(hide = true)]
    Generate(superp_pages::Generate),
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    /// Lines for people
    Text,
    /// A JSON object in each line
    Json,
}

/// How often it is looked whether the module is still the one that we listen to.
const LOOK: Duration = Duration::from_secs(5);

/// What changes when the module is loaded again.
fn module() -> Option<u64> {
    Some(std::fs::metadata("/sys/module/superp").ok()?.ino())
}

fn main() -> ExitCode {
    let Cli { args, verb } = Cli::parse();
    if let Some(Verb::Generate(generate)) = verb {
        return match generate.run(Args::command(), &manual::MANUAL) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("superp-agent: {}: {error}", generate.folder.display());
                ExitCode::FAILURE
            }
        };
    }
    if let Err(error) = init_log(&args) {
        eprintln!("superp-agent: --log: {error}");
        return ExitCode::from(2);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime.and_then(|runtime| runtime.block_on(run(args))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn init_log(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let filter = EnvFilter::try_new(&args.log)?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    match args.log_format {
        LogFormat::Text => log.with_ansi(false).with_target(false).init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}

fn failure(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

/// Tells the service manager that started this, if one did.
fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

async fn run(args: Args) -> io::Result<()> {
    let tls = match &args.tls {
        Some(dir) => {
            let kept = args.state_dir.join(REVOCATION_FILE);
            Some(Live::open(dir, Role::Agent, Some(kept)).map_err(failure)?)
        }
        None => None,
    };
    let address = match args.insecure_listen {
        Some(address) => {
            tracing::warn!(%address, "served without protection: whoever reaches it controls this node");
            address
        }
        None if tls.is_some() || args.listen.ip().is_loopback() => args.listen,
        None => {
            return Err(failure(format!(
                "--listen {}: not a loopback address, and the interface is not protected: add --tls DIR, or \
                 use --insecure-listen where only the connection manager reaches it",
                args.listen
            )))
        }
    };
    let lock = Lock::take(&args.run_dir)?;
    let (store, kept) = Store::open(&args.state_dir)?;
    let module_then = module();
    let events = match Events::open() {
        Err(Error::NotLoaded) => {
            return Err(failure(format!(
                "{}: load it with modprobe superp",
                Error::NotLoaded
            )))
        }
        events => events.map_err(|error| failure(error.to_string()))?,
    };
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| failure(format!("cannot serve {address}: {error}")))?;

    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let instance = format!("{:x}-{:x}", since.as_nanos(), std::process::id());
    let log = Arc::new(Log::new(instance.clone()));
    tracing::info!(
        address = %listener.local_addr()?,
        term = kept.term,
        phase = ?kept.phase,
        generation = kept.configuration.as_ref().map(|config| config.generation),
        "superp-agent {}",
        env!("CARGO_PKG_VERSION")
    );
    let agent = Arc::new(Agent::new(instance, store, kept, log.clone()));
    let mut listening = tokio::task::spawn_blocking(move || reports::listen(events, &log));
    let serving = serve::serve(
        listener,
        api::router(agent.clone(), tls.clone()),
        tls,
        std::future::pending(),
    );
    tell(NotifyState::Ready);

    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let limit = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero());
    let mut ticks = tokio::time::interval(limit.map_or(LOOK, |limit| LOOK.min(limit / 2)));
    tokio::pin!(serving);
    let result = loop {
        tokio::select! {
            () = &mut serving => break Err(failure("no more clients can be served")),
            error = &mut listening => {
                let text = error.map_or_else(|error| error.to_string(), |error| error.to_string());
                break Err(failure(format!("the events of the kernel ended: {text}")));
            }
            _ = term.recv() => break Ok(()),
            _ = int.recv() => break Ok(()),
            _ = ticks.tick() => {
                // The socket of events is of the module that was there when it was opened.
                if module() != module_then {
                    break Err(failure("the kernel module was unloaded or loaded again: start me again"));
                }
                let agent = agent.clone();
                match tokio::task::spawn_blocking(move || agent.probe()).await {
                    Ok(Ok(())) => tell(NotifyState::Watchdog),
                    Ok(Err(error)) => tracing::error!(%error, "the kernel does not answer"),
                    Err(error) => tracing::error!(%error, "the kernel does not answer"),
                }
            }
        }
    };
    tell(NotifyState::Stopping);
    if result.is_ok() {
        tracing::info!("ends; connections go on without it");
    }
    // What is under way is finished with the process: the thread that listens never ends by itself.
    drop(lock);
    std::process::exit(match result {
        Ok(()) => 0,
        Err(error) => {
            tracing::error!("{error}");
            1
        }
    })
}
