// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Who may ask what, and the record of what was asked.

use super::problem;
use crate::engine::Manager;
use crate::state::now_ms;
use axum::extract::{Request, State as Shared};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use axum::Extension;
use superp_control::manager::AuditRecord;
use superp_tls::serve::Caller;
use superp_tls::Role;

/// Longest text of a record, bytes.
const LONGEST: usize = 256;

/// What the audit log tells of an answer besides its status.
#[derive(Clone)]
pub(super) struct Outcome(String);

impl Outcome {
    /// The first line: those after it show the fabric file.
    pub(super) fn new(text: &str) -> Self {
        Self(cut(text.lines().next().unwrap_or_default()))
    }
}

fn cut(text: &str) -> String {
    let end = (0..=text.len().min(LONGEST)).rev();
    let end = end
        .into_iter()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0);
    text[..end].to_owned()
}

/// Whether it is not a browser that asks for a page of another site, with the certificate of its user.
fn own_site(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_none_or(|site| site == "same-origin" || site == "none")
}

/// Passes on what the role allows, and records what is to change something.
pub(super) async fn guard(
    Shared(manager): Shared<Manager>,
    caller: Option<Extension<Caller>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(Extension(caller)) = caller else {
        return problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The manager failed",
            "it is not known who asks",
        );
    };
    let what = format!("{} {}", request.method(), request.uri().path());
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    // It is asked with a body, and changes nothing.
    let reads = reads || request.uri().path() == "/v1/plan";
    let roles: &[Role] = match reads {
        true => &[Role::Viewer, Role::Operator],
        false => &[Role::Operator],
    };
    // A node may ask for its own jobs; whose it is is looked at there.
    let of_node = reads && request.uri().path().starts_with("/v1/jobs/");
    let of_node = of_node && caller.who().1 == Some(Role::Agent);
    let allowed = match of_node {
        true => Ok(()),
        false => caller.may(roles, &what),
    };
    let allowed = match reads || own_site(request.headers()) {
        true => allowed,
        false => Err(format!("{what} comes from a web page of another site")),
    };
    let (who, role) = caller.who();
    let refuse = |why: &String| problem(StatusCode::FORBIDDEN, "It is not allowed", why.as_str());
    if reads {
        return match &allowed {
            Ok(()) => next.run(request).await,
            Err(why) => {
                tracing::info!("refused: {why}");
                refuse(why)
            }
        };
    }
    let record = AuditRecord {
        seq: 0,
        time_ms: now_ms(),
        who,
        role: role.map(|role| role.to_string()),
        request: cut(&what),
        status: None,
        result: None,
    };
    // What cannot be recorded is not done.
    let seq = match manager.audit(&record) {
        Ok(seq) => seq,
        Err(error) => {
            return problem(
                StatusCode::INTERNAL_SERVER_ERROR,
                "The audit log cannot be written",
                format!("nothing was done: {error}"),
            )
        }
    };
    let response = match &allowed {
        Ok(()) => next.run(request).await,
        Err(why) => refuse(why),
    };
    let (status, result) = (response.status(), response.extensions().get::<Outcome>());
    let result = result.map(|result| result.0.as_str());
    let role = record.role.as_deref().unwrap_or("no certificate");
    let told = result.unwrap_or_default();
    tracing::info!("{what} by {} ({role}): {status} {told}", record.who);
    if let Err(error) = manager.audited(seq, status.as_u16(), result) {
        // That it was asked is there.
        tracing::error!("the result of request {seq} is not in the audit log: {error}");
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = format!("{}é", "x".repeat(LONGEST - 1));
        assert_eq!(cut(&text), "x".repeat(LONGEST - 1));
        assert_eq!(cut("é"), "é");
        assert_eq!(Outcome::new("a\nb").0, "a");
    }
}
