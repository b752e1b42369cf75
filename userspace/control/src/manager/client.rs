// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A client of the manager.

mod forward;

pub use forward::{Forward, Forwarded};

use super::sse::Parser;
use super::{
    AuditRecord, Connection, Event, FabricStatus, Job, JobSpec, NodeStatus, Plan, Problem,
    MANAGER_PORT, NOT_LEADING,
};
use crate::API;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;
use superp_tls::{Role, Tls};

/// What an answer may take beyond what its request asks the manager to wait.
const PATIENCE: Duration = Duration::from_secs(90);

/// Why a request failed.
#[derive(Debug)]
pub enum ManagerError {
    /// There is no manager at this address that leads, or no way to it; why.
    Unreachable(String),
    /// The manager refused.
    Refused(Problem),
    /// It did not answer as a manager does.
    Answer(String),
}

impl fmt::Display for ManagerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(text) | Self::Answer(text) => f.write_str(text),
            Self::Refused(problem) => f.write_str(problem.detail.trim_end()),
        }
    }
}

impl std::error::Error for ManagerError {}

/// What a command for connections is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One connection, `CID@ADDRESS-CID@ADDRESS`.
    Connection(String),
    /// All connections of a node.
    Node(String),
    /// All connections.
    Fabric,
}

/// What becomes of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Soft shutdown.
    Stop,
    /// Soft shutdown, and another life.
    Restart,
    /// Another life at once; of one connection only.
    Reset,
}

/// A client of a manager, or of several of which one leads.
#[derive(Clone, Debug)]
pub struct ManagerClient {
    bases: Vec<String>,
    /// The one that answered last.
    current: Arc<AtomicUsize>,
    scheme: &'static str,
    http: reqwest::Client,
}

impl ManagerClient {
    /// A client of the manager at this URL, as `http://127.0.0.1:7778`, or with TLS `https://…`; of several
    /// with commas between them the one that leads is asked.
    pub fn new(base: &str, tls: Option<&Tls>) -> Result<Self, ManagerError> {
        let http = crate::http(tls, Role::Manager)
            .map_err(ManagerError::Answer)?
            .connect_timeout(Duration::from_secs(10))
            .build();
        Ok(Self {
            bases: base
                .split(',')
                .map(|base| base.trim().trim_end_matches('/').to_owned())
                .collect(),
            current: Arc::default(),
            scheme: tls.map_or("http", |_| "https"),
            http: http.map_err(|error| ManagerError::Answer(chain(&error)))?,
        })
    }

    /// A client of the manager at this URL, or of the one on this host, with TLS if there is a
    /// directory for it.
    pub fn at(base: Option<String>, tls: Option<&Path>) -> Result<Self, ManagerError> {
        let tls = tls.map(Tls::read).transpose();
        let tls = tls.map_err(ManagerError::Answer)?;
        let base = base.unwrap_or_else(|| match tls {
            Some(_) => format!("https://127.0.0.1:{MANAGER_PORT}"),
            None => format!("http://127.0.0.1:{MANAGER_PORT}"),
        });
        Self::new(&base, tls.as_ref())
    }

    /// How far the fabric is.
    pub async fn fabric(&self) -> Result<FabricStatus, ManagerError> {
        self.get(&["fabric"]).await
    }

    /// The nodes.
    pub async fn nodes(&self) -> Result<Vec<NodeStatus>, ManagerError> {
        self.get(&["nodes"]).await
    }

    /// A node, with its capabilities.
    pub async fn node(&self, name: &str) -> Result<NodeStatus, ManagerError> {
        self.get(&["nodes", name]).await
    }

    /// The connections.
    pub async fn connections(&self, scope: &Scope) -> Result<Vec<Connection>, ManagerError> {
        match scope {
            Scope::Connection(connection) => {
                let one = self.get(&["connections", connection]).await?;
                Ok(vec![one])
            }
            Scope::Node(node) => {
                let request = self.request(Method::GET, &["connections"])?;
                self.parse(request.query(&[("node", node)])).await
            }
            Scope::Fabric => self.get(&["connections"]).await,
        }
    }

    /// What applying a fabric file would do. `path` is its name, for its mistakes.
    pub async fn plan(&self, path: &str, file: String) -> Result<Plan, ManagerError> {
        self.file("plan", path, file).await
    }

    /// Applies a fabric file. `path` is its name, for its mistakes.
    pub async fn apply(&self, path: &str, file: String) -> Result<Plan, ManagerError> {
        self.file("apply", path, file).await
    }

    /// Gives a command for connections.
    pub async fn command(&self, scope: &Scope, verb: Verb) -> Result<(), ManagerError> {
        let verb = match verb {
            Verb::Stop => "stop",
            Verb::Restart => "restart",
            Verb::Reset => "reset",
        };
        let path = match scope {
            Scope::Connection(connection) => vec!["connections", connection, verb],
            Scope::Node(node) => vec!["nodes", node, verb],
            Scope::Fabric => vec!["fabric", verb],
        };
        self.send(self.request(Method::POST, &path)?)
            .await
            .map(drop)
    }

