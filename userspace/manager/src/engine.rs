// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The manager at work: it holds the state, asks the agents, decides, and gives commands.

use crate::decide::{self, Command, Decision, Seen};
use crate::fabric::{self, Fabric, Mistake};
use crate::plan::{self, Plan};
use crate::state::{now_ms, Change, ConnKey, Event, NodeRecord, Phase, State, Want};
use crate::store::{Store, StoreError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use superp_control::{
    AgentClient, Configuration, Configure, Report, Reports, Reset, Shutdown, Start,
};
use tokio::sync::{watch, Notify};
use tokio::task::JoinHandle;

/// How long agents are left alone when nothing happens.
const QUIET: Duration = Duration::from_secs(1);

/// How long an answer to "status" may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the agent may wait for a report before it answers that there is none.
const REPORT_WAIT: Duration = Duration::from_secs(20);

/// Milliseconds that applications have to end at a shutdown.
const GRACE_MS: u64 = 5_000;

/// Why a request to the manager was refused.
#[derive(Debug)]
pub enum Refusal {
    /// The fabric file has mistakes.
    Mistakes(Vec<Mistake>),
    /// It does not go with what there is.
    Conflict(String),
    /// There is no such thing.
    NotFound(String),
    /// The store failed.
    Store(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The manager. Cheap to clone.
#[derive(Clone)]
pub struct Manager {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Mutex<Inner>,
    http: reqwest::Client,
    /// Something was seen, or is wanted.
    wake: Notify,
    /// Number of the last event; the last value when the manager ends.
    events: watch::Sender<u64>,
    /// The manager cannot go on.
    failed: watch::Sender<Option<String>>,
    /// Agents may be talked to without TLS anywhere, not only on this host.
    plain: bool,
}

struct Inner {
    store: Box<dyn Store>,
    term: u64,
    state: State,
    slots: BTreeMap<String, Slot>,
}

/// A node at work.
struct Slot {
    agent: String,
    seen: Option<Seen>,
    commands: Vec<Command>,
    poke: Arc<Notify>,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Slot {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Manager {
    /// Begins a term and goes on where the store says. Needs a tokio runtime.
    pub fn start(mut store: Box<dyn Store>, term: u64, plain: bool) -> Result<Self, StoreError> {
        let term = store.begin_term(term)?;
        let state = store.load()?;
        let last = store.last_event()?;
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(2))
            // Whoever sets proxies for programs on this host does not mean the agents.
            .no_proxy()
            .build()
            .map_err(|error| StoreError::Failed(format!("no HTTP client: {error}")))?;
        let inner = Inner {
            store,
            term,
            state,
            slots: BTreeMap::new(),
        };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            http,
            wake: Notify::new(),
            events: watch::channel(last).0,
            failed: watch::channel(None).0,
            plain,
        });
        let manager = Self { shared };
        manager.slots(&mut manager.lock());
        let decider = manager.clone();
        tokio::spawn(async move {
            loop {
                decider.shared.wake.notified().await;
                decider.decide();
            }
        });
        manager.shared.wake.notify_one();
        Ok(manager)
    }

    /// Waits until the manager cannot go on; why.
    pub async fn failed(&self) -> String {
        let mut failed = self.shared.failed.subscribe();
        loop {
            if let Some(why) = failed.borrow_and_update().clone() {
                return why;
            }
            if failed.changed().await.is_err() {
                return "the manager ends".into();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change of the state is complete when it is made, also if its maker panics later.
        self.shared
            .inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a function with the state, what is seen, and the term.
    pub fn look<T>(&self, look: impl FnOnce(&State, &BTreeMap<String, Seen>, u64) -> T) -> T {
        let inner = self.lock();
        look(&inner.state, &seen(&inner), inner.term)
    }

    /// The number of the last event, as it changes.
    pub fn last_event(&self) -> watch::Receiver<u64> {
        self.shared.events.subscribe()
    }

    /// Events after a number.
    pub fn events(&self, after: u64, limit: u64) -> Result<Vec<Event>, StoreError> {
        self.lock().store.events(after, limit)
    }

    /// Stores changes and carries them out.
    fn commit(&self, inner: &mut Inner, changes: &[Change]) -> Result<(), StoreError> {
        let result = inner.store.commit(inner.term, changes);
        if let Err(error) = &result {
            tracing::error!("{error}");
            if matches!(error, StoreError::Fenced { .. }) {
                self.shared.failed.send_replace(Some(error.to_string()));
            }
            return result;
        }
        let mut events = false;
        for change in changes {
            inner.state.apply(change);
            if let Change::Event(event) = change {
                events = true;
                let about = event
                    .node
                    .as_deref()
                    .or(event.connection.as_deref())
                    .unwrap_or("fabric");
                tracing::info!("{} {about}: {}", event.kind, event.text);
            }
        }
        if events {
            let last = inner.store.last_event()?;
            self.shared.events.send_replace(last);
        }
        self.slots(inner);
        Ok(())
    }

    /// One slot for each node and its agent.
    fn slots(&self, inner: &mut Inner) {
        let Inner { slots, state, .. } = inner;
        slots.retain(|name, slot| {
            state
                .nodes
                .get(name)
                .is_some_and(|node| node.node.agent == slot.agent)
        });
        for (name, node) in &state.nodes {
            if !slots.contains_key(name) {
                slots.insert(name.clone(), self.slot(name, &node.node.agent));
            }
        }
    }

    fn slot(&self, name: &str, agent: &str) -> Slot {
        let client = AgentClient::new(format!("http://{agent}"), self.shared.http.clone());
        let poke = Arc::new(Notify::new());
        let (commands, reports) = (self.clone(), self.clone());
        let names = [name.to_owned(), name.to_owned()];
        let clients = [client.clone(), client];
        let ([one, other], [first, second]) = (names, clients);
        let poked = poke.clone();
        Slot {
            agent: agent.to_owned(),
            seen: None,
            commands: Vec::new(),
            poke,
            tasks: [
                tokio::spawn(async move { commands.attend(&one, &first, &poked).await }),
                tokio::spawn(async move { reports.listen(&other, &second).await }),
            ],
        }
    }

    /// Decides what is next, stores it, and gives the commands.
    fn decide(&self) {
        let mut inner = self.lock();
        let Decision { changes, commands } = decide::decide(&inner.state, &seen(&inner), now_ms());
        // Whoever does not store a decision does not act on it.
        if !changes.is_empty() && self.commit(&mut inner, &changes).is_err() {
            return;
        }
        if !changes.is_empty() {
            // What was decided may be a reason to decide more.
            self.shared.wake.notify_one();
        }
        for (name, commands) in commands {
            if let Some(slot) = inner.slots.get_mut(&name) {
                slot.commands = commands;
                if let Some(seen) = &mut slot.seen {
                    seen.idle = false;
                }
                slot.poke.notify_one();
            }
        }
    }

    /// Carries out the commands for a node, and looks at it, for ever.
    async fn attend(&self, name: &str, client: &AgentClient, poke: &Notify) {
        loop {
            let (commands, term, generation) = {
                let mut inner = self.lock();
                let (term, generation) = (inner.term, inner.state.fabric.generation);
                let commands = inner
                    .slots
                    .get_mut(name)
                    .map(|slot| std::mem::take(&mut slot.commands));
                (commands.unwrap_or_default(), term, generation)
            };
            let mut refused = None;
            for command in commands {
                tracing::debug!("{name}: {command}");
                if let Err(error) = self.command(name, client, &command, term, generation).await {
                    refused = Some(format!("{command} was refused: {error}"));
                    break;
                }
            }
            let status = match tokio::time::timeout(PATIENCE, client.status(false)).await {
                Ok(Ok(status)) => Ok(status),
                Ok(Err(error)) => Err(short(client.base(), &error.to_string())),
                Err(_) => Err(format!("no answer from {}", client.base())),
            };
            self.saw(
                name,
                Seen {
                    status,
                    refused: refused.clone(),
                    idle: refused.is_none(),
                },
            );
            if refused.is_some() {
                // The same at once would be refused again.
                tokio::time::sleep(QUIET).await;
                let mut inner = self.lock();
                if let Some(seen) = inner
                    .slots
                    .get_mut(name)
                    .and_then(|slot| slot.seen.as_mut())
                {
                    seen.idle = true;
                }
                drop(inner);
                self.shared.wake.notify_one();
            }
            let _ = tokio::time::timeout(QUIET, poke.notified()).await;
        }
    }

    /// Keeps what was seen of a node.
    fn saw(&self, name: &str, mut seen: Seen) {
        let mut inner = self.lock();
        let Some(slot) = inner.slots.get_mut(name) else {
            return;
        };
        // Commands that were given meanwhile are not carried out yet: what was seen is older than they.
        seen.idle &= slot.commands.is_empty();
        let before = slot.seen.as_ref().map(|seen| seen.status.is_ok());
        let refused_before = slot.seen.as_ref().and_then(|seen| seen.refused.clone());
        let text = match (&seen.status, before) {
            (Err(error), None | Some(true)) => Some(format!("does not answer: {error}")),
            (Ok(_), Some(false)) => Some("answers again".into()),
            _ => seen
                .refused
                .clone()
                .filter(|refused| refused_before.as_ref() != Some(refused)),
        };
        slot.seen = Some(seen);
        if let Some(text) = text {
            let event = Event {
                seq: 0,
                time_ms: now_ms(),
                node: Some(name.to_owned()),
                connection: None,
                kind: "node".into(),
                text,
            };
            // An event that is not stored was told in the log.
            let _ = self.commit(&mut inner, &[Change::Event(event)]);
        }
        drop(inner);
        self.shared.wake.notify_one();
    }

    async fn command(
        &self,
        name: &str,
        client: &AgentClient,
        command: &Command,
        term: u64,
        generation: u64,
    ) -> Result<(), String> {
        let done = match command {
            Command::Capabilities => return self.capabilities(name, client).await,
            Command::Configure(configuration) => {
                let mut body = Configure {
                    term,
                    configuration: (**configuration).clone(),
                };
                match client.configuration().await {
                    Ok(Some(there)) => keep_lives(&mut body.configuration, &there.configuration),
                    Ok(None) => {}
                    Err(error) => return Err(short(client.base(), &error.to_string())),
                }
                client.configure(&body).await.map(drop)
            }
            Command::Start => client.start(&Start { term, generation }).await.map(drop),
            Command::StartConn(cid) => {
                let body = superp_control::Command { term, generation };
                client.start_connection(*cid, &body).await.map(drop)
            }
            Command::StopConn(cid) => {
                let body = superp_control::Command { term, generation };
                client.stop_connection(*cid, &body).await.map(drop)
            }
            Command::ResetConn {
                cid,
                hard,
                start_psn,
            } => {
                let body = Reset {
                    term,
                    generation,
                    hard: *hard,
                    start_psn: Some(*start_psn),
                    start_xid: None,
                };
                client.reset_connection(*cid, &body).await.map(drop)
            }
            Command::Shutdown => {
                let body = Shutdown {
                    term,
                    grace_ms: GRACE_MS,
                };
                client.shutdown(&body).await.map(drop)
            }
        };
        done.map_err(|error| short(client.base(), &error.to_string()))
    }

    /// Asks for the capabilities, and keeps them.
    async fn capabilities(&self, name: &str, client: &AgentClient) -> Result<(), String> {
        let told = client.capabilities().await;
        let told = told.map_err(|error| short(client.base(), &error.to_string()))?;
        let major = |version: &str| version.split('.').next().map(str::to_owned);
        if major(&told.api_version) != major(superp_control::API_VERSION) {
            return Err(format!(
                "its agent speaks version {} of the interface, this manager version {}",
                told.api_version,
                superp_control::API_VERSION
            ));
        }
        let json = serde_json::to_value(&told).map_err(|error| error.to_string())?;
        let mut inner = self.lock();
        let Some(node) = inner.state.nodes.get(name) else {
            return Ok(());
        };
        let record = NodeRecord {
            capabilities: Some(json),
            instance: told.instance,
            ..node.clone()
        };
        let change = Change::Node(name.to_owned(), Box::new(record));
        self.commit(&mut inner, &[change])
            .map_err(|error| error.to_string())
    }

    /// Stores the reports of a node's agent, for ever.
    async fn listen(&self, name: &str, client: &AgentClient) {
        loop {
            let (instance, after) = match self.lock().state.nodes.get(name) {
                Some(node) => node.reports.clone(),
                None => return,
            };
            let known = (!instance.is_empty()).then_some(instance.as_str());
            let Ok(told) = client.events(known, after, REPORT_WAIT).await else {
                // Why it does not answer is found out by who asks for its status.
                tokio::time::sleep(QUIET).await;
                continue;
            };
            if !self.keep(name, &instance, &told) {
                // They are asked for again.
                tokio::time::sleep(QUIET).await;
            }
        }
    }

    /// Stores reports together with the number of the last one; whether that was done.
    fn keep(&self, name: &str, instance: &str, told: &Reports) -> bool {
        let mut inner = self.lock();
        let Some(node) = inner.state.nodes.get(name) else {
            return true;
        };
        if told.reports.is_empty() && told.lost == 0 && told.instance == instance {
            return true;
        }
        let last = told.reports.last().map_or(told.last, |report| report.seq);
        let record = NodeRecord {
            reports: (told.instance.clone(), last),
            ..node.clone()
        };
        let mut changes = vec![Change::Node(name.to_owned(), Box::new(record))];
        if told.lost > 0 {
            changes.push(report_event(
                name,
                now_ms(),
                format!("{} reports are lost", told.lost),
            ));
        }
        for report in &told.reports {
            changes.push(report_event(name, report.time_ms, describe(report)));
        }
        let stored = self.commit(&mut inner, &changes).is_ok();
        if let Some(slot) = inner.slots.get(name) {
            slot.poke.notify_one();
        }
        stored
    }

    /// What applying a fabric file would do.
    pub fn plan(&self, text: &str) -> Result<Plan, Refusal> {
        let fabric = fabric::read(text).map_err(Refusal::Mistakes)?;
        let inner = self.lock();
        let planned = plan::plan(&fabric, &inner.state, now_ms());
        planned.map(|(plan, _)| plan).map_err(Refusal::Conflict)
    }

    /// Applies a fabric file: it is stored, and carried out from now on.
    pub fn apply(&self, text: &str) -> Result<Plan, Refusal> {
        let fabric = fabric::read(text).map_err(Refusal::Mistakes)?;
        self.reachable(&fabric)?;
        let mut inner = self.lock();
        let now = now_ms();
        let planned = plan::plan(&fabric, &inner.state, now);
        let (plan, mut changes) = planned.map_err(Refusal::Conflict)?;
        if plan.changed {
            changes.push(Change::Expire(now));
            self.commit(&mut inner, &changes)?;
            self.shared.wake.notify_one();
        }
        Ok(plan)
    }

    /// Agents elsewhere are not talked to in clear unless that was asked for.
    fn reachable(&self, fabric: &Fabric) -> Result<(), Refusal> {
        let far = fabric
            .nodes
            .iter()
            .find(|(_, node)| !is_loopback(&node.agent));
        match far {
            Some((name, node)) if !self.shared.plain => Err(Refusal::Conflict(format!(
                "the agent of {name} is at {}, on another host, and this manager talks in clear; \
                 if the network between them is trusted, start it with --plain-tcp",
                node.agent
            ))),
            _ => Ok(()),
        }
    }

    /// Shuts every node down.
    pub fn shutdown(&self) -> Result<(), Refusal> {
        let mut inner = self.lock();
        match inner.state.fabric.phase {
            Phase::Empty => return Err(Refusal::Conflict("there is no fabric".into())),
            Phase::ShuttingDown | Phase::Down => return Ok(()),
            Phase::Booting | Phase::Running => {}
        }
        let mut changes = decide::shut_down(&inner.state);
        let mut fabric = inner.state.fabric.clone();
        fabric.phase = Phase::ShuttingDown;
        changes.push(Change::Fabric(fabric));
        changes.push(Change::Event(Event {
            seq: 0,
            time_ms: now_ms(),
            node: None,
            connection: None,
            kind: "phase".into(),
            text: "every node is shut down, as requested".into(),
        }));
        self.commit(&mut inner, &changes)?;
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Shuts a connection down softly, restarts it, or resets it (`None`).
    pub fn want(&self, key: &ConnKey, want: Option<Want>) -> Result<(), Refusal> {
        let mut inner = self.lock();
        if !matches!(inner.state.fabric.phase, Phase::Booting | Phase::Running) {
            return Err(Refusal::Conflict(format!(
                "the fabric is {}",
                inner.state.fabric.phase
            )));
        }
        let Some(conn) = inner.state.conns.get(key) else {
            return Err(Refusal::NotFound(format!("there is no connection {key}")));
        };
        let record = match want {
            Some(want) if want == conn.want => return Ok(()),
            Some(want) => {
                let mut record = conn.clone();
                record.want = want;
                record
            }
            None => {
                let mut record = plan::next_life(conn, packets(&inner, key));
                record.want = Want::Run;
                record.not_before = 0;
                record
            }
        };
        let text = match want {
            Some(Want::Stop) => "is shut down softly, as requested",
            Some(Want::Restart) => "is shut down softly and started again, as requested",
            _ => "is reset at both ends and started again, as requested",
        };
        let event = Event {
            seq: 0,
            time_ms: now_ms(),
            node: None,
            connection: Some(key.to_string()),
            kind: "connection".into(),
            text: text.into(),
        };
        let changes = [Change::Conn(*key, Box::new(record)), Change::Event(event)];
        self.commit(&mut inner, &changes)?;
        self.shared.wake.notify_one();
        Ok(())
    }
}

/// Leaves connections in the life that they are in: only a reset begins another one.
fn keep_lives(wanted: &mut Configuration, there: &Configuration) {
    for conn in &mut wanted.connections {
        let same = |old: &&superp_control::Connection| {
            (old.cid, old.peer, old.peer_cid) == (conn.cid, conn.peer, conn.peer_cid)
        };
        if let Some(old) = there.connections.iter().find(same) {
            (conn.start_psn, conn.start_xid) = (old.start_psn, old.start_xid);
        }
    }
}

fn seen(inner: &Inner) -> BTreeMap<String, Seen> {
    let seen = inner
        .slots
        .iter()
        .filter_map(|(name, slot)| Some((name.clone(), slot.seen.clone()?)));
    seen.collect()
}

/// Packets that an end of the connection has sent or received, as last seen.
fn packets(inner: &Inner, key: &ConnKey) -> u64 {
    let Some(conn) = inner.state.conns.get(key) else {
        return 0;
    };
    let ends = conn.nodes.iter().zip(key.ends()).filter_map(|(name, end)| {
        let status = inner.slots.get(name)?.seen.as_ref()?.status.as_ref().ok()?;
        let conn = status.connections.iter().find(|conn| conn.cid == end.cid)?;
        Some(decide::packets_of(conn))
    });
    ends.max().unwrap_or(0)
}

/// Whether "HOST:PORT" is on this host.
fn is_loopback(agent: &str) -> bool {
    let host = agent.rsplit_once(':').map_or(agent, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|addr| addr.is_loopback())
}

/// Why a request failed, in few words.
fn short(base: &str, error: &str) -> String {
    let agent = base.strip_prefix("http://").unwrap_or(base);
    if error.contains("Connection refused") {
        return format!("connection refused by {agent}");
    }
    match error.strip_prefix("error sending request for url") {
        Some(rest) => {
            let cause = rest.rsplit(": ").next().unwrap_or(rest);
            format!("no connection to {agent}: {cause}")
        }
        None => error.to_owned(),
    }
}

fn report_event(node: &str, time_ms: u64, text: String) -> Change {
    Change::Event(Event {
        seq: 0,
        time_ms,
        node: Some(node.to_owned()),
        connection: None,
        kind: "report".into(),
        text,
    })
}

/// A report in a sentence.
fn describe(report: &Report) -> String {
    let mut text = match serde_json::to_value(report.kind) {
        Ok(serde_json::Value::String(kind)) => kind,
        _ => "report".into(),
    };
    if let Some(cid) = report.cid {
        text += &format!(", connection {cid}");
    }
    if let Some(peer) = report.peer {
        text += &format!(" to {peer}");
    }
    if let Some(device) = &report.device {
        text += &format!(", port {device}");
    }
    if let Some(state) = report.connection_state {
        text += &format!(": {state}");
    }
    if let Some(state) = report.port_state {
        text += match state {
            superp_control::LinkState::Up => ": up",
            superp_control::LinkState::Down => ": down",
        };
    }
    if let Some(cause) = &report.cause {
        text += &format!(": {cause}");
    }
    if let Some(suppressed) = report.suppressed {
        text += &format!(" ({suppressed} more were not told)");
    }
    text
}
