// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The manager at work: it holds the state, asks the agents, decides, and gives commands.

mod jobs;
mod requests;
mod way;

pub use way::Way;

use crate::decide::{self, Command, Counters, Decision, Seen};
use crate::fabric::Mistake;
use crate::state::{now_ms, Change, Event, NodeRecord, State};
use crate::store::{Store, StoreError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use superp_control::{
    api_version, AgentClient, ClientError, Configuration, Configure, Http, Life, Report, Reports,
    Reset, Shutdown, Start, Status,
};
use tokio::sync::{watch, Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// How long agents are left alone when nothing happens.
const QUIET: Duration = Duration::from_secs(1);

/// How long an answer to "status" may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the agent may wait for a report before it answers that there is none.
const REPORT_WAIT: Duration = Duration::from_secs(20);

/// So long after somebody asked for counters, agents are asked for them.
const COUNTED: Duration = Duration::from_secs(10);

/// A store that was written so lately is taken for one that can be written.
const WRITTEN: Duration = Duration::from_secs(2);

/// Most event streams at a time.
const STREAMS: usize = 64;

/// Milliseconds that applications have to end at a shutdown.
const GRACE_MS: u64 = 5_000;

/// Why a request to the manager was refused.
#[derive(Debug)]
pub enum Refusal {
    /// The fabric file has mistakes.
    Mistakes(Vec<Mistake>),
    /// A job is not wanted as it can be; all mistakes, a sentence each.
    Job(Vec<String>),
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
    http: Http,
    /// Something was seen, or is wanted.
    wake: Notify,
    /// Number of the last event; the last value when the manager ends.
    events: watch::Sender<u64>,
    /// Number of decisions.
    decisions: watch::Sender<u64>,
    /// The manager cannot go on.
    failed: watch::Sender<Option<String>>,
    /// The manager ends.
    ending: watch::Sender<bool>,
    /// Places of event streams.
    streams: Arc<Semaphore>,
    /// How agents are talked to.
    way: Way,
}

struct Inner {
    store: Box<dyn Store>,
    term: u64,
    state: State,
    slots: BTreeMap<String, Slot>,
    counts: Counts,
    /// When the store was last written.
    written: Option<Instant>,
    /// When somebody last asked for counters of connections.
    counted: Option<Instant>,
}

/// What the manager did since it was started.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Commands that agents carried out, by [`Command::name`].
    pub done: BTreeMap<&'static str, u64>,
    /// Commands that failed.
    pub failed: BTreeMap<&'static str, u64>,
    /// Events that were stored, by kind.
    pub events: BTreeMap<String, u64>,
    /// What was to be stored and was not.
    pub store_failures: u64,
    /// Event streams that there are.
    pub streams: u64,
}

/// A node at work.
struct Slot {
    agent: String,
    seen: Option<Seen>,
    commands: Vec<Command>,
    /// The configuration that they were decided for.
    decided: u64,
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
    pub fn start(mut store: Box<dyn Store>, term: u64, way: Way) -> Result<Self, StoreError> {
        // Before the term: who is refused must not end the manager that there is.
        let nodes = store.load()?.nodes;
        let agents = nodes
            .iter()
            .map(|(name, record)| (name, &record.node.agent));
        way.reaches(agents).map_err(StoreError::Failed)?;
        let term = store.begin_term(term)?;
        let state = store.load()?;
        let last = store.last_event()?;
        let http = way
            .http()
            .map_err(|error| StoreError::Failed(format!("no HTTP client: {error}")))?;
        let inner = Inner {
            store,
            term,
            state,
            slots: BTreeMap::new(),
            counts: Counts::default(),
            written: None,
            counted: None,
        };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            http: http.into(),
            wake: Notify::new(),
            events: watch::channel(last).0,
            decisions: watch::channel(0).0,
            failed: watch::channel(None).0,
            ending: watch::channel(false).0,
            streams: Arc::new(Semaphore::new(STREAMS)),
            way,
        });
        let manager = Self { shared };
        manager.slots(&mut manager.lock());
        manager.follow();
        let decider = manager.clone();
        tokio::spawn(async move {
            loop {
                decider.shared.wake.notified().await;
                decider.decide();
                decider.shared.decisions.send_modify(|count| *count += 1);
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

    /// Ends what goes on for ever, as event streams do.
    pub fn end(&self) {
        self.shared.ending.send_replace(true);
    }

    /// Whether the manager ends, as it changes.
    pub fn ending(&self) -> watch::Receiver<bool> {
        self.shared.ending.subscribe()
    }

    /// Whether decisions are made: one more has to be, within this time. The lock of the store may be waited
    /// for meanwhile.
    pub async fn is_alive(&self, within: Duration) -> bool {
        let mut decisions = self.shared.decisions.subscribe();
        let before = *decisions.borrow();
        self.shared.wake.notify_one();
        let more = async { decisions.wait_for(|count| *count > before).await.is_ok() };
        tokio::time::timeout(within, more).await.unwrap_or(false)
    }

    /// Whether the store can be written. Waits for locks and the disk.
    pub fn probe(&self) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if inner.written.is_some_and(|when| when.elapsed() < WRITTEN) {
            return Ok(());
        }
        let term = inner.term;
        let result = inner.store.probe(term);
        self.stored(&mut inner, &result);
        result
    }

    /// Has agents tell the counters of their connections, for a while: they are many.
    pub fn want_counters(&self) {
        self.lock().counted = Some(Instant::now());
    }

    /// What the manager did since it was started.
    pub fn counts(&self) -> Counts {
        let streams = STREAMS.saturating_sub(self.shared.streams.available_permits());
        Counts {
            streams: streams as u64,
            ..self.lock().counts.clone()
        }
    }

    /// The place of an event stream; `None` if there are too many.
    pub fn stream_place(&self) -> Option<OwnedSemaphorePermit> {
        self.shared.streams.clone().try_acquire_owned().ok()
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
        self.stored(inner, &result);
        result?;
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
                *inner.counts.events.entry(event.kind.clone()).or_default() += 1;
            }
        }
        if events {
            let last = inner.store.last_event()?;
            self.shared.events.send_replace(last);
        }
        self.slots(inner);
        Ok(())
    }

    /// Keeps what became of a write.
    fn stored(&self, inner: &mut Inner, result: &Result<(), StoreError>) {
        inner.written = result.is_ok().then(Instant::now);
        let Err(error) = result else {
            return;
        };
        inner.counts.store_failures += 1;
        tracing::error!("{error}");
        self.ends(error);
    }

    /// Whether commands may be given now. If not, what is left to do is up to who leads.
    fn leads(&self) -> Result<(), String> {
        let leads = self.lock().store.leads();
        leads.map_err(|error| {
            self.ends(&error);
            error.to_string()
        })
    }

    /// Ends the manager if this is a reason to.
    fn ends(&self, error: &StoreError) {
        if matches!(error, StoreError::Fenced { .. } | StoreError::Lost(_)) {
            self.shared.failed.send_replace(Some(error.to_string()));
        }
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
        let scheme = match self.shared.way {
            Way::Tls(_) => "https",
            Way::Loopback | Way::Plain => "http",
        };
        let client = AgentClient::new(format!("{scheme}://{agent}"), self.shared.http.clone());
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
            decided: 0,
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
        let generation = inner.state.fabric.generation;
        for (name, commands) in commands {
            if let Some(slot) = inner.slots.get_mut(&name) {
                slot.commands = commands;
                slot.decided = generation;
                if let Some(seen) = &mut slot.seen {
                    seen.idle = false;
                }
                slot.poke.notify_one();
            }
        }
    }

    /// Carries out the commands for a node, and looks at it, for ever.
    async fn attend(&self, name: &str, client: &AgentClient, poke: &Notify) {
        let mut told = way::Told::default();
        loop {
            let (commands, term, generation, count) = {
                let mut inner = self.lock();
                let (term, generation) = (inner.term, inner.state.fabric.generation);
                let count = inner.counted.is_some_and(|when| when.elapsed() < COUNTED);
                let given = inner.slots.get_mut(name).map(|slot| {
                    let commands = std::mem::take(&mut slot.commands);
                    (slot.decided == generation).then_some(commands)
                });
                // Another configuration is wanted since they were decided: so are other commands.
                let commands = given.flatten().unwrap_or_default();
                (commands, term, generation, count)
            };
            let mut refused = None;
            for command in commands {
                tracing::debug!("{name}: {command}");
                let result = self.command(name, client, &command, term, generation).await;
                {
                    let counts = &mut self.lock().counts;
                    let counts = match result {
                        Ok(()) => &mut counts.done,
                        Err(_) => &mut counts.failed,
                    };
                    *counts.entry(command.name()).or_default() += 1;
                }
                if let Err(error) = result {
                    refused = Some(format!("{command} was refused: {error}"));
                    break;
                }
            }
            let mut counters = Arc::default();
            let status = match tokio::time::timeout(PATIENCE, client.status(count)).await {
                Ok(Ok(mut status)) => {
                    self.tell_revoked(name, client, &status.instance, &mut told)
                        .await;
                    counters = Arc::new(take_counters(&mut status));
                    Ok(status)
                }
                Ok(Err(error)) => Err(short(client.base(), &error)),
                Err(_) => Err(format!("no answer from {}", client.base())),
            };
            self.saw(
                name,
                Seen {
                    status,
                    refused: refused.clone(),
                    idle: refused.is_none(),
                    counters,
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
        self.leads()?;
        let done = match command {
            Command::Capabilities => return self.capabilities(name, client).await,
            Command::Configure(configuration) => {
                let mut body = Configure {
                    term,
                    configuration: (**configuration).clone(),
                };
                match client.lives().await {
                    Ok(lives) => keep_lives(&mut body.configuration, &lives),
                    Err(error) => return Err(short(client.base(), &error)),
                }
                // That took its time.
                self.leads()?;
                client.configure(&body).await.map(drop)
            }
            Command::Start { hold } => {
                let hold = hold.clone();
                let body = Start {
                    term,
                    generation,
                    hold,
                };
                client.start(&body).await.map(drop)
            }
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
        done.map_err(|error| short(client.base(), &error))
    }

    /// Asks for the capabilities, and keeps them.
    async fn capabilities(&self, name: &str, client: &AgentClient) -> Result<(), String> {
        let told = client.capabilities().await;
        let told = told.map_err(|error| short(client.base(), &error))?;
        let major = |version: &str| api_version(version).map(|(major, _)| major);
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
}

/// Counters apart from the status, which is copied for every decision.
fn take_counters(status: &mut Status) -> Counters {
    let told =
        |conn: &mut superp_control::ConnectionStatus| Some((conn.cid, conn.counters.take()?));
    Counters {
        time_ms: now_ms(),
        conns: status.connections.iter_mut().filter_map(told).collect(),
    }
}

/// Leaves connections in the life that they are in: only a reset begins another one.
fn keep_lives(wanted: &mut Configuration, there: &[Life]) {
    for conn in &mut wanted.connections {
        let same =
            |old: &&Life| (old.cid, old.peer, old.peer_cid) == (conn.cid, conn.peer, conn.peer_cid);
        if let Some(old) = there.iter().find(same) {
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

/// Why a request failed, in few words.
fn short(base: &str, error: &ClientError) -> String {
    let agent = base.split_once("://").map_or(base, |(_, agent)| agent);
    if let ClientError::Transport(error) = error {
        if let Some(why) = superp_tls::explain(error) {
            return format!("no connection to {agent}: {why}");
        }
    }
    let error = error.to_string();
    if error.contains("Connection refused") {
        return format!("connection refused by {agent}");
    }
    match error.strip_prefix("error sending request for url") {
        Some(rest) => {
            let cause = rest.rsplit(": ").next().unwrap_or(rest);
            format!("no connection to {agent}: {cause}")
        }
        None => error,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Sqlite;
    use std::path::Path;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[allow(clippy::await_holding_lock)]
    async fn manager_that_cannot_decide_is_not_alive() {
        const LIMIT: Duration = Duration::from_secs(180);
        let store = Sqlite::open(Path::new(":memory:")).unwrap();
        let manager = Manager::start(Box::new(store), 1, Way::Loopback).unwrap();
        assert!(manager.is_alive(LIMIT).await);
        let inner = manager.lock();
        // A decision that was made before the lock was taken may be counted now.
        let end = Instant::now() + LIMIT;
        while manager.is_alive(Duration::from_millis(20)).await {
            assert!(Instant::now() < end, "no decision can be made");
        }
        drop(inner);
        assert!(manager.is_alive(LIMIT).await);
    }

    #[tokio::test]
    async fn agents_elsewhere_are_not_talked_to_in_clear_by_the_next_manager_either() {
        let folder = std::env::temp_dir().join(format!("superp-cm-way-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let start = |way| {
            let store = Sqlite::open(&folder.join("manager.db")).unwrap();
            Manager::start(Box::new(store), 1, way)
        };
        let file = "fabric = \"x\"\n[[nodes]]\nhosts = \"a1\"\nagent = \"192.0.2.1:1\"\n\
                    address = \"10.0.0.1\"\nports = [{ dev = \"e\" }]\n";
        let first = start(Way::Plain).unwrap();
        first.apply(file).unwrap();
        let Err(StoreError::Failed(text)) = start(Way::Loopback) else {
            panic!("it goes on in clear")
        };
        assert!(text.contains("the agent of a1 is at 192.0.2.1:1"), "{text}");
        // And it has taken nothing over.
        assert_eq!(start(Way::Plain).unwrap().look(|_, _, term| term), 2);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
