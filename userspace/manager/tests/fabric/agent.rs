// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Agents for the tests: each speaks the real interface over a real TCP socket and holds what a kernel
//! would hold. They check the manager: whatever it must not do makes the request fail, and the test.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::middleware::map_response_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use superp_control::*;
use superp_tls::serve::serve;
use superp_tls::Live;
use tokio::sync::Notify;

/// What happens instead of an answer to one of the requests that change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// The manager is killed, and the request was not carried out.
    ManagerBefore,
    /// The manager is killed, and the request was carried out.
    ManagerAfter,
    /// The agent is killed before it carried the request out, and starts again.
    AgentBefore,
    /// The agent is killed when it has carried the request out, and starts again.
    AgentAfter,
    /// The host loses its power.
    Host,
    /// And what it kept.
    HostAndFiles,
}

/// What the agents of a test have in common.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) agents: Mutex<Vec<Arc<Agent>>>,
    /// Requests so far that change something.
    pub(crate) commands: AtomicUsize,
    /// The newest term of a command to any of them.
    pub(crate) newest: AtomicU64,
    /// Commands of older terms.
    pub(crate) stale: AtomicUsize,
    /// What happens at which of them.
    pub(crate) crash: Mutex<Option<(usize, Crash)>>,
    /// Kills the manager.
    pub(crate) kill: Mutex<Option<Box<dyn FnMut() + Send>>>,
    /// What the manager did that it must not do.
    pub(crate) wrong: Mutex<Vec<String>>,
    /// Jobs are made: their configurations are started without waiting for every node, as no other is.
    pub(crate) jobs: AtomicBool,
}

impl World {
    fn wrong(&self, text: String) {
        self.wrong.lock().unwrap().push(text);
    }
}

/// An agent and its kernel.
pub(crate) struct Agent {
    pub(crate) address: String,
    pub(crate) kernel: Mutex<Kernel>,
    pub(crate) told: Notify,
    world: Arc<World>,
    starts: AtomicU64,
    /// Minor version of the interface that it speaks.
    minor: AtomicU32,
    /// What it has for TLS.
    pub(crate) live: Option<Live>,
}

/// What an agent and its kernel hold.
#[derive(Default)]
pub(crate) struct Kernel {
    pub(crate) instance: String,
    pub(crate) term: u64,
    pub(crate) state: Option<NodeState>,
    pub(crate) configuration: Option<Configuration>,
    pub(crate) conns: BTreeMap<u16, ConnectionStatus>,
    pub(crate) reports: Vec<superp_control::Report>,
    /// How often it told counters.
    pub(crate) counted: u64,
}

impl Kernel {
    fn state(&self) -> NodeState {
        self.state.unwrap_or(NodeState::Unconfigured)
    }

    fn generation(&self) -> Option<u64> {
        self.configuration
            .as_ref()
            .map(|configuration| configuration.generation)
    }
}

/// The minor version of this release.
pub(crate) const MINOR: u32 = 2;

/// What a later version adds to answers.
async fn later(State(agent): Shared, response: Response) -> Response {
    if agent.minor() <= MINOR || response.status() != StatusCode::OK {
        return response;
    }
    let body = axum::body::to_bytes(response.into_body(), usize::MAX)
        .await
        .unwrap();
    let mut answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let members = answer.as_object_mut().unwrap();
    for list in ["connections", "devices", "reports"] {
        for element in members
            .get_mut(list)
            .and_then(|list| list.as_array_mut())
            .into_iter()
            .flatten()
        {
            element["since"] = "later".into();
        }
    }
    members.insert("since".into(), json!({ "version": "later" }));
    Json(answer).into_response()
}

type Answer = Result<Response, Box<Problem>>;

fn refuse<T>(kind: ProblemKind, status: u16, detail: impl Into<String>) -> Result<T, Box<Problem>> {
    Err(Box::new(Problem::new(kind, status, detail)))
}

impl Agent {
    /// Starts an agent that listens there.
    pub(crate) async fn start(address: String, world: &Arc<World>) -> Arc<Self> {
        Self::start_with(address, world, None).await
    }

