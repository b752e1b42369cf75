// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Whether the manager lives, can work, and what it did.

use super::{fabric_status, metrics, problem, Problem};
use crate::engine::Manager;
use axum::extract::State as Shared;
use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::Json;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// How long a decision may take.
const THOUGHT: Duration = Duration::from_secs(5);

/// All is well.
#[derive(Serialize, Deserialize, ToSchema)]
pub(super) struct Well {
    /// "ok".
    status: String,
}

pub(super) fn well() -> Response {
    let status = "ok".into();
    Json(Well { status }).into_response()
}

pub(super) fn unwell(why: impl Into<String>) -> Response {
    problem(
        StatusCode::SERVICE_UNAVAILABLE,
        "The manager does not work",
        why,
    )
}

/// Whether the manager lives: it makes decisions. Where it does not, a new start is what helps.
#[utoipa::path(get, path = "/livez", responses((status = 200, body = Well), (status = 503, body = Problem)))]
pub(super) async fn livez(Shared(manager): Shared<Manager>) -> Response {
    match manager.is_alive(THOUGHT).await {
        true => well(),
        false => unwell("no decision is made any more"),
    }
}

/// Whether the manager can work: it lives, its store can be written, and it is not about to end.
#[utoipa::path(get, path = "/readyz", responses((status = 200, body = Well), (status = 503, body = Problem)))]
pub(super) async fn readyz(Shared(manager): Shared<Manager>) -> Response {
    if *manager.ending().borrow() {
        return unwell("it ends");
    }
    if !manager.is_alive(THOUGHT).await {
        return unwell("no decision is made any more");
    }
    match tokio::task::spawn_blocking(move || manager.probe()).await {
        Ok(Ok(())) => well(),
        Ok(Err(error)) => unwell(error.to_string()),
        Err(error) => unwell(error.to_string()),
    }
}

/// The manager and the fabric in numbers, for Prometheus.
#[utoipa::path(get, path = "/metrics", responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn numbers(Shared(manager): Shared<Manager>) -> Response {
    let (counts, last) = (manager.counts(), *manager.last_event().borrow());
    let text = manager.look(|state, seen, term| {
        let status = fabric_status(state, seen, term, last);
        metrics::metrics(&status, state, seen, &counts, last)
    });
    let kind = [(header::CONTENT_TYPE, superp_control::prometheus::MEDIA_TYPE)];
    (kind, text).into_response()
}
