//! What the handlers share. All of it is passed in by the binary.

use crate::guard::{Access, Guard};
use crate::metrics::Metrics;
use futures::future::BoxFuture;
use jarvis_audit::AuditLog;
use jarvis_host::Host;
use jarvis_memory::MemoryStore;
use jarvis_protocol::{ErrorBody, ErrorKind};
use jarvis_registry::{Hit, Registry};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use utoipa::ToSchema;

/// What a search for capabilities found.
#[derive(Debug, Default)]
pub struct Found {
    pub hits: Vec<Hit>,
    /// Why it was by words alone, where meaning was to be searched, too.
    pub notice: Option<String>,
}

/// Finds capabilities for a request, best first, at most so many.
pub type Search = Arc<dyn Fn(String, usize) -> BoxFuture<'static, Result<Found, ErrorBody>> + Send + Sync>;

/// A model that can be named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ModelRow {
    /// `provider/model`, as a request names it.
    pub id: String,
    /// It answers where none is named.
    pub usual: bool,
    /// Of an embedded one: its file is here. A provider's is taken to be.
    pub present: bool,
}

/// Bounds of what peers may take. No `Default`, so that nothing is unbounded by accident; see [`Bounds::STANDARD`].
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections at the same time; more wait to be accepted.
    pub connections: usize,
    /// Bytes of a request's body. A message may bring images.
    pub body: usize,
    /// For the head of a request to arrive; an idle connection is closed after it, too.
    pub head: Duration,
    /// For the body of a request to arrive.
    pub upload: Duration,
    /// A peer that takes nothing of an answer for so long is gone.
    pub stall: Duration,
    /// Requests a second from one address. Four times as many may come at once.
    pub rate: u32,
    /// Between two signs of life of an event stream.
    pub keep_alive: Duration,
    /// For turns to end when the server is told to stop.
    pub grace: Duration,
}

impl Bounds {
    pub const STANDARD: Bounds = Bounds {
        connections: 1024,
        body: 64 << 20,
        head: Duration::from_secs(15),
        upload: Duration::from_secs(60),
        stall: Duration::from_secs(60),
        rate: 500,
        keep_alive: Duration::from_secs(15),
        grace: Duration::from_secs(10),
    };
}

pub struct Parts {
    pub host: Host,
    pub registry: Registry,
    pub audit: Arc<AuditLog>,
    /// Notes; none where they cannot be opened.
    pub memory: Option<Arc<dyn MemoryStore>>,
    pub search: Search,
    /// Asked each time: files of models come and go.
    pub models: Arc<dyn Fn() -> Vec<ModelRow> + Send + Sync>,
    pub access: Access,
    pub bounds: Bounds,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

pub struct Shared {
    pub(crate) parts: Parts,
    pub(crate) metrics: Metrics,
    pub(crate) guard: Guard,
}

impl std::ops::Deref for App {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    /// From now on the events of the host's sessions are counted.
    pub fn new(parts: Parts) -> Self {
        let metrics = Metrics::new();
        let counted = metrics.clone();
        parts.host.tap(Arc::new(move |event| counted.event(event)));
        let guard = Guard::new(parts.access.clone(), parts.bounds.rate);
        Self(Arc::new(Shared { parts, metrics, guard }))
    }

    pub(crate) fn host(&self) -> &Host {
        &self.parts.host
    }
}

/// Work that waits for a disk, off the threads that serve.
pub(crate) async fn off<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ErrorBody> + Send + 'static,
) -> Result<T, ErrorBody> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|_| Err(ErrorBody::new(ErrorKind::Internal, "the request could not be worked on")))
}
