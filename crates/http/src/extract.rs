//! Bodies, queries and paths, with errors in the one shape.

use crate::app::App;
use crate::error::ApiError;
use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use jarvis_protocol::ErrorKind;
use serde::de::DeserializeOwned;

/// A JSON body: of the right type, in time, and not too large.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let said =
            request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = said.split(';').next().unwrap_or_default().trim();
        // A page elsewhere can send forms and plain text without being asked for leave.
        if !essence.eq_ignore_ascii_case("application/json") {
            let error = ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorKind::Usage, "the body is no JSON");
            return Err(error.hint("send it with Content-Type: application/json"));
        }
        let bounds = app.parts.bounds;
        let length = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        if length.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > bounds.body as u64) {
            return Err(too_large(bounds.body));
        }
        let read = tokio::time::timeout(bounds.upload, to_bytes(request.into_body(), bounds.body)).await;
        let bytes = match read {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return Err(unread(&error, bounds.body)),
            Err(_) => {
                let seconds = bounds.upload.as_secs();
                let message = format!("the body did not arrive within {seconds} s");
                return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, ErrorKind::Timeout, message));
            }
        };
        serde_json::from_slice(&bytes)
            .map(Body)
            .map_err(|error| ApiError::usage(format!("the body is not what is taken here: {error}")).hint(SEE))
    }
}

const SEE: &str = "GET /openapi.json tells its form";

fn too_large(most: usize) -> ApiError {
    let message = format!("the body has more than {} MiB", most >> 20);
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorKind::Limit, message).hint("send less at a time")
}

fn unread(error: &axum::Error, most: usize) -> ApiError {
    // The limit is told by its type only deep inside.
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.to_string().contains("length limit exceeded") {
            return too_large(most);
        }
        cause = error.source();
    }
    ApiError::usage(format!("the body could not be read: {error}"))
}

/// The query.
pub struct Asked<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match Query::<T>::from_request_parts(parts, app).await {
            Ok(Query(asked)) => Ok(Asked(asked)),
            Err(error) => Err(ApiError::usage(format!("the query is not what is taken here: {error}")).hint(SEE)),
        }
    }
}

/// What the path names.
pub struct At<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for At<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match Path::<T>::from_request_parts(parts, app).await {
            Ok(Path(at)) => Ok(At(at)),
            // A name that is no text names nothing.
            Err(error) => Err(ApiError::not_found(format!("the path names nothing: {error}"))),
        }
    }
}
