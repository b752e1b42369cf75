// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Jobs. The number of a job's partition is its token: it is told to operators, and to the job's own nodes.

use super::access::Outcome;
use super::asked::{Asked, Name};
use super::body::Body;
use super::{is_running, problem, refused};
use crate::decide::{self, Seen};
use crate::engine::{Manager, Refusal};
use crate::state::{ConnKey, ConnRecord, JobRecord, State};
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use superp_control::manager::{Job, JobSpec};
use superp_control::Number;
use superp_tls::serve::Caller;
use superp_tls::Role;
use tokio::time::Instant;
use utoipa::IntoParams;

/// Longest time to wait for a job, seconds.
const LONGEST_WAIT: u64 = 600;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitQuery {
    /// Seconds to wait until all connections of the job run, 600 at most.
    #[serde(default)]
    #[param(value_type = u64)]
    wait: Number,
}

impl WaitQuery {
    fn seconds(&self) -> u64 {
        u64::from(self.wait).min(LONGEST_WAIT)
    }

    fn end(&self) -> Instant {
        Instant::now() + Duration::from_secs(self.seconds())
    }
}

/// A job as it is now; its partition only if it may be told.
fn document(
    state: &State,
    seen: &BTreeMap<String, Seen>,
    (partition, job): (u32, &JobRecord),
    tell: bool,
) -> Job {
    let of_job = |(_, conn): &(&ConnKey, &ConnRecord)| conn.settings.partition == partition;
    let conns: Vec<_> = state.conns.iter().filter(of_job).collect();
    let running = |(key, conn): &&(&ConnKey, &ConnRecord)| is_running(seen, key, conn);
    let mut waiting = Vec::new();
    for (key, conn) in conns.iter().filter(|conn| !running(conn)) {
        let [low, high] = &conn.nodes;
        waiting.push(format!("connection {key}, {low} to {high}, does not run"));
    }
    if !waiting.is_empty() {
        waiting.extend(decide::waiting_for(state, seen, |node| {
            job.hosts.iter().any(|host| host == node)
        }));
    }
    Job {
        name: job.name.clone(),
        hosts: job.hosts.clone(),
        partition: tell.then_some(partition),
        settings: job.settings.clone(),
        made_ms: job.made_ms,
        connections: conns.len(),
        connections_running: conns.iter().filter(running).count(),
        waiting,
    }
}

/// Looks at a job, the one in this partition if that is given, until it runs or the time is over. There
/// may be none.
async fn settled(
    manager: &Manager,
    name: &str,
    only: Option<u32>,
    end: Instant,
) -> (Option<(Job, u32)>, bool) {
    let (mut decided, mut ending) = (manager.decided(), manager.ending());
    loop {
        decided.mark_unchanged();
        let found = manager.look(|state, seen, _| {
            let (partition, job) = state.job(name)?;
            let job = document(state, seen, (partition, job), true);
            Some((job, partition))
        });
        let found = found.filter(|(_, partition)| only.is_none_or(|only| only == *partition));
        let settled = match &found {
            Some((job, _)) => job.runs(),
            // One that is waited for by its name may be made yet.
            None => only.is_some(),
        };
        let over = Instant::now() >= end || *ending.borrow();
        if settled || over {
            return (found, *ending.borrow());
        }
        tokio::select! {
            _ = decided.changed() => {}
            _ = ending.changed() => {}
            () = tokio::time::sleep_until(end) => {}
        }
    }
}

fn is_operator(caller: &Caller) -> bool {
    caller.may(&[Role::Operator], "").is_ok()
}

/// The jobs. Only operators are told their partitions.
#[utoipa::path(get, path = "/v1/jobs", responses((status = 200, body = Vec<Job>)))]
pub(super) async fn jobs(
    Shared(manager): Shared<Manager>,
    Extension(caller): Extension<Caller>,
) -> Json<Vec<Job>> {
    let tell = is_operator(&caller);
    Json(manager.look(|state, seen, _| {
        let jobs = state.live_jobs();
        let mut jobs: Vec<_> = jobs.map(|job| document(state, seen, job, tell)).collect();
        jobs.sort_by(|one, other| one.name.cmp(&other.name));
        jobs
    }))
}

