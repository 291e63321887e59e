//! One call that runs: what the server says in the middle of it is told, and what it asks back is answered.

use super::handler::{Ask, Sample};
use super::live::Live;
use super::offers;
use super::one::{One, cancelled};
use super::result::value_of;
use jarvis_agent::{Sampled, Sampler};
use jarvis_dispatch::{Approver, CallError, Form, check_value};
use jarvis_protocol::{ErrorBody, ErrorKind, Event};
use rmcp::model::{CancelledNotification, CancelledNotificationParam, ProgressToken, RequestId, ServerResult};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Signs of progress move the end of a call; so many times its own limit is the end all the same.
const MOST_TIMES: u32 = 10;
/// What a server may ask back in one call.
const MOST_ASKS: u32 = 10;
/// Signs of progress that may wait to be told.
const PROGRESS: usize = 64;
/// Characters of progress that one call may tell.
const MOST_TOLD: usize = 20_000;
/// How long a word that a call is given up may take.
const GOODBYE: Duration = Duration::from_secs(1);
/// The names under which a model's answer, and a form, stand on the audit and in config.
const SAMPLING: &str = "sampling/createMessage";
const ELICITATION: &str = "elicitation/create";

pub(super) struct Calling<'a> {
    pub one: &'a One,
    pub live: &'a Live,
    pub call_id: &'a str,
    pub emit: &'a mut (dyn FnMut(Event) + Send),
    pub approver: &'a mut dyn Approver,
    pub sampler: &'a Sampler,
    pub cancel: &'a CancellationToken,
}

/// Counts a call for as long as it runs, and ends what belongs to it.
struct Running<'a> {
    live: &'a Live,
    token: ProgressToken,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.live.shared.listen_no_more(&self.token);
        if self.live.shared.calls.fetch_sub(1, Ordering::AcqRel) == 1
            && let Ok(mut asks) = self.live.asks.try_lock()
        {
            // What nobody answered in time is no question of a later call.
            while asks.try_recv().is_ok() {}
        }
    }
}

