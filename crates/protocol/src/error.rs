//! The shape in which every front end shows an error: what happened, of what kind, what to do.

use serde::{Deserialize, Serialize};

/// Closed list; scripts match on it. Exit code 2 for `usage` and `config`, 130 for `cancelled`, 255 for `internal`, 1 for
/// the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    Usage,
    Config,
    /// No model is set up, or it cannot be loaded.
    NoModel,
    Auth,
    RateLimit,
    Overloaded,
    ContextOverflow,
    InvalidRequest,
    ContentFilter,
    Network,
    Timeout,
    /// The provider answered something that is not its protocol.
    Protocol,
    /// Forge could not make a capability that passes.
    Forge,
    /// Isolation is missing, or an execution failed.
    Sandbox,
    /// A person, or the policy, said no.
    Denied,
    NotFound,
    /// A file of the home is damaged or from a newer version.
    Damaged,
    Disk,
    Cancelled,
    /// In use, or busy with something else.
    Conflict,
    /// A bound of the turn was reached.
    Limit,
    Internal,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    pub kind: ErrorKind,
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ErrorBody {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
