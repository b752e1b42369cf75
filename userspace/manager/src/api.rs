// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The REST interface of the manager; `GET /openapi.json` describes it.

mod access;
mod asked;
mod body;
#[cfg(test)]
mod document;
mod health;
mod jobs;
mod metrics;
mod page;
mod standby;
mod stream;

use self::asked::{Asked, Name};
use self::body::Body;
pub use self::standby::Standby;
use crate::engine::{Manager, Refusal};
use crate::fabric::show;
use crate::plan::Plan;
use crate::state::{ConnKey, ConnRecord, Event, State, Want};
use crate::{decide, decide::Seen};
use axum::extract::{DefaultBodyLimit, State as Shared};
use axum::http::{header, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{middleware, Extension, Json, Router};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use superp_control::manager::{
    AuditRecord, Connection, ConnectionEnd, FabricStatus, NodeStatus, Problem, Traffic,
};
use superp_control::openapi::Refusals;
use superp_control::{ConnectionState, ConnectionStatus, LinkState, NodeState, Number, Status};
use utoipa::{IntoParams, OpenApi};

/// Most events of one answer.
const EVENTS_AT_ONCE: u64 = 1000;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct FileQuery {
    /// Name of the file, for its mistakes.
    path: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ConnectionsQuery {
    /// Only connections of this node.
    node: Option<String>,
    /// With what they sent and received. Agents tell it from the first question on, until 10 s after the last.
    #[serde(default)]
    counters: bool,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ConnectionQuery {
    /// With its counters. Agents tell them from the first question on, until 10 s after the last.
    #[serde(default)]
    counters: bool,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// Events with numbers above this one.
    #[serde(default)]
    #[param(value_type = u64)]
    after: Number,
    /// So many at most; 1000 where more are asked for, or nothing is.
    #[param(value_type = Option<u64>)]
    limit: Option<Number>,
    /// Seconds to wait for one; 60 where more are asked for.
    #[serde(default)]
    #[param(value_type = u64)]
    wait: Number,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "SUPERp connection manager",
        description = "Nodes and connections of a SUPERp fabric."
    ),
    paths(
        fabric,
        nodes,
        node,
        connections,
        connection,
        events,
        stream::stream,
        audit,
        parameters,
        jobs::jobs,
        jobs::job,
        jobs::make,
        jobs::end,
        plan,
        apply,
        shutdown,
        stop,
        restart,
        reset,
        stop_node,
        restart_node,
        stop_fabric,
        restart_fabric,
        health::livez,
        health::readyz,
        health::numbers
    ),
    modifiers(&Refusals)
)]
struct Document;

/// The document that describes the interface.
pub fn document() -> String {
    // It is made of types of this file and has no key that is not text.
    Document::openapi().to_pretty_json().unwrap_or_default()
}

/// The interface, for [`superp_tls::serve`]: it has to be known who asks.
pub fn router(manager: Manager) -> Router {
    let document = document();
    page::routes()
        .route(
            "/openapi.json",
            get(|| async move { ([(header::CONTENT_TYPE, "application/json")], document) }),
        )
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::numbers))
        .route("/v1/fabric", get(fabric))
        .route("/v1/fabric/stop", post(stop_fabric))
        .route("/v1/fabric/restart", post(restart_fabric))
        .route("/v1/nodes", get(nodes))
        .route("/v1/nodes/{name}", get(node))
        .route("/v1/nodes/{name}/stop", post(stop_node))
        .route("/v1/nodes/{name}/restart", post(restart_node))
        .route("/v1/connections", get(connections))
        .route("/v1/connections/{key}", get(connection))
        .route("/v1/connections/{key}/stop", post(stop))
        .route("/v1/connections/{key}/restart", post(restart))
        .route("/v1/connections/{key}/reset", post(reset))
        .route("/v1/parameters", get(parameters))
        .route("/v1/events", get(events))
        .route("/v1/events/stream", get(stream::stream))
        .route("/v1/audit", get(audit))
        .route("/v1/jobs", get(jobs::jobs).post(jobs::make))
        .route("/v1/jobs/{job}", get(jobs::job).delete(jobs::end))
        .route("/v1/plan", post(plan))
        .route("/v1/apply", post(apply))
        .route("/v1/shutdown", post(shutdown))
        .fallback(|| async {
            problem(
                StatusCode::NOT_FOUND,
                "There is no such thing",
                "GET /openapi.json tells what there is",
            )
        })
        .method_not_allowed_fallback(|method: Method, uri: Uri| async move {
            problem(
                StatusCode::METHOD_NOT_ALLOWED,
                "There is no such request",
                format!(
                    "{} cannot be asked with {method}, but with what Allow lists",
                    uri.path()
                ),
            )
        })
        .layer(DefaultBodyLimit::max(body::MAX))
        .layer(middleware::from_fn_with_state(
            manager.clone(),
            access::guard,
        ))
        .with_state(manager)
}

