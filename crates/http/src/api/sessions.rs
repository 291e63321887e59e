//! Sessions: opened, listed, looked at, copied, renamed, closed, deleted.

use crate::app::{App, off};
use crate::error::{ApiError, ApiResult, Problem};
use crate::extract::{Asked, At, Body};
use crate::view::SessionView;
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jarvis_host::{Live, Open};
use jarvis_memory::{SessionError, SessionInfo, SessionQuery, SessionStore};
use jarvis_policy::Approval;
use jarvis_protocol::{ErrorKind, Message};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use utoipa::{IntoParams, ToSchema};

/// Sessions on one page at most.
const PAGE: u64 = 500;

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Create {
    /// An absolute path; the folder that the server was started in, if none is named.
    pub workspace: Option<String>,
    /// `provider/model`.
    pub model: Option<String>,
    /// Goes on with a session that was kept: its id.
    pub resume: Option<String>,
    /// What is done where a yes is due; as set up, if nothing is said. A session that was closed and is gone on with does
    /// what it did before, as long as the server runs.
    pub approve: Option<Approve>,
    /// False: nothing of it is kept on disk.
    pub keep: Option<bool>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Approve {
    /// The question comes as an event, and waits for its answer.
    Ask,
    Auto,
    Deny,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Words of the title, of questions or of answers; all of them.
    pub q: Option<String>,
    /// Only of this folder.
    pub workspace: Option<String>,
    #[serde(default = "usual")]
    #[param(minimum = 1, maximum = 500, default = 50)]
    pub limit: u64,
    #[serde(default)]
    #[param(minimum = 0, maximum = 9007199254740991u64)]
    pub offset: u64,
}

/// A larger number is not the same in every reader of JSON.
pub(super) fn exact(offset: u64) -> ApiResult<()> {
    if offset < 1 << 53 { Ok(()) } else { Err(ApiError::usage("offset is below 2^53")) }
}

fn usual() -> u64 {
    50
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SessionList {
    /// Open in this server, and not on disk (yet).
    pub unkept: Vec<SessionView>,
    /// Those changed last first.
    pub sessions: Vec<SessionView>,
    /// Kept ones, on all pages.
    pub total: u64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// An empty one takes the title away.
    #[schema(max_length = 1000)]
    pub title: String,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// Only so many messages; a call is not parted from its result.
    #[schema(minimum = 0, maximum = 4294967295u32)]
    pub messages: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct History {
    pub session: SessionView,
    /// In the form in which jarvis keeps them: role, text, tool_calls, tool_call_id, images, …
    #[schema(value_type = Vec<Object>)]
    pub messages: Vec<Message>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Closed {
    /// False: it was not open.
    pub closed: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// Markdown to read, or JSON to import elsewhere.
    #[serde(default)]
    #[param(inline)]
    pub format: Format,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    #[default]
    Md,
    Json,
}

pub(crate) async fn store(app: &App) -> ApiResult<SessionStore> {
    Ok(app.host().store()?)
}

/// A kept session by its whole id: what a program sends is no beginning of one.
fn find(store: &SessionStore, id: &str) -> Result<SessionInfo, SessionError> {
    let found = store.find(id)?;
    if found.id == id { Ok(found) } else { Err(SessionError::NotFound(id.to_owned())) }
}

/// The kept session; none where it has no message yet.
async fn kept(app: &App, id: &str) -> ApiResult<Option<SessionInfo>> {
    let (store, id) = (store(app).await?, id.to_owned());
    let found = off(move || match find(&store, &id) {
        Ok(info) => Ok(Some(info)),
        Err(SessionError::NotFound(_) | SessionError::Ambiguous { .. }) => Ok(None),
        Err(error) => Err(error.body()),
    });
    Ok(found.await?)
}

fn unknown(id: &str) -> ApiError {
    let id: String = id.chars().take(100).collect();
    ApiError::not_found(format!("no session is called `{id}`")).hint("GET /v1/sessions lists them")
}

/// The live session, opened if it was kept.
pub(crate) async fn opened(app: &App, id: &str) -> ApiResult<Arc<Live>> {
    if let Some(live) = app.host().get(id) {
        return Ok(live);
    }
    kept(app, id).await?.ok_or_else(|| unknown(id))?;
    let open = Open { resume: Some(id.to_owned()), ..Open::default() };
    Ok(app.host().open(&open, &CancellationToken::new()).await?)
}

/// Sessions: those that are kept, and those that are only open.
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", params(List),
    responses((status = 200, body = SessionList), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn list(State(app): State<App>, Asked(asked): Asked<List>) -> ApiResult<Json<SessionList>> {
    if !(1..=PAGE).contains(&asked.limit) {
        return Err(ApiError::usage(format!("limit is 1 to {PAGE}")));
    }
    exact(asked.offset)?;
    let store = store(&app).await?;
    let query = SessionQuery { text: asked.q, workspace: asked.workspace, offset: asked.offset, limit: asked.limit };
    let live = app.host().live();
    let (page, unkept) = off(move || {
        let page = store.list(&query).map_err(|error| error.body())?;
        let unkept: Vec<_> = live.into_iter().filter(|live| find(&store, live.id()).is_err()).collect();
        Ok((page, unkept))
    })
    .await?;
    let of = |info: SessionInfo| {
        let live = app.host().peek(&info.id);
        SessionView::kept(info, live.as_deref())
    };
    let unkept = unkept.iter().map(|live| SessionView::live(live)).collect();
    Ok(Json(SessionList { unkept, sessions: page.sessions.into_iter().map(of).collect(), total: page.total }))
}

/// Opens a session: a new one, or one that was kept.
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", request_body = Create,
    responses((status = 201, body = SessionView, headers(("Location" = String))), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn create(State(app): State<App>, Body(asked): Body<Create>) -> ApiResult<Response> {
    // One that is open already stays as it is, but for what is asked for here.
    let mut open_already = false;
    if let Some(id) = &asked.resume {
        if asked.keep == Some(false) {
            return Err(ApiError::usage("a session that is gone on with is kept").hint("leave out `keep`"));
        }
        match app.host().get(id) {
            None => {
                kept(&app, id).await?.ok_or_else(|| unknown(id))?;
            }
            Some(_) if asked.workspace.is_some() => {
                let message = format!("the session {id} is open, in a folder of its own");
                return Err(
                    ApiError::new(StatusCode::CONFLICT, ErrorKind::Conflict, message).hint("leave out `workspace`")
                );
            }
            Some(_) => open_already = true,
        }
    }
    let named = asked.model.is_some();
    let open = Open {
        workspace: asked.workspace.map(PathBuf::from),
        model: asked.model,
        resume: asked.resume,
        approval: asked.approve.map(|approve| match approve {
            Approve::Ask => Approval::Ask,
            Approve::Auto => Approval::Auto,
            Approve::Deny => Approval::Deny,
        }),
        unkept: asked.keep == Some(false),
        ..Open::default()
    };
    let live = app.host().open(&open, &CancellationToken::new()).await.map_err(|body| match body.kind {
        // The client's choice, not the server's settings.
        ErrorKind::Config if named => ApiError { status: StatusCode::BAD_REQUEST, body },
        _ => body.into(),
    })?;
    if open_already {
        if let Some(approval) = open.approval {
            live.set_approval(approval).await?;
        }
        if let Some(model) = &open.model {
            live.set_model(model).await?;
        }
    }
    let place = [(header::LOCATION, format!("/v1/sessions/{}", live.id()))];
    Ok((StatusCode::CREATED, place, Json(view(&app, live.id()).await?)).into_response())
}

async fn view(app: &App, id: &str) -> ApiResult<SessionView> {
    let live = app.host().peek(id);
    match (kept(app, id).await?, live) {
        (Some(info), live) => Ok(SessionView::kept(info, live.as_deref())),
        (None, Some(live)) => Ok(SessionView::live(&live)),
        (None, None) => Err(unknown(id)),
    }
}

/// One session.
#[utoipa::path(get, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path)),
    responses((status = 200, body = SessionView), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn show(State(app): State<App>, At(id): At<String>) -> ApiResult<Json<SessionView>> {
    Ok(Json(view(&app, &id).await?))
}

/// Gives a kept session a title.
#[utoipa::path(patch, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path)), request_body = Rename,
    responses((status = 200, body = SessionView), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn rename(
    State(app): State<App>,
    At(id): At<String>,
    Body(asked): Body<Rename>,
) -> ApiResult<Json<SessionView>> {
    if asked.title.chars().count() > 1000 {
        return Err(ApiError::usage("a title has 1000 characters at most"));
    }
    let (store, named) = (store(&app).await?, id.clone());
    off(move || {
        let found = find(&store, &named).map_err(|error| error.body())?;
        store.rename(&found.id, &asked.title).map_err(|error| error.body())
    })
    .await?;
    Ok(Json(view(&app, &id).await?))
}

/// Deletes a session for good; what it does is cancelled.
#[utoipa::path(delete, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path)),
    responses((status = 204), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn delete(State(app): State<App>, At(id): At<String>) -> ApiResult<StatusCode> {
    let was_live = app.host().end(&id).await;
    let known = kept(&app, &id).await?.is_some();
    if !known {
        return if was_live { Ok(StatusCode::NO_CONTENT) } else { Err(unknown(&id)) };
    }
    let store = store(&app).await?;
    off(move || store.delete(&id).map_err(|error| error.body())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Closes a session: what it does is cancelled, its history stays on disk.
#[utoipa::path(post, path = "/v1/sessions/{id}/close", tag = "sessions", params(("id" = String, Path)),
    responses((status = 200, body = Closed), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn close(State(app): State<App>, At(id): At<String>) -> ApiResult<Json<Closed>> {
    let closed = app.host().end(&id).await;
    if !closed && kept(&app, &id).await?.is_none() {
        return Err(unknown(&id));
    }
    Ok(Json(Closed { closed }))
}

/// What was said in a session that is kept.
#[utoipa::path(get, path = "/v1/sessions/{id}/history", tag = "sessions", params(("id" = String, Path)),
    responses((status = 200, body = History), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn history(State(app): State<App>, At(id): At<String>) -> ApiResult<Json<History>> {
    let session = view(&app, &id).await?;
    let messages = match session.kept {
        // Nothing was said yet, or nothing is kept.
        false => Vec::new(),
        true => {
            let store = store(&app).await?;
            off(move || store.load(&id).map_err(|error| error.body())).await?.messages
        }
    };
    Ok(Json(History { session, messages }))
}

/// A kept session as a file.
#[utoipa::path(get, path = "/v1/sessions/{id}/export", tag = "sessions", params(("id" = String, Path), Export),
    responses((status = 200, content(("text/markdown"), ("application/json"))), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn export(State(app): State<App>, At(id): At<String>, Asked(asked): Asked<Export>) -> ApiResult<Response> {
    kept(&app, &id).await?.ok_or_else(|| unknown(&id))?;
    let store = store(&app).await?;
    let text = off(move || {
        let text = match asked.format {
            Format::Md => store.export_markdown(&id),
            Format::Json => store.export_json(&id),
        };
        text.map_err(|error| error.body())
    })
    .await?;
    let kind = match asked.format {
        Format::Md => "text/markdown; charset=utf-8",
        Format::Json => "application/json",
    };
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// A copy to go on with apart from the first.
#[utoipa::path(post, path = "/v1/sessions/{id}/fork", tag = "sessions", params(("id" = String, Path)), request_body = Fork,
    responses((status = 201, body = SessionView), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn fork(State(app): State<App>, At(id): At<String>, Body(asked): Body<Fork>) -> ApiResult<Response> {
    kept(&app, &id).await?.ok_or_else(|| unknown(&id))?;
    let store = store(&app).await?;
    let most = asked.messages.map(|most| most as usize);
    let made = off(move || store.fork(&id, most).map_err(|error| error.body())).await?;
    let place = [(header::LOCATION, format!("/v1/sessions/{}", made.id))];
    Ok((StatusCode::CREATED, place, Json(SessionView::kept(made, None))).into_response())
}
