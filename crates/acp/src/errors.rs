//! Errors as a client is told them.

use agent_client_protocol::{Error, ErrorCode};
use jarvis_protocol::{ErrorBody, ErrorKind};
use serde_json::json;

pub(crate) fn told(body: ErrorBody) -> Error {
    let code = match body.kind {
        ErrorKind::Auth => ErrorCode::AUTH_REQUIRED,
        ErrorKind::Usage | ErrorKind::Config | ErrorKind::InvalidRequest | ErrorKind::ContextOverflow => {
            ErrorCode::INVALID_PARAMS
        }
        ErrorKind::NotFound => ErrorCode::RESOURCE_NOT_FOUND,
        ErrorKind::Conflict | ErrorKind::Limit => ErrorCode::INVALID_REQUEST,
        ErrorKind::Cancelled => ErrorCode::REQUEST_CANCELLED,
        ErrorKind::NoModel
        | ErrorKind::RateLimit
        | ErrorKind::Overloaded
        | ErrorKind::ContentFilter
        | ErrorKind::Network
        | ErrorKind::Timeout
        | ErrorKind::Protocol
        | ErrorKind::Forge
        | ErrorKind::Sandbox
        | ErrorKind::Denied
        | ErrorKind::Damaged
        | ErrorKind::Disk
        | ErrorKind::Internal => ErrorCode::INTERNAL_ERROR,
    };
    let data = json!({"kind": body.kind, "hint": body.hint});
    // Many clients show the message alone.
    let message = match &body.hint {
        Some(hint) => format!("{} ({hint})", body.message),
        None => body.message,
    };
    Error::new(code, message).data(data)
}

pub(crate) fn wrong(problem: impl Into<String>) -> Error {
    told(ErrorBody::new(ErrorKind::Usage, problem))
}
