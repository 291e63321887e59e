//! The tool calls of one reply: those that do not touch each other at once, results in the order of the calls.

use crate::bootstrap::Did;
use crate::toolbox::{Calling, Toolbox};
use futures::future::{BoxFuture, join_all};
use jarvis_dispatch::{ApprovalRequest, Approver, CallError, Form};
use jarvis_protocol::{ErrorBody, Event, ToolCall};
use serde_json::{Value, json};
use std::sync::{Mutex as Lock, PoisonError};
use std::time::Instant;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, field::Empty};

/// What became of one call.
pub(crate) struct Outcome {
    /// The value, or the problem as the model sees it.
    pub result: Result<Value, String>,
    pub did: Option<Did>,
}

/// A front end that several calls share.
struct Shared<'a> {
    emit: Lock<&'a mut (dyn FnMut(Event) + Send)>,
    approver: Mutex<&'a mut dyn Approver>,
}

/// One question at a time reaches the person, and says which call it belongs to.
struct InTurn<'a, 'b> {
    approver: &'a Mutex<&'b mut dyn Approver>,
    call: &'a str,
}

impl Approver for InTurn<'_, '_> {
    fn ask<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, bool> {
        // One that a subagent's call led to is of that call, in this one.
        let call = request.call.as_deref().map_or_else(|| self.call.to_owned(), |own| format!("{}/{own}", self.call));
        let request = ApprovalRequest { call: Some(call), ..request.clone() };
        Box::pin(async move { self.approver.lock().await.ask(&request).await })
    }

    fn fill<'a>(&'a mut self, form: &'a Form) -> BoxFuture<'a, Option<Value>> {
        Box::pin(async move { self.approver.lock().await.fill(form).await })
    }
}

/// Runs `calls`; an error that ends the turn comes after the results of all that ran.
pub(crate) async fn run(
    tools: &Toolbox,
    calls: &[ToolCall],
    emit: &mut (dyn FnMut(Event) + Send),
    approver: &mut dyn Approver,
    cancel: &CancellationToken,
) -> (Vec<Outcome>, Option<ErrorBody>) {
    let shared = Shared { emit: Lock::new(emit), approver: Mutex::new(approver) };
    let mut outcomes = Vec::with_capacity(calls.len());
    let mut fatal = None;
    let mut from = 0;
    while from < calls.len() {
        let together = calls[from..].iter().take_while(|call| !tools.runs_alone(&call.name)).count().max(1);
        let group = &calls[from..from + together];
        from += together;
        if fatal.is_some() || cancel.is_cancelled() {
            outcomes.extend(group.iter().map(|_| not_run()));
            continue;
        }
        for ended in join_all(group.iter().map(|call| one(tools, call, &shared, cancel))).await {
            match ended {
                Ok(outcome) => outcomes.push(outcome),
                Err(body) => {
                    outcomes.push(Outcome { result: Err(body.message.clone()), did: None });
                    fatal.get_or_insert(body);
                }
            }
        }
    }
    (outcomes, fatal)
}

fn not_run() -> Outcome {
    Outcome { result: Err("not run: the turn was ended before it".to_owned()), did: None }
}

async fn one(
    tools: &Toolbox,
    call: &ToolCall,
    shared: &Shared<'_>,
    cancel: &CancellationToken,
) -> Result<Outcome, ErrorBody> {
    let mut emit = |event: Event| shared.emit.lock().unwrap_or_else(PoisonError::into_inner)(event);
    emit(Event::ToolStarted { call: call.clone() });
    let started = Instant::now();
    let span = tracing::info_span!(
        target: "jarvis::tool", "execute_tool",
        name = call.name, id = call.id, args = %call.args, output = Empty, error = Empty,
    );
    let mut approver = InTurn { approver: &shared.approver, call: &call.id };
    let calling = Calling { call, emit: &mut emit, approver: &mut approver, cancel };
    let outcome = tools.call(calling).instrument(span.clone()).await;
    let duration_ms = started.elapsed().as_secs_f64() * 1e3;
    let (ok, content) = match &outcome {
        Ok((value, _)) => (true, value.clone()),
        Err(error) => (false, json!({"error": error.to_string()})),
    };
    span.record(if ok { "output" } else { "error" }, tracing::field::display(&content));
    emit(Event::ToolCompleted { call_id: call.id.clone(), name: call.name.clone(), ok, content, duration_ms });
    match outcome {
        Ok((value, did)) => Ok(Outcome { result: Ok(value), did: Some(did) }),
        Err(error @ CallError::RespondToModel(_)) => Ok(Outcome { result: Err(error.to_string()), did: None }),
        // A cancelled call has a result too; the turn ends right after it.
        Err(CallError::Fatal(_)) if cancel.is_cancelled() => {
            Ok(Outcome { result: Err("cancelled".to_owned()), did: None })
        }
        Err(CallError::Fatal(body)) => Err(body),
    }
}
