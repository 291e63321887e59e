//! The forms in which sessions and capabilities are told.

use jarvis_host::{Live, Question};
use jarvis_memory::SessionInfo;
use jarvis_protocol::{Capability, Status, Usage};
use jarvis_registry::{FITS, Hit};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::UNIX_EPOCH;
use utoipa::ToSchema;

/// A session: live, kept, or both.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionView {
    pub id: String,
    /// It is open in this server.
    pub live: bool,
    /// It is on disk. One without a message is not yet.
    pub kept: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The beginning of its first question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opening: Option<String>,
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub messages: u64,
    /// Tokens and cost over all turns.
    #[schema(value_type = Object)]
    pub usage: Usage,
    /// A turn runs.
    pub busy: bool,
    /// Of a live one: ids of questions that wait for an answer.
    pub approvals: Vec<String>,
    /// Of a live one: the id of its last event, to follow it from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_event: Option<String>,
}

impl SessionView {
    pub fn live(live: &Live) -> Self {
        let now = live.snapshot();
        Self {
            id: live.id().to_owned(),
            live: true,
            kept: false,
            title: None,
            opening: None,
            created: None,
            updated: None,
            workspace: Some(live.workspace().to_string_lossy().into_owned()),
            model: Some(now.model),
            messages: now.messages as u64,
            usage: now.usage,
            busy: now.busy,
            approvals: now.questions,
            last_event: Some(event_id(live, now.last_event)),
        }
    }

    pub fn kept(info: SessionInfo, live: Option<&Live>) -> Self {
        let now = live.map(Self::live);
        let kept = Self {
            id: info.id,
            live: false,
            kept: true,
            title: info.title,
            opening: info.opening,
            created: Some(info.created.to_string()),
            updated: Some(info.updated.to_string()),
            workspace: info.workspace,
            model: info.model,
            messages: info.messages,
            usage: info.usage,
            busy: false,
            approvals: Vec::new(),
            last_event: None,
        };
        match now {
            None => kept,
            Some(now) => Self {
                live: true,
                kept: true,
                title: kept.title,
                opening: kept.opening,
                created: kept.created,
                updated: kept.updated,
                ..now
            },
        }
    }
}

/// An event's id on the wire. Numbers begin anew when a session is opened again; the first part tells the openings apart.
pub fn event_id(live: &Live, number: u64) -> String {
    format!("{}-{number}", opening(live))
}

pub fn opening(live: &Live) -> String {
    let since = live.opened().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}", since.as_millis())
}

/// A question that waits for an answer.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalView {
    pub id: String,
    pub session: String,
    pub capability: String,
    /// All that the code could reach and that nothing allowed beforehand.
    #[schema(value_type = Object)]
    pub grants: Value,
    pub reason: String,
    /// A yes is kept: the same is not asked about again. Else it is for this once.
    pub lasting: bool,
    /// The call that led to it, as the event `tool.started` names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

impl ApprovalView {
    pub fn new(session: &str, question: Question) -> Self {
        Self {
            id: question.id,
            session: session.to_owned(),
            capability: question.capability,
            // Plain data.
            grants: serde_json::to_value(question.grants).unwrap_or_else(|_| json!({})),
            reason: question.reason,
            lasting: question.lasting,
            call_id: question.call_id,
        }
    }
}

/// A capability in a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct CapabilityRow {
    pub name: String,
    pub version: String,
    /// active, quarantined, disabled or retired.
    #[schema(value_type = String)]
    pub status: Status,
    /// What it does.
    pub capability: String,
    pub signature: String,
    /// Of a search: 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Of a search: good enough to be used for the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits: Option<bool>,
    /// Of a search: why it is not for this, though it looks like it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppressed_by: Option<String>,
}

impl From<&Capability> for CapabilityRow {
    fn from(of: &Capability) -> Self {
        Self {
            name: of.name.to_string(),
            version: of.version.to_string(),
            status: of.status,
            capability: of.capability.clone(),
            signature: of.signature(),
            score: None,
            fits: None,
            suppressed_by: None,
        }
    }
}

impl From<&Hit> for CapabilityRow {
    fn from(hit: &Hit) -> Self {
        Self {
            score: Some(hit.score),
            fits: Some(hit.score >= FITS && hit.suppressed_by.is_none()),
            suppressed_by: hit.suppressed_by.clone(),
            ..Self::from(&hit.capability)
        }
    }
}
