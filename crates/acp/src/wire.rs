//! The two pipes to an editor: one JSON-RPC message a line, bounded in both directions. Lines that are no message are
//! answered here, so that a peer that sends them and reads nothing is not read any further either.

use agent_client_protocol::{Channel, Error, RawJsonRpcMessage, TransportFrame};
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The longest line that is taken. An image of the largest size in base64 fits.
const MOST_LINE: usize = 32 << 20;
/// Requests that have no answer yet; beyond them nothing more is read.
const MOST_REQUESTS: usize = 1024;
/// Bytes of updates that wait to be read; beyond them a session's events wait, where their number is bounded too.
const MOST_QUEUED: usize = 4 << 20;
/// What is told back of a line that is no message.
const SHOWN: usize = 200;

#[derive(Debug, Default)]
struct Queued {
    /// Sizes of the updates that are not written yet, in order.
    updates: VecDeque<usize>,
    bytes: usize,
    requests: usize,
}

/// How much is on its way.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    queued: Mutex<Queued>,
    moved: Notify,
}

impl Flow {
    fn lock(&self) -> MutexGuard<'_, Queued> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn until(&self, free: impl Fn(&Queued) -> bool) {
        loop {
            let mut moved = pin!(self.moved.notified());
            moved.as_mut().enable();
            if free(&self.lock()) {
                return;
            }
            moved.await;
        }
    }

    /// Waits until there is room for another update, and counts it.
    pub async fn room_for(&self, bytes: usize) {
        self.until(|queued| queued.bytes < MOST_QUEUED).await;
        let mut queued = self.lock();
        queued.updates.push_back(bytes);
        queued.bytes += bytes;
    }

    /// Every request has its answer.
    pub async fn answered(&self) {
        self.until(|queued| queued.requests == 0).await;
    }

    fn written(&self, frame: &TransportFrame) {
        let TransportFrame::Single(message) = frame else { return };
        let mut queued = self.lock();
        match message {
            RawJsonRpcMessage::Notification(told) if &*told.method == "session/update" => {
                let bytes = queued.updates.pop_front().unwrap_or_default();
                queued.bytes -= bytes;
            }
            RawJsonRpcMessage::Response(_) => queued.requests = queued.requests.saturating_sub(1),
            _ => return,
        }
        drop(queued);
        self.moved.notify_waiters();
    }
}

/// What the tasks of a connection share.
pub(crate) struct Wire {
    pub channel: Channel,
    pub flow: Arc<Flow>,
    /// The peer has closed its end, or cannot be written to.
    pub gone: CancellationToken,
    /// Ends the reading, and with it the connection, whatever the peer does.
    pub over: DropGuard,
}

impl Wire {
    /// Reads and writes from now on, until the peer is gone.
    pub fn start(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let (channel, ours) = Channel::duplex();
        let (to_connection, from_connection) = (ours.tx, ours.rx);
        let flow = Arc::new(Flow::default());
        let (gone, over) = (CancellationToken::new(), CancellationToken::new());
        let (refuse, refused) = mpsc::channel(4);
        let reader = Reader { to_connection, refuse, flow: flow.clone(), gone: gone.clone() };
        let ends = over.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = reader.run(input) => {}
                () = ends.cancelled() => {}
            }
        });
        tokio::spawn(write(output, from_connection, refused, flow.clone(), gone.clone()));
        Self { channel, flow, gone, over: over.drop_guard() }
    }
}

struct Reader {
    to_connection: UnboundedSender<TransportFrame>,
    refuse: mpsc::Sender<Error>,
    flow: Arc<Flow>,
    gone: CancellationToken,
}

impl Reader {
    async fn run(self, input: impl AsyncRead + Send + Unpin) {
        let mut input = BufReader::with_capacity(64 << 10, input);
        loop {
            self.flow.until(|queued| queued.requests < MOST_REQUESTS).await;
            match line(&mut input).await {
                Ok(Some(line)) => self.take(line).await,
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "the peer cannot be read");
                    break;
                }
            }
        }
        self.gone.cancel();
        // The connection would end with its channel; whoever drives it lets it end once all is answered.
        std::future::pending::<()>().await;
    }

    async fn take(&self, line: Line) {
        let frame = match line {
            Line::Whole(bytes) => match String::from_utf8(bytes) {
                Ok(text) if text.trim().is_empty() => return,
                Ok(text) => TransportFrame::parse_json(&text),
                Err(_) => return self.refuse(Error::parse_error().data("the line is no UTF-8")).await,
            },
            Line::TooLong(bytes) => {
                let problem = format!("the line has {bytes} bytes; at most {MOST_LINE} are taken");
                return self.refuse(Error::invalid_request().data(problem)).await;
            }
        };
        match frame {
            // An answer to nothing is not answered.
            TransportFrame::Malformed { raw, .. } if is_answer(&raw) => {}
            TransportFrame::Malformed { error, raw } => {
                let shown: String = raw.chars().take(SHOWN).collect();
                self.refuse(error.data(json!({ "line": shown }))).await;
            }
            frame => {
                if matches!(&frame, TransportFrame::Single(RawJsonRpcMessage::Request(_))) {
                    self.flow.lock().requests += 1;
                }
                // The connection is over: so is this.
                let _ = self.to_connection.unbounded_send(frame);
                // One that sends without end does not keep the others from running.
                tokio::task::yield_now().await;
            }
        }
    }

    async fn refuse(&self, error: Error) {
        let _ = self.refuse.send(error).await;
    }
}

