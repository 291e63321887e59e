//! One message a line, as stdio has it, with everything bounded: the length of a line, what runs, what waits to be read.
//!
//! The library's own transport answers nothing to a line that is no message, and goes on reading from a host that reads
//! nothing itself; here the host is told, and waits.

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, GetMeta, JsonRpcMessage, ProtocolVersion,
    RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use serde_json::Value;
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Of one message. A capability's code and arguments fit many times over.
const LINE_BYTES: usize = super::MESSAGE_BYTES;
/// Requests that run at the same time.
const AT_ONCE: usize = 64;
/// Messages that wait for the host to read them before no more is read from it.
const UNREAD: usize = 64;
/// After the end of its input, how long what the host asked for may still be answered.
const GRACE: Duration = Duration::from_secs(1);
/// Too many requests at once; of the range that JSON-RPC leaves to servers.
const BUSY: i32 = -32000;

pub(crate) struct Lines<R, W> {
    input: BufReader<R>,
    line: Vec<u8>,
    /// The rest of a line that is too long is being skipped. Here, since `receive` may be dropped in the middle of it.
    skipping: bool,
    state: Arc<State<W>>,
}

struct State<W> {
    output: tokio::sync::Mutex<W>,
    book: Mutex<Book>,
    written: Notify,
    /// Cancelled when the host is gone.
    gone: CancellationToken,
}

#[derive(Default)]
struct Book {
    /// Requests without an answer yet.
    open: HashSet<RequestId>,
    /// Messages on their way to the host.
    unread: usize,
    /// The first request that begins a session has come.
    begun: bool,
}

/// What becomes of a line.
enum Read {
    Message(ClientJsonRpcMessage),
    Answer(ServerJsonRpcMessage),
    Nothing,
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    pub fn new(input: R, output: W, gone: CancellationToken) -> Self {
        let state =
            State { output: tokio::sync::Mutex::new(output), book: Mutex::default(), written: Notify::new(), gone };
        Self { input: BufReader::new(input), line: Vec::new(), skipping: false, state: Arc::new(state) }
    }

    /// The next whole line in `self.line`, `false` for one that was too long, None at the end. May be dropped and
    /// called again: nothing awaits between taking bytes and keeping them.
    async fn next_line(&mut self) -> Option<bool> {
        loop {
            let available = self.input.fill_buf().await.ok().filter(|bytes| !bytes.is_empty())?;
            let end = available.iter().position(|b| *b == b'\n');
            let taken = end.map_or(available.len(), |at| at + 1);
            let mut too_long = false;
            if !self.skipping {
                too_long = self.line.len() + taken > LINE_BYTES;
                if too_long {
                    self.line = Vec::new();
                    self.skipping = true;
                } else {
                    self.line.extend_from_slice(&available[..taken]);
                }
            }
            self.input.consume(taken);
            let was_skipping = self.skipping && !too_long;
            if end.is_some() {
                self.skipping = false;
            }
            if too_long {
                return Some(false);
            }
            if end.is_some() && !was_skipping {
                return Some(true);
            }
        }
    }
}

impl<W> State<W> {
    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn room(&self) {
        loop {
            let written = self.written.notified();
            if self.book().unread < UNREAD {
                return;
            }
            written.await;
        }
    }

    fn read(&self, line: &[u8]) -> Read {
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
        if line.is_empty() {
            return Read::Nothing;
        }
        match serde_json::from_slice::<ClientJsonRpcMessage>(line) {
            Ok(message) => self.admit(message),
            Err(error) => refused(line, &error),
        }
    }

