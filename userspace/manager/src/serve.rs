// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp-cm serve`: be the manager, or wait to be it.

use sd_notify::NotifyState;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use superp_cm::api::{self, Standby};
use superp_cm::engine::{Manager, Way};
use superp_cm::store::{Access, Campaign, Etcd, Lease, Sqlite, Store};
use superp_tls::serve::{serve, Credentials};
use superp_tls::{Live, Role};
use tokio::net::TcpListener;
use tokio::signal::unix::{signal, Signal, SignalKind};

#[derive(clap::Args)]
pub(crate) struct Serve {
    /// Where the state is kept: an SQLite database, made if there is none.
    #[arg(long, default_value = "/var/lib/superp/manager.db")]
    store: PathBuf,
    /// Keep the state in etcd, at these URLs of its members, instead: several managers can be started, of which
    /// one leads and the others wait.
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        conflicts_with = "store"
    )]
    etcd: Vec<String>,
    /// What the keys in etcd begin with; managers of one fabric have the same.
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "/superp",
        requires = "etcd"
    )]
    etcd_prefix: String,
    /// Authority of the certificates of etcd, PEM; then its URLs begin with https://.
    #[arg(long, value_name = "FILE", requires = "etcd")]
    etcd_cacert: Option<PathBuf>,
    /// Certificate to show to etcd, PEM.
    #[arg(
        long,
        value_name = "FILE",
        requires = "etcd_cacert",
        requires = "etcd_key"
    )]
    etcd_cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
    /// With etcd: after so long another manager leads when this one is not heard of.
    /// Seconds, or a time such as 1m.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = lease, requires = "etcd")]
    lease: Duration,
    /// With etcd: the URL at which clients reach this manager, for those that ask another one; that of
    /// --listen unless told.
    #[arg(long, value_name = "URL", requires = "etcd")]
    advertise: Option<String>,
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

/// Reads how long a manager leads after etcd has heard of it.
fn lease(text: &str) -> Result<Duration, String> {
    superp_units::between(text, 1, 2..=300).map(Duration::from_secs)
}

/// How long answers may be under way when the manager ends.
const FINISH: Duration = Duration::from_secs(5);

/// How often a manager that waits looks whether there is a leader.
const LOOK: Duration = Duration::from_millis(500);

/// Who tells this process to end.
pub(crate) struct End {
    terminate: Signal,
    interrupt: Signal,
}

impl End {
    pub(crate) fn new() -> Result<Self, String> {
        let signal = |kind| signal(kind).map_err(|error| error.to_string());
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub(crate) async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Tells the service manager that started this, if one did.
fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

/// Tells the service manager's watchdog again and again that this process lives: while it leads, by making
/// decisions.
async fn watched(manager: Option<&Manager>) -> Infallible {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return std::future::pending().await;
    };
    let pause = limit / 4;
    loop {
        let alive = match manager {
            Some(manager) => manager.is_alive(pause).await,
            None => true,
        };
        if alive {
            tell(NotifyState::Watchdog);
        }
        tokio::time::sleep(pause).await;
    }
}

/// Messages go to standard error.
pub(crate) fn log() {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
}

pub(crate) async fn run(args: Serve) -> Result<(), String> {
    log();
    let (way, config) = match &args.tls {
        Some(dir) => {
            let live = Live::open(dir, Role::Manager, None)?;
            let credentials = Credentials::from(live.clone());
            (Way::Tls(live), Some(credentials))
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
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.map_err(|error| format!("{}: {error}", args.listen))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let mut end = End::new()?;
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let stopped = async move {
        // The sender is there as long as this process is.
        let _ = stopped.wait_for(|stop| *stop).await;
    };
    if args.etcd.is_empty() {
        let store = Sqlite::open(&args.store).map_err(|error| error.to_string())?;
        let manager = start(Box::new(store), args.term, way)?;
        tracing::info!("listening at {address}, term {}", term(&manager));
        tell(NotifyState::Ready);
        let router = api::router(manager.clone());
        let served = tokio::spawn(serve(listener, router, config, stopped));
        let result = tokio::select! {
            why = manager.failed() => Err(why),
            // Everything that matters is stored.
            () = end.told() => Ok(()),
            never = watched(Some(&manager)) => match never {},
        };
        tell(NotifyState::Stopping);
        tracing::info!("ends; the fabric goes on without it");
        manager.end();
        stop.send_replace(true);
        finish(served).await;
        return result;
    }
    let url = advertised(&args, address)?;
    let standby = Standby::new("etcd was not asked yet who leads");
    let served = tokio::spawn(serve(listener, standby.router(), config, stopped));
    tracing::info!("listening at {address}");
    tell(NotifyState::Ready);
    let result = tokio::select! {
        result = lead(&args, way, &url, &standby) => result,
        () = end.told() => Ok(None),
        never = watched(None) => match never {},
    };
    let result = match result {
        Ok(Some((manager, lease))) => {
            let result = tokio::select! {
                why = manager.failed() => Err(why),
                why = lease.over() => Err(why),
                () = end.told() => Ok(()),
                never = watched(Some(&manager)) => match never {},
            };
            // First: from here on it gives no commands.
            lease.resign();
            tracing::info!("ends; another manager may lead");
            manager.end();
            result
        }
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    tell(NotifyState::Stopping);
    stop.send_replace(true);
    finish(served).await;
    result
}

fn start(store: Box<dyn Store>, term: u64, way: Way) -> Result<Manager, String> {
    Manager::start(store, term, way).map_err(|error| error.to_string())
}

fn term(manager: &Manager) -> u64 {
    manager.look(|_, _, term| term)
}

async fn finish(served: tokio::task::JoinHandle<()>) {
    if tokio::time::timeout(FINISH, served).await.is_err() {
        tracing::warn!("some who asked did not take their answers");
    }
}

/// The URL at which others reach this manager.
fn advertised(args: &Serve, address: SocketAddr) -> Result<String, String> {
    let scheme = args.tls.as_ref().map_or("http", |_| "https");
    match &args.advertise {
        Some(url) => Ok(url.clone()),
        None if address.ip().is_unspecified() => Err(format!(
            "{address} is no address at which others reach this manager: \
             add --advertise {scheme}://HOST:{}",
            address.port()
        )),
        None => Ok(format!("{scheme}://{address}")),
    }
}

/// Waits until this manager leads; then it does.
async fn lead(
    args: &Serve,
    way: Way,
    url: &str,
    standby: &Standby,
) -> Result<Option<(Manager, Lease)>, String> {
    let access = Access {
        endpoints: args.etcd.clone(),
        prefix: args.etcd_prefix.clone(),
        authority: args.etcd_cacert.clone(),
        identity: args.etcd_cert.clone().zip(args.etcd_key.clone()),
    };
    let mut store = Etcd::open(&access).map_err(|error| error.to_string())?;
    loop {
        let why = match store.campaign(url, args.lease) {
            Ok(Campaign::Won(lease)) => {
                let manager =
                    start(Box::new(store), args.term, way).inspect_err(|_| lease.resign())?;
                tracing::info!("leads, term {}", term(&manager));
                standby.leads(api::router(manager.clone()));
                return Ok(Some((manager, lease)));
            }
            Ok(Campaign::Lost(leader)) if leader.is_empty() => "no manager leads yet".into(),
            Ok(Campaign::Lost(leader)) => format!("another manager leads: {leader}"),
            Err(error) => format!("it is not known who leads: {error}"),
        };
        if standby.waits(&why) {
            tracing::info!("{why}");
        }
        tokio::time::sleep(LOOK).await;
    }
}