    /// Starts an agent that listens there, with TLS if that is given.
    pub(crate) async fn start_with(
        address: String,
        world: &Arc<World>,
        live: Option<Live>,
    ) -> Arc<Self> {
        let agent = Arc::new(Self {
            address: address.clone(),
            kernel: Mutex::default(),
            told: Notify::new(),
            world: world.clone(),
            starts: AtomicU64::new(0),
            minor: AtomicU32::new(MINOR),
            live: live.clone(),
        });
        agent.restart(false, true);
        let listener = tokio::net::TcpListener::bind(&address).await.unwrap();
        let router = Router::new()
            .route("/v1/capabilities", get(capabilities))
            .route("/v1/configuration", put(configure).get(configuration))
            .route("/v1/status", get(status))
            .route("/v1/start", post(start))
            .route("/v1/shutdown", post(shutdown))
            .route("/v1/revocations", put(revocations))
            .route("/v1/connections/{cid}/start", post(start_conn))
            .route("/v1/connections/{cid}/stop", post(stop_conn))
            .route("/v1/connections/{cid}/reset", post(reset_conn))
            .route("/v1/events", get(events))
            .layer(map_response_with_state(agent.clone(), later))
            .with_state(agent.clone());
        tokio::spawn(serve(listener, router, live, std::future::pending()));
        world.agents.lock().unwrap().push(agent.clone());
        agent
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Kernel> {
        self.kernel.lock().unwrap()
    }

    /// The agent starts again, with its host or without, with its files or without.
    pub(crate) fn restart(&self, host: bool, files: bool) {
        let start = self.starts.fetch_add(1, Ordering::SeqCst);
        let mut kernel = self.lock();
        kernel.instance = format!("{}-{start}", self.address);
        kernel.reports.clear();
        if host {
            kernel.conns.clear();
            // What the agent keeps says what the kernel should have; without its files it knows nothing.
            match files {
                true => kernel.state = kernel.configuration.as_ref().map(|_| NodeState::Partial),
                false => (kernel.state, kernel.configuration) = (None, None),
            }
        }
        drop(kernel);
        self.report(None);
    }

    /// Another release takes its place, which speaks this minor version.
    pub(crate) fn replace(&self, minor: u32) {
        self.minor.store(minor, Ordering::SeqCst);
        self.restart(false, true);
    }

    fn minor(&self) -> u32 {
        self.minor.load(Ordering::SeqCst)
    }

    /// Tells of a connection, or that the agent has started.
    pub(crate) fn report(&self, conn: Option<&ConnectionStatus>) {
        let mut kernel = self.lock();
        let seq = kernel.reports.len() as u64 + 1;
        kernel.reports.push(superp_control::Report {
            seq,
            time_ms: 1,
            kind: conn.map_or(ReportKind::AgentStarted, |_| ReportKind::ConnectionState),
            cid: conn.map(|conn| conn.cid),
            peer_cid: conn.map(|conn| conn.peer_cid),
            peer: conn.map(|conn| conn.peer),
            connection_state: conn.map(|conn| conn.state),
            device: None,
            port_state: None,
            cause: conn.and_then(|conn| conn.cause.clone()),
            value: None,
            low: None,
            high: None,
            length: None,
            suppressed: None,
        });
        drop(kernel);
        self.told.notify_waiters();
    }

    /// A connection breaks.
    pub(crate) fn break_conn(&self, cid: u16) {
        let mut kernel = self.lock();
        let conn = kernel.conns.get_mut(&cid).unwrap();
        conn.state = ConnectionState::Broken;
        conn.cause = Some("the peer does not answer".into());
        let conn = conn.clone();
        drop(kernel);
        self.report(Some(&conn));
    }

    /// Carries a command out, unless this is where something crashes.
    async fn command(&self, term: u64, act: impl FnOnce(&mut Kernel) -> Answer) -> Response {
        let number = self.world.commands.fetch_add(1, Ordering::SeqCst) + 1;
        if self.world.newest.fetch_max(term, Ordering::SeqCst) > term {
            self.world.stale.fetch_add(1, Ordering::SeqCst);
        }
        let crash = *self.world.crash.lock().unwrap();
        let crash = crash
            .filter(|(at, _)| *at == number)
            .map(|(_, crash)| crash);
        let mut answer = None;
        if matches!(crash, None | Some(Crash::ManagerAfter | Crash::AgentAfter)) {
            let mut kernel = self.lock();
            answer = Some(if term < kernel.term {
                refuse(ProblemKind::StaleTerm, 409, "a newer manager has been seen")
            } else {
                kernel.term = term;
                act(&mut kernel)
            });
        }
        match crash {
            None => {}
            Some(Crash::ManagerBefore | Crash::ManagerAfter) => {
                self.world.kill.lock().unwrap().as_mut().unwrap()();
                std::future::pending::<()>().await;
            }
            Some(crash) => {
                self.restart(
                    matches!(crash, Crash::Host | Crash::HostAndFiles),
                    crash != Crash::HostAndFiles,
                );
                return (StatusCode::BAD_GATEWAY, "the agent is gone").into_response();
            }
        }
        match answer {
            Some(Ok(response)) => response,
            Some(Err(problem)) => {
                let status = StatusCode::from_u16(problem.status).unwrap();
                (status, Json(*problem)).into_response()
            }
            None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}

type Shared = State<Arc<Agent>>;

async fn capabilities(State(agent): Shared) -> Json<Capabilities> {
    let instance = agent.lock().instance.clone();
    Json(Capabilities {
        api_version: format!("1.{}", agent.minor()),
        agent_version: "test".into(),
        instance,
        host: agent.address.clone(),
        module: ModuleVersion {
            version: "test".into(),
            uapi: 2,
        },
        protocol: Protocol {
            version: "0.4".into(),
            features: vec!["sunh".into()],
            ethertype: 0x88b5,
            next_header: 253,
            udp_port: 7777,
            caddr_bits: 12,
        },
        devices: Vec::new(),
        memory: Memory {
            total: 1 << 30,
            available: 1 << 29,
            memlock: None,
        },
        window_max: 1024,
        cids: Cids {
            first: 1,
            last: u16::MAX,
            connections_max: 4096,
            in_use: Vec::new(),
        },
        parameters: Vec::new(),
    })
}

async fn revocations(State(agent): Shared, Json(body): Json<Revocations>) -> Json<Revoked> {
    let live = agent.live.as_ref().unwrap();
    let number = live.take(&body.list).unwrap();
    Json(Revoked { number })
}

async fn status(
    State(agent): Shared,
    Query(query): Query<HashMap<String, String>>,
) -> Json<Status> {
    let mut kernel = agent.lock();
    let mut conns: Vec<_> = kernel.conns.values().cloned().collect();
    if query.get("counters").is_none_or(|wanted| wanted != "false") {
        kernel.counted += 1;
        for conn in &mut conns {
            let counters = [
                ("tx-packets", 100 + u64::from(conn.cid)),
                ("rx-packets", 90),
                ("tx-bytes", 5000),
                ("rx-bytes", 4000),
                ("retrans-fast", 4),
                ("retrans-rto", 2),
                ("retrans-full", 1),
                ("failed", 3),
                ("srtt-ns", 20_000),
            ];
            let named = counters.map(|(name, value)| (name.to_owned(), value));
            conn.counters = Some(named.into());
        }
    }
    Json(Status {
        instance: kernel.instance.clone(),
        state: kernel.state(),
        fabric: kernel
            .configuration
            .as_ref()
            .map(|configuration| configuration.fabric.clone()),
        generation: kernel.generation(),
        term: kernel.term,
        differences: Vec::new(),
        devices: Vec::new(),
        connections: conns,
        queue_pairs: 0,
        regions: 0,
        drops: BTreeMap::new(),
        last_report: kernel.reports.len() as u64,
    })
}

async fn events(
    State(agent): Shared,
    Query(query): Query<HashMap<String, String>>,
) -> Json<Reports> {
    let number = |name: &str| {
        query
            .get(name)
            .and_then(|text| text.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let told = || {
        let kernel = agent.lock();
        let other = query
            .get("instance")
            .is_some_and(|instance| *instance != kernel.instance);
        let after = if other { 0 } else { number("after") };
        Reports {
            instance: kernel.instance.clone(),
            last: kernel.reports.len() as u64,
            lost: 0,
            reports: kernel
                .reports
                .iter()
                .filter(|report| report.seq > after)
                .cloned()
                .collect(),
        }
    };
    // From here on nothing that is told is missed.
    let mut waited = std::pin::pin!(agent.told.notified());
    waited.as_mut().enable();
    let now = told();
    if !now.reports.is_empty() {
        return Json(now);
    }
    let _ = tokio::time::timeout(Duration::from_secs(number("wait").min(60)), waited).await;
    Json(told())
}

fn configured(kernel: &Kernel, changed: bool) -> Answer {
    let answer = Configured {
        state: kernel.state(),
        generation: kernel.generation().unwrap_or(0),
        changed,
        outcomes: Vec::new(),
    };
    Ok(Json(answer).into_response())
}

async fn configuration(State(agent): Shared) -> Response {
    let kernel = agent.lock();
    match kernel.configuration.clone() {
        Some(configuration) => {
            let term = kernel.term;
            Json(Configure {
                term,
                configuration,
            })
            .into_response()
        }
        None => {
            let problem = Problem::new(ProblemKind::NotFound, 404, "the node has no configuration");
            (StatusCode::NOT_FOUND, Json(problem)).into_response()
        }
    }
}

fn conn_status(conn: &Connection) -> ConnectionStatus {
    let local = conn.local.unwrap();
    ConnectionStatus {
        cid: conn.cid,
        peer: conn.peer,
        peer_cid: conn.peer_cid,
        encap: conn.encap,
        local,
        state: ConnectionState::Created,
        cause: None,
        mtu: conn.mtu.unwrap_or(1484),
        start_psn: conn.start_psn,
        start_xid: conn.start_xid,
        paths: vec![PathStatus {
            device: conn.device.clone(),
            local,
            peer: conn.peer,
            state: LinkState::Up,
            tx_packets: 0,
            rx_packets: 0,
        }],
        counters: None,
    }
}

async fn configure(State(agent): Shared, Json(body): Json<Configure>) -> Response {
    let world = agent.world.clone();
    let act = |kernel: &mut Kernel| {
        let wanted = body.configuration;
        if let Some(old) = &kernel.configuration {
            if old.generation == wanted.generation && *old != wanted {
                world.wrong(format!(
                    "configuration {} has another content",
                    old.generation
                ));
            }
            if old.generation > wanted.generation {
                return refuse(ProblemKind::Generation, 409, "an older configuration");
            }
            if *old == wanted && kernel.state() != NodeState::Partial {
                return configured(kernel, false);
            }
        }
        let old = std::mem::take(&mut kernel.conns);
        for conn in &wanted.connections {
            let new = conn_status(conn);
            let same = old.get(&conn.cid).filter(|old| {
                (old.peer, old.peer_cid, old.start_psn) == (new.peer, new.peer_cid, new.start_psn)
            });
            kernel.conns.insert(conn.cid, same.cloned().unwrap_or(new));
        }
        kernel.configuration = Some(wanted);
        kernel.state = Some(NodeState::Ready);
        configured(kernel, true)
    };
    agent.command(body.term, act).await
}

async fn start(State(agent): Shared, Json(body): Json<Start>) -> Response {
    if agent.minor() < 2 && !body.hold.is_empty() {
        return (StatusCode::UNPROCESSABLE_ENTITY, "unknown field `hold`").into_response();
    }
    let agents = agent.world.agents.lock().unwrap().clone();
    let late = agents
        .iter()
        .filter(|other| !Arc::ptr_eq(other, &agent))
        .find_map(|other| {
            let kernel = other.lock();
            // One that lost its power after all were ready is configured while the others go on.
            let rebooted = kernel.instance != format!("{}-0", other.address);
            let ready = kernel
                .generation()
                .is_some_and(|generation| generation >= body.generation);
            (!ready && !rebooted).then(|| other.address.clone())
        });
    if let Some(late) = late.filter(|_| !agent.world.jobs.load(Ordering::SeqCst)) {
        agent
            .world
            .wrong(format!("start while {late} is not ready"));
    }
    let act = |kernel: &mut Kernel| {
        if kernel.generation() != Some(body.generation) {
            return refuse(
                ProblemKind::Generation,
                409,
                "another configuration is in force",
            );
        }
        if kernel.state() == NodeState::Partial {
            return refuse(ProblemKind::State, 409, "the node is not as configured");
        }
        for (cid, conn) in &mut kernel.conns {
            if conn.state == ConnectionState::Created && !body.hold.contains(cid) {
                conn.state = ConnectionState::Established;
            }
        }
        kernel.state = Some(NodeState::Started);
        configured(kernel, true)
    };
    agent.command(body.term, act).await
}

async fn shutdown(State(agent): Shared, Json(body): Json<Shutdown>) -> Response {
    let act = |kernel: &mut Kernel| {
        kernel.conns.clear();
        kernel.configuration = None;
        kernel.state = Some(NodeState::ShutDown);
        let answer = ShutdownComplete {
            state: NodeState::ShutDown,
            connections: 0,
            ports: 0,
            processes: Vec::new(),
        };
        Ok(Json(answer).into_response())
    };
    agent.command(body.term, act).await
}

/// Changes a connection, if the configuration is the one that is meant.
fn change(
    kernel: &mut Kernel,
    cid: u16,
    generation: u64,
    change: impl FnOnce(&mut ConnectionStatus) -> Result<(), Box<Problem>>,
) -> Answer {
    if kernel.generation() != Some(generation) {
        return refuse(
            ProblemKind::Generation,
            409,
            "another configuration is in force",
        );
    }
    let Some(conn) = kernel.conns.get_mut(&cid) else {
        return refuse(ProblemKind::NotFound, 404, "no such connection");
    };
    change(conn)?;
    Ok(Json(conn.clone()).into_response())
}

async fn start_conn(
    State(agent): Shared,
    Path(cid): Path<u16>,
    Json(body): Json<Command>,
) -> Response {
    let act = |kernel: &mut Kernel| {
        change(kernel, cid, body.generation, |conn| match conn.state {
            ConnectionState::Created => {
                conn.state = ConnectionState::Established;
                Ok(())
            }
            ConnectionState::Established => Ok(()),
            state => refuse(ProblemKind::State, 409, format!("it is {state}")),
        })
    };
    agent.command(body.term, act).await
}

async fn stop_conn(
    State(agent): Shared,
    Path(cid): Path<u16>,
    Json(body): Json<Command>,
) -> Response {
    let act = |kernel: &mut Kernel| {
        change(kernel, cid, body.generation, |conn| {
            // Nothing is under way here: it is quiescent at once.
            conn.state = ConnectionState::Stopped;
            Ok(())
        })
    };
    agent.command(body.term, act).await
}

async fn reset_conn(
    State(agent): Shared,
    Path(cid): Path<u16>,
    Json(body): Json<Reset>,
) -> Response {
    let world = agent.world.clone();
    let act = |kernel: &mut Kernel| {
        let answer = change(kernel, cid, body.generation, |conn| {
            if !body.hard && conn.state != ConnectionState::Stopped {
                return refuse(ProblemKind::State, 409, format!("it is {}", conn.state));
            }
            let psn = body.start_psn.unwrap();
            let far = psn.wrapping_sub(conn.start_psn);
            if conn.state != ConnectionState::Created && !(1 << 30..=3 << 30).contains(&far) {
                world.wrong(format!("start number {psn} is near {}", conn.start_psn));
            }
            conn.state = ConnectionState::Created;
            conn.cause = None;
            conn.start_psn = psn;
            Ok(())
        })?;
        // The new life is what is configured from now on.
        let configured = kernel
            .configuration
            .iter_mut()
            .flat_map(|configuration| &mut configuration.connections);
        for conn in configured.filter(|conn| conn.cid == cid) {
            conn.start_psn = body.start_psn.unwrap_or(conn.start_psn);
        }
        Ok(answer)
    };
    agent.command(body.term, act).await
}
