// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Events as they happen, by Server-Sent Events.

use super::asked::Asked;
use super::{problem, Problem};
use crate::engine::Manager;
use crate::state::Event;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;
use superp_control::Number;
use tokio::sync::{watch, OwnedSemaphorePermit};
use utoipa::IntoParams;

/// Events that are read from the store at a time.
const BATCH: u64 = 100;

/// After so long without an event the client is told that the manager is there.
const SILENCE: Duration = Duration::from_secs(15);

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamQuery {
    /// Events with numbers above this one. Without it, and without `Last-Event-ID`, those to come.
    #[param(value_type = Option<u64>)]
    after: Option<Number>,
}

/// Events as they happen.
///
/// The first message has no data, only the `id` after which the events begin. Each one after it has the number of its event as `id` and the event as JSON in `data`. A message named
/// `lost` says how many events before the next one are not kept any more. Who comes again tells the last
/// number by `Last-Event-ID`, which goes before `after`, and misses nothing that is kept.
#[utoipa::path(get, path = "/v1/events/stream",
    params(StreamQuery, ("Last-Event-ID" = Option<u64>, Header, description = "Number of the last event that is known.")),
    responses((status = 200, body = std::collections::BTreeMap<String, String>, content_type = "text/event-stream",
            description = "Messages, each of them fields with a text: `id`, `event`, `data`."),
        (status = 400, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn stream(
    Shared(manager): Shared<Manager>,
    Asked(query): Asked<StreamQuery>,
    headers: HeaderMap,
) -> Response {
    let known = match headers.get("last-event-id").map(|id| id.to_str()) {
        None => query.after.map(u64::from),
        Some(id) => match id
            .ok()
            .and_then(|id| id.parse::<u64>().ok())
            .map(Number::try_from)
        {
            Some(Ok(id)) => Some(id.into()),
            _ => {
                return problem(
                    StatusCode::BAD_REQUEST,
                    "The request is malformed",
                    "Last-Event-ID is no number of an event",
                )
            }
        },
    };
    let Some(place) = manager.stream_place() else {
        return problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "There are too many event streams",
            "close one, or ask with GET /v1/events",
        );
    };
    let (last, ending) = (manager.last_event(), manager.ending());
    let newest = *last.borrow();
    let after = match known {
        None => newest,
        // A number that this store never gave is one of another store: all of this one is news.
        Some(known) if known > newest => 0,
        Some(known) => known,
    };
    let tail = Tail {
        manager,
        last,
        ending,
        after,
        greeted: false,
        batch: VecDeque::new(),
        _place: place,
    };
    let messages = futures_util::stream::unfold(tail, |mut tail| async {
        let message = tail.next().await?;
        Some((Ok::<_, Infallible>(message), tail))
    });
    Sse::new(messages)
        .keep_alive(KeepAlive::new().interval(SILENCE))
        .into_response()
}

/// How far a client is.
struct Tail {
    manager: Manager,
    last: watch::Receiver<u64>,
    ending: watch::Receiver<bool>,
    /// Number of the last event that was sent.
    after: u64,
    /// The client knows where it begins.
    greeted: bool,
    batch: VecDeque<Event>,
    _place: OwnedSemaphorePermit,
}

impl Tail {
    /// The next message; `None` when the manager ends, or its store fails.
    async fn next(&mut self) -> Option<sse::Event> {
        if !self.greeted {
            self.greeted = true;
            return Some(sse::Event::default().id(self.after.to_string()));
        }
        loop {
            if *self.ending.borrow() {
                return None;
            }
            if let Some(event) = self.batch.front() {
                let lost = event.seq.saturating_sub(self.after.saturating_add(1));
                if lost > 0 {
                    self.after = event.seq - 1;
                    let message = sse::Event::default().event("lost");
                    return Some(message.id(self.after.to_string()).data(lost.to_string()));
                }
                let event = self.batch.pop_front()?;
                self.after = event.seq;
                let message = sse::Event::default().id(event.seq.to_string());
                // A failure to write what has text and numbers only is one of this program.
                return message.json_data(&event).ok();
            }
            let after = self.after;
            tokio::select! {
                more = self.last.wait_for(|last| *last > after) => more.ok().map(drop)?,
                ended = self.ending.wait_for(|ending| *ending) => {
                    ended.ok()?;
                    continue;
                }
            }
            match self.manager.events(self.after, BATCH) {
                Ok(batch) => self.batch = batch.into(),
                Err(error) => {
                    tracing::error!("an event stream ends: {error}");
                    return None;
                }
            }
        }
    }
}
