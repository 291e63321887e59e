//! Two kinds of failure that must never be mixed: what the model should read and act on, and what ends the turn.

use jarvis_protocol::{ErrorBody, ErrorKind};

#[derive(Debug, Clone, PartialEq)]
pub enum CallError {
    /// For the model: a wrong argument, an unknown name, code that threw, a refusal.
    RespondToModel(ErrorBody),
    /// For the person: isolation is missing, the audit cannot be written, the disk is full, cancelled.
    Fatal(ErrorBody),
}

impl CallError {
    pub fn respond(kind: ErrorKind, message: impl Into<String>) -> Self {
        CallError::RespondToModel(ErrorBody::new(kind, message))
    }

    /// How front ends show it, whichever of the two it is.
    pub fn body(&self) -> &ErrorBody {
        match self {
            CallError::RespondToModel(body) | CallError::Fatal(body) => body,
        }
    }
}

/// The disk is full, the registry is damaged: nothing that a model could mend.
impl From<jarvis_registry::RegistryError> for CallError {
    fn from(error: jarvis_registry::RegistryError) -> Self {
        CallError::Fatal(error.body())
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = self.body();
        f.write_str(&body.message)?;
        match &body.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CallError {}