pub(crate) fn problem(status: StatusCode, title: &str, detail: impl Into<String>) -> Response {
    let body = Problem {
        title: title.into(),
        status: status.as_u16(),
        detail: detail.into(),
    };
    let kind = [(header::CONTENT_TYPE, "application/problem+json")];
    let text = serde_json::to_string(&body).unwrap_or_default();
    let result = access::Outcome::new(&body.detail);
    (status, kind, Extension(result), text).into_response()
}

fn refused(refusal: Refusal, path: &str, text: &str) -> Response {
    match refusal {
        Refusal::Mistakes(mistakes) => problem(
            StatusCode::UNPROCESSABLE_ENTITY,
            "The fabric file has mistakes",
            show(path, text, &mistakes),
        ),
        Refusal::Job(mistakes) => problem(
            StatusCode::UNPROCESSABLE_ENTITY,
            "The job cannot be made",
            mistakes.join("\n"),
        ),
        Refusal::Conflict(why) => problem(StatusCode::CONFLICT, "The state does not allow it", why),
        Refusal::NotFound(why) => problem(StatusCode::NOT_FOUND, "There is no such thing", why),
        Refusal::Store(error) => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The store failed",
            error.to_string(),
        ),
    }
}

/// How far the fabric is, and what is waited for.
#[utoipa::path(get, path = "/v1/fabric", responses((status = 200, body = FabricStatus)))]
async fn fabric(Shared(manager): Shared<Manager>) -> Json<FabricStatus> {
    let last = *manager.last_event().borrow();
    Json(manager.look(|state, seen, term| fabric_status(state, seen, term, last)))
}

fn fabric_status(
    state: &State,
    seen: &BTreeMap<String, Seen>,
    term: u64,
    last_event: u64,
) -> FabricStatus {
    let fabric = &state.fabric;
    let ready = |(name, _): &(&String, _)| {
        let status = status(seen, name);
        status.is_some_and(|status| {
            status.generation == Some(fabric.generation)
                && matches!(status.state, NodeState::Ready | NodeState::Started)
        })
    };
    FabricStatus {
        name: fabric.name.clone(),
        phase: fabric.phase,
        generation: fabric.generation,
        started: fabric.started,
        term,
        nodes: state.members().count(),
        nodes_ready: state.members().filter(ready).count(),
        connections: state.conns.len(),
        connections_running: state
            .conns
            .iter()
            .filter(|(key, conn)| is_running(seen, key, conn))
            .count(),
        waiting: decide::waiting(state, seen),
        last_event,
    }
}

/// Whether both ends of a connection run, in the life that is wanted.
fn is_running(seen: &BTreeMap<String, Seen>, key: &ConnKey, conn: &ConnRecord) -> bool {
    key.ends().iter().zip(&conn.nodes).all(|(end, node)| {
        let status = conn_status(seen, node, end.cid);
        status.is_some_and(|status| {
            status.state == ConnectionState::Established && status.start_psn == conn.start_psn
        })
    })
}

fn status<'a>(seen: &'a BTreeMap<String, Seen>, node: &str) -> Option<&'a Status> {
    seen.get(node)?.status.as_ref().ok()
}

fn conn_status<'a>(
    seen: &'a BTreeMap<String, Seen>,
    node: &str,
    cid: u16,
) -> Option<&'a ConnectionStatus> {
    let conns = &status(seen, node)?.connections;
    conns.iter().find(|conn| conn.cid == cid)
}

/// The nodes.
#[utoipa::path(get, path = "/v1/nodes", responses((status = 200, body = Vec<NodeStatus>)))]
async fn nodes(Shared(manager): Shared<Manager>) -> Json<Vec<NodeStatus>> {
    Json(manager.look(|state, seen, _| {
        let names = state.nodes.keys();
        names
            .filter_map(|name| node_status(state, seen, name))
            .collect()
    }))
}

