// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Bodies of requests: text, of which there may be so much, in so much time.

use super::problem;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::Response;
use std::time::Duration;

/// Largest body, bytes.
pub(super) const MAX: usize = 2 << 20;

/// Longest time that it may take to arrive.
const TIME: Duration = Duration::from_secs(30);

/// A body of text.
pub(super) struct Body(pub(super) String);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let read = String::from_request(request, state);
        match tokio::time::timeout(TIME, read).await {
            Ok(Ok(text)) => Ok(Self(text)),
            Ok(Err(error)) => {
                let text = match error.status() {
                    StatusCode::PAYLOAD_TOO_LARGE => {
                        format!("the file is longer than {MAX} bytes")
                    }
                    _ => error.body_text(),
                };
                Err(problem(error.status(), "The request is malformed", text))
            }
            Err(_) => Err(problem(
                StatusCode::REQUEST_TIMEOUT,
                "The request took too long",
                format!("the file did not arrive within {} s", TIME.as_secs()),
            )),
        }
    }
}
