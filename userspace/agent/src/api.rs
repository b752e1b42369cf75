// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The REST interface: requests to calls of the agent, and answers back.

use crate::agent::Agent;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::{header, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Extension, Json, Router};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};
use superp_control::openapi::Refusals;
use superp_control::{
    Capabilities, Command, Configure, Configured, ConnectionStatus, Fault, Number, Problem,
    ProblemKind, Reports, Reset, Revocations, Revoked, Shutdown, ShutdownComplete, Start, Status,
};
use superp_tls::serve::Caller;
use superp_tls::{Live, Role};
use utoipa::{IntoParams, OpenApi, ToSchema};

/// Largest body: some 50,000 connections.
const BODY_MAX: usize = 16 << 20;

/// Longest time that a body may take to arrive, and that a request for events waits.
const BODY_TIME: Duration = Duration::from_secs(30);
const WAIT_MAX: u64 = 60;

type Shared = State<Arc<Agent>>;

/// A problem as an answer.
pub(crate) struct Refusal(Box<Problem>);

impl From<Box<Problem>> for Refusal {
    fn from(problem: Box<Problem>) -> Self {
        Self(problem)
    }
}

impl Refusal {
    fn new(kind: ProblemKind, status: StatusCode, detail: impl Into<String>) -> Self {
        Self(Box::new(Problem::new(kind, status.as_u16(), detail)))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        (status, kind, Json(self.0).into_response().into_body()).into_response()
    }
}

type Answer<T> = Result<Json<T>, Refusal>;

/// A body of JSON, refused with the place of the mistake.
struct Body<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().unwrap_or_default().trim() != "application/json" {
            let text = format!("the body is {kind:?}: Content-Type: application/json is wanted");
            return Err(Refusal::new(
                ProblemKind::Malformed,
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                text,
            ));
        }
        let bytes = tokio::time::timeout(BODY_TIME, Bytes::from_request(request, state));
        let bytes = match bytes.await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return Err(unreadable(&error)),
            Err(_) => {
                let text = format!("the body did not arrive within {} s", BODY_TIME.as_secs());
                return Err(Refusal::new(
                    ProblemKind::Timeout,
                    StatusCode::REQUEST_TIMEOUT,
                    text,
                ));
            }
        };
        read(&bytes).map(Self)
    }
}

fn unreadable(error: &BytesRejection) -> Refusal {
    let text = match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => format!("the body is longer than {BODY_MAX} bytes"),
        _ => error.body_text(),
    };
    Refusal::new(ProblemKind::Malformed, error.status(), text)
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let wrong = |pointer: String, detail: String| {
        let text = format!("{pointer}: {detail}; nothing was changed");
        let mut refusal = Refusal::new(ProblemKind::Malformed, StatusCode::BAD_REQUEST, text);
        refusal.0.faults.push(Fault { pointer, detail });
        refusal
    };
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let pointer = pointer(error.path());
        wrong(pointer, error.into_inner().to_string())
    })?;
    match json.end() {
        Ok(()) => Ok(value),
        Err(error) => Err(wrong("/".into(), error.to_string())),
    }
}

/// The path as a JSON pointer.
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut text = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => text += &format!("/{index}"),
            Segment::Map { key } => {
                text += &format!("/{}", key.replace('~', "~0").replace('/', "~1"))
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    match text.is_empty() {
        true => "/".into(),
        false => text,
    }
}

/// What follows a question mark, refused in the same way.
struct Asked<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        state: &S,
    ) -> Result<Self, Refusal> {
        let query: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        query.map(|query| Self(query.0)).map_err(|error| {
            Refusal::new(ProblemKind::Malformed, error.status(), error.body_text())
        })
    }
}

/// The connection that is meant.
struct Cid(u16);

impl<S: Send + Sync> FromRequestParts<S> for Cid {
    type Rejection = Refusal;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        state: &S,
    ) -> Result<Self, Refusal> {
        let cid: Result<Path<u16>, PathRejection> = Path::from_request_parts(parts, state).await;
        cid.map(|cid| Self(cid.0)).map_err(|_| {
            let text = "a connection id is a number from 0 to 65535";
            Refusal::new(ProblemKind::NotFound, StatusCode::NOT_FOUND, text)
        })
    }
}