/// A node, with its capabilities.
#[utoipa::path(get, path = "/v1/nodes/{name}", params(("name" = String, Path)),
    responses((status = 200, body = NodeStatus), (status = 404, body = Problem)))]
async fn node(Shared(manager): Shared<Manager>, Name(name): Name) -> Response {
    let found = manager.look(|state, seen, _| {
        let mut found = node_status(state, seen, &name)?;
        found.capabilities = state.nodes.get(&name)?.capabilities.clone();
        Some(found)
    });
    match found {
        Some(found) => Json(found).into_response(),
        None => problem(
            StatusCode::NOT_FOUND,
            "There is no such thing",
            format!("there is no node {name}"),
        ),
    }
}

fn node_status(state: &State, seen: &BTreeMap<String, Seen>, name: &str) -> Option<NodeStatus> {
    let record = state.nodes.get(name)?;
    let told = status(seen, name);
    let error = seen
        .get(name)
        .and_then(|seen| seen.status.as_ref().err().or(seen.refused.as_ref()));
    let conns = state
        .conns
        .values()
        .filter(|conn| conn.nodes.iter().any(|node| node == name));
    let devices = told.map(|status| status.devices.as_slice());
    let down = devices.unwrap_or_default().iter().filter(|device| {
        let is_port = |port: &crate::fabric::Port| port.dev == device.device;
        device.state == LinkState::Down && record.node.ports.iter().any(is_port)
    });
    let capability = |name| record.capabilities.as_ref()?.get(name)?.as_str();
    Some(NodeStatus {
        name: name.to_owned(),
        agent: record.node.agent.clone(),
        address: record.node.address.to_string(),
        ports: record.node.ports.clone(),
        rma: record.node.rma,
        state: told.map(|status| status.state),
        generation: told.and_then(|status| status.generation),
        error: error.cloned(),
        leaving: record.leaving,
        ports_down: down.map(|device| device.device.clone()).collect(),
        agent_version: capability("agent_version").map(str::to_owned),
        connections: conns.count(),
        capabilities: None,
    })
}

/// The connections.
#[utoipa::path(get, path = "/v1/connections", params(ConnectionsQuery),
    responses((status = 200, body = Vec<Connection>)))]
async fn connections(
    Shared(manager): Shared<Manager>,
    Asked(query): Asked<ConnectionsQuery>,
) -> Json<Vec<Connection>> {
    if query.counters {
        manager.want_counters();
    }
    Json(manager.look(|state, seen, _| {
        let wanted = |(_, conn): &(&ConnKey, &ConnRecord)| {
            query
                .node
                .as_ref()
                .is_none_or(|node| conn.nodes.contains(node))
        };
        let keys = state.conns.iter().filter(wanted).map(|(key, _)| key);
        keys.filter_map(|key| one_connection(state, seen, key, query.counters))
            .collect()
    }))
}

/// A connection.
#[utoipa::path(get, path = "/v1/connections/{connection}", params(("connection" = String, Path), ConnectionQuery),
    responses((status = 200, body = Connection), (status = 404, body = Problem)))]
async fn connection(
    Shared(manager): Shared<Manager>,
    Name(text): Name,
    Asked(query): Asked<ConnectionQuery>,
) -> Response {
    let key = match key(&text) {
        Ok(key) => key,
        Err(response) => return *response,
    };
    if query.counters {
        manager.want_counters();
    }
    let found = manager.look(|state, seen, _| {
        let mut found = one_connection(state, seen, &key, query.counters)?;
        if query.counters {
            for end in &mut found.ends {
                end.counters = counters(seen, &end.node, end.cid).map(|(_, all)| all.clone());
            }
        }
        Some(found)
    });
    match found {
        Some(found) => Json(found).into_response(),
        None => problem(
            StatusCode::NOT_FOUND,
            "There is no such thing",
            format!("there is no connection {key}"),
        ),
    }
}

