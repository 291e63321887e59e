//! The connections: how many, for how long, and how they end.

use crate::api;
use crate::app::App;
use crate::stall::Stall;
use axum::Extension;
use axum::extract::ConnectInfo;
use axum::serve::Listener;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Layer;

/// Bytes and fields of a request's head.
const HEAD_BYTES: usize = 64 << 10;
const HEAD_FIELDS: usize = 64;
/// Sessions nobody uses are looked for so often.
const SWEEP: Duration = Duration::from_secs(60);
/// For answers that are being written when everything else is over.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Turns that ran when it was told to stop.
    pub turns: usize,
    /// Of them, those that had to be cancelled.
    pub cancelled: usize,
}

/// Serves until `stop` is cancelled; then no new connection is taken, turns may end within the bound, and what is left is
/// cancelled.
pub async fn serve<L>(mut listener: L, app: App, stop: &CancellationToken) -> Served
where
    L: Listener<Addr = SocketAddr>,
{
    let bounds = app.parts.bounds;
    let router = api::router(app.clone());
    let places = Arc::new(Semaphore::new(bounds.connections));
    let (connections, ending) = (TaskTracker::new(), CancellationToken::new());
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        // The place first: what cannot be served is not accepted, and waits in the system's queue.
        let place = loop {
            tokio::select! {
                () = stop.cancelled() => break None,
                place = places.clone().acquire_owned() => break place.ok(),
                _ = sweep.tick() => app.host().sweep(),
            }
        };
        let Some(place) = place else { break };
        let accepted = loop {
            tokio::select! {
                () = stop.cancelled() => break None,
                accepted = listener.accept() => break Some(accepted),
                _ = sweep.tick() => app.host().sweep(),
            }
        };
        let Some((io, peer)) = accepted else { break };
        let service = TowerToHyperService::new(Extension(ConnectInfo(peer)).layer(router.clone()));
        let (ending, counted) = (ending.clone(), app.metrics.connected());
        connections.spawn(async move {
            let _held = (place, counted);
            let mut builder = Builder::new(TokioExecutor::new()).http1_only();
            builder
                .http1()
                .timer(TokioTimer::new())
                .header_read_timeout(bounds.head)
                .max_headers(HEAD_FIELDS)
                .max_buf_size(HEAD_BYTES);
            let mut connection = pin!(builder.serve_connection(TokioIo::new(Stall::new(io, bounds.stall)), service));
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = ending.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%peer, %error, "a connection ended early");
            }
        });
    }
    // Nobody new; who is connected still hears how the turns end.
    drop(listener);
    let turns = app.host().live().iter().filter(|live| live.snapshot().busy).count();
    let cancelled = app.host().shut(bounds.grace).await;
    ending.cancel();
    connections.close();
    // A peer that does not take its answer does not keep the server.
    let _ = tokio::time::timeout(LAST_WORDS, connections.wait()).await;
    Served { turns, cancelled }
}