/// Runs what blocks, netlink and the disk, beside the other requests.
async fn blocking<T: Send + 'static>(
    agent: Arc<Agent>,
    work: impl FnOnce(&Agent) -> Result<T, Box<Problem>> + Send + 'static,
) -> Answer<T> {
    match tokio::task::spawn_blocking(move || work(&agent)).await {
        Ok(result) => Ok(Json(result?)),
        Err(error) => Err(Refusal::new(
            ProblemKind::Failed,
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the request was not completed: {error}"),
        )),
    }
}

/// What the node can do and has.
#[utoipa::path(get, path = "/v1/capabilities", responses(
    (status = 200, body = Capabilities), (status = 503)))]
async fn capabilities(State(agent): Shared) -> Answer<Capabilities> {
    blocking(agent, Agent::capabilities).await
}

/// Configures the node, as a whole or not at all. The same again changes nothing.
#[utoipa::path(put, path = "/v1/configuration", request_body = Configure, responses(
    (status = 200, body = Configured), (status = 409), (status = 415), (status = 422), (status = 503)))]
async fn configure(State(agent): Shared, Body(body): Body<Configure>) -> Answer<Configured> {
    blocking(agent, |agent| agent.configure(body)).await
}

/// The configuration in force.
#[utoipa::path(get, path = "/v1/configuration", responses(
    (status = 200, body = Configure), (status = 404)))]
async fn configuration(State(agent): Shared) -> Answer<Configure> {
    blocking(agent, Agent::configuration).await
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StatusQuery {
    /// Whether counters of connections are wanted; they are unless told.
    counters: Option<bool>,
}

/// State of the node, its devices and its connections.
#[utoipa::path(get, path = "/v1/status", params(StatusQuery), responses(
    (status = 200, body = Status), (status = 503)))]
async fn status(State(agent): Shared, Asked(query): Asked<StatusQuery>) -> Answer<Status> {
    blocking(agent, move |agent| {
        agent.status(query.counters.unwrap_or(true))
    })
    .await
}

/// Start operations.
#[utoipa::path(post, path = "/v1/start", request_body = Start, responses(
    (status = 200, body = Configured), (status = 409), (status = 415), (status = 422), (status = 503)))]
async fn start(State(agent): Shared, Body(body): Body<Start>) -> Answer<Configured> {
    blocking(agent, move |agent| agent.start(body)).await
}

/// Starts a connection.
#[utoipa::path(post, path = "/v1/connections/{cid}/start", request_body = Command,
    params(("cid" = u16, Path, maximum = 65535)), responses(
    (status = 200, body = ConnectionStatus), (status = 404), (status = 409), (status = 415), (status = 422), (status = 503)))]
async fn start_connection(
    State(agent): Shared,
    Cid(cid): Cid,
    Body(body): Body<Command>,
) -> Answer<ConnectionStatus> {
    blocking(agent, move |agent| agent.start_connection(cid, body)).await
}

/// Begins the soft shutdown of a connection.
#[utoipa::path(post, path = "/v1/connections/{cid}/stop", request_body = Command,
    params(("cid" = u16, Path, maximum = 65535)), responses(
    (status = 200, body = ConnectionStatus), (status = 404), (status = 409), (status = 415), (status = 422), (status = 503)))]
async fn stop_connection(
    State(agent): Shared,
    Cid(cid): Cid,
    Body(body): Body<Command>,
) -> Answer<ConnectionStatus> {
    blocking(agent, move |agent| agent.stop_connection(cid, body)).await
}

/// Begins a new life of a connection, in the state `created`.
#[utoipa::path(post, path = "/v1/connections/{cid}/reset", request_body = Reset,
    params(("cid" = u16, Path, maximum = 65535)), responses(
    (status = 200, body = ConnectionStatus), (status = 404), (status = 409), (status = 415), (status = 422), (status = 503)))]
async fn reset_connection(
    State(agent): Shared,
    Cid(cid): Cid,
    Body(body): Body<Reset>,
) -> Answer<ConnectionStatus> {
    blocking(agent, move |agent| agent.reset_connection(cid, body)).await
}

/// Ends every connection, kills the applications, frees everything.
#[utoipa::path(post, path = "/v1/shutdown", request_body = Shutdown, responses(
    (status = 200, body = ShutdownComplete), (status = 409), (status = 415), (status = 422), (status = 503)))]
async fn shutdown(State(agent): Shared, Body(body): Body<Shutdown>) -> Answer<ShutdownComplete> {
    blocking(agent, move |agent| agent.shutdown(body)).await
}