fn one_connection(
    state: &State,
    seen: &BTreeMap<String, Seen>,
    key: &ConnKey,
    count: bool,
) -> Option<Connection> {
    let conn = state.conns.get(key)?;
    let ends = key.ends().into_iter().zip(&conn.nodes).map(|(end, node)| {
        let told = conn_status(seen, node, end.cid);
        ConnectionEnd {
            node: node.clone(),
            address: end.addr.to_string(),
            cid: end.cid,
            state: told.map(|told| told.state),
            cause: told.and_then(|told| told.cause.clone()),
            traffic: counters(seen, node, end.cid).filter(|_| count).map(traffic),
            counters: None,
        }
    });
    let job = state.job_of(conn).map(|job| job.name.clone());
    let mut settings = conn.settings.clone();
    if job.is_some() {
        // It is the job's token.
        settings.partition = 0;
    }
    Some(Connection {
        connection: key.to_string(),
        ends: ends.collect(),
        want: conn.want,
        life: conn.life,
        start_psn: conn.start_psn,
        job,
        settings,
    })
}

/// Counters of an end, and when they were told.
fn counters<'a>(
    seen: &'a BTreeMap<String, Seen>,
    node: &str,
    cid: u16,
) -> Option<(u64, &'a BTreeMap<String, u64>)> {
    let told = &seen.get(node)?.counters;
    Some((told.time_ms, told.conns.get(&cid)?))
}

fn traffic((time_ms, counters): (u64, &BTreeMap<String, u64>)) -> Traffic {
    let of = |name: &str| counters.get(name).copied().unwrap_or(0);
    let again = ["retrans-fast", "retrans-rto", "retrans-full"].map(of);
    Traffic {
        time_ms,
        tx_packets: of("tx-packets"),
        rx_packets: of("rx-packets"),
        tx_bytes: of("tx-bytes"),
        rx_bytes: of("rx-bytes"),
        retransmits: again.into_iter().fold(0, u64::saturating_add),
        failed: of("failed"),
    }
}

fn key(text: &str) -> Result<ConnKey, Box<Response>> {
    text.parse().map_err(|error: String| {
        Box::new(problem(
            StatusCode::NOT_FOUND,
            "There is no such thing",
            error,
        ))
    })
}

/// Global parameters that are set.
#[utoipa::path(get, path = "/v1/parameters", responses((status = 200, body = BTreeMap<String, u64>)))]
async fn parameters(Shared(manager): Shared<Manager>) -> Json<BTreeMap<String, u64>> {
    Json(manager.look(|state, _, _| state.params.clone()))
}

