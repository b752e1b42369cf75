// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A client of one agent.

use crate::{
    Capabilities, Command, Configure, Configured, ConnectionStatus, Problem, ProblemKind, Reports,
    Reset, Revocations, Revoked, Shutdown, ShutdownComplete, Start, Status, API,
};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::{de::DeserializeOwned, Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use superp_tls::{Role, Tls};

/// What an answer may take beyond what its request asks the agent to wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// What asks servers of one role: with TLS and nothing else, or in clear.
pub fn http(tls: Option<&Tls>, server: Role) -> Result<reqwest::ClientBuilder, String> {
    let http = reqwest::Client::builder()
        // Whoever sets proxies for programs on this host does not mean managers and agents.
        .no_proxy()
        // An agent must not send the manager's commands on to another one.
        .redirect(reqwest::redirect::Policy::none());
    Ok(match tls {
        Some(tls) => http
            .https_only(true)
            .use_preconfigured_tls(tls.client(server)?),
        None => http,
    })
}

/// What many clients ask with; it can be replaced by another one, which has other certificates. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Http(Arc<RwLock<reqwest::Client>>);

impl From<reqwest::Client> for Http {
    fn from(http: reqwest::Client) -> Self {
        Self(Arc::new(RwLock::new(http)))
    }
}

impl Http {
    /// From the next request on, all that have it ask with this one; connections are made anew.
    pub fn replace(&self, http: reqwest::Client) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = http;
    }

    fn get(&self) -> reqwest::Client {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// A client of one agent. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct AgentClient {
    base: String,
    http: Http,
}

/// Why a request failed.
#[derive(Debug)]
pub enum ClientError {
    /// The agent could not be reached, or did not answer as an agent does.
    Transport(reqwest::Error),
    /// The agent refused.
    Refused(Box<Problem>),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The cause is what tells a refused connection from a name that does not resolve.
            Self::Transport(error) => {
                write!(f, "{error}")?;
                let mut cause = std::error::Error::source(error);
                while let Some(error) = cause {
                    write!(f, ": {error}")?;
                    cause = error.source();
                }
                Ok(())
            }
            Self::Refused(problem) => problem.fmt(f),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<reqwest::Error> for ClientError {
    fn from(error: reqwest::Error) -> Self {
        Self::Transport(error)
    }
}

impl ClientError {
    /// The refusal, if the agent gave one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            Self::Transport(_) => None,
        }
    }
}

impl AgentClient {
    /// A client of the agent at this URL, as `https://10.0.0.1:7779`. `http` may be shared among the
    /// clients of many agents.
    pub fn new(base: impl Into<String>, http: impl Into<Http>) -> Self {
        let base = base.into().trim_end_matches('/').to_owned();
        let http = http.into();
        Self { base, http }
    }

    /// The URL.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// What the node can do and has.
    pub async fn capabilities(&self) -> Result<Capabilities, ClientError> {
        answer(self.request(Method::GET, "capabilities")).await
    }

    /// Configures the node. The same again changes nothing.
    pub async fn configure(&self, body: &Configure) -> Result<Configured, ClientError> {
        // A large fabric's worth of netlink requests takes its time.
        let request = self.request(Method::PUT, "configuration").json(body);
        answer(request.timeout(4 * PATIENCE)).await
    }

    /// The connections of the configuration in force; none without one.
    pub async fn lives(&self) -> Result<Vec<Life>, ClientError> {
        match answer(self.request(Method::GET, "configuration")).await {
            Err(ClientError::Refused(problem)) if problem.kind == ProblemKind::NotFound => {
                Ok(Vec::new())
            }
            other => other.map(|InForce { configuration }| configuration.connections),
        }
    }

    /// The node's state.
    pub async fn status(&self, counters: bool) -> Result<Status, ClientError> {
        let request = self.request(Method::GET, "status");
        answer(request.query(&[("counters", counters)])).await
    }

    /// "Start operations".
    pub async fn start(&self, body: &Start) -> Result<Configured, ClientError> {
        self.post("start", body).await
    }

    /// Starts a connection.
    pub async fn start_connection(
        &self,
        cid: u16,
        body: &Command,
    ) -> Result<ConnectionStatus, ClientError> {
        self.post(&format!("connections/{cid}/start"), body).await
    }

    /// Begins the soft shutdown of a connection.
    pub async fn stop_connection(
        &self,
        cid: u16,
        body: &Command,
    ) -> Result<ConnectionStatus, ClientError> {
        self.post(&format!("connections/{cid}/stop"), body).await
    }

    /// Begins a new life of a connection.
    pub async fn reset_connection(
        &self,
        cid: u16,
        body: &Reset,
    ) -> Result<ConnectionStatus, ClientError> {
        self.post(&format!("connections/{cid}/reset"), body).await
    }

    /// Tells which certificates are revoked; the number of the list that is in force then.
    pub async fn revoke(&self, list: &str) -> Result<u64, ClientError> {
        let body = Revocations { list: list.into() };
        let request = self.request(Method::PUT, "revocations").json(&body);
        let revoked: Revoked = answer(request).await?;
        Ok(revoked.number)
    }

    /// "Shutdown node".
    pub async fn shutdown(&self, body: &Shutdown) -> Result<ShutdownComplete, ClientError> {
        let request = self.request(Method::POST, "shutdown").json(body);
        let grace = Duration::from_millis(body.grace_ms);
        answer(request.timeout(PATIENCE + grace)).await
    }

    /// The reports after number `after` of this instance of the agent, waiting for one for `wait` at
    /// most.
    pub async fn events(
        &self,
        instance: Option<&str>,
        after: u64,
        wait: Duration,
    ) -> Result<Reports, ClientError> {
        let request = self.request(Method::GET, "events");
        let request = request.query(&[("after", after), ("wait", wait.as_secs())]);
        let request = match instance {
            Some(instance) => request.query(&[("instance", instance)]),
            None => request,
        };
        answer(request.timeout(PATIENCE + wait)).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, ClientError> {
        answer(self.request(Method::POST, path).json(body)).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{API}/{path}", self.base);
        self.http.get().request(method, url).timeout(PATIENCE)
    }
}

/// A connection of a configuration in force, and the life that it began with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Life {
    /// Its id at the node.
    pub cid: u16,
    /// Address of the peer.
    pub peer: IpAddr,
    /// Its id at the peer.
    pub peer_cid: u16,
    /// First packet sequence number.
    pub start_psn: u32,
    /// First transaction id.
    pub start_xid: u16,
}

/// What is read of a configuration in force. It may be of a later version and have members that are not known
/// here, which [`Configure`] refuses.
#[derive(Deserialize)]
struct InForce {
    configuration: LivesInForce,
}

#[derive(Deserialize)]
struct LivesInForce {
    #[serde(default)]
    connections: Vec<Life>,
}

async fn answer<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, ClientError> {
    let response = superp_tls::send(request).await?;
    let status: StatusCode = response.status();
    if status.is_success() {
        return Ok(response.json().await?);
    }
    // What is no problem document comes from something between, a proxy.
    let text = response.text().await?;
    let problem = serde_json::from_str(&text).unwrap_or_else(|_| {
        let detail = format!("{status}: {}", text.trim());
        Problem::new(ProblemKind::Other, status.as_u16(), detail)
    });
    Err(ClientError::Refused(Box::new(problem)))
}
