//! Two kinds of failure that must never be mixed: what the model should read and act on, and what ends the turn.

use jarvis_protocol::ErrorBody;

#[derive(Debug, Clone, PartialEq)]
pub enum CallError {
    /// For the model: a wrong argument, an unknown name, code that threw, a refusal.
    RespondToModel(String),
    /// For the person: isolation is missing, the audit cannot be written, the disk is full, cancelled.
    Fatal(ErrorBody),
}

impl CallError {
    pub fn respond(message: impl Into<String>) -> Self {
        CallError::RespondToModel(message.into())
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallError::RespondToModel(message) => f.write_str(message),
            CallError::Fatal(body) => f.write_str(&body.message),
        }
    }
}

impl std::error::Error for CallError {}
