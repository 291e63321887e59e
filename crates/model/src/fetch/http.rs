//! One file over HTTP, going on where an earlier attempt stopped.

use super::FetchError;
use super::place::size_of;
use crate::net::{choose_tls, innermost};
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, RANGE};
use reqwest::{Client, Response, StatusCode};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Attempts that bring no byte before the source is given up.
const EMPTY_ATTEMPTS: u32 = 3;

/// Bytes must keep coming; a server that is silent for longer has hung.
const SILENCE: Duration = Duration::from_secs(30);

pub(super) fn client(connect_timeout: Duration) -> Result<Client, FetchError> {
    choose_tls();
    Client::builder()
        .connect_timeout(connect_timeout)
        .read_timeout(SILENCE)
        .build()
        .map_err(|e| FetchError::Source(format!("no secure connections here: {}", words(&e))))
}

/// Downloads `url` into `file` until it is `total` bytes long. What is there already is kept; a server that cannot go on
/// from the middle starts again.
pub(super) async fn download(
    client: &Client,
    url: &str,
    file: &Path,
    total: u64,
    cancel: &CancellationToken,
) -> Result<(), FetchError> {
    let mut empty = 0;
    loop {
        let before = size_of(file);
        if before == total {
            return Ok(());
        }
        let attempt = tokio::select! {
            () = cancel.cancelled() => return Err(FetchError::Cancelled),
            attempt = attempt(client, url, file, total) => attempt,
        };
        match attempt {
            Ok(()) => return Ok(()),
            Err(Attempt::Final(error)) => return Err(error),
            // A source that was never reached is left at once: the next one may work.
            Err(Attempt::Unreachable(reason)) if before == 0 => return Err(FetchError::Source(reason)),
            Err(Attempt::Unreachable(reason) | Attempt::Broken(reason)) => {
                empty = if size_of(file) > before { 0 } else { empty + 1 };
                if empty >= EMPTY_ATTEMPTS {
                    return Err(FetchError::Source(reason));
                }
                tokio::select! {
                    () = cancel.cancelled() => return Err(FetchError::Cancelled),
                    () = tokio::time::sleep(Duration::from_millis(500 << empty)) => {}
                }
            }
        }
    }
}

enum Attempt {
    Unreachable(String),
    Broken(String),
    Final(FetchError),
}

async fn attempt(client: &Client, url: &str, file: &Path, total: u64) -> Result<(), Attempt> {
    let disk = |e: std::io::Error| Attempt::Final(FetchError::file(file, &e));
    let have = size_of(file);
    let start = if have < total { have } else { 0 };
    let mut request = client.get(url);
    if start > 0 {
        request = request.header(RANGE, format!("bytes={start}-"));
    }
    let response = request.send().await.map_err(|e| Attempt::Unreachable(words(&e)))?;
    let start = match response.status() {
        StatusCode::PARTIAL_CONTENT if begins_at(&response, start) => start,
        StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
            std::fs::remove_file(file).map_err(disk)?;
            return Err(Attempt::Broken("the server does not go on from where it stopped".to_owned()));
        }
        StatusCode::OK => 0,
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            return Err(Attempt::Broken(format!("the server answers {status}")));
        }
        status => return Err(Attempt::Final(FetchError::Source(format!("the server answers {status}")))),
    };
    let offered = response.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    if offered.is_some_and(|offered: u64| start + offered != total) {
        let offered = offered.unwrap_or_default();
        return Err(Attempt::Final(FetchError::Source(format!(
            "the server offers {} bytes, and the file has {total}",
            start + offered
        ))));
    }
    let mut out = OpenOptions::new().create(true).append(start > 0).write(true).open(file).map_err(disk)?;
    if start == 0 {
        out.set_len(0).map_err(disk)?;
    }
    let mut at = start;
    let mut response = response;
    loop {
        match response.chunk().await {
            Ok(Some(bytes)) => {
                at += bytes.len() as u64;
                if at > total {
                    return Err(Attempt::Final(FetchError::Source(
                        "the server sends more than the file has".to_owned(),
                    )));
                }
                out.write_all(&bytes).map_err(disk)?;
            }
            Ok(None) if at == total => return sync(&out).map_err(disk),
            Ok(None) => return Err(Attempt::Broken(format!("the server stopped after {at} of {total} bytes"))),
            Err(e) => return Err(Attempt::Broken(words(&e))),
        }
    }
}

fn sync(file: &File) -> std::io::Result<()> {
    file.sync_data()
}

fn begins_at(response: &Response, start: u64) -> bool {
    response
        .headers()
        .get(CONTENT_RANGE)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.strip_prefix("bytes "))
        .and_then(|v| v.split('-').next())
        .and_then(|v| v.parse().ok())
        == Some(start)
}

fn words(error: &reqwest::Error) -> String {
    let what = if error.is_connect() {
        "cannot be reached"
    } else if error.is_timeout() {
        "does not answer in time"
    } else {
        "the connection broke"
    };
    format!("{what} ({})", innermost(error))
}
