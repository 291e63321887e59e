//! A provider as a backend: attempts, waits between them, cancellation, and the reading of one answer.

use futures::future::BoxFuture;
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answer::Answer;
use super::classify;
use super::draft::Emit;
use super::http::{Http, retry_after};
use super::{Endpoint, Wire, build_payload};
use crate::{Backend, Completion, Delta, ModelError, Request};

pub(super) const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long a finished answer waits for its usage and its end mark.
const GRACE: Duration = Duration::from_secs(5);

pub(super) struct Provider {
    wire: Wire,
    endpoint: Endpoint,
    /// Made with the first request: reading the root certificates takes milliseconds.
    http: OnceLock<Result<Http, ModelError>>,
}

impl Backend for Provider {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        Box::pin(async move {
            // Dropping the other future closes the connection, wherever it is.
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(ModelError::Cancelled),
                result = self.answer(request, on_delta) => result,
            }
        })
    }
}

impl Provider {
    pub fn new(wire: Wire, endpoint: Endpoint) -> Self {
        Self { wire, endpoint, http: OnceLock::new() }
    }

    async fn answer(&self, request: &Request, on_delta: Emit<'_>) -> Result<Completion, ModelError> {
        let http = self.http.get_or_init(|| Http::new(self.wire, &self.endpoint)).as_ref().map_err(Clone::clone)?;
        let body = build_payload(self.wire, &self.endpoint, request, request.stream)?;
        let total = self.endpoint.total_timeout;
        let deadline = Instant::now() + total;
        let all = async {
            let mut first = self.with_retries(http, request, &body, deadline, on_delta).await?;
            if self.wire == Wire::Anthropic {
                // This wire has no `n`.
                for _ in 1..request.samples {
                    let mut status_only = |delta| {
                        if let Delta::Status(_) = delta {
                            on_delta(delta);
                        }
                    };
                    let next = self.with_retries(http, request, &body, deadline, &mut status_only).await?;
                    first.usage.add(next.usage);
                    first.alternatives.push(next.text);
                }
            }
            Ok(first)
        };
        let late = ModelError::Timeout { host: http.host.clone(), seconds: total.as_secs() };
        tokio::time::timeout_at(deadline, all).await.unwrap_or(Err(late))
    }

    async fn with_retries(
        &self,
        http: &Http,
        request: &Request,
        body: &[u8],
        deadline: Instant,
        on_delta: Emit<'_>,
    ) -> Result<Completion, ModelError> {
        let mut wait = FIRST_WAIT;
        let mut hung = false;
        let mut attempt = 0;
        loop {
            let mut shown = false;
            let mut emit = |delta: Delta| {
                shown |= matches!(delta, Delta::Text(_) | Delta::Reasoning(_));
                on_delta(delta);
            };
            let error = match self.attempt(http, request, body, &mut emit).await {
                Ok(completion) => return Ok(completion),
                Err(error) => error.map_message(|message| self.endpoint.shown(message)),
            };
            tracing::warn!(provider = %self.endpoint.provider, attempt, %error, "a model request failed");
            // A server that hung twice will hang a third time, and each time costs the whole idle timeout.
            let hangs_again = matches!(error, ModelError::Timeout { .. }) && std::mem::replace(&mut hung, true);
            let pause = pause(&error, &mut wait);
            let too_late = Instant::now() + pause >= deadline;
            if shown || !error.is_transient() || attempt >= self.endpoint.retries || hangs_again || too_late {
                return Err(error);
            }
            on_delta(Delta::Status(format!("{error}; asking again in {:.1} s", pause.as_secs_f64())));
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        http: &Http,
        request: &Request,
        body: &[u8],
        emit: Emit<'_>,
    ) -> Result<Completion, ModelError> {
        let what = match self.wire {
            Wire::OpenAi => "chat/completions",
            Wire::Anthropic => "messages",
        };
        let url = http.url(&path(self.wire, &self.endpoint.base_url, what));
        let path = url.path().to_owned();
        let first_byte = if request.stream { self.endpoint.idle_timeout } else { self.endpoint.total_timeout };
        let mut response = http.post(url, body.to_vec(), request.stream, first_byte).await?;
        let status = response.status();
        if !status.is_success() {
            let after = retry_after(&response);
            let body = http.error_body(&mut response).await;
            let shown = self.endpoint.shown(&body);
            tracing::warn!(provider = %self.endpoint.provider, status = status.as_u16(), body = %shown, "refused");
            return Err(classify::response(status.as_u16(), &path, &body, after));
        }
        Http::check_encoding(&response)?;
        let mut answer = Answer::new(self.wire, request);
        // What came decides, not what was asked: some servers ignore the stream flag.
        let kind = response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("").to_lowercase();
        if kind.starts_with("text/event-stream") || (request.stream && !kind.contains("json") && !kind.contains("html"))
        {
            self.read_stream(http, &mut response, &mut answer, emit).await?;
        } else {
            let body = http.body(&mut response).await?;
            answer.whole(&body, emit)?;
        }
        Ok(answer.draft().complete(request, emit))
    }

    async fn read_stream(
        &self,
        http: &Http,
        response: &mut Response,
        answer: &mut Answer,
        emit: Emit<'_>,
    ) -> Result<(), ModelError> {
        let idle = self.endpoint.idle_timeout;
        while !answer.is_done() {
            let wait = if answer.is_finished() { idle.min(GRACE) } else { idle };
            match http.chunk(response, wait).await {
                Ok(Some(bytes)) => answer.feed(bytes.as_ref(), emit)?,
                Ok(None) => return answer.end(emit),
                // The answer is whole; only its usage or end mark is missing.
                Err(_) if answer.is_finished() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// How long to wait before the next attempt: what the provider said, else twice the last wait, with jitter so that
/// many clients do not come back at once.
pub(super) fn pause(error: &ModelError, wait: &mut Duration) -> Duration {
    let next = wait.mul_f64(0.5 + fastrand::f64());
    *wait = (*wait * 2).min(LONGEST_WAIT);
    match error {
        ModelError::RateLimit { retry_after: Some(after), .. }
        | ModelError::Overloaded { retry_after: Some(after), .. } => (*after).min(LONGEST_WAIT),
        _ => next.min(LONGEST_WAIT),
    }
}

/// The segments that `what` adds to a base address.
pub(super) fn path<'a>(wire: Wire, base_url: &str, what: &'a str) -> Vec<&'a str> {
    let bare = base_url.split(['?', '#']).next().unwrap_or(base_url).trim().trim_end_matches('/');
    let version = (wire == Wire::Anthropic && !bare.ends_with("/v1")).then_some("v1");
    version.into_iter().chain(what.split('/')).collect()
}
