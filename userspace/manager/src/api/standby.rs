// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The interface of a manager that waits to lead, and then is the leader's.

use super::health::{unwell, well};
use super::{metrics, problem};
use axum::extract::{Request, State};
use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::Router;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use superp_control::manager::NOT_LEADING;
use superp_control::prometheus::MEDIA_TYPE;
use superp_tls::serve::Caller;
use superp_tls::Role;
use tower::ServiceExt;

/// A manager that waits to lead. Cheap to clone.
#[derive(Clone)]
pub struct Standby {
    shared: Arc<Shared>,
}

struct Shared {
    /// What is waited for.
    why: Mutex<String>,
    /// The interface of the manager, once it leads.
    manager: OnceLock<Router>,
}

impl Standby {
    /// A manager that waits, and why.
    pub fn new(why: impl Into<String>) -> Self {
        let why = Mutex::new(why.into());
        let manager = OnceLock::new();
        Self {
            shared: Arc::new(Shared { why, manager }),
        }
    }

    /// What is waited for; whether it was something else before.
    pub fn waits(&self, why: &str) -> bool {
        let mut before = self.lock();
        let other = *before != why;
        why.clone_into(&mut before);
        other
    }

    /// From now on the manager leads, and this is its interface.
    pub fn leads(&self, manager: Router) {
        // A manager leads once.
        let _ = self.shared.manager.set(manager);
    }

    /// The interface, for [`superp_tls::serve`].
    pub fn router(&self) -> Router {
        Router::new().fallback(answer).with_state(self.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, String> {
        // A text is whole whoever panics.
        let why = self.shared.why.lock();
        why.unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer(State(standby): State<Standby>, request: Request) -> Response {
    if let Some(manager) = standby.shared.manager.get() {
        return match manager.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
    }
    let what = format!("{} {}", request.method(), request.uri().path());
    let caller = request.extensions().get::<Caller>();
    let allowed = match caller {
        Some(caller) => caller.may(&[Role::Viewer, Role::Operator], &what),
        None => Err("it is not known who asks".into()),
    };
    if let Err(why) = allowed {
        return problem(StatusCode::FORBIDDEN, "It is not allowed", why);
    }
    let why = standby.lock().clone();
    match request.uri().path() {
        "/livez" => well(),
        "/readyz" => unwell(why),
        "/metrics" => {
            let kind = [(header::CONTENT_TYPE, MEDIA_TYPE)];
            (kind, metrics::standby()).into_response()
        }
        _ => problem(StatusCode::SERVICE_UNAVAILABLE, NOT_LEADING, why),
    }
}
