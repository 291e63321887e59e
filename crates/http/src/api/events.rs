//! The events of a session: as a stream that can be gone on with, and as what one turn came to.

use super::messages::live;
use crate::app::App;
use crate::error::{ApiError, ApiResult, Problem};
use crate::extract::{Asked, At};
use crate::view::{event_id, opening};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use jarvis_host::{Followed, Live, Reader};
use jarvis_protocol::{ErrorBody, ErrorKind, Event, StopReason, Usage};
use serde::Deserialize;
use std::convert::Infallible;
use std::sync::Arc;
use utoipa::IntoParams;

/// One turn, followed to its end.
pub(crate) struct Follow {
    reader: Reader,
}

/// What a turn came to.
pub(crate) struct Turned {
    pub answer: String,
    pub stop_reason: StopReason,
    pub usage: Usage,
    pub built: Vec<String>,
    pub used: Vec<String>,
    pub duration_ms: u64,
}

impl Follow {
    pub fn new(live: &Live, after: u64) -> Self {
        Self { reader: live.follow(after) }
    }

    /// The next event; what was missed on the way is left out.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        loop {
            match self.reader.next().await? {
                Followed::Event(numbered) => return Some(numbered.event),
                Followed::Missed { .. } => {}
            }
        }
    }

    pub async fn turned(mut self) -> Result<Turned, ErrorBody> {
        while let Some(event) = self.next().await {
            if let Some(ended) = ended(&event) {
                return ended;
            }
        }
        Err(ErrorBody::new(ErrorKind::Cancelled, "the session was closed before the turn was over"))
    }
}

/// What a turn's last event says; none for any other event.
pub(crate) fn ended(event: &Event) -> Option<Result<Turned, ErrorBody>> {
    match event {
        Event::TurnCompleted { answer, capabilities_built, capabilities_used, usage, duration_ms, stop_reason } => {
            Some(Ok(Turned {
                answer: answer.clone(),
                stop_reason: *stop_reason,
                usage: *usage,
                built: capabilities_built.clone(),
                used: capabilities_used.clone(),
                duration_ms: *duration_ms,
            }))
        }
        Event::TurnFailed { error, .. } => Some(Err(error.clone())),
        _ => None,
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// The id of the last event that is known; the header Last-Event-ID says the same, and goes first.
    pub after: Option<String>,
}

/// Where to go on: after which number, and whether what was named belongs to an earlier opening.
fn from(live: &Live, named: Option<&str>) -> ApiResult<(u64, bool)> {
    let Some(named) = named.filter(|named| !named.is_empty()) else { return Ok((0, false)) };
    let wrong = || ApiError::usage("the id of an event is as the stream gave it, such as 18f3a2b4c5d-17");
    let (of, number) = named.split_once('-').ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    if of == opening(live) && number <= live.snapshot().last_event { Ok((number, false)) } else { Ok((0, true)) }
}

/// The events of an open session as server-sent events, those that are kept first.
///
/// Each has an id; whoever comes back with it (Last-Event-ID) goes on from there. `missed` says that events before are
/// not kept any more. `closed` is the last one.
#[utoipa::path(get, path = "/v1/sessions/{id}/events", tag = "sessions",
    params(("id" = String, Path), After, ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, description = "The name of an event is its `type`", content_type = "text/event-stream", body = String),
        (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn follow(
    State(app): State<App>,
    At(id): At<String>,
    Asked(asked): Asked<After>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let live = live(&app, &id)?;
    let header = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let (after, missed) = from(&live, header.or(asked.after.as_deref()))?;
    let first = missed.then(|| sse::Event::default().event("missed").data("{\"up_to\":0}"));
    let reader = live.follow(after);
    let events = stream::unfold(Stream { first, live, reader: Some(reader) }, step);
    let alive = KeepAlive::new().interval(app.parts.bounds.keep_alive).text("still here");
    Ok(Sse::new(events).keep_alive(alive).into_response())
}

struct Stream {
    first: Option<sse::Event>,
    live: Arc<Live>,
    reader: Option<Reader>,
}

async fn step(mut state: Stream) -> Option<(Result<sse::Event, Infallible>, Stream)> {
    if let Some(first) = state.first.take() {
        return Some((Ok(first), state));
    }
    let reader = state.reader.as_mut()?;
    let event = match reader.next().await {
        Some(Followed::Event(numbered)) => {
            let id = event_id(&state.live, numbered.number);
            sse::Event::default().id(id).event(name(&numbered.json)).data(&*numbered.json)
        }
        Some(Followed::Missed { up_to }) => sse::Event::default()
            .id(event_id(&state.live, up_to))
            .event("missed")
            .data(format!("{{\"up_to\":{up_to}}}")),
        None => {
            state.reader = None;
            sse::Event::default().event("closed").data("{}")
        }
    };
    Some((Ok(event), state))
}

/// Its `type`, which stands first in its JSON.
fn name(json: &str) -> &str {
    json.strip_prefix("{\"type\":\"").and_then(|rest| rest.split('"').next()).unwrap_or("message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_called_what_its_type_says() {
        let json = serde_json::to_string(&Event::Notice { message: "\"type\":\"x\"".to_owned() }).unwrap();
        assert_eq!(name(&json), "notice");
    }
}
