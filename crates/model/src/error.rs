//! Why a model did not answer. Local faults and the provider's own are told apart by variant, never by substring.

use jarvis_protocol::{ErrorBody, ErrorKind};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ModelError {
    /// Also an account without money or quota: waiting does not fill it.
    #[error("the provider refused the key or its account ({status}): {message}")]
    Auth { status: u16, message: String },
    #[error("the provider limits the rate ({status}): {message}")]
    RateLimit { status: u16, message: String, retry_after: Option<Duration> },
    #[error("the provider is overloaded ({status}): {message}")]
    Overloaded { status: u16, message: String, retry_after: Option<Duration> },
    #[error("the conversation is longer than the model reads: {message}")]
    ContextOverflow { message: String },
    #[error("the provider did not accept the request ({status}): {message}")]
    InvalidRequest { status: u16, message: String },
    /// Nobody was asked: the model cannot do what the request wants.
    #[error("the request was not sent: {message}")]
    NotSent { message: String },
    #[error("the provider filtered the answer: {message}")]
    ContentFilter { message: String },
    #[error("cannot reach {host}: {message}")]
    Network { host: String, message: String },
    #[error("no answer from {host} within {seconds} s")]
    Timeout { host: String, seconds: u64 },
    #[error("the answer broke off: {message}")]
    Broken { message: String },
    #[error("the embedded engine failed: {message}")]
    Engine { message: String },
    #[error("the answer is not in the provider's format: {message}")]
    Protocol { message: String },
    #[error("the model could not be loaded: {message}")]
    Load { message: String, hint: String },
    #[error("cancelled")]
    Cancelled,
    #[error("cassette: {message}")]
    Cassette { message: String },
}

impl ModelError {
    /// How front ends show it.
    pub fn body(&self) -> ErrorBody {
        let (kind, hint): (ErrorKind, Option<String>) = match self {
            ModelError::Auth { .. } => {
                let hint =
                    "check the key in the provider's environment variable or in config, and the account's balance";
                (ErrorKind::Auth, Some(hint.into()))
            }
            ModelError::RateLimit { .. } => {
                (ErrorKind::RateLimit, Some("wait a little, or use another model with --model".into()))
            }
            ModelError::Overloaded { .. } => {
                (ErrorKind::Overloaded, Some("try again, or use another model with --model".into()))
            }
            ModelError::ContextOverflow { .. } => {
                (ErrorKind::ContextOverflow, Some("shorten the request, or use a model with a larger context".into()))
            }
            ModelError::InvalidRequest { .. } | ModelError::NotSent { .. } => (ErrorKind::InvalidRequest, None),
            ModelError::ContentFilter { .. } => (ErrorKind::ContentFilter, None),
            ModelError::Network { .. } => (
                ErrorKind::Network,
                Some("check the base_url in config and that the server runs; `--model local` needs no network".into()),
            ),
            ModelError::Timeout { .. } => {
                (ErrorKind::Timeout, Some("the server hangs; try again or another model".into()))
            }
            ModelError::Broken { .. } => {
                (ErrorKind::Network, Some("the connection was lost in mid-answer; ask again".into()))
            }
            ModelError::Engine { .. } => {
                (ErrorKind::Internal, Some("ask again; if it fails again, use another model with --model".into()))
            }
            ModelError::Protocol { .. } => {
                (ErrorKind::Protocol, Some("is base_url the right one, and the wire (openai or anthropic)?".into()))
            }
            ModelError::Load { hint, .. } => (ErrorKind::NoModel, Some(hint.clone())),
            ModelError::Cancelled => (ErrorKind::Cancelled, None),
            ModelError::Cassette { .. } => (ErrorKind::NotFound, Some("record it again with --record".into())),
        };
        ErrorBody { kind, message: self.to_string(), hint }
    }

    /// The same error with its message changed.
    pub(crate) fn map_message(mut self, change: impl Fn(&str) -> String) -> Self {
        match &mut self {
            ModelError::Auth { message, .. }
            | ModelError::RateLimit { message, .. }
            | ModelError::Overloaded { message, .. }
            | ModelError::ContextOverflow { message }
            | ModelError::InvalidRequest { message, .. }
            | ModelError::NotSent { message }
            | ModelError::Engine { message }
            | ModelError::ContentFilter { message }
            | ModelError::Network { message, .. }
            | ModelError::Broken { message }
            | ModelError::Protocol { message }
            | ModelError::Load { message, .. }
            | ModelError::Cassette { message } => *message = change(message),
            ModelError::Timeout { .. } | ModelError::Cancelled => {}
        }
        self
    }

    /// Worth trying the same request again, as long as nothing was shown.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            ModelError::RateLimit { .. }
            | ModelError::Overloaded { .. }
            | ModelError::Network { .. }
            | ModelError::Timeout { .. }
            | ModelError::Broken { .. } => true,
            ModelError::Auth { .. }
            | ModelError::ContextOverflow { .. }
            | ModelError::InvalidRequest { .. }
            | ModelError::NotSent { .. }
            | ModelError::ContentFilter { .. }
            | ModelError::Engine { .. }
            | ModelError::Protocol { .. }
            | ModelError::Load { .. }
            | ModelError::Cancelled
            | ModelError::Cassette { .. } => false,
        }
    }
}