    /// The jobs.
    pub async fn jobs(&self) -> Result<Vec<Job>, ManagerError> {
        self.get(&["jobs"]).await
    }

    /// A job; the answer comes when it runs, or after so many seconds.
    pub async fn job(&self, name: &str, wait: u64) -> Result<Job, ManagerError> {
        let request = self.request(Method::GET, &["jobs", name])?;
        self.in_time(request, wait).await
    }

    /// Makes a job, or finds the one that is the same. With `wait` the answer comes when it runs; one that was
    /// made and does not run after so many seconds is removed again, and refused.
    pub async fn make_job(&self, spec: &JobSpec, wait: u64) -> Result<Job, ManagerError> {
        let request = self.request(Method::POST, &["jobs"])?;
        self.in_time(request.json(spec), wait).await
    }

    /// Ends a job: its connections are removed, and its partition is revoked.
    pub async fn end_job(&self, name: &str) -> Result<(), ManagerError> {
        let request = self.request(Method::DELETE, &["jobs", name])?;
        self.send(request).await.map(drop)
    }

    /// Has the manager wait before it answers.
    async fn in_time<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        wait: u64,
    ) -> Result<T, ManagerError> {
        let request = request.query(&[("wait", wait)]);
        let time = PATIENCE.saturating_add(Duration::from_secs(wait));
        self.read(self.open(request.timeout(time)).await?).await
    }

    /// Shuts every node down.
    pub async fn shutdown(&self) -> Result<(), ManagerError> {
        let request = self.request(Method::POST, &["shutdown"])?;
        self.send(request).await.map(drop)
    }

    /// Events with numbers above `after`, oldest first; at most 1000.
    pub async fn events(&self, after: u64) -> Result<Vec<Event>, ManagerError> {
        let request = self.request(Method::GET, &["events"])?;
        self.parse(request.query(&[("after", after)])).await
    }

    /// Records of the audit log with numbers above `after`, oldest first; at most 1000.
    pub async fn audit(&self, after: u64) -> Result<Vec<AuditRecord>, ManagerError> {
        let request = self.request(Method::GET, &["audit"])?;
        self.parse(request.query(&[("after", after)])).await
    }

    /// Events with numbers above `after` as they happen; those to come without it.
    pub async fn stream(&self, after: Option<u64>) -> Result<EventStream, ManagerError> {
        let request = self.request(Method::GET, &["events", "stream"])?;
        // It ends with the manager: its connection must not be taken for one to ask the next.
        let request = request.header("connection", "close");
        let request = match after {
            Some(after) => request.header("last-event-id", after),
            None => request,
        };
        // It begins soon, and has no end.
        let begun = tokio::time::timeout(PATIENCE, self.open(request)).await;
        let silent = |_| ManagerError::Answer(format!("{}: no answer", self.base()));
        Ok(EventStream {
            response: begun.map_err(silent)??,
            parser: Parser::default(),
            ready: VecDeque::new(),
        })
    }

    async fn file<T: DeserializeOwned>(
        &self,
        verb: &str,
        path: &str,
        file: String,
    ) -> Result<T, ManagerError> {
        let request = self.request(Method::POST, &[verb])?;
        let request = request.header("content-type", "application/toml");
        self.parse(request.query(&[("path", path)]).body(file))
            .await
    }

    /// The URL of a manager as it is in requests; it has to go with how it is to be asked.
    fn parsed(&self, base: &str) -> Result<Url, ManagerError> {
        let wrong = || ManagerError::Unreachable(format!("{base} is not the URL of a manager"));
        let url = Url::parse(base).map_err(|_| wrong())?;
        match (url.scheme(), self.scheme) {
            _ if url.cannot_be_a_base() => Err(wrong()),
            (given, wanted) if given == wanted => Ok(url),
            ("https", _) => Err(ManagerError::Answer(format!(
                "{base}: a certificate is needed to ask it: --tls DIR, or SUPERP_TLS in the environment"
            ))),
            ("http", _) => Err(ManagerError::Answer(format!(
                "{base}: it would be asked in clear, though there is a certificate: write https://"
            ))),
            _ => Err(wrong()),
        }
    }

    /// A request to the manager that answered last; what names come in a path is one part of it, whatever
    /// characters it has.
    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, ManagerError> {
        let mut url = self.parsed(self.base())?;
        if let Ok(mut parts) = url.path_segments_mut() {
            parts
                .pop_if_empty()
                .push(API.trim_start_matches('/'))
                .extend(path);
        }
        Ok(self.http.request(method, url))
    }

    /// The manager that answered last.
    fn base(&self) -> &str {
        let current = self.current.load(Ordering::Relaxed);
        self.bases.get(current).map_or("", String::as_str)
    }

    async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, ManagerError> {
        self.parse(self.request(Method::GET, path)?).await
    }

    async fn parse<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ManagerError> {
        self.read(self.send(request).await?).await
    }

    async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<T, ManagerError> {
        let text = response.text().await;
        let text = text.map_err(|error| self.failed(&error))?;
        serde_json::from_str(&text).map_err(|error| {
            let base = self.base();
            ManagerError::Answer(format!(
                "{base} answered what this version does not know: {error}"
            ))
        })
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, ManagerError> {
        self.open(request.timeout(PATIENCE)).await
    }

    /// Asks the manager that answered last, and the others if it is not there or does not lead.
    async fn open(&self, request: RequestBuilder) -> Result<Response, ManagerError> {
        let (http, request) = request.build_split();
        let mut request = request.map_err(|error| self.failed(&error))?;
        let mut left = self.bases.len();
        loop {
            // Bodies here are texts, of which there can be two.
            let again = request.try_clone();
            let asked = RequestBuilder::from_parts(http.clone(), request);
            let error = match self.ask(asked).await {
                Err(error @ ManagerError::Unreachable(_)) => error,
                other => return other,
            };
            left -= 1;
            let Some(again) = again.filter(|_| left > 0) else {
                return Err(error);
            };
            request = self.next(again)?;
        }
    }

    /// The same request to the next manager.
    fn next(&self, mut request: reqwest::Request) -> Result<reqwest::Request, ManagerError> {
        let from = self.parsed(self.base())?;
        self.advance();
        let mut url = self.parsed(self.base())?;
        let path = request.url().path();
        let rest = path.strip_prefix(from.path().trim_end_matches('/'));
        let path = format!(
            "{}{}",
            url.path().trim_end_matches('/'),
            rest.unwrap_or(path)
        );
        url.set_path(&path);
        url.set_query(request.url().query());
        *request.url_mut() = url;
        Ok(request)
    }

    /// Another manager is the one to ask.
    fn advance(&self) {
        let next = (self.current.load(Ordering::Relaxed) + 1) % self.bases.len();
        self.current.store(next, Ordering::Relaxed);
    }

    fn not_leading(&self, problem: &Problem) -> ManagerError {
        let base = self.base();
        ManagerError::Unreachable(format!("{base} does not lead: {}", problem.detail))
    }

    async fn ask(&self, request: RequestBuilder) -> Result<Response, ManagerError> {
        let response = superp_tls::send(request).await;
        let response = response.map_err(|error| self.failed(&error))?;
        let status: StatusCode = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.text().await.map_err(|error| self.failed(&error))?;
        Err(match serde_json::from_str::<Problem>(&text) {
            Ok(problem) if problem.title == NOT_LEADING => self.not_leading(&problem),
            Ok(problem) => ManagerError::Refused(problem),
            // What is no problem document comes from another program, or from a proxy.
            Err(_) => {
                let text = text.lines().next().unwrap_or_default();
                ManagerError::Answer(format!("{}: {status}: {text}", self.base()))
            }
        })
    }

    fn failed(&self, error: &reqwest::Error) -> ManagerError {
        let base = self.base();
        if let Some(why) = superp_tls::explain(error) {
            return ManagerError::Answer(format!("{base}: {why}"));
        }
        match error.is_connect() {
            true => ManagerError::Unreachable(format!("no manager at {base}: {}", chain(error))),
            false => ManagerError::Answer(format!("{base}: {}", chain(error))),
        }
    }
}