    fn admit(&self, message: ClientJsonRpcMessage) -> Read {
        let mut book = self.book();
        match &message {
            JsonRpcMessage::Request(request) => {
                let id = &request.id;
                if !book.begun && !may_begin(&request.request) {
                    return answer(
                        Some(id.clone()),
                        ErrorData::invalid_request("the first request is `initialize`", None),
                    );
                }
                if book.open.contains(id) {
                    // Its own id would look like the answer to the request that still runs.
                    let told = format!("a request with the id {id} is still being answered");
                    return answer(None, ErrorData::invalid_request(told, None));
                }
                if book.open.len() >= AT_ONCE {
                    let told = format!("{AT_ONCE} requests are being answered already; wait for one");
                    return answer(Some(id.clone()), ErrorData::new(rmcp::model::ErrorCode(BUSY), told, None));
                }
                book.begun |= begins(&request.request);
                book.open.insert(id.clone());
            }
            // The library ends a session that begins with anything but a request.
            _ if !book.begun => return Read::Nothing,
            JsonRpcMessage::Notification(note) => {
                if let ClientNotification::CancelledNotification(cancelled) = &note.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // It will have no answer.
                    book.open.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Read::Message(message)
    }
}

/// What may come before a session has begun.
fn may_begin(request: &ClientRequest) -> bool {
    begins(request) || matches!(request, ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_))
}

/// `initialize`, or a request that says by itself which protocol it is of.
fn begins(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_) => false,
        other => {
            let meta = other.get_meta();
            let known = meta.protocol_version().is_some_and(|v| ProtocolVersion::KNOWN_VERSIONS.contains(&v));
            known && meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
        }
    }
}

/// A line that is no message. A bare notification of another protocol is passed over, as hosts send some.
fn refused(line: &[u8], error: &serde_json::Error) -> Read {
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return answer(None, ErrorData::parse_error(format!("this line is no JSON: {error}"), None));
    };
    let Value::Object(object) = value else {
        return answer(
            None,
            ErrorData::invalid_request("a message is one JSON object a line; there are no batches", None),
        );
    };
    if object.contains_key("method") && !object.contains_key("id") {
        return Read::Nothing;
    }
    let id = object.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
    answer(id, ErrorData::invalid_request("this is no JSON-RPC 2.0 message of MCP", None))
}

fn answer(id: Option<RequestId>, error: ErrorData) -> Read {
    Read::Answer(ServerJsonRpcMessage::error(error, id))
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        {
            let mut book = self.state.book();
            match &message {
                JsonRpcMessage::Response(response) => {
                    book.open.remove(&response.id);
                    book.begun |= matches!(response.result, ServerResult::InitializeResult(_));
                }
                JsonRpcMessage::Error(error) => {
                    if let Some(id) = &error.id {
                        book.open.remove(id);
                    }
                }
                JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
            }
        }
        write(self.state.clone(), message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let state = self.state.clone();
        let gone = state.gone.clone();
        loop {
            // A host that reads nothing is not read from either, so what waits for it stays bounded.
            tokio::select! {
                () = state.room() => {}
                () = gone.cancelled() => return None,
            }
            let line = tokio::select! {
                line = self.next_line() => line,
                () = gone.cancelled() => return None,
            };
            let read = match line {
                Some(true) => state.read(&std::mem::take(&mut self.line)),
                Some(false) => {
                    answer(None, ErrorData::invalid_request(format!("a message has at most {LINE_BYTES} bytes"), None))
                }
                None => {
                    tokio::spawn(async move {
                        tokio::time::sleep(GRACE).await;
                        gone.cancel();
                    });
                    return None;
                }
            };
            match read {
                Read::Message(message) => return Some(message),
                Read::Answer(message) => {
                    tokio::spawn(write(state.clone(), message));
                }
                Read::Nothing => {}
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // The output may hang in a write to a host that reads nothing: it is not waited for.
        Ok(())
    }
}

/// Writes a message, which counts as unread until it is out.
fn write<W: AsyncWrite + Send + Unpin + 'static>(
    state: Arc<State<W>>,
    message: ServerJsonRpcMessage,
) -> impl Future<Output = io::Result<()>> + Send + 'static {
    state.book().unread += 1;
    let unread = Unread(state);
    async move {
        let mut line = serde_json::to_vec(&message)?;
        drop(message);
        line.push(b'\n');
        let mut output = unread.0.output.lock().await;
        let written = match output.write_all(&line).await {
            Ok(()) => output.flush().await,
            Err(error) => Err(error),
        };
        written.inspect_err(|_| unread.0.gone.cancel())
    }
}

/// Counts a message out, also where its write is given up.
struct Unread<W>(Arc<State<W>>);

impl<W> Drop for Unread<W> {
    fn drop(&mut self) {
        self.0.book().unread -= 1;
        self.0.written.notify_waiters();
    }
}
