//! Heads of requests and answers. Read strictly: where two readers could see two requests, there is none.

use super::answer::Problem;
use crate::egress::without_dot;
use tokio::io::{AsyncRead, AsyncReadExt};
use url::{Host, Url};

/// The longest head of a request, and of an answer, bytes.
const MOST_REQUEST: usize = 16 << 10;
const MOST_ANSWER: usize = 64 << 10;

const MOST_HEADERS: usize = 100;

/// These belong to one connection and are not passed on.
const HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Target {
    Tunnel { host: Host<String>, port: u16 },
    Url(Url),
}

pub(super) type Headers = Vec<(String, Vec<u8>)>;

#[derive(Debug)]
pub(super) struct Head {
    pub method: String,
    pub target: Target,
    pub headers: Headers,
}

#[derive(Debug)]
pub(super) struct AnswerHead {
    pub status: u16,
    pub reason: String,
    pub headers: Headers,
}

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    /// An answer alone can have this.
    UntilClose,
}

/// The head of a request and what came behind it; `None` when the client went without a word.
pub(super) async fn read<R: AsyncRead + Unpin>(from: &mut R) -> Result<Option<(Head, Vec<u8>)>, Problem> {
    let Some((head, rest)) = lines(from, MOST_REQUEST, Vec::new()).await? else { return Ok(None) };
    Ok(Some((parse(&head)?, rest)))
}

/// The head of an answer. `before` has been read already.
pub(super) async fn read_answer<R: AsyncRead + Unpin>(
    from: &mut R,
    before: Vec<u8>,
) -> Result<(AnswerHead, Vec<u8>), Problem> {
    let broken = |problem: Problem| Problem::upstream(format!("the host's answer is not HTTP: {}", problem.what));
    let read = lines(from, MOST_ANSWER, before).await.map_err(broken)?;
    let (head, rest) = read.ok_or_else(|| Problem::upstream("the host closed the connection without an answer"))?;
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut answer = httparse::Response::new(&mut headers);
    let whole = answer.parse(&head).map_err(|e| broken(Problem::bad(e.to_string())))?.is_complete();
    let (true, Some(status)) = (whole, answer.code) else { return Err(broken(Problem::bad("half a head"))) };
    let reason = answer.reason.unwrap_or_default().to_owned();
    Ok((AnswerHead { status, reason, headers: owned(answer.headers) }, rest))
}

/// Bytes up to an empty line, and what came behind it.
async fn lines<R: AsyncRead + Unpin>(
    from: &mut R,
    most: usize,
    before: Vec<u8>,
) -> Result<Option<(Vec<u8>, Vec<u8>)>, Problem> {
    let mut bytes = before;
    let mut looked = 0;
    loop {
        if let Some(at) = bytes[looked..].windows(4).position(|part| part == b"\r\n\r\n") {
            let rest = bytes.split_off(looked + at + 4);
            if bytes.len() > most {
                return Err(too_long(most));
            }
            // A line that ends in a line feed alone is one line to some readers and two to others.
            let bare = bytes.iter().enumerate().any(|(at, byte)| match byte {
                b'\n' => at == 0 || bytes[at - 1] != b'\r',
                b'\r' => bytes.get(at + 1) != Some(&b'\n'),
                _ => false,
            });
            return if bare {
                Err(Problem::bad("a line of the head does not end in CR LF"))
            } else {
                Ok(Some((bytes, rest)))
            };
        }
        looked = bytes.len().saturating_sub(3);
        if bytes.len() > most {
            return Err(too_long(most));
        }
        let mut buffer = [0; 4096];
        match from.read(&mut buffer).await {
            Ok(0) if bytes.is_empty() => return Ok(None),
            Ok(0) => return Err(Problem::bad("the head ends in the middle")),
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
            Err(_) if bytes.is_empty() => return Ok(None),
            Err(e) => return Err(Problem::bad(format!("the head cannot be read: {e}"))),
        }
    }
}

fn too_long(most: usize) -> Problem {
    Problem { status: 431, ..Problem::bad(format!("the head is longer than {most} bytes")) }
}

