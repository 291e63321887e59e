//! Errors as every route tells them: `{"error": {kind, message, hint}}` with the status that fits.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jarvis_audit::redact;
use jarvis_protocol::{ErrorBody, ErrorKind};
use serde::Serialize;
use utoipa::ToSchema;

/// The shape of every error.
#[derive(Debug, Serialize, ToSchema)]
pub struct Problem {
    pub error: ProblemBody,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ProblemBody {
    /// One of a closed list: usage, not_found, conflict, denied, limit, …
    #[schema(value_type = String, example = "not_found")]
    pub kind: ErrorKind,
    /// What happened, and why.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    pub status: StatusCode,
    pub body: ErrorBody,
}

pub type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    pub fn new(status: StatusCode, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { status, body: ErrorBody::new(kind, message) }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.body.hint = Some(hint.into());
        self
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorKind::Usage, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, ErrorKind::NotFound, message)
    }
}

impl From<ErrorBody> for ApiError {
    fn from(body: ErrorBody) -> Self {
        Self { status: status(body.kind), body }
    }
}

pub fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Usage | ErrorKind::InvalidRequest | ErrorKind::ContextOverflow => StatusCode::BAD_REQUEST,
        ErrorKind::Denied => StatusCode::FORBIDDEN,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Conflict | ErrorKind::Cancelled => StatusCode::CONFLICT,
        // What ran or was made is at fault, not the request for it.
        ErrorKind::Forge | ErrorKind::Sandbox | ErrorKind::ContentFilter => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::Limit | ErrorKind::RateLimit => StatusCode::TOO_MANY_REQUESTS,
        // Of the model's provider: the key is the server's, not the client's.
        ErrorKind::Auth | ErrorKind::Network | ErrorKind::Protocol => StatusCode::BAD_GATEWAY,
        ErrorKind::NoModel | ErrorKind::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
        ErrorKind::Config | ErrorKind::Damaged | ErrorKind::Disk | ErrorKind::Internal => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        // A message may repeat what a provider or a file said.
        let error = ProblemBody {
            kind: self.body.kind,
            message: redact(&self.body.message),
            hint: self.body.hint.as_deref().map(redact),
        };
        let mut response = (self.status, Json(Problem { error })).into_response();
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert("retry-after", axum::http::HeaderValue::from_static("1"));
        }
        response
    }
}

/// Of a path that is none.
pub async fn no_route(uri: axum::http::Uri) -> ApiError {
    let path: String = uri.path().chars().take(200).collect();
    ApiError::not_found(format!("there is nothing at {path}")).hint("GET /openapi.json tells what there is")
}