/// Events, oldest first.
#[utoipa::path(get, path = "/v1/events", params(EventsQuery), responses((status = 200, body = Vec<Event>)))]
async fn events(Shared(manager): Shared<Manager>, Asked(query): Asked<EventsQuery>) -> Response {
    let (after, wait) = (query.after.into(), query.wait.into());
    let (mut last, mut ending) = (manager.last_event(), manager.ending());
    let more = async {
        tokio::select! {
            _ = last.wait_for(|last| *last > after) => {}
            _ = ending.wait_for(|ending| *ending) => {}
        }
    };
    // When the time is over there are none.
    let _ = tokio::time::timeout(Duration::from_secs(60.min(wait)), more).await;
    let limit = query
        .limit
        .map_or(EVENTS_AT_ONCE, u64::from)
        .min(EVENTS_AT_ONCE);
    match manager.events(after, limit) {
        Ok(events) => Json(events).into_response(),
        Err(error) => refused(Refusal::Store(error), "", ""),
    }
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct AuditQuery {
    /// Records with numbers above this one.
    #[serde(default)]
    #[param(value_type = u64)]
    after: Number,
    /// So many at most; 1000 where more are asked for, or nothing is.
    #[param(value_type = Option<u64>)]
    limit: Option<Number>,
}

/// The audit log, oldest first: every request to change something, also those that were refused.
#[utoipa::path(get, path = "/v1/audit", params(AuditQuery), responses((status = 200, body = Vec<AuditRecord>)))]
async fn audit(Shared(manager): Shared<Manager>, Asked(query): Asked<AuditQuery>) -> Response {
    let limit = query
        .limit
        .map_or(EVENTS_AT_ONCE, u64::from)
        .min(EVENTS_AT_ONCE);
    match manager.audit_log(query.after.into(), limit) {
        Ok(records) => Json(records).into_response(),
        Err(error) => refused(Refusal::Store(error), "", ""),
    }
}

/// What applying a fabric file would do; the body is the file.
#[utoipa::path(post, path = "/v1/plan", params(FileQuery), request_body(content = String, content_type = "application/toml"),
    responses((status = 200, body = Plan), (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn plan(
    Shared(manager): Shared<Manager>,
    Asked(query): Asked<FileQuery>,
    Body(body): Body,
) -> Response {
    match manager.plan(&body) {
        Ok(plan) => Json(plan).into_response(),
        Err(refusal) => refused(refusal, query.path.as_deref().unwrap_or("fabric"), &body),
    }
}

/// Applies a fabric file; the body is the file. Applied again it changes nothing.
#[utoipa::path(post, path = "/v1/apply", params(FileQuery), request_body(content = String, content_type = "application/toml"),
    responses((status = 200, body = Plan), (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn apply(
    Shared(manager): Shared<Manager>,
    Asked(query): Asked<FileQuery>,
    Body(body): Body,
) -> Response {
    match manager.apply(&body) {
        Ok(plan) => {
            let result = access::Outcome::new(&format!("configuration {}", plan.generation));
            (Extension(result), Json(plan)).into_response()
        }
        Err(refusal) => refused(refusal, query.path.as_deref().unwrap_or("fabric"), &body),
    }
}

/// Shuts every node down. The fabric is down when the phase says so; then it can be applied again.
#[utoipa::path(post, path = "/v1/shutdown", responses((status = 202), (status = 409, body = Problem)))]
async fn shutdown(Shared(manager): Shared<Manager>) -> Response {
    accepted(manager.shutdown())
}

/// Shuts a connection down softly: what was begun is completed.
#[utoipa::path(post, path = "/v1/connections/{connection}/stop", params(("connection" = String, Path)),
    responses((status = 202), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn stop(Shared(manager): Shared<Manager>, Name(text): Name) -> Response {
    wanted(&manager, &text, Some(Want::Stop))
}

/// Shuts a connection down softly and starts it again; requests that wait are kept.
#[utoipa::path(post, path = "/v1/connections/{connection}/restart", params(("connection" = String, Path)),
    responses((status = 202), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn restart(Shared(manager): Shared<Manager>, Name(text): Name) -> Response {
    wanted(&manager, &text, Some(Want::Restart))
}

/// Resets both ends of a connection at once and starts it again; requests under way end with an error.
#[utoipa::path(post, path = "/v1/connections/{connection}/reset", params(("connection" = String, Path)),
    responses((status = 202), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn reset(Shared(manager): Shared<Manager>, Name(text): Name) -> Response {
    wanted(&manager, &text, None)
}

/// Shuts all connections of a node down softly: what was begun is completed.
#[utoipa::path(post, path = "/v1/nodes/{name}/stop", params(("name" = String, Path)),
    responses((status = 202), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn stop_node(Shared(manager): Shared<Manager>, Name(name): Name) -> Response {
    accepted(manager.want_all(Some(&name), Want::Stop))
}

/// Shuts all connections of a node down softly and starts them again; requests that wait are kept.
#[utoipa::path(post, path = "/v1/nodes/{name}/restart", params(("name" = String, Path)),
    responses((status = 202), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn restart_node(Shared(manager): Shared<Manager>, Name(name): Name) -> Response {
    accepted(manager.want_all(Some(&name), Want::Restart))
}

/// Shuts all connections down softly: what was begun is completed.
#[utoipa::path(post, path = "/v1/fabric/stop", responses((status = 202), (status = 409, body = Problem)))]
async fn stop_fabric(Shared(manager): Shared<Manager>) -> Response {
    accepted(manager.want_all(None, Want::Stop))
}

/// Shuts all connections down softly and starts them again; requests that wait are kept.
#[utoipa::path(post, path = "/v1/fabric/restart", responses((status = 202), (status = 409, body = Problem)))]
async fn restart_fabric(Shared(manager): Shared<Manager>) -> Response {
    accepted(manager.want_all(None, Want::Restart))
}

fn wanted(manager: &Manager, text: &str, want: Option<Want>) -> Response {
    match key(text) {
        Ok(key) => accepted(manager.want(&key, want)),
        Err(response) => *response,
    }
}

fn accepted(result: Result<(), Refusal>) -> Response {
    match result {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(refusal) => refused(refusal, "", ""),
    }
}
