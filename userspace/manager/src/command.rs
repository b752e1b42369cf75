// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The verbs that talk to a manager.

use clap::Subcommand;
use reqwest::{Client, Method, RequestBuilder};
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use superp_cm::api::{Connection, FabricStatus, NodeStatus, Problem};
use superp_cm::plan::Plan;
use superp_cm::state::{Event, Phase};

/// Prints a line.
macro_rules! say {
    ($($arg:tt)*) => { line(format_args!($($arg)*)) };
}

fn line(text: std::fmt::Arguments<'_>) {
    if writeln!(std::io::stdout(), "{text}").is_err() {
        // Whoever reads our output has seen enough.
        std::process::exit(0);
    }
}

#[derive(Subcommand)]
pub(crate) enum Ask {
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
        /// Wait so many seconds until the fabric runs, and tell what is waited for.
        #[arg(long, value_name = "SECONDS")]
        wait: Option<u64>,
    },
    /// Show how far the fabric is, and what is waited for.
    Status,
    /// Show the nodes.
    Nodes {
        /// Only this one, with everything there is to tell, as JSON.
        name: Option<String>,
    },
    /// Show the connections.
    Conns {
        /// Only those of this node.
        node: Option<String>,
    },
    /// Show events.
    Events {
        /// Only those with higher numbers.
        #[arg(long, default_value_t = 0)]
        after: u64,
        /// Go on as they happen.
        #[arg(short, long)]
        follow: bool,
    },
    /// Shut a connection down softly: what was begun is completed.
    Stop {
        /// The connection, as "superp-cm conns" shows it.
        connection: String,
    },
    /// Shut a connection down softly, and start it again; requests that wait are kept.
    Restart {
        /// The connection, as "superp-cm conns" shows it.
        connection: String,
    },
    /// Reset both ends of a connection at once, and start it again; requests under way fail.
    Reset {
        /// The connection, as "superp-cm conns" shows it.
        connection: String,
    },
    /// Shut every node down: connections end, and the programs that use SUPERp.
    Shutdown {
        /// Wait so many seconds until every node is down.
        #[arg(long, value_name = "SECONDS")]
        wait: Option<u64>,
    },
}

struct Manager {
    base: String,
    http: Client,
    json: bool,
}

pub(crate) async fn run(ask: Ask, base: &str, json: bool) -> Result<(), String> {
    let http = Client::builder()
        .no_proxy()
        .build()
        .map_err(|error| error.to_string())?;
    let manager = Manager {
        base: base.trim_end_matches('/').to_owned(),
        http,
        json,
    };
    manager.run(ask).await
}

impl Manager {
    async fn run(&self, ask: Ask) -> Result<(), String> {
        match ask {
            Ask::Plan { file } => {
                let plan = self.file("plan", &file).await?;
                self.show(&plan, || say!("{}", plan.to_string().trim_end()))
            }
            Ask::Diff { file } => {
                let plan = self.file("plan", &file).await?;
                self.show(&plan, || differences(&plan))
            }
            Ask::Apply { file, wait } => {
                let plan = self.file("apply", &file).await?;
                self.show(&plan, || differences(&plan))?;
                self.wait(wait, Phase::Running).await
            }
            Ask::Status => {
                let status: FabricStatus = self.get("fabric").await?;
                self.show(&status, || fabric(&status))
            }
            Ask::Nodes { name: Some(name) } => {
                let node: NodeStatus = self.get(&format!("nodes/{name}")).await?;
                say!("{}", pretty(&node)?);
                Ok(())
            }
            Ask::Nodes { name: None } => {
                let list: Vec<NodeStatus> = self.get("nodes").await?;
                self.show(&list, || nodes(&list))
            }
            Ask::Conns { node } => {
                let path = match node {
                    Some(node) => format!("connections?node={node}"),
                    None => "connections".into(),
                };
                let list: Vec<Connection> = self.get(&path).await?;
                self.show(&list, || conns(&list))
            }
            Ask::Events { after, follow } => self.events(after, follow).await,
            Ask::Stop { connection } => self.post(&format!("connections/{connection}/stop")).await,
            Ask::Restart { connection } => {
                self.post(&format!("connections/{connection}/restart"))
                    .await
            }
            Ask::Reset { connection } => {
                self.post(&format!("connections/{connection}/reset")).await
            }
            Ask::Shutdown { wait } => {
                self.post("shutdown").await?;
                self.wait(wait, Phase::Down).await
            }
        }
    }

