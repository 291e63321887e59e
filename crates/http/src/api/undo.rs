//! Taking back what a session did last.

use super::messages::live;
use crate::app::App;
use crate::error::{ApiResult, Problem};
use crate::extract::{At, Body};
use axum::Json;
use axum::extract::State;
use jarvis_agent::Undone;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Force {
    /// Also files that somebody else changed since.
    #[serde(default)]
    pub force: bool,
}

/// A turn that was taken back.
#[derive(Debug, Serialize, ToSchema)]
pub struct UndoView {
    /// What the person had said.
    pub question: String,
    /// Messages that left the conversation.
    pub messages: usize,
    pub files: Vec<RestoredFile>,
    /// What could not be put back.
    pub left: Vec<LeftFile>,
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RestoredFile {
    pub path: String,
    /// removed (the turn had made it), restored (it had changed it), or made again (it had removed it).
    pub what: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct LeftFile {
    pub path: String,
    pub why: String,
}

impl From<Undone> for UndoView {
    fn from(undone: Undone) -> Self {
        let restored =
            |(path, what): (String, jarvis_agent::Restored)| RestoredFile { path, what: what.as_str().to_owned() };
        Self {
            question: undone.question,
            messages: undone.messages,
            files: undone.files.into_iter().map(restored).collect(),
            left: undone.left.into_iter().map(|(path, why)| LeftFile { path, why }).collect(),
            notes: undone.notes,
        }
    }
}

/// Takes back the last turn of an open session: its messages leave the conversation, and the files it changed are as they
/// were before it. Capabilities that it registered stay.
///
/// Nothing is taken back where somebody else changed one of the files since, unless `force` is true.
#[utoipa::path(post, path = "/v1/sessions/{id}/undo", tag = "sessions", params(("id" = String, Path)), request_body = Force,
    responses((status = 200, body = UndoView), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn undo(State(app): State<App>, At(id): At<String>, Body(asked): Body<Force>) -> ApiResult<Json<UndoView>> {
    Ok(Json(live(&app, &id)?.undo(asked.force).await?.into()))
}
