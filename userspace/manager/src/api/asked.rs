// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a request asks for besides its body, refused as a problem where it cannot be read.

use super::problem;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::StatusCode;
use axum::response::Response;
use serde::de::DeserializeOwned;

/// What follows the question mark.
pub(super) struct Asked<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let query = Query::from_request_parts(parts, state).await;
        let query = query.map(|Query(query)| Self(query));
        query.map_err(|error| malformed(error.status(), error.body_text()))
    }
}

/// The name in the path.
pub(super) struct Name(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let name = Path::from_request_parts(parts, state).await;
        let name = name.map(|Path(name)| Self(name));
        name.map_err(|error| malformed(error.status(), error.body_text()))
    }
}

fn malformed(status: StatusCode, why: String) -> Response {
    problem(status, "The request is malformed", why)
}