    fn show<T: Serialize>(&self, value: &T, text: impl FnOnce()) -> Result<(), String> {
        match self.json {
            true => say!("{}", pretty(value)?),
            false => text(),
        }
        Ok(())
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}/v1/{path}", self.base);
        self.http
            .request(method, url)
            .timeout(Duration::from_secs(90))
    }

    async fn send(&self, request: RequestBuilder) -> Result<String, String> {
        let failed = |error: reqwest::Error| match error.is_connect() {
            true => format!(
                "no manager at {}: is \"superp-cm serve\" running there?",
                self.base
            ),
            false => format!("{}: {error}", self.base),
        };
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        let text = response.text().await.map_err(failed)?;
        match status.is_success() {
            true => Ok(text),
            false => Err(match serde_json::from_str::<Problem>(&text) {
                Ok(problem) => problem.detail,
                Err(_) => format!("{}: {status}: {text}", self.base),
            }),
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        parse(&self.send(self.request(Method::GET, path)).await?)
    }

    async fn post(&self, path: &str) -> Result<(), String> {
        self.send(self.request(Method::POST, path)).await.map(drop)
    }

    async fn file(&self, verb: &str, file: &Path) -> Result<Plan, String> {
        let path = file.display().to_string();
        let text = std::fs::read_to_string(file).map_err(|error| format!("{path}: {error}"))?;
        let request = self.request(Method::POST, verb).query(&[("path", path)]);
        let request = request
            .header("content-type", "application/toml")
            .body(text);
        parse(&self.send(request).await?)
    }

    async fn events(&self, mut after: u64, follow: bool) -> Result<(), String> {
        loop {
            let wait = if follow { 30 } else { 0 };
            let list: Vec<Event> = self
                .get(&format!("events?after={after}&wait={wait}"))
                .await?;
            for event in &list {
                after = event.seq;
                match self.json {
                    // One in a line, also while they come.
                    true => say!(
                        "{}",
                        serde_json::to_string(event).map_err(|e| e.to_string())?
                    ),
                    false => {
                        let about = event.node.as_deref().or(event.connection.as_deref());
                        let about = about.map_or(String::new(), |about| format!(" {about}"));
                        say!("{:>6} {:<10}{about}: {}", event.seq, event.kind, event.text);
                    }
                }
            }
            if list.is_empty() && !follow {
                return Ok(());
            }
        }
    }

    /// Waits until the fabric is in a phase; while booting also until what was applied is started.
    async fn wait(&self, seconds: Option<u64>, phase: Phase) -> Result<(), String> {
        let Some(seconds) = seconds else {
            return Ok(());
        };
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut told = Vec::new();
        loop {
            let status: FabricStatus = self.get("fabric").await?;
            let complete =
                phase != Phase::Running || status.connections_running == status.connections;
            if status.phase == phase && status.waiting.is_empty() && complete {
                return Ok(());
            }
            if Instant::now() >= end {
                let mut text = format!("not {phase} within {seconds} s, it is {}\n", status.phase);
                status
                    .waiting
                    .iter()
                    .for_each(|line| text += &format!("{line}\n"));
                return Err(text);
            }
            if told != status.waiting {
                status.waiting.iter().for_each(|line| eprintln!("{line}"));
                told = status.waiting;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("the manager answered what this version does not know: {error}"))
}

fn pretty<T: Serialize>(value: &T) -> Result<String, String> {
    serde_json::to_string_pretty(value).map_err(|error| error.to_string())
}

fn differences(plan: &Plan) {
    if !plan.changed {
        say!(
            "nothing changes: configuration {} is this one",
            plan.generation
        );
        return;
    }
    say!("configuration {}", plan.generation);
    for line in &plan.differences {
        say!("  {line}");
    }
}

fn fabric(status: &FabricStatus) {
    say!(
        "fabric {}: {}, configuration {} (started: {}), term {}",
        status.name,
        status.phase,
        status.generation,
        status.started,
        status.term
    );
    say!(
        "{} of {} nodes ready, {} of {} connections running",
        status.nodes_ready,
        status.nodes,
        status.connections_running,
        status.connections
    );
    for line in &status.waiting {
        say!("{line}");
    }
}

fn nodes(list: &[NodeStatus]) {
    say!(
        "{:<16} {:<24} {:<24} {:<14} {:>6} {:>6}",
        "NODE",
        "ADDRESS",
        "AGENT",
        "STATE",
        "CONFIG",
        "CONNS"
    );
    for node in list {
        let state = node
            .state
            .map_or("unknown".into(), |state| state.to_string());
        let generation = node
            .generation
            .map_or("-".into(), |number| number.to_string());
        say!(
            "{:<16} {:<24} {:<24} {state:<14} {generation:>6} {:>6}",
            node.name,
            node.address,
            node.agent,
            node.connections
        );
        if let Some(error) = &node.error {
            say!("    {error}");
        }
    }
}

fn conns(list: &[Connection]) {
    say!(
        "{:<40} {:<16} {:<16} {:<12} {:<12} {:>5}",
        "CONNECTION",
        "NODE",
        "NODE",
        "STATE",
        "STATE",
        "LIFE"
    );
    for conn in list {
        let column = |of: fn(&superp_cm::api::ConnectionEnd) -> String| {
            let mut ends = conn.ends.iter().map(of);
            (
                ends.next().unwrap_or_default(),
                ends.next().unwrap_or_default(),
            )
        };
        let nodes = column(|end| end.node.clone());
        let states = column(|end| {
            end.state
                .map_or("unknown".into(), |state| state.to_string())
        });
        say!(
            "{:<40} {:<16} {:<16} {:<12} {:<12} {:>5}",
            conn.connection,
            nodes.0,
            nodes.1,
            states.0,
            states.1,
            conn.life
        );
    }
}