/// Tells which certificates are revoked. They are refused from now on, and connections that were made with them end.
#[utoipa::path(put, path = "/v1/revocations", request_body = Revocations, responses(
    (status = 200, body = Revoked), (status = 409), (status = 415), (status = 422)))]
async fn revocations(
    Extension(live): Extension<Option<Live>>,
    Body(body): Body<Revocations>,
) -> Answer<Revoked> {
    let Some(live) = live else {
        let text = "this agent asks nobody for a certificate: it has no --tls DIR";
        return Err(Refusal::new(ProblemKind::State, StatusCode::CONFLICT, text));
    };
    let taken = tokio::task::spawn_blocking(move || live.take(&body.list)).await;
    let taken = taken.unwrap_or_else(|error| Err(error.to_string()));
    let number = taken.map_err(|why| {
        let text = format!("the list: {why}");
        Refusal::new(ProblemKind::Invalid, StatusCode::UNPROCESSABLE_ENTITY, text)
    })?;
    Ok(Json(Revoked { number }))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// Number of the last report that is known.
    #[param(value_type = Option<u64>)]
    after: Option<Number>,
    /// The instance whose number that is.
    instance: Option<String>,
    /// Seconds to wait for a report, 60 at most.
    #[param(value_type = Option<u64>)]
    wait: Option<Number>,
}

/// What happened: events of the kernel, numbered.
#[utoipa::path(get, path = "/v1/events", params(EventsQuery), responses(
    (status = 200, body = Reports)))]
async fn events(State(agent): Shared, Asked(query): Asked<EventsQuery>) -> Answer<Reports> {
    let wait = Duration::from_secs(u64::from(query.wait.unwrap_or_default()).min(WAIT_MAX));
    let (instance, after) = (query.instance.as_deref(), query.after.unwrap_or_default());
    Ok(Json(agent.log.wait(instance, after.into(), wait).await))
}

/// All is well.
#[derive(Serialize, ToSchema)]
struct Well {
    /// "ok".
    status: &'static str,
}

/// Whether the agent runs.
#[utoipa::path(get, path = "/livez", responses(
    (status = 200, body = Well)))]
async fn livez() -> Json<Well> {
    Json(Well { status: "ok" })
}

/// Whether it can do its work: the kernel answers.
#[utoipa::path(get, path = "/readyz", responses(
    (status = 200, body = Well), (status = 503)))]
async fn readyz(State(agent): Shared) -> Answer<Well> {
    blocking(agent, |agent| match agent.probe() {
        Ok(()) => Ok(Well { status: "ok" }),
        Err(error) => Err(Box::new(Problem::new(
            ProblemKind::NoModule,
            503,
            error.to_string(),
        ))),
    })
    .await
}

/// The status for Prometheus.
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, body = String, content_type = "text/plain"), (status = 503)))]
async fn metrics(State(agent): Shared) -> Result<impl IntoResponse, Refusal> {
    let Json(status) = blocking(agent, |agent| agent.status(true)).await?;
    let kind = [(header::CONTENT_TYPE, superp_control::prometheus::MEDIA_TYPE)];
    Ok((kind, crate::metrics::metrics(&status)))
}

#[derive(OpenApi)]
#[openapi(
    info(title = "superp-agent", description = "The SUPERp agent of one node."),
    paths(
        capabilities,
        configure,
        configuration,
        status,
        start,
        start_connection,
        stop_connection,
        reset_connection,
        revocations,
        shutdown,
        events,
        livez,
        readyz,
        metrics
    ),
    components(schemas(Problem)),
    modifiers(&Refusals)
)]
struct Document;

async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(Document::openapi())
}

async fn no_such_path(request: Request) -> Refusal {
    let text = format!(
        "there is no {}: GET /openapi.json tells what there is",
        request.uri().path()
    );
    Refusal::new(ProblemKind::NotFound, StatusCode::NOT_FOUND, text)
}

async fn no_such_method(request: Request) -> Refusal {
    let text = format!(
        "{} is no request for {}",
        request.method(),
        request.uri().path()
    );
    Refusal::new(ProblemKind::NotFound, StatusCode::METHOD_NOT_ALLOWED, text)
}

async fn note(request: Request, next: Next) -> Response {
    let start = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let (status, ms) = (response.status().as_u16(), start.elapsed().as_millis());
    tracing::debug!(%method, path, status, ms, "request");
    response
}