/// A job; with `wait` as soon as it is there and runs. Operators are told its partition, and its own nodes: who has
/// a certificate of the role agent with the name of one. They may ask for no other job.
#[utoipa::path(get, path = "/v1/jobs/{job}", params(("job" = String, Path), WaitQuery),
    responses((status = 200, body = Job), (status = 404)))]
pub(super) async fn job(
    Shared(manager): Shared<Manager>,
    Extension(caller): Extension<Caller>,
    Name(name): Name,
    Asked(query): Asked<WaitQuery>,
) -> Response {
    let (found, _) = settled(&manager, &name, None, query.end()).await;
    let its_own = found.as_ref().is_some_and(|(job, _)| {
        let (who, role) = caller.who();
        role == Some(Role::Agent) && job.hosts.contains(&who)
    });
    let readers = [Role::Viewer, Role::Operator];
    if let (false, Err(why)) = (
        its_own,
        caller.may(&readers, format!("GET /v1/jobs/{name}")),
    ) {
        return problem(StatusCode::FORBIDDEN, "It is not allowed", why);
    }
    let Some((mut job, _)) = found else {
        return refused(Refusal::NotFound(format!("there is no job {name}")), "", "");
    };
    if !its_own && !is_operator(&caller) {
        job.partition = None;
    }
    Json(job).into_response()
}

/// Makes a job: its nodes, connected all to all in a partition of its own. The same again gives the same answer. With
/// `wait` it is answered when all its connections run; a job that was made by this request and does not run in time is
/// removed again (504). A manager that is told to end meanwhile leaves the job to the next one (503).
#[utoipa::path(post, path = "/v1/jobs", params(WaitQuery), request_body = JobSpec,
    responses((status = 200, body = Job), (status = 409), (status = 422), (status = 503), (status = 504)))]
pub(super) async fn make(
    Shared(manager): Shared<Manager>,
    Asked(query): Asked<WaitQuery>,
    Body(body): Body,
) -> Response {
    let end = query.end();
    let spec: JobSpec = match serde_json::from_str(&body) {
        Ok(spec) => spec,
        Err(error) => {
            return problem(
                StatusCode::BAD_REQUEST,
                "The request is malformed",
                format!(
                    "{error}; write a job as {{\"name\": \"j1\", \"hosts\": \"xpu[01-04]\", \"settings\": {{}}}}"
                ),
            )
        }
    };
    let (partition, made) = match manager.make_job(&spec) {
        Ok(made) => made,
        Err(refusal) => return refused(refusal, "", ""),
    };
    let (found, ending) = settled(&manager, &spec.name, Some(partition), end).await;
    let Some((job, _)) = found else {
        return refused(
            Refusal::Conflict(format!("the job {} was ended meanwhile", spec.name)),
            "",
            "",
        );
    };
    if query.seconds() == 0 || job.runs() {
        let text = format!("job {}, {} connections", job.name, job.connections);
        return (Extension(Outcome::new(&text)), Json(job)).into_response();
    }
    let waiting = job.waiting.join("\n");
    if ending {
        return problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "The manager ends",
            format!("this manager ends, and the job {} is left to the next one: ask that again\n{waiting}", job.name),
        );
    }
    let fate = match made {
        true => match manager.end_job(&job.name, Some(partition)) {
            Ok(()) | Err(Refusal::NotFound(_)) => "it is removed again",
            Err(refusal) => return refused(refusal, "", ""),
        },
        false => "it was there before, and is left as it is",
    };
    problem(
        StatusCode::GATEWAY_TIMEOUT,
        "The job does not run",
        format!(
            "the job {} does not run after {} s, and {fate}\n{waiting}",
            job.name,
            query.seconds()
        ),
    )
}

/// Ends a job: its connections are removed at once, where a node does not answer as soon as it does, and its
/// partition is not used again for a day.
#[utoipa::path(delete, path = "/v1/jobs/{job}", params(("job" = String, Path)),
    responses((status = 204), (status = 404)))]
pub(super) async fn end(Shared(manager): Shared<Manager>, Name(name): Name) -> Response {
    match manager.end_job(&name, None) {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => refused(refusal, "", ""),
    }
}
