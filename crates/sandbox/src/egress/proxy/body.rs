//! Bodies, passed on piece by piece: one is read only when the last was taken. Chunks are read and written anew, so that
//! what goes on can be read in one way only.

use super::answer::Problem;
use super::head::Framing;
use super::{Watch, Way};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const PIECE: usize = 16 << 10;

/// The longest line between chunks, and all lines behind the last one together, bytes.
const MOST_LINE: usize = 4096;
const MOST_TRAILER: usize = 8192;

pub(super) enum Stopped {
    /// Whoever sends broke off, or sent what is no body.
    Source(Problem),
    /// Whoever receives takes no more.
    Sink,
}

/// Passes one body on.
pub(super) struct Pump<'a, R, W> {
    pub from: &'a mut R,
    pub to: &'a mut W,
    /// Read already.
    pub rest: Vec<u8>,
    pub watch: &'a Watch<'a>,
    pub way: Way,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Pump<'_, R, W> {
    pub(super) async fn run(&mut self, framing: Framing) -> Result<(), Stopped> {
        match framing {
            Framing::Length(length) => self.exactly(length, false).await,
            Framing::UntilClose => {
                while self.fill().await? {
                    self.give(false, self.rest.len()).await?;
                }
                Ok(())
            }
            Framing::Chunked => loop {
                let length = self.chunk_size().await?;
                if length == 0 {
                    self.trailer().await?;
                    return self.write(b"0\r\n\r\n").await;
                }
                self.exactly(length, true).await?;
                if self.line(2).await? != b"\r\n" {
                    return Err(Stopped::Source(Problem::bad("a chunk is longer than it says")));
                }
            },
        }
    }

    async fn exactly(&mut self, length: u64, as_chunks: bool) -> Result<(), Stopped> {
        let mut left = length;
        while left > 0 {
            if !self.fill().await? {
                return Err(Stopped::Source(Problem::bad("the body ends before its length")));
            }
            let now = usize::try_from(left).unwrap_or(usize::MAX).min(self.rest.len());
            self.give(as_chunks, now).await?;
            left -= now as u64;
        }
        Ok(())
    }

    /// Makes sure that something is there; false at the end.
    async fn fill(&mut self) -> Result<bool, Stopped> {
        if !self.rest.is_empty() {
            return Ok(true);
        }
        let mut piece = vec![0; PIECE];
        let n = self.from.read(&mut piece).await.map_err(|e| Stopped::Source(Problem::bad(e.to_string())))?;
        piece.truncate(n);
        self.rest = piece;
        Ok(n > 0)
    }

    async fn give(&mut self, as_chunk: bool, count: usize) -> Result<(), Stopped> {
        let piece: Vec<u8> = self.rest.drain(..count).collect();
        if as_chunk {
            self.write(format!("{count:x}\r\n").as_bytes()).await?;
        }
        self.write(&piece).await?;
        if as_chunk { self.write(b"\r\n").await } else { Ok(()) }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        if !self.watch.moved(self.way, bytes.len()) {
            return Err(Stopped::Source(Problem::too_much(self.watch.shared.limits.bytes)));
        }
        self.to.write_all(bytes).await.map_err(|_| Stopped::Sink)
    }

    async fn chunk_size(&mut self) -> Result<u64, Stopped> {
        let line = self.line(MOST_LINE).await?;
        match httparse::parse_chunk_size(&line) {
            Ok(httparse::Status::Complete((used, size))) if used == line.len() => Ok(size),
            _ => Err(Stopped::Source(Problem::bad("the size of a chunk is no number"))),
        }
    }

    /// Read and left out: what stands behind the chunks is no header that was checked.
    async fn trailer(&mut self) -> Result<(), Stopped> {
        let mut read = 0;
        loop {
            let line = self.line(MOST_LINE).await?;
            read += line.len();
            if line == b"\r\n" {
                return Ok(());
            }
            if read > MOST_TRAILER {
                return Err(Stopped::Source(Problem::bad("the trailer is too long")));
            }
        }
    }

    /// A line with its end, of `most` bytes.
    async fn line(&mut self, most: usize) -> Result<Vec<u8>, Stopped> {
        let mut line = Vec::new();
        loop {
            if !self.fill().await? {
                return Err(Stopped::Source(Problem::bad("the body ends in the middle")));
            }
            let end = self.rest.iter().position(|byte| *byte == b'\n');
            let take = end.map_or(self.rest.len(), |at| at + 1).min(most + 1 - line.len());
            line.extend(self.rest.drain(..take));
            if line.ends_with(b"\n") {
                return Ok(line);
            }
            if line.len() > most {
                return Err(Stopped::Source(Problem::bad("a line of the body is too long")));
            }
        }
    }
}