impl Calling<'_> {
    pub async fn run(&mut self, tool: &str, args: &Value) -> Result<Value, CallError> {
        let live = self.live;
        let request = offers::request(tool, args);
        live.shared.calls.fetch_add(1, Ordering::AcqRel);
        let sent = live.peer().send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let handle = match sent {
            Ok(handle) => handle,
            Err(error) => {
                live.shared.calls.fetch_sub(1, Ordering::AcqRel);
                return Err(live.failed(tool, &error).await);
            }
        };
        let (tell, mut progress) = mpsc::channel(PROGRESS);
        let id = handle.id.clone();
        live.shared.listen(handle.progress_token.clone(), tell);
        let _running = Running { live, token: handle.progress_token.clone() };
        let response = handle.await_response();
        tokio::pin!(response);
        let limit = Duration::from_secs(self.one.config.timeout_s);
        let mut end = Instant::now() + limit;
        let mut last_end = Instant::now() + limit.saturating_mul(MOST_TIMES);
        let (mut asked, mut told) = (0, 0);
        let answer = loop {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    give_up(live, id, "cancelled").await;
                    return Err(cancelled());
                }
                answer = &mut response => break answer,
                Some(text) = progress.recv() => {
                    end = (Instant::now() + limit).min(last_end);
                    told += text.chars().count();
                    if told <= MOST_TOLD {
                        let text = live.redact_text(text);
                        (self.emit)(Event::ToolOutput { call_id: self.call_id.to_owned(), text });
                    }
                }
                Some(ask) = async { live.asks.lock().await.recv().await } => {
                    let since = Instant::now();
                    asked += 1;
                    self.answer(ask, asked <= MOST_ASKS).await;
                    // Whoever thought about it took the time.
                    end += since.elapsed();
                    last_end += since.elapsed();
                }
                () = tokio::time::sleep_until(end.into()) => {
                    give_up(live, id, "timeout").await;
                    let seconds = limit.as_secs();
                    let body = ErrorBody::new(
                        ErrorKind::Timeout,
                        format!("`{tool}`: the MCP server `{}` did not answer within {seconds} s", self.one.name),
                    );
                    let hint = format!("jarvis config set {}.timeout_s N gives it longer", self.one.set_up());
                    return Err(CallError::RespondToModel(body.hint(hint)));
                }
            }
        };
        let mut value = match answer {
            Ok(ServerResult::CallToolResult(result)) => value_of(tool, result),
            Ok(ServerResult::ListResourcesResult(page)) => Ok(offers::resources(&page)),
            Ok(ServerResult::ReadResourceResult(read)) => Ok(offers::contents(&read)),
            Ok(ServerResult::GetPromptResult(result)) => Ok(offers::prompt(&result)),
            Ok(_) => Err(live.failed(tool, &ServiceError::UnexpectedResponse).await),
            Err(error) => Err(live.failed(tool, &error).await),
        };
        match &mut value {
            Ok(value) => live.redact(value),
            Err(CallError::RespondToModel(body)) => body.message = live.redact_text(std::mem::take(&mut body.message)),
            Err(CallError::Fatal(_)) => {}
        }
        value
    }

    async fn answer(&mut self, ask: Ask, may: bool) {
        // Whoever asked may be gone; nobody misses the answer then.
        match ask {
            Ask::Fill(form, tell) => {
                let filled = if may { self.fill(&form).await } else { None };
                let _ = tell.send(filled);
            }
            Ask::Sample(sample, tell) => {
                let sampled = if may { self.sample(sample).await } else { Err("it asked too often".to_owned()) };
                let _ = tell.send(sampled);
            }
        }
    }

    async fn fill(&mut self, form: &Form) -> Option<Value> {
        let filled = tokio::select! {
            filled = self.approver.fill(form) => filled,
            () = self.cancel.cancelled() => None,
        };
        let filled = filled.filter(|value| check_value(&form.schema, value).is_ok());
        let decision = if filled.is_some() { "filled in by a person" } else { "declined" };
        let subject = format!("{}/{ELICITATION}", self.one.name);
        match self.one.setup.dispatch.record_decision(&subject, decision, &jarvis_dispatch::redact(&form.message)) {
            Ok(()) => filled,
            Err(_) => None,
        }
    }

    /// The conversation's own model, once a person has allowed this server to use it.
    async fn sample(&mut self, sample: Sample) -> Result<(String, Sampled), String> {
        let dispatch = &self.one.setup.dispatch;
        let args = json!({"messages": sample.messages.len(), "max_tokens": sample.max_tokens});
        let rule = self.one.config.tools.get(SAMPLING).copied();
        let call = self.one.question(SAMPLING, SAMPLING, false, rule);
        let remember = || self.one.remember(SAMPLING, SAMPLING);
        let permit = dispatch.external_permit(call, &args, self.approver, remember).await.map_err(|e| e.to_string())?;
        let (sampler, cancel, live) = (self.sampler, self.cancel, self.live);
        let mut cut = false;
        let work = async {
            let answer = sampler.complete(sample.messages, sample.max_tokens, cancel).await;
            let sampled = answer.map_err(CallError::RespondToModel)?;
            cut = sampled.cut;
            Ok(Value::String(sampled.text))
        };
        let value = dispatch.external(permit, &args, work).await.map_err(|e| live.redact_text(e.to_string()))?;
        let text = value.as_str().unwrap_or_default().to_owned();
        Ok((sampler.model().to_owned(), Sampled { text, cut }))
    }
}

/// The server is told that nobody waits any more; what it answers all the same is dropped.
async fn give_up(live: &Live, id: RequestId, why: &str) {
    let params = CancelledNotificationParam::new(Some(id), Some(why.to_owned()));
    let notification = CancelledNotification::new(params);
    // One that no longer reads is not waited for.
    let _ = tokio::time::timeout(GOODBYE, live.peer().send_notification(notification.into())).await;
}
