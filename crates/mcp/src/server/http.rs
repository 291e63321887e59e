//! Streamable HTTP: who may connect, how much they may send, how many sessions there are. The protocol itself is the
//! library's.

use crate::server::handler::Handler;
use crate::server::listener::{Bounded, Served};
use crate::server::sessions::{self, Sessions};
use crate::server::{MESSAGE_BYTES, Setup, Shared};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

/// Where it is served.
pub const PATH: &str = "/mcp";
/// A body that takes longer is not going to come.
const BODY: Duration = Duration::from_secs(15);
/// For answers that are on their way when the server stops.
const STOPPING: Duration = Duration::from_secs(5);

pub struct HttpOptions {
    /// What every request must carry as a bearer token; none: anybody who can connect is served.
    pub token: Option<String>,
    /// Names that the server is reached by, with or without a port, beside those of this machine.
    pub hosts: Vec<String>,
    /// The port of the listener: pages of this machine's own server may call it, others not.
    pub port: u16,
    /// After so long a session that nobody uses or listens to ends.
    pub idle: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("the server cannot go on: {0}")]
    Io(#[from] std::io::Error),
}

struct Gate {
    /// The hash of the token, so that comparing takes the same time whatever was sent.
    token: Option<blake3::Hash>,
    sessions: Arc<Sessions>,
}

/// Serves hosts until `stop`; what runs then is cancelled, and answers that are ready are sent.
///
/// # Errors
/// The listener broke.
pub async fn serve_http<L: Listener>(
    setup: Setup,
    listener: L,
    options: HttpOptions,
    stop: CancellationToken,
) -> Result<(), HttpError> {
    let shared = Shared::new(setup, &stop);
    let port = options.port;
    let local = ["localhost", "127.0.0.1", "[::1]"];
    let origins = local.map(|host| format!("http://{host}:{port}"));
    let named = options.hosts.iter().flat_map(|host| [format!("http://{host}:*"), format!("https://{host}:*")]);
    let hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into_iter().chain(options.hosts.iter().cloned());
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins.into_iter().chain(named))
        .enforce_origin_validation()
        .with_max_request_body_bytes(MESSAGE_BYTES)
        .with_cancellation_token(stop.clone());
    let sessions = Sessions::new(options.idle, stop.clone());
    let ended = stop.clone();
    let service = StreamableHttpService::new(
        move || Ok(Handler::new(shared.clone(), sessions::begun().unwrap_or_else(|| ended.child_token()))),
        sessions.manager.clone(),
        config,
    );
    let gate =
        Arc::new(Gate { token: options.token.map(|token| blake3::hash(token.as_bytes())), sessions: sessions.clone() });
    let app = Router::new()
        .route_service(PATH, service)
        .layer(from_fn_with_state(gate, admit))
        .into_make_service_with_connect_info::<Served>();
    let stopping = stop.clone();
    let serving =
        axum::serve(Bounded::new(listener), app).with_graceful_shutdown(async move { stopping.cancelled().await });
    let at_last = async {
        stop.cancelled().await;
        tokio::time::sleep(STOPPING).await;
    };
    tokio::select! {
        served = serving => Ok(served?),
        // A host that does not read its stream does not keep the process.
        () = at_last => Ok(()),
        () = sessions.look_after() => Ok(()),
    }
}

async fn admit(
    State(gate): State<Arc<Gate>>,
    ConnectInfo(served): ConnectInfo<Served>,
    request: Request,
    next: Next,
) -> Response {
    if let Some(token) = &gate.token
        && !bears(request.headers(), token)
    {
        let told = "a bearer token is needed: the one in the variable that the server was started with";
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], told).into_response();
    }
    let (parts, body) = request.into_parts();
    let body = match tokio::time::timeout(BODY, to_bytes(body, MESSAGE_BYTES)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            let told = format!("a message has at most {MESSAGE_BYTES} bytes");
            return (StatusCode::PAYLOAD_TOO_LARGE, told).into_response();
        }
        Err(_) => return (StatusCode::REQUEST_TIMEOUT, "the message did not come").into_response(),
    };
    served.mark();
    let initializes = is_initialize(&body);
    gate.sessions.serve(Request::from_parts(parts, Body::from(body)), initializes, next).await
}

/// Whatever version its head names, the library begins a session for it.
fn is_initialize(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Message {
        method: Option<String>,
    }
    serde_json::from_slice::<Message>(body).is_ok_and(|message| message.method.as_deref() == Some("initialize"))
}

fn bears(headers: &HeaderMap, token: &blake3::Hash) -> bool {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split_once(' ')).filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
    let given = given.map_or("", |(_, given)| given.trim());
    blake3::hash(given.as_bytes()).as_bytes().ct_eq(token.as_bytes()).into()
}
