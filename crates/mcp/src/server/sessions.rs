//! Sessions over HTTP: so many at a time. One that nobody uses and nobody listens to makes room for another, and what is
//! deleted works no longer.

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// At the same time.
const SESSIONS: usize = 64;
/// The first version of the protocol without sessions.
const SESSIONLESS: &str = "2026-07-28";
const ID: &str = "mcp-session-id";
/// Between two looks for those that are idle.
const LOOK: Duration = Duration::from_secs(30);
/// How long the library may take to let one go.
const LETTING_GO: Duration = Duration::from_secs(1);

tokio::task_local! {
    /// Of the session that this request begins.
    static GONE: CancellationToken;
}

/// The token of the session that the request at hand begins, which ends its work.
pub(super) fn begun() -> Option<CancellationToken> {
    GONE.try_with(Clone::clone).ok()
}

pub(super) struct Sessions {
    pub manager: Arc<LocalSessionManager>,
    known: Mutex<HashMap<String, Used>>,
    /// One begins at a time, so that the count holds.
    beginning: tokio::sync::Mutex<()>,
    /// Without use and without a stream, one is ended after it.
    idle: Duration,
    stop: CancellationToken,
}

struct Used {
    /// Answers that are still being read.
    open: usize,
    last: Instant,
    gone: CancellationToken,
}

/// Somebody reads an answer of the session.
struct Reading {
    sessions: Arc<Sessions>,
    id: String,
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(used) = self.sessions.known().get_mut(&self.id) {
            used.open -= 1;
            used.last = Instant::now();
        }
    }
}

impl Sessions {
    pub fn new(idle: Duration, stop: CancellationToken) -> Arc<Sessions> {
        let mut manager = LocalSessionManager::default();
        // The library ends those with an open stream, too; what is idle is seen here.
        manager.session_config.keep_alive = None;
        let (known, beginning) = (Mutex::default(), tokio::sync::Mutex::default());
        Arc::new(Sessions { manager: Arc::new(manager), known, beginning, idle, stop })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Used>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One whole request.
    pub async fn serve(self: &Arc<Self>, request: Request, initializes: bool, next: Next) -> Response {
        if initializes || begins(&request) {
            return self.begin(request, next).await;
        }
        let id = text(request.headers(), ID);
        let reading = id.as_deref().and_then(|id| self.read(id));
        let deletes = request.method() == Method::DELETE;
        let response = next.run(request).await;
        if let Some(id) = id.filter(|_| deletes && response.status().is_success()) {
            self.forget(&id);
        }
        held(response, reading)
    }

    async fn begin(self: &Arc<Self>, request: Request, next: Next) -> Response {
        let _one = self.beginning.lock().await;
        let gone = self.stop.child_token();
        let response = GONE.scope(gone.clone(), next.run(request)).await;
        // Only what the library let begin takes the place of another: it refuses foreign origins and hosts.
        let Some(id) = text(response.headers(), ID) else { return response };
        self.known().insert(id.clone(), Used { open: 0, last: Instant::now(), gone });
        let reading = self.read(&id);
        if !self.room().await {
            self.end(&id).await;
            let told = format!("{SESSIONS} sessions are open and in use; close one (DELETE)");
            return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "60")], told).into_response();
        }
        held(response, reading)
    }

    fn read(self: &Arc<Self>, id: &str) -> Option<Reading> {
        let mut known = self.known();
        let used = known.get_mut(id)?;
        used.open += 1;
        used.last = Instant::now();
        Some(Reading { sessions: self.clone(), id: id.to_owned() })
    }

    /// What it still does ends now.
    fn forget(&self, id: &str) {
        if let Some(used) = self.known().remove(id) {
            used.gone.cancel();
        }
    }

    async fn end(&self, id: &str) {
        self.forget(id);
        let named = id.into();
        let closing = self.manager.close_session(&named);
        match tokio::time::timeout(LETTING_GO, closing).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, id, "a session is not closed"),
            Err(_) => tracing::warn!(id, "a session that is closed does not let go"),
        }
    }

    /// Whether the one that just began may stay; the one that was idle for longest ends where there are too many.
    async fn room(&self) -> bool {
        if self.manager.sessions.read().await.len() <= SESSIONS {
            return true;
        }
        self.sweep().await;
        if self.manager.sessions.read().await.len() <= SESSIONS {
            return true;
        }
        let oldest = {
            let known = self.known();
            let idle = known.iter().filter(|(_, used)| used.open == 0);
            idle.min_by_key(|(_, used)| used.last).map(|(id, _)| id.clone())
        };
        match oldest {
            Some(id) => {
                self.end(&id).await;
                true
            }
            None => false,
        }
    }

    /// Ends those that were idle for too long.
    async fn sweep(&self) {
        let there: Vec<String> = self.manager.sessions.read().await.keys().map(ToString::to_string).collect();
        let (gone, idle) = {
            let mut known = self.known();
            // Whoever began one may be gone before it was told so: it is idle like others.
            for id in there.iter().filter(|id| !known.contains_key(*id)).cloned().collect::<Vec<_>>() {
                known.insert(id, Used { open: 0, last: Instant::now(), gone: self.stop.child_token() });
            }
            let gone: Vec<String> = known.keys().filter(|id| !there.contains(id)).cloned().collect();
            let idle = known.iter().filter(|(_, used)| used.open == 0 && used.last.elapsed() >= self.idle);
            (gone, idle.map(|(id, _)| id.clone()).collect::<Vec<_>>())
        };
        // The library ended them by itself.
        gone.iter().for_each(|id| self.forget(id));
        for id in idle {
            self.end(&id).await;
        }
    }

    /// Goes on for ever.
    pub async fn look_after(&self) {
        let pause = (self.idle / 4).clamp(Duration::from_millis(250), LOOK);
        loop {
            tokio::time::sleep(pause).await;
            self.sweep().await;
        }
    }
}

/// The answer, which counts as being read until its last byte or until nobody reads it any more.
fn held(response: Response, reading: Option<Reading>) -> Response {
    let Some(reading) = reading else { return response };
    if response.body().is_end_stream() {
        return response;
    }
    response.map(|body| {
        Body::from_stream(body.into_data_stream().map(move |part| {
            let _reading = &reading;
            part
        }))
    })
}

/// As far as the head says it.
fn begins(request: &Request) -> bool {
    let version = text(request.headers(), "mcp-protocol-version");
    request.method() == Method::POST
        && text(request.headers(), ID).is_none()
        && version.is_none_or(|version| version.as_str() < SESSIONLESS)
}

fn text(headers: &axum::http::HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}