/// Passes on what the role of who asks allows: all may ask who may ask the manager, commands are the
/// manager's.
async fn guard(caller: Option<Extension<Caller>>, request: Request, next: Next) -> Response {
    let Some(Extension(caller)) = caller else {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        return Refusal::new(ProblemKind::Failed, status, "it is not known who asks")
            .into_response();
    };
    let what = format!("{} {}", request.method(), request.uri().path());
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    // It has the partitions of jobs in it.
    let configuration = request.uri().path() == "/v1/configuration";
    let roles: &[Role] = match (reads, configuration) {
        (true, false) => &[Role::Viewer, Role::Operator, Role::Manager],
        (true, true) => &[Role::Operator, Role::Manager],
        (false, _) => &[Role::Manager],
    };
    match caller.may(roles, what) {
        Ok(()) => next.run(request).await,
        Err(why) => {
            tracing::warn!("refused: {why}");
            Refusal::new(ProblemKind::Forbidden, StatusCode::FORBIDDEN, why).into_response()
        }
    }
}

/// Every request that there is, for [`superp_tls::serve`]: it has to be known who asks. With TLS, `live` is what this
/// agent has.
pub(crate) fn router(agent: Arc<Agent>, live: Option<Live>) -> Router {
    Router::new()
        .route("/v1/capabilities", get(capabilities))
        .route("/v1/configuration", get(configuration).put(configure))
        .route("/v1/status", get(status))
        .route("/v1/start", post(start))
        .route("/v1/connections/{cid}/start", post(start_connection))
        .route("/v1/connections/{cid}/stop", post(stop_connection))
        .route("/v1/connections/{cid}/reset", post(reset_connection))
        .route("/v1/revocations", put(revocations))
        .route("/v1/shutdown", post(shutdown))
        .route("/v1/events", get(events))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(Extension(live))
        .layer(middleware::from_fn(guard))
        .layer(middleware::from_fn(note))
        .with_state(agent)
}

#[cfg(test)]
mod roles;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistake_in_a_body_is_told_with_its_place() {
        let body = br#"{"term": 1, "configuration": {"fabric": "f", "generation": 1,
            "connections": [{"cid": 1, "peer": "10.0.0.2", "peer_cid": 1}, {"cid": 70000}]}}"#;
        let Err(Refusal(problem)) = read::<Configure>(body) else {
            panic!("taken")
        };
        assert_eq!(
            (problem.status, problem.kind),
            (400, ProblemKind::Malformed)
        );
        assert_eq!(
            problem.faults[0].pointer,
            "/configuration/connections/1/cid"
        );
        assert!(problem.faults[0].detail.contains("70000"), "{problem}");
    }

    #[test]
    fn what_follows_a_body_is_refused() {
        assert!(read::<Start>(br#"{"term": 1, "generation": 1}"#).is_ok());
        assert!(read::<Start>(br#"{"term": 1, "generation": 1} {}"#).is_err());
        assert!(read::<Start>(b"").is_err());
    }

    #[test]
    fn document_names_every_request() {
        let document = Document::openapi();
        let paths: Vec<_> = document.paths.paths.keys().map(String::as_str).collect();
        assert_eq!(
            paths,
            [
                "/livez",
                "/metrics",
                "/readyz",
                "/v1/capabilities",
                "/v1/configuration",
                "/v1/connections/{cid}/reset",
                "/v1/connections/{cid}/start",
                "/v1/connections/{cid}/stop",
                "/v1/events",
                "/v1/revocations",
                "/v1/shutdown",
                "/v1/start",
                "/v1/status",
            ]
        );
        // Refused requests are problems, as the kind of the body says, and each status is told.
        let json = serde_json::to_value(&document).unwrap();
        let readyz = &json["paths"]["/readyz"]["get"]["responses"];
        let statuses: Vec<_> = readyz.as_object().unwrap().keys().collect();
        assert_eq!(statuses, ["200", "403", "500", "503"]);
        let kinds = readyz["503"]["content"].as_object().unwrap().keys();
        assert_eq!(kinds.collect::<Vec<_>>(), ["application/problem+json"]);
        let schemas = document.components.unwrap().schemas;
        for name in [
            "Configure",
            "Connection",
            "Status",
            "Problem",
            "Fault",
            "Outcome",
            "Report",
        ] {
            assert!(schemas.contains_key(name), "{name}");
        }
    }
}
