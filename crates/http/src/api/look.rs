//! The record, the notes, the state of the server: looked at, never changed.

use crate::app::{App, off};
use crate::error::{ApiError, ApiResult, Problem};
use crate::extract::Asked;
use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use jarvis_audit::{Filter, Kind};
use jarvis_memory::{Filter as NoteFilter, Found, Note, NoteKind, Query};
use jarvis_protocol::{ErrorBody, ErrorKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Tail {
    /// The last so many.
    #[serde(default = "some")]
    #[param(minimum = 1, maximum = 1000, default = 50)]
    pub n: usize,
    #[param(inline)]
    pub kind: Option<KindOf>,
    /// Only what this front end did: cli, http, …
    pub actor: Option<String>,
    /// Only what is about this capability or command.
    pub subject: Option<String>,
}

fn some() -> usize {
    50
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum KindOf {
    Intent,
    Outcome,
    Decision,
    Forge,
    Registry,
    Audit,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Records {
    /// The oldest first: hash, seq, at, actor, kind, subject, detail.
    #[schema(value_type = Vec<Object>)]
    pub entries: Vec<Value>,
    /// Lines on the way that are no record; `/v1/audit/verify` says where.
    pub unreadable: usize,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Verified {
    pub records: u64,
    /// What cannot have come about by a crash; none: the record is as it was written.
    #[schema(value_type = Vec<Object>)]
    pub problems: Vec<Value>,
    #[schema(value_type = Vec<Object>)]
    pub notes: Vec<Value>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Remembered {
    /// Words of any language; without them the newest notes.
    pub q: Option<String>,
    #[serde(default = "notes")]
    #[param(minimum = 1, maximum = 200, default = 20)]
    pub limit: usize,
    #[serde(rename = "type")]
    #[param(inline)]
    pub kind: Option<NoteKindOf>,
}

fn notes() -> usize {
    20
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NoteKindOf {
    Fact,
    Preference,
    Project,
    Decision,
    Note,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Notes {
    /// id, type, date, importance, tags, text; of a search also why it was found.
    #[schema(value_type = Vec<Object>)]
    pub notes: Vec<Value>,
    /// Why meaning was not, or not for every note, searched.
    pub notices: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    pub status: String,
    pub version: String,
}

fn values<T: Serialize>(of: impl IntoIterator<Item = T>) -> Vec<Value> {
    of.into_iter().filter_map(|one| serde_json::to_value(one).ok()).collect()
}

/// The last records of what was meant to be done and what came of it.
#[utoipa::path(get, path = "/v1/audit", tag = "server", params(Tail),
    responses((status = 200, body = Records), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn audit(State(app): State<App>, Asked(asked): Asked<Tail>) -> ApiResult<Json<Records>> {
    if !(1..=1000).contains(&asked.n) {
        return Err(ApiError::usage("n is 1 to 1000"));
    }
    let kind = asked.kind.map(|kind| match kind {
        KindOf::Intent => Kind::Intent,
        KindOf::Outcome => Kind::Outcome,
        KindOf::Decision => Kind::Decision,
        KindOf::Forge => Kind::Forge,
        KindOf::Registry => Kind::Registry,
        KindOf::Audit => Kind::Audit,
    });
    let filter = Filter { kind, actor: asked.actor, subject: asked.subject };
    let log = app.parts.audit.clone();
    let tail = off(move || log.tail(asked.n, &filter).map_err(|error| error.body())).await?;
    Ok(Json(Records { entries: values(tail.entries), unreadable: tail.unreadable }))
}

/// Reads every record and finds any that was changed, removed or added.
#[utoipa::path(get, path = "/v1/audit/verify", tag = "server",
    responses((status = 200, body = Verified), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn verify(State(app): State<App>) -> ApiResult<Json<Verified>> {
    let log = app.parts.audit.clone();
    let verify = off(move || log.verify().map_err(|error| error.body())).await?;
    let (problems, notes) = (values(verify.problems), values(verify.notes));
    Ok(Json(Verified { records: verify.records, problems, notes }))
}

/// Notes: what is remembered beyond one conversation.
#[utoipa::path(get, path = "/v1/memory", tag = "server", params(Remembered),
    responses((status = 200, body = Notes), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn memory(State(app): State<App>, Asked(asked): Asked<Remembered>) -> ApiResult<Json<Notes>> {
    if !(1..=200).contains(&asked.limit) {
        return Err(ApiError::usage("limit is 1 to 200"));
    }
    let store = app.parts.memory.clone().ok_or_else(|| {
        ErrorBody::new(ErrorKind::Damaged, "the notes cannot be opened").hint("`jarvis doctor` says why")
    })?;
    let kinds = asked.kind.map(|kind| match kind {
        NoteKindOf::Fact => NoteKind::Fact,
        NoteKindOf::Preference => NoteKind::Preference,
        NoteKindOf::Project => NoteKind::Project,
        NoteKindOf::Decision => NoteKind::Decision,
        NoteKindOf::Note => NoteKind::Note,
    });
    let filter = NoteFilter { kinds: kinds.into_iter().collect(), ..NoteFilter::default() };
    // Where a file is, is nobody's business on the other side.
    let shown = |note: Note| Note { path: None, ..note };
    let Some(text) = asked.q.filter(|q| !q.trim().is_empty()) else {
        let found = store.list(&filter, 0, asked.limit).await.map_err(|error| error.body())?;
        return Ok(Json(Notes { notes: values(found.into_iter().map(shown)), notices: Vec::new() }));
    };
    let query = Query { text, filter, limit: asked.limit };
    let searched = store.search(&query).await.map_err(|error| error.body())?;
    let found = searched.found.into_iter().map(|Found { note, why }| {
        let mut value = serde_json::to_value(shown(note)).unwrap_or_default();
        value["why"] = json!(why);
        value
    });
    Ok(Json(Notes { notes: found.collect(), notices: searched.notices }))
}

/// That the server lives. The only path that wants no token.
#[utoipa::path(get, path = "/healthz", tag = "server", security(()),
    responses((status = 200, body = Health), (status = "4XX", body = Problem)))]
pub async fn health() -> Json<Health> {
    Json(Health { status: "ok".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// Counts, in the OpenMetrics text form that Prometheus reads.
#[utoipa::path(get, path = "/metrics", tag = "server",
    responses((status = 200, content_type = "application/openmetrics-text", body = String), (status = "4XX", body = Problem)))]
pub async fn metrics(State(app): State<App>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([("content-type", kind)], app.metrics.text(app.host().live().len()))
}
