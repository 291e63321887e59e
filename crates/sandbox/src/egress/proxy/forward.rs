//! One unencrypted request, passed on over a connection of its own: nothing behind it reaches the host unchecked.

use super::answer::Problem;
use super::body::{Pump, Stopped};
use super::head::{self, Framing, Head};
use super::{Shared, Stream, Watch, Way};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use url::Url;

/// Interim answers (100, 103) before the real one.
const MOST_INTERIM: usize = 8;

impl Shared {
    pub(super) async fn forward(
        &self,
        client: &mut Box<dyn Stream>,
        head: &Head,
        rest: Vec<u8>,
        url: &Url,
    ) -> Result<(), Problem> {
        let host = url.host().ok_or_else(|| Problem::bad("the URL has no host"))?.to_owned();
        let port = url.port_or_known_default().unwrap_or(80);
        let tally = self.tally.host(&Self::place(&host, port));
        self.policy.check(&head.method, url).inspect_err(|_| tally.denied())?;
        let framing = head::framing(&head.headers)?;
        let mut server = self.connect(&host, port, &tally).await?;
        let watch = self.watch(&tally);
        let request = request_head(head, url, framing);
        watch.moved(Way::Out, request.len());
        let sent = server.write_all(&request).await;
        sent.map_err(|e| Problem::upstream(format!("{host} broke off: {e}")))?;
        let (mut server_in, mut server_out) = server.split();
        let (mut client_in, mut client_out) = tokio::io::split(client);
        if head.headers.iter().any(|(name, _)| name == "expect") {
            // Asked and answered here: the host was already let through.
            let said = client_out.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
            said.map_err(|_| Problem::late())?;
        }
        let started = AtomicBool::new(false);
        let mut upload = Pump { from: &mut client_in, to: &mut server_out, rest, watch: &watch, way: Way::Out };
        let upload = async { upload.run(framing).await };
        let download = answer(&mut server_in, &mut client_out, &head.method, &watch, &started);
        let (mut upload, mut download) = (std::pin::pin!(upload), std::pin::pin!(download));
        let mut sending = true;
        let outcome = loop {
            tokio::select! {
                outcome = &mut download => break outcome,
                outcome = &mut upload, if sending => match outcome {
                    Err(Stopped::Source(problem)) => break Err(problem),
                    // A host that takes no more has answered, or will not.
                    Err(Stopped::Sink) | Ok(()) => sending = false,
                },
                () = watch.idle() => break Err(Problem::silent()),
            }
        };
        outcome.map_err(|problem| if started.load(Relaxed) { Problem::late() } else { problem })
    }
}

fn request_head(head: &Head, url: &Url, framing: Framing) -> Vec<u8> {
    let mut text = format!("{} {}", head.method, url.path());
    if let Some(query) = url.query() {
        let _ = write!(text, "?{query}");
    }
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    let _ = write!(text, " HTTP/1.1\r\nhost: {host}{port}\r\nconnection: close\r\n");
    let given = head.headers.iter().any(|(name, _)| name == "content-length");
    match framing {
        Framing::Length(length) if given => _ = write!(text, "content-length: {length}\r\n"),
        Framing::Chunked => text.push_str("transfer-encoding: chunked\r\n"),
        Framing::Length(_) | Framing::UntilClose => {}
    }
    let mut bytes = text.into_bytes();
    add_headers(&mut bytes, &head.headers);
    bytes
}

fn add_headers(bytes: &mut Vec<u8>, headers: &head::Headers) {
    for (name, value) in head::passed_on(headers) {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
}

async fn answer<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    server: &mut R,
    client: &mut W,
    method: &str,
    watch: &Watch<'_>,
    started: &AtomicBool,
) -> Result<(), Problem> {
    let mut rest = Vec::new();
    let mut interim = 0;
    let head = loop {
        let (head, more) = head::read_answer(server, rest).await?;
        rest = more;
        match head.status {
            101 => return Err(Problem::upstream("the host changes the protocol, which nobody asked for")),
            100..200 if interim < MOST_INTERIM => interim += 1,
            100..200 => return Err(Problem::upstream("the host sends interim answers without end")),
            _ => break head,
        }
    };
    let framing = head::answer_framing(&head, method)?;
    let mut bytes = format!("HTTP/1.1 {} {}\r\nconnection: close\r\n", head.status, head.reason).into_bytes();
    // With HEAD and 304 the length is that of what is not sent.
    let length = head.headers.iter().find(|(name, _)| name == "content-length");
    match (framing, length) {
        (Framing::Chunked, _) => bytes.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        (_, Some((_, length))) => bytes.extend([&b"content-length: "[..], length, b"\r\n"].concat()),
        (Framing::Length(_) | Framing::UntilClose, None) => {}
    }
    add_headers(&mut bytes, &head.headers);
    watch.moved(Way::In, bytes.len());
    started.store(true, Relaxed);
    client.write_all(&bytes).await.map_err(|_| Problem::late())?;
    let mut pump = Pump { from: server, to: client, rest, watch, way: Way::In };
    pump.run(framing).await.map_err(|_| Problem::late())?;
    client.shutdown().await.map_err(|_| Problem::late())
}
