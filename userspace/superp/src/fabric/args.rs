// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The command line of `superp fabric`.

use super::job::JobVerb;
use super::proxy::Proxy;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use superp_control::manager::Scope;

#[derive(Args)]
pub(crate) struct Fabric {
    /// The connection manager; http://127.0.0.1:7778 unless told, or with --tls https://127.0.0.1:7778. Of several, with commas
    /// between them, the one that leads is asked.
    #[arg(long, global = true, value_name = "URL", env = "SUPERP_MANAGER")]
    pub(crate) manager: Option<String>,

    /// TLS, with the ca.crt, tls.crt and tls.key in this directory, as "superp-cm issue" makes it.
    #[arg(long, global = true, value_name = "DIR", env = "SUPERP_TLS")]
    pub(crate) tls: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) verb: Option<FabricVerb>,
}

#[derive(Subcommand)]
pub(crate) enum FabricVerb {
    /// Show how far the fabric is, and what is waited for.
    #[command(alias = "show")]
    Status,
    /// Show the nodes.
    Nodes {
        /// Only this one, with everything there is to tell.
        name: Option<String>,
    },
    /// Show the connections.
    Conns {
        /// Only this one, or those of this node.
        #[arg(value_name = "NODE|CONNECTION", value_parser = scope)]
        of: Option<Scope>,
    },
    /// Show what a fabric file makes: every node with its connections. Nothing is changed.
    Plan {
        /// The fabric file.
        file: PathBuf,
    },
    /// Show what applying a fabric file would change. Nothing is changed.
    Diff {
        /// The fabric file.
        file: PathBuf,
    },
    /// Apply a fabric file. Applied again it changes nothing.
    Apply {
        /// The fabric file.
        file: PathBuf,
        #[command(flatten)]
        wait: Wait,
    },
    /// Shut connections down softly: what was begun is completed, later requests wait.
    ///
    /// They stay down, whatever is applied, until "superp fabric restart".
    Drain {
        #[command(flatten)]
        what: Target,
        #[command(flatten)]
        wait: Wait,
    },
    /// Shut connections down softly, and start them again; requests that wait are kept.
    Restart {
        #[command(flatten)]
        what: Target,
        #[command(flatten)]
        wait: Wait,
    },
    /// Reset both ends of a connection at once, and start it again; requests under way fail.
    Reset {
        /// The connection, as "superp fabric conns" shows it.
        connection: String,
    },
    /// Jobs: nodes that share a partition of their own, made and ended while the fabric runs.
    #[command(subcommand)]
    Job(JobVerb),
    /// Shut every node down: connections end, and the programs that use SUPERp.
    Shutdown {
        #[command(flatten)]
        wait: Wait,
    },
    /// Be the manager for browsers and programs of this host: they ask in clear, and with your certificate.
    ///
    /// Page, interface and events are passed on to the manager that leads. Whoever has an account on this host can ask
    /// meanwhile.
    Proxy(Proxy),
    /// Show who asked the manager to change something, and what came of it.
    Audit {
        /// Records with higher numbers.
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        after: u64,
    },
    /// Show events: those that the manager keeps, or with --follow those to come.
    Events {
        /// Those with higher numbers.
        #[arg(long, value_name = "NUMBER")]
        after: Option<u64>,
        /// As they happen. When the manager ends, its successor is waited for, and asked for what was missed.
        #[arg(short, long)]
        follow: bool,
        /// Stop after this many.
        #[arg(short, long, requires = "follow", value_parser = crate::words::times)]
        count: Option<u64>,
    },
}

#[derive(Args)]
pub(crate) struct Wait {
    /// Wait so long until it is done, and tell what is waited for: seconds, or a time such as 2m.
    #[arg(long, value_name = "TIME", value_parser = superp_units::whole_seconds)]
    pub(crate) wait: Option<u64>,
}

/// A connection, or several at once.
#[derive(Args)]
pub(crate) struct Target {
    /// A connection, as "superp fabric conns" shows it, or a node: all its connections.
    #[arg(value_name = "NODE|CONNECTION", required_unless_present = "all", value_parser = scope)]
    target: Option<Scope>,
    /// All connections.
    #[arg(long, conflicts_with = "target")]
    all: bool,
}

impl Target {
    pub(crate) fn scope(self) -> Scope {
        self.target.unwrap_or(Scope::Fabric)
    }
}

/// A connection has an @, which the name of a node has not.
fn scope(text: &str) -> Result<Scope, String> {
    match text {
        "" => Err("an empty word".into()),
        text if text.contains('@') => Ok(Scope::Connection(text.into())),
        text => Ok(Scope::Node(text.into())),
    }
}
