//! The agent in the form of OpenAI's chat completions, for programs that know nothing else. Each request is a session of
//! its own that is not kept; nobody can be asked anything in it.

mod request;
mod say;

use crate::api::Follow;
use crate::app::{App, off};
use crate::error::{ApiError, ApiResult, Problem};
use crate::extract::Body;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use jarvis_host::{Host, Live, Open};
use jarvis_protocol::ErrorKind;
use request::{Asked, Chat};
use say::{Saying, Spoken};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

/// The usual model, by its name here.
const USUAL: &str = "jarvis";

#[derive(Debug, Serialize, ToSchema)]
pub struct Models {
    /// `list`.
    pub object: String,
    pub data: Vec<ModelView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ModelView {
    /// `jarvis` (the usual model), or `provider/model`.
    pub id: String,
    /// `model`.
    pub object: String,
    pub created: u64,
    pub owned_by: String,
    /// Of an embedded one: its file is here.
    pub present: bool,
    /// It answers where none is named.
    pub usual: bool,
}

/// Models that can be named. A provider has more than are listed; any `provider/model` is taken.
#[utoipa::path(get, path = "/v1/models", tag = "openai",
    responses((status = 200, body = Models), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn models(State(app): State<App>) -> ApiResult<Json<Models>> {
    let ask = app.parts.models.clone();
    let rows = off(move || Ok(ask())).await?;
    let view = |id: &str, usual, present| ModelView {
        id: id.to_owned(),
        object: "model".to_owned(),
        created: 0,
        owned_by: id.split_once('/').map_or(USUAL, |(provider, _)| provider).to_owned(),
        present,
        usual,
    };
    let there = rows.iter().any(|row| row.usual && row.present);
    let listed = rows.iter().map(|row| view(&row.id, row.usual, row.present));
    let data = std::iter::once(view(USUAL, true, there)).chain(listed).collect();
    Ok(Json(Models { object: "list".to_owned(), data }))
}

/// Closes the session of a request when that is over, however it ends: a client that hangs up stops the work for it.
struct Closes {
    host: Host,
    live: Arc<Live>,
}

impl Drop for Closes {
    fn drop(&mut self) {
        self.host.close(self.live.id());
    }
}

/// Answers a conversation, with everything that jarvis has learned.
#[utoipa::path(post, path = "/v1/chat/completions", tag = "openai", request_body = Chat,
    responses((status = 200, description = "With `stream` as server-sent events", content((Value = "application/json"), (String = "text/event-stream"))),
        (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn complete(State(app): State<App>, Body(chat): Body<Chat>) -> ApiResult<Response> {
    let (streams, with_usage) = (chat.streams(), chat.wants_usage());
    let Asked { model, history, input } = chat.asked()?;
    let open = Open {
        model: Some(model.clone()).filter(|model| model != USUAL),
        unkept: true,
        unattended: true,
        history,
        ..Open::default()
    };
    let live = app.host().open(&open, &CancellationToken::new()).await.map_err(|body| match body.kind {
        // Of this form: a model that is none.
        ErrorKind::Usage | ErrorKind::Config if model != USUAL => ApiError { status: StatusCode::NOT_FOUND, body },
        _ => body.into(),
    })?;
    let closes = Closes { host: app.host().clone(), live: live.clone() };
    drop(live.prompt(input)?);
    let follow = Follow::new(&live, 0);
    let saying = Saying::new(live.id(), live.snapshot().model);
    if streams {
        return Ok(streamed(&app, closes, follow, saying, with_usage).await);
    }
    let mut saying = saying;
    let mut follow = follow;
    let mut text = String::new();
    while let Some(event) = follow.next().await {
        match saying.hear(&event) {
            Spoken::Nothing => {}
            Spoken::Text(more) => text.push_str(&more),
            Spoken::Done { rest, finish, usage } => {
                text.push_str(&rest);
                return Ok(Json(saying.whole(&text, finish, &usage)).into_response());
            }
            Spoken::Failed(body) => return Err(body.into()),
        }
    }
    drop(closes);
    Err(ApiError::new(StatusCode::CONFLICT, ErrorKind::Cancelled, "the server is being stopped"))
}

/// The parts of an answer as they come.
struct Speaking {
    follow: Option<Follow>,
    saying: Saying,
    ready: VecDeque<Value>,
    with_usage: bool,
    ended: bool,
    _closes: Closes,
}

async fn streamed(app: &App, closes: Closes, follow: Follow, saying: Saying, with_usage: bool) -> Response {
    let ready = VecDeque::from([saying.opening()]);
    let speaking = Speaking { follow: Some(follow), saying, ready, with_usage, ended: false, _closes: closes };
    let alive = KeepAlive::new().interval(app.parts.bounds.keep_alive).text("still here");
    Sse::new(stream::unfold(speaking, part)).keep_alive(alive).into_response()
}

async fn part(mut speaking: Speaking) -> Option<(Result<sse::Event, Infallible>, Speaking)> {
    loop {
        if let Some(value) = speaking.ready.pop_front() {
            return Some((Ok(sse::Event::default().data(value.to_string())), speaking));
        }
        if speaking.ended {
            return None;
        }
        let Some(follow) = &mut speaking.follow else {
            speaking.ended = true;
            return Some((Ok(sse::Event::default().data("[DONE]")), speaking));
        };
        let heard = match follow.next().await {
            Some(event) => speaking.saying.hear(&event),
            None => {
                Spoken::Failed(jarvis_protocol::ErrorBody::new(ErrorKind::Cancelled, "the server is being stopped"))
            }
        };
        match heard {
            Spoken::Nothing => {}
            Spoken::Text(text) => speaking.ready.push_back(speaking.saying.piece(&text)),
            Spoken::Done { rest, finish, usage } => {
                if !rest.is_empty() {
                    speaking.ready.push_back(speaking.saying.piece(&rest));
                }
                speaking.ready.push_back(speaking.saying.ending(finish));
                if speaking.with_usage {
                    speaking.ready.push_back(speaking.saying.usage(&usage));
                }
                speaking.follow = None;
            }
            Spoken::Failed(body) => {
                let message = jarvis_audit::redact(&body.message);
                let hint = body.hint.as_deref().map(jarvis_audit::redact);
                speaking.ready.push_back(json!({"error": {"kind": body.kind, "message": message, "hint": hint}}));
                speaking.follow = None;
                // Nothing was finished, so no [DONE] says so.
                speaking.ended = true;
            }
        }
    }
}
