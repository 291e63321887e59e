//! The routes, and the document that describes them.

mod capabilities;
mod events;
mod look;
mod messages;
mod sessions;
mod undo;

use crate::app::App;
use crate::error::{ApiError, no_route};
use crate::{guard, metrics, openai};
use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use jarvis_protocol::ErrorKind;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{SecurityRequirement, Server};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use events::Follow;
pub(crate) use messages::image;
pub(crate) use sessions::opened;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "jarvis",
        description = "An agent that grows its own capabilities. Every error has the form {error: {kind, message, hint}}.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    tags(
        (name = "sessions", description = "Conversations: live ones and those that were kept"),
        (name = "capabilities", description = "What jarvis has learned to do"),
        (name = "openai", description = "The same agent in OpenAI's form"),
        (name = "server", description = "The server itself: its record, its notes, its state"),
    )
)]
struct Document;

fn described() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(sessions::list, sessions::create))
        .routes(routes!(sessions::show, sessions::rename, sessions::delete))
        .routes(routes!(sessions::history))
        .routes(routes!(sessions::export))
        .routes(routes!(sessions::fork))
        .routes(routes!(sessions::close))
        .routes(routes!(messages::send))
        .routes(routes!(messages::cancel))
        .routes(routes!(undo::undo))
        .routes(routes!(messages::approvals))
        .routes(routes!(messages::answer))
        .routes(routes!(events::follow))
        .routes(routes!(capabilities::list))
        .routes(routes!(capabilities::show))
        .routes(routes!(capabilities::history))
        .routes(routes!(capabilities::run))
        .routes(routes!(look::audit))
        .routes(routes!(look::verify))
        .routes(routes!(look::memory))
        .routes(routes!(look::health))
        .routes(routes!(look::metrics))
        .routes(routes!(openai::models))
        .routes(routes!(openai::complete))
}

/// The OpenAPI document, made from the code.
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = described().into_openapi();
    document.servers = Some(vec![Server::new("/")]);
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    document.components.get_or_insert_default().add_security_scheme("token", scheme);
    // The second: where no token is set, none is wanted.
    document.security =
        Some(vec![SecurityRequirement::new("token", Vec::<String>::new()), SecurityRequirement::default()]);
    document
}

pub(crate) fn router(app: App) -> Router {
    let (routes, _) = described().split_for_parts();
    // Plain data: it always becomes JSON.
    let text = Bytes::from(serde_json::to_string(&document()).unwrap_or_default());
    let json = [("content-type", "application/json")];
    routes
        .route("/openapi.json", axum::routing::get(move || async move { (json, text.clone()) }))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        // From the inside out: a panic becomes an answer, which is let out with the headers, and all is counted.
        .layer(CatchPanicLayer::custom(broken))
        .layer(from_fn_with_state(app.clone(), guard::guard))
        .layer(from_fn_with_state(app.clone(), metrics::count))
        .with_state(app)
}

async fn no_method(request: Request) -> ApiError {
    let message = format!("{} is not for this path", request.method());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, ErrorKind::Usage, message).hint("the header Allow tells what is")
}

/// A bug in one request is not one in the others.
fn broken(_: Box<dyn std::any::Any + Send>) -> Response {
    let message = "this is a bug in jarvis; please report it with what you did";
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorKind::Internal, message).into_response()
}
