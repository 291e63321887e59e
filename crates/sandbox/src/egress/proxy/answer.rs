//! What the proxy says itself when it does not pass something on: what, why, and what to do.

use super::Stream;
use crate::egress::EgressDenied;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How long, and how much, a client that is still sending is heard out, so that it sees the answer before the reset.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES: usize = 1 << 20;

/// The longest reason in the status line, which is all that many programs show of a failed `CONNECT`.
const REASON: usize = 120;

#[derive(Debug)]
pub(super) struct Problem {
    /// 0: too late to say anything.
    pub status: u16,
    pub what: String,
    pub fix: &'static str,
}

impl Problem {
    pub(super) fn bad(what: impl Into<String>) -> Problem {
        let fix = "this is jarvis's proxy: send CONNECT host:port, or a request with an absolute http:// URL";
        Problem { status: 400, what: what.into(), fix }
    }

    pub(super) fn denied(what: impl ToString) -> Problem {
        let fix = "grant the host to this tool (its list of network hosts), or do without it";
        Problem { status: 403, what: what.to_string(), fix }
    }

    pub(super) fn upstream(what: impl Into<String>) -> Problem {
        Problem {
            status: 502,
            what: what.into(),
            fix: "check the host's name and port, and that it can be reached from here",
        }
    }

    pub(super) fn slow() -> Problem {
        Problem { status: 408, what: "the request did not arrive in time".to_owned(), fix: "send it again" }
    }

    pub(super) fn silent() -> Problem {
        Problem { status: 504, what: "nothing came or went for too long".to_owned(), fix: "try again later" }
    }

    pub(super) fn too_much(bytes: u64) -> Problem {
        let what = format!("this tool has moved all of the {} MiB that it may", bytes >> 20);
        Problem { status: 403, what, fix: "start it again, or give it a higher limit" }
    }

    /// The connection just ends.
    pub(super) fn late() -> Problem {
        Problem { status: 0, what: String::new(), fix: "" }
    }

    fn title(&self) -> &'static str {
        match self.status {
            400 => "Bad Request",
            403 => "Forbidden",
            408 => "Request Timeout",
            431 => "Request Header Fields Too Large",
            504 => "Gateway Timeout",
            _ => "Bad Gateway",
        }
    }

    pub(super) async fn send(&self, client: &mut Box<dyn Stream>) {
        if self.status == 0 {
            return;
        }
        let reason: String = self.what.chars().filter(|c| matches!(c, ' '..='~')).take(REASON).collect();
        let body = format!("jarvis: {}: {}\nwhat to do: {}\n", self.title(), self.what, self.fix);
        let head = format!(
            "HTTP/1.1 {} {}: jarvis: {reason}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
             connection: close\r\nx-jarvis-egress: {}\r\n\r\n",
            self.status,
            self.title(),
            body.len(),
            if self.status == 403 { "denied" } else { "failed" },
        );
        // A client that is gone need not be told.
        let _ = tokio::time::timeout(LINGER, async {
            client.write_all(head.as_bytes()).await?;
            client.write_all(body.as_bytes()).await?;
            client.shutdown().await?;
            let mut heard = 0;
            let mut sink = [0; 4096];
            while heard < LINGER_BYTES {
                match client.read(&mut sink).await? {
                    0 => break,
                    n => heard += n,
                }
            }
            std::io::Result::Ok(())
        })
        .await;
    }
}

impl From<EgressDenied> for Problem {
    fn from(denied: EgressDenied) -> Self {
        match denied {
            EgressDenied::NotGranted { .. } | EgressDenied::NotPublic { .. } => Problem::denied(denied),
            EgressDenied::Scheme(_) | EgressDenied::NoHost | EgressDenied::Name(_) | EgressDenied::User => {
                Problem::bad(denied.to_string())
            }
        }
    }
}
