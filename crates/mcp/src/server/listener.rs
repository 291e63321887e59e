//! Connections, so that those which never send a request cannot keep others out.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Open at the same time; the next one waits to be accepted.
const CONNECTIONS: usize = 256;
/// From the connection to its first whole request.
const FIRST_REQUEST: Duration = Duration::from_secs(10);

/// Whether a connection has sent a whole request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Served(Arc<AtomicBool>);

impl Served {
    pub fn mark(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(crate) struct Bounded<L> {
    inner: L,
    free: Arc<Semaphore>,
}

impl<L> Bounded<L> {
    pub fn new(inner: L) -> Self {
        Self { inner, free: Arc::new(Semaphore::new(CONNECTIONS)) }
    }
}

pub(crate) struct Connection<C> {
    inner: C,
    served: Served,
    deadline: Pin<Box<Sleep>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl<L: Listener> Listener for Bounded<L> {
    type Io = Connection<L::Io>;
    type Addr = Served;

    async fn accept(&mut self) -> (Self::Io, Served) {
        // The semaphore is never closed.
        let permit = self.free.clone().acquire_owned().await.ok();
        let (inner, _) = self.inner.accept().await;
        let served = Served::default();
        let deadline = Box::pin(tokio::time::sleep(FIRST_REQUEST));
        (Connection { inner, served: served.clone(), deadline, _permit: permit }, served)
    }

    fn local_addr(&self) -> io::Result<Served> {
        Ok(Served::default())
    }
}

impl<L: Listener> Connected<IncomingStream<'_, Bounded<L>>> for Served {
    fn connect_info(stream: IncomingStream<'_, Bounded<L>>) -> Self {
        stream.remote_addr().clone()
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Connection<C> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Poll::Ready(read) = Pin::new(&mut this.inner).poll_read(cx, buf) {
            return Poll::Ready(read);
        }
        if !this.served.0.load(Ordering::Relaxed) && this.deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Connection<C> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
