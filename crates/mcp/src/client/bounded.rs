//! What a server writes, with a bound on one line: a message without an end must not take the memory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes of one message.
pub(super) const MOST_LINE: usize = (16 << 20) - 1;

pub(super) struct Bounded<R> {
    inner: R,
    line: usize,
    /// Set when a line was longer; nothing is read after it.
    pub too_long: Arc<AtomicBool>,
}

impl<R> Bounded<R> {
    pub fn new(inner: R) -> Self {
        Self { inner, line: 0, too_long: Arc::default() }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let new = &buffer.filled()[before..];
        // Only what stands behind the last line break goes on.
        self.line = match new.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => new.len() - at - 1,
            None => self.line + new.len(),
        };
        if self.line > MOST_LINE {
            self.too_long.store(true, Ordering::Release);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "a message without an end")));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, repeat};

    #[tokio::test]
    async fn lines_of_any_number_pass_and_one_without_an_end_does_not() {
        let text = "x".repeat(1000) + "\n";
        let many = text.repeat(50_000);
        let mut read = Vec::new();
        Bounded::new(many.as_bytes()).read_to_end(&mut read).await.unwrap();
        assert_eq!(read.len(), many.len());
        let mut endless = Bounded::new(repeat(b'x'));
        let told = endless.too_long.clone();
        let mut buffer = vec![0; 1 << 20];
        let mut all = 0;
        while let Ok(count) = endless.read(&mut buffer).await {
            all += count;
            assert!(all <= MOST_LINE + buffer.len());
        }
        assert!(told.load(Ordering::Acquire));
    }
}
