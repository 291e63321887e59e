//! The only way out of a jail: an HTTP proxy on a listener that was opened inside it. It takes `CONNECT` and requests
//! with an absolute URL, and holds each against the policy. No token is asked for: the listener is in the jail's own
//! network namespace (or a socket file of its own), where nobody else comes.

mod answer;
mod body;
mod connect;
mod forward;
mod head;
mod tunnel;

use super::{EgressPolicy, HostTally, Resolver, Tally, system};
use answer::Problem;
use head::Target;
use jarvis_protocol::Egress;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A listener that a jail handed out.
#[derive(Debug)]
pub enum ProxyListener {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

/// Bounds of one jail's way out. There is no `Default`; see [`ProxyLimits::STANDARD`].
#[derive(Debug, Clone, Copy)]
pub struct ProxyLimits {
    /// At the same time; more wait to be accepted.
    pub connections: usize,
    /// How long a request's head may take to arrive.
    pub head: Duration,
    /// How long a connection may be silent in both directions.
    pub idle: Duration,
    /// How long a connection may last.
    pub total: Duration,
    /// Of all connections together, both ways.
    pub bytes: u64,
}

impl ProxyLimits {
    pub const STANDARD: ProxyLimits = ProxyLimits {
        connections: 64,
        head: Duration::from_secs(15),
        idle: Duration::from_secs(120),
        total: Duration::from_secs(3600),
        bytes: 4 << 30,
    };
}

/// Cheap to clone; all clones count together.
#[derive(Clone)]
pub struct EgressProxy(Arc<Shared>);

struct Shared {
    policy: EgressPolicy,
    limits: ProxyLimits,
    resolver: Resolver,
    tally: Tally,
    moved: AtomicU64,
}

impl EgressProxy {
    pub fn new(policy: EgressPolicy, limits: ProxyLimits) -> EgressProxy {
        Self::with_resolver(policy, limits, system())
    }

    pub fn with_resolver(policy: EgressPolicy, limits: ProxyLimits, resolver: Resolver) -> EgressProxy {
        EgressProxy(Arc::new(Shared { policy, limits, resolver, tally: Tally::default(), moved: AtomicU64::new(0) }))
    }

    /// Serves until it is cancelled or dropped, which ends all connections. Only a listener that cannot be used at all is
    /// an error.
    pub async fn serve(&self, listener: ProxyListener, cancel: &CancellationToken) -> io::Result<()> {
        let listener = Listener::new(listener)?;
        let turns = Arc::new(Semaphore::new(self.0.limits.connections.max(1)));
        let mut open = JoinSet::new();
        loop {
            // A connection is accepted when there is room for it; the kernel holds back the others.
            let turn = tokio::select! {
                turn = Arc::clone(&turns).acquire_owned() => turn.map_err(io::Error::other)?,
                () = cancel.cancelled() => return Ok(()),
            };
            let stream = tokio::select! {
                stream = listener.accept() => stream,
                Some(_) = open.join_next() => continue,
                () = cancel.cancelled() => return Ok(()),
            };
            let Ok(stream) = stream else {
                // No descriptor is free, or the client is gone again: neither is a reason to close the only way out.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let shared = Arc::clone(&self.0);
            open.spawn(async move {
                shared.attend(stream).await;
                drop(turn);
            });
        }
    }

    /// What left and came back so far, host by host.
    pub fn egress(&self) -> Vec<Egress> {
        self.0.tally.egress()
    }
}

enum Listener {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Listener {
    fn new(listener: ProxyListener) -> io::Result<Listener> {
        Ok(match listener {
            ProxyListener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Listener::Tcp(tokio::net::TcpListener::from_std(listener)?)
            }
            ProxyListener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Listener::Unix(tokio::net::UnixListener::from_std(listener)?)
            }
        })
    }

    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Listener::Tcp(listener) => Box::new(listener.accept().await?.0),
            Listener::Unix(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

impl Shared {
    /// One connection, which serves one request.
    async fn attend(&self, mut client: Box<dyn Stream>) {
        // A connection that lasts too long is cut; there is nobody left to be told.
        let _ = tokio::time::timeout(self.limits.total, async {
            if let Err(problem) = self.serve_one(&mut client).await {
                problem.send(&mut client).await;
            }
        })
        .await;
    }

    async fn serve_one(&self, client: &mut Box<dyn Stream>) -> Result<(), Problem> {
        let read = tokio::time::timeout(self.limits.head, head::read(client)).await;
        let Some((head, rest)) = read.map_err(|_| Problem::slow())?? else { return Ok(()) };
        if self.moved.load(Relaxed) >= self.limits.bytes {
            return Err(Problem::too_much(self.limits.bytes));
        }
        match head.target.clone() {
            Target::Tunnel { host, port } => self.tunnel(client, rest, &host, port).await,
            Target::Url(url) => self.forward(client, &head, rest, &url).await,
        }
    }

    fn watch<'a>(&'a self, tally: &'a HostTally) -> Watch<'a> {
        Watch { shared: self, tally, began: Instant::now(), last: AtomicU64::new(0) }
    }
}

/// Counts what one connection moves, and notices when it moves nothing.
struct Watch<'a> {
    shared: &'a Shared,
    tally: &'a HostTally,
    began: Instant,
    /// Milliseconds from the beginning to the last byte.
    last: AtomicU64,
}

#[derive(Clone, Copy)]
enum Way {
    Out,
    In,
}

impl Watch<'_> {
    /// False when this was more than the jail may move.
    fn moved(&self, way: Way, bytes: usize) -> bool {
        match way {
            Way::Out => self.tally.sent(bytes),
            Way::In => self.tally.received(bytes),
        }
        self.last.store(self.began.elapsed().as_millis() as u64, Relaxed);
        self.shared.moved.fetch_add(bytes as u64, Relaxed) + bytes as u64 <= self.shared.limits.bytes
    }

    /// Ends when nothing has moved for too long.
    async fn idle(&self) {
        loop {
            let until = Duration::from_millis(self.last.load(Relaxed)) + self.shared.limits.idle;
            if self.began.elapsed() >= until {
                return;
            }
            tokio::time::sleep_until(self.began + until).await;
        }
    }
}
