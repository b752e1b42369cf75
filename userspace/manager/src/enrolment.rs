// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The place where tokens are redeemed: beside the authority, which the manager does not need.

use crate::api::problem;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use superp_tls::enrolment::{redeem, Refusal, LARGEST, PATH};
use superp_tls::serve::Caller;

/// Longest time that a request may take to arrive.
const TIME: Duration = Duration::from_secs(10);

/// The interface, for [`superp_tls::serve`], of the authority in a directory.
pub fn router(dir: PathBuf) -> Router {
    Router::new()
        .route(PATH, post(enrol))
        .fallback(|| async {
            let what = format!("superp-cm enrol asks with POST {PATH}");
            problem(StatusCode::NOT_FOUND, "There is no such thing", what)
        })
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(Arc::new(dir))
}

async fn enrol(
    State(dir): State<Arc<PathBuf>>,
    Extension(caller): Extension<Caller>,
    request: axum::extract::Request,
) -> Response {
    let body = axum::body::to_bytes(request.into_body(), LARGEST);
    let body = match tokio::time::timeout(TIME, body).await {
        Ok(Ok(body)) => String::from_utf8_lossy(&body).into_owned(),
        Ok(Err(_)) => {
            let text = format!("it is longer than {LARGEST} bytes");
            return problem(
                StatusCode::PAYLOAD_TOO_LARGE,
                "The request is malformed",
                text,
            );
        }
        Err(_) => {
            let text = format!("it did not arrive within {} s", TIME.as_secs());
            return problem(
                StatusCode::REQUEST_TIMEOUT,
                "The request took too long",
                text,
            );
        }
    };
    let redeemed = tokio::task::spawn_blocking(move || redeem(&dir, &body)).await;
    let redeemed =
        redeemed.unwrap_or_else(|error| Err(Refusal::Failed(format!("it failed: {error}"))));
    let (peer, _) = caller.who();
    let (status, title, why) = match redeemed {
        Ok((answer, grant)) => {
            tracing::info!("{} ({}) has enrolled, from {peer}", grant.name, grant.role);
            return ([(header::CONTENT_TYPE, "application/json")], answer).into_response();
        }
        Err(Refusal::Malformed(why)) => (StatusCode::BAD_REQUEST, "The request is malformed", why),
        Err(Refusal::Forbidden(why)) => (StatusCode::FORBIDDEN, "It is not allowed", why),
        Err(Refusal::Failed(why)) => {
            tracing::error!("{peer}: {why}");
            // What is wrong here is not for everybody.
            let why = "the log of superp-cm enrolment tells why".to_owned();
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                "No certificate was made",
                why,
            )
        }
    };
    tracing::info!("{peer} is refused: {why}");
    problem(status, title, why)
}