/// The innermost cause: what tells a refused connection from a name that does not resolve.
fn chain(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = cause.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// What comes in a stream of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Streamed {
    /// An event.
    Event(Event),
    /// So many events between the last one and the next are not kept any more.
    Lost(u64),
}

/// Events as they happen.
pub struct EventStream {
    response: Response,
    parser: Parser,
    ready: VecDeque<Streamed>,
}

impl EventStream {
    /// After which event to ask for another stream when this one has ended; `None` if it said nothing.
    pub fn last(&self) -> Option<u64> {
        self.parser.last_id()
    }

    /// The next event; `None` when the manager ends, or the connection does.
    pub async fn next(&mut self) -> Result<Option<Streamed>, ManagerError> {
        loop {
            if let Some(streamed) = self.ready.pop_front() {
                return Ok(Some(streamed));
            }
            // The manager says something at least every 15 s, if only that it is there.
            let chunk = tokio::time::timeout(Duration::from_secs(45), self.response.chunk());
            let Ok(Ok(Some(chunk))) = chunk.await else {
                return Ok(None);
            };
            let messages = self.parser.feed(&chunk);
            let messages = messages
                .map_err(|_| ManagerError::Answer("a message of the manager has no end".into()))?;
            for message in messages {
                let unknown = |error: serde_json::Error| {
                    let text = format!("an event that this version does not know: {error}");
                    ManagerError::Answer(text)
                };
                match message.event.as_str() {
                    "" => {
                        let event = serde_json::from_str(&message.data).map_err(unknown)?;
                        self.ready.push_back(Streamed::Event(event));
                    }
                    "lost" => {
                        let lost = serde_json::from_str(&message.data).map_err(unknown)?;
                        self.ready.push_back(Streamed::Lost(lost));
                    }
                    // A later version may say more.
                    _ => {}
                }
            }
        }
    }
}
