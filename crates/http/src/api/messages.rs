//! What is said in a session, and what stops or allows what follows from it.

use crate::api::events::Follow;
use crate::api::opened;
use crate::app::App;
use crate::error::{ApiError, ApiResult, Problem};
use crate::extract::{Asked, At, Body};
use crate::view::{ApprovalView, event_id};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jarvis_agent::Input;
use jarvis_host::Live;
use jarvis_protocol::{Image, Usage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Send {
    pub text: String,
    /// PNG, JPEG, GIF or WebP: base64, or a data: address.
    #[serde(default)]
    #[schema(max_items = 20)]
    pub images: Vec<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Waits {
    /// Answer only when the turn is over.
    #[serde(default)]
    pub wait: bool,
}

/// A turn that has begun, or is over.
#[derive(Debug, Serialize, ToSchema)]
pub struct TurnView {
    pub turn_id: String,
    pub session: String,
    /// Where its events are, from its first on.
    pub events: String,
    /// Of one that was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// end_turn, max_rounds, max_tokens, reply_cut, max_cost, max_time, cancelled, repeated_failure or refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities_built: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities_used: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Cancelled {
    /// False: nothing ran.
    pub cancelled: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Approvals {
    pub approvals: Vec<ApprovalView>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    pub allow: bool,
}

/// An image as a client sends it. Nothing is fetched for it: an address of another server is refused.
pub(crate) fn image(given: &str) -> ApiResult<Image> {
    let data = match given.strip_prefix("data:") {
        Some(rest) => rest.split_once(";base64,").map(|(_, data)| data),
        None if given.contains("://") => None,
        None => Some(given),
    };
    let data = data.ok_or_else(|| {
        ApiError::usage("an image is base64, or a data: address with base64; none is fetched")
            .hint("send data:image/png;base64,…")
    })?;
    Image::from_base64(data, None).map_err(|error| ApiError::usage(error.to_string()))
}

/// Says something. The turn goes on although nobody waits for it; its events tell what happens.
#[utoipa::path(post, path = "/v1/sessions/{id}/messages", tag = "sessions", params(("id" = String, Path), Waits), request_body = Send,
    responses((status = 200, description = "The turn is over (`wait`)", body = TurnView), (status = 202, description = "The turn has begun", body = TurnView),
        (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn send(
    State(app): State<App>,
    At(id): At<String>,
    Asked(asked): Asked<Waits>,
    Body(body): Body<Send>,
) -> ApiResult<Response> {
    if body.images.len() > 20 {
        return Err(ApiError::usage("20 images at most come with a message"));
    }
    let images = body.images.iter().map(|given| image(given)).collect::<ApiResult<Vec<_>>>()?;
    if body.text.trim().is_empty() && images.is_empty() {
        return Err(ApiError::usage("the message is empty"));
    }
    let live = opened(&app, &id).await?;
    let (begun, follow) = begin(&live, Input { text: body.text, images })?;
    if !asked.wait {
        return Ok((StatusCode::ACCEPTED, Json(begun)).into_response());
    }
    let turned = follow.turned().await?;
    Ok(Json(TurnView {
        answer: Some(turned.answer),
        stop_reason: serde_json::to_value(turned.stop_reason).ok().and_then(|s| s.as_str().map(str::to_owned)),
        usage: Some(turned.usage),
        capabilities_built: Some(turned.built),
        capabilities_used: Some(turned.used),
        duration_ms: Some(turned.duration_ms),
        ..begun
    })
    .into_response())
}

/// The turn, and its events.
fn begin(live: &Arc<Live>, input: Input) -> ApiResult<(TurnView, Follow)> {
    // Its end is told by its last event.
    let before = live.prompt(input)?.after;
    let turn_id = event_id(live, before + 1);
    let events = format!("/v1/sessions/{}/events?after={}", live.id(), event_id(live, before));
    let begun = TurnView {
        turn_id,
        session: live.id().to_owned(),
        events,
        answer: None,
        stop_reason: None,
        usage: None,
        capabilities_built: None,
        capabilities_used: None,
        duration_ms: None,
    };
    Ok((begun, Follow::new(live, before)))
}

/// Cancels what a session does now.
#[utoipa::path(post, path = "/v1/sessions/{id}/cancel", tag = "sessions", params(("id" = String, Path)),
    responses((status = 200, body = Cancelled), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn cancel(State(app): State<App>, At(id): At<String>) -> ApiResult<Json<Cancelled>> {
    Ok(Json(Cancelled { cancelled: live(&app, &id)?.cancel() }))
}

/// One that is open: what is closed does nothing and asks nothing.
pub(super) fn live(app: &App, id: &str) -> ApiResult<Arc<Live>> {
    app.host().get(id).ok_or_else(|| {
        let id: String = id.chars().take(100).collect();
        ApiError::not_found(format!("no open session is called `{id}`"))
            .hint("POST /v1/sessions {\"resume\": ID} opens one that was kept")
    })
}

/// Questions of a session that wait for an answer.
#[utoipa::path(get, path = "/v1/sessions/{id}/approvals", tag = "sessions", params(("id" = String, Path)),
    responses((status = 200, body = Approvals), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn approvals(State(app): State<App>, At(id): At<String>) -> ApiResult<Json<Approvals>> {
    let questions = live(&app, &id)?.questions();
    Ok(Json(Approvals { approvals: questions.into_iter().map(|question| ApprovalView::new(&id, question)).collect() }))
}

/// Answers a question. Each is answered once.
#[utoipa::path(post, path = "/v1/sessions/{id}/approvals/{approval}", tag = "sessions",
    params(("id" = String, Path), ("approval" = String, Path)), request_body = Answer,
    responses((status = 204), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn answer(
    State(app): State<App>,
    At((id, approval)): At<(String, String)>,
    Body(asked): Body<Answer>,
) -> ApiResult<StatusCode> {
    if live(&app, &id)?.answer(&approval, asked.allow) {
        return Ok(StatusCode::NO_CONTENT);
    }
    let approval: String = approval.chars().take(100).collect();
    Err(ApiError::not_found(format!("no question `{approval}` waits for an answer"))
        .hint("it may have been answered, or given up; GET …/approvals lists what waits"))
}