pub(super) fn parse(bytes: &[u8]) -> Result<Head, Problem> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let whole = request.parse(bytes).map_err(|e| match e {
        httparse::Error::TooManyHeaders => {
            Problem { status: 431, ..Problem::bad(format!("there are more than {MOST_HEADERS} headers")) }
        }
        other => Problem::bad(format!("the request is not HTTP: {other}")),
    })?;
    let (true, Some(method), Some(target)) = (whole.is_complete(), request.method, request.path) else {
        return Err(Problem::bad("half a request"));
    };
    let headers = owned(request.headers);
    if headers.iter().filter(|(name, _)| name == "host").count() > 1 {
        return Err(Problem::bad("there is more than one Host header"));
    }
    let target = if method == "CONNECT" {
        if framing(&headers)? != Framing::Length(0) {
            return Err(Problem::bad("CONNECT has a body"));
        }
        tunnel_target(target)?
    } else {
        Target::Url(url_target(target)?)
    };
    Ok(Head { method: method.to_owned(), target, headers })
}

fn tunnel_target(target: &str) -> Result<Target, Problem> {
    let wrong = || Problem::bad("CONNECT takes `host:port`");
    let (host, port) = target.rsplit_once(':').ok_or_else(wrong)?;
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let port = port.parse::<u16>().ok().filter(|port| digits && *port > 0).ok_or_else(wrong)?;
    let plain = !host.is_empty() && !host.contains(['@', '/', '?', '#', '%', '\\']);
    let host = Host::parse(host).ok().filter(|_| plain).ok_or_else(wrong)?;
    let host = match host {
        Host::Domain(name) => Host::Domain(name.strip_suffix('.').unwrap_or(&name).to_owned()),
        address => address,
    };
    Ok(Target::Tunnel { host, port })
}

fn url_target(target: &str) -> Result<Url, Problem> {
    if target.starts_with('/') || target == "*" {
        return Err(Problem::bad("the request is meant for a server, not for a proxy: its URL is not absolute"));
    }
    let url = Url::parse(target).map_err(|e| Problem::bad(format!("the URL of the request: {e}")))?;
    match url.scheme() {
        "http" => Ok(without_dot(url)),
        "https" => Err(Problem::bad("a request to an https URL goes through CONNECT")),
        other => Err(Problem::bad(format!("the scheme `{other}` does not go through this proxy"))),
    }
}

fn owned(headers: &[httparse::Header<'_>]) -> Headers {
    headers.iter().map(|header| (header.name.to_ascii_lowercase(), header.value.to_vec())).collect()
}

fn values<'a>(headers: &'a Headers, name: &str) -> Vec<&'a [u8]> {
    headers.iter().filter(|(n, _)| n == name).map(|(_, value)| value.trim_ascii()).collect()
}

/// Of a request; without either header it has no body.
pub(super) fn framing(headers: &Headers) -> Result<Framing, Problem> {
    let (coded, length) = (values(headers, "transfer-encoding"), values(headers, "content-length"));
    match (&coded[..], &length[..]) {
        ([], []) => Ok(Framing::Length(0)),
        ([], [digits]) => {
            let sound = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
            let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
            number.filter(|_| sound).map(Framing::Length).ok_or_else(|| Problem::bad("Content-Length is no number"))
        }
        ([coding], []) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
        ([_], []) => Err(Problem::bad("only the transfer coding `chunked` is known")),
        ([], _) => Err(Problem::bad("there is more than one Content-Length")),
        _ => Err(Problem::bad("the length of the body is given in two ways")),
    }
}

/// Of an answer to this method.
pub(super) fn answer_framing(head: &AnswerHead, method: &str) -> Result<Framing, Problem> {
    if method == "HEAD" || matches!(head.status, 204 | 304) {
        return Ok(Framing::Length(0));
    }
    let known = ["transfer-encoding", "content-length"].iter().any(|name| !values(&head.headers, name).is_empty());
    if !known {
        return Ok(Framing::UntilClose);
    }
    framing(&head.headers).map_err(|problem| Problem::upstream(format!("the host's answer: {}", problem.what)))
}

/// The headers that go on, without those of this connection.
pub(super) fn passed_on(headers: &Headers) -> impl Iterator<Item = &(String, Vec<u8>)> {
    let named: Vec<String> = values(headers, "connection")
        .into_iter()
        .flat_map(|value| {
            String::from_utf8_lossy(value)
                .to_ascii_lowercase()
                .split(',')
                .map(|n| n.trim().to_owned())
                .collect::<Vec<_>>()
        })
        .collect();
    headers.iter().filter(move |(name, _)| {
        let ours = name == "host" || name == "expect" || name == "content-length";
        !ours && !HOP.contains(&name.as_str()) && !named.contains(name)
    })
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
