//! What is known of a session beside its messages.

use jarvis_protocol::{Message, Usage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default)]
pub struct NewSession {
    /// One of [`super::SessionStore::fresh_id`], where it must be known before the first message; else one is made.
    pub id: Option<String>,
    pub title: Option<String>,
    /// The folder it works in.
    pub workspace: Option<String>,
    /// `provider/model`.
    pub model: Option<String>,
    /// The context strategy.
    pub strategy: Option<String>,
}

/// Where a fork comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub id: String,
    /// How many of its messages the two have in common.
    pub messages: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionInfo {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The beginning of its first question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<String>,
    pub created: Timestamp,
    pub updated: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    pub messages: u64,
    /// Over every model call since it was created; a fork begins at nothing.
    pub usage: Usage,
}

impl SessionInfo {
    /// The title, or else how it began, or else the id.
    pub fn name(&self) -> &str {
        self.title.as_deref().or(self.opening.as_deref()).unwrap_or(&self.id)
    }
}

/// A history that any provider takes: every call has its result, every result its call.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub info: SessionInfo,
    pub messages: Vec<Message>,
    /// Calls that had no result, because the process ended before they did; each now has one that says so.
    pub interrupted: usize,
    /// The last message is a person's, and nothing was answered to it.
    pub unanswered: bool,
    /// What the conversation keeps beside its messages, as it was written. A fork has it too, so it may tell of
    /// messages that the fork does not have.
    pub state: Option<String>,
}

/// Which sessions; those changed last come first.
#[derive(Debug, Clone)]
pub struct SessionQuery {
    /// Words of the title, of questions or of answers; all of them must be there.
    pub text: Option<String>,
    pub workspace: Option<String>,
    pub offset: u64,
    pub limit: u64,
}

impl Default for SessionQuery {
    fn default() -> Self {
        Self { text: None, workspace: None, offset: 0, limit: 50 }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct SessionPage {
    pub sessions: Vec<SessionInfo>,
    /// On all pages.
    pub total: u64,
}