fn is_answer(raw: &str) -> bool {
    let value: Option<Value> = serde_json::from_str(raw).ok();
    let object = value.as_ref().and_then(Value::as_object);
    object.is_some_and(|o| !o.contains_key("method") && (o.contains_key("result") || o.contains_key("error")))
}

enum Line {
    Whole(Vec<u8>),
    /// Nothing of it is kept; how many bytes it had.
    TooLong(usize),
}

/// `None` at the end. A last line that does not end is half a message and is none.
async fn line(input: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<Line>> {
    let (mut bytes, mut length) = (Vec::new(), 0);
    loop {
        let part = input.fill_buf().await?;
        if part.is_empty() {
            return Ok(None);
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(part.len());
        length += taken;
        if length <= MOST_LINE {
            bytes.extend_from_slice(&part[..taken]);
        } else if !bytes.is_empty() {
            bytes = Vec::new();
        }
        let used = taken + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(Some(if length <= MOST_LINE { Line::Whole(bytes) } else { Line::TooLong(length) }));
        }
    }
}

async fn write(
    mut output: impl AsyncWrite + Send + Unpin,
    mut frames: UnboundedReceiver<TransportFrame>,
    mut refused: mpsc::Receiver<Error>,
    flow: Arc<Flow>,
    gone: CancellationToken,
) {
    loop {
        let (text, frame) = tokio::select! {
            frame = frames.next() => match frame {
                Some(frame) => (frame.to_json(), Some(frame)),
                None => break,
            },
            Some(error) = refused.recv() => {
                (Ok(json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string()), None)
            }
        };
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                tracing::error!(?error, "a message is not written: it is no JSON");
                continue;
            }
        };
        let written = async {
            output.write_all(text.as_bytes()).await?;
            output.write_all(b"\n").await?;
            output.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "the peer cannot be written to");
            gone.cancel();
            break;
        }
        if let Some(frame) = frame {
            flow.written(&frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(bytes: &[u8]) -> Vec<Result<Vec<u8>, usize>> {
        let mut input = BufReader::with_capacity(7, bytes);
        let mut all = Vec::new();
        while let Some(line) = line(&mut input).await.unwrap() {
            all.push(match line {
                Line::Whole(bytes) => Ok(bytes),
                Line::TooLong(length) => Err(length),
            });
        }
        all
    }

    #[tokio::test]
    async fn lines_are_whole_whatever_they_come_in_and_half_of_one_is_none() {
        let found = lines("{\"a\":1}\n\n一二三四五\nhalf".as_bytes()).await;
        assert_eq!(found, [Ok(b"{\"a\":1}".to_vec()), Ok(Vec::new()), Ok("一二三四五".as_bytes().to_vec())]);
    }

    #[tokio::test]
    async fn a_line_without_end_is_not_kept_and_the_next_one_is_read() {
        let mut bytes = vec![b'x'; MOST_LINE + 5];
        bytes.extend_from_slice(b"\nok\n");
        assert_eq!(lines(&bytes).await, [Err(MOST_LINE + 5), Ok(b"ok".to_vec())]);
    }

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_sent_no_more_than_it_may_leave_unread() {
        let flow = Flow::default();
        flow.room_for(MOST_QUEUED).await;
        let waits = tokio::time::timeout(std::time::Duration::from_millis(50), flow.room_for(1)).await;
        assert!(waits.is_err());
        let update = json!({"jsonrpc": "2.0", "method": "session/update", "params": {}}).to_string();
        flow.written(&TransportFrame::parse_json(&update));
        flow.room_for(1).await;
        assert_eq!(flow.lock().bytes, 1);
    }
}
