//! One prompt: begun, followed to its true end, answered with how it ended.

use crate::agent::{Agent, Connection};
use crate::ask::{self, Question};
use crate::commands::{self, Command};
use crate::errors::told;
use crate::prompt;
use crate::sessions::Attached;
use crate::tell::{self, Teller};
use agent_client_protocol as acp;
use agent_client_protocol::RequestCancellation;
use agent_client_protocol::v1::schema::{
    NoticeSeverity, PromptRequest, PromptResponse, SessionId, SessionInfoUpdate, SessionUpdate, StopReason,
    ToolCallStatus, ToolCallUpdateFields,
};
use futures::FutureExt;
use jarvis_agent::TurnEnd;
use jarvis_host::{Followed, Reader};
use jarvis_protocol::{ErrorBody, ErrorKind, Event, StopReason as Stop};
use serde_json::{Map, json};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// A prompt that was taken.
pub(crate) struct Begun {
    id: SessionId,
    attached: Arc<Attached>,
    what: What,
}

enum What {
    Command(Command),
    Turn { reader: Reader, end: oneshot::Receiver<TurnEnd> },
}

impl Agent {
    pub fn begin(&self, asked: PromptRequest, _: &Connection) -> acp::Result<Begun> {
        let attached = self.session(&asked.session_id)?;
        let input = prompt::input(asked.prompt)?;
        let command = commands::of(&input.text).filter(|_| input.images.is_empty());
        let what = match command {
            Some(command) => What::Command(command),
            None => {
                let begun = attached.live.prompt(input).map_err(told)?;
                What::Turn { reader: attached.live.follow(begun.after), end: begun.end }
            }
        };
        Ok(Begun { id: asked.session_id, attached, what })
    }

    pub async fn prompt(
        &self,
        begun: Begun,
        cx: &Connection,
        given_up: RequestCancellation,
    ) -> acp::Result<PromptResponse> {
        let Begun { id, attached, what } = begun;
        match what {
            What::Command(command) => {
                let mut work = pin!(self.command(command, &id, &attached, cx));
                let stop = tokio::select! {
                    stop = work.as_mut() => stop?,
                    () = given_up.cancelled() => {
                        attached.cancel();
                        work.await?
                    }
                };
                Ok(PromptResponse::new(stop))
            }
            What::Turn { reader, end } => {
                let mut following = Following {
                    agent: self,
                    id: &id,
                    attached: &attached,
                    cx,
                    teller: Teller::new(self.understands(), attached.desk.clone()),
                    questions: HashMap::new(),
                };
                following.until_the_end(reader, &given_up).await;
                let ended = end.await.map_err(|_| told(ErrorBody::new(ErrorKind::Conflict, "the session is closed")));
                following.afterwards().await;
                answer(ended?)
            }
        }
    }
}

fn answer(ended: TurnEnd) -> acp::Result<PromptResponse> {
    let stop = match ended {
        TurnEnd::Completed { stop_reason, .. } => stop_reason,
        TurnEnd::Failed(body) if body.kind == ErrorKind::Cancelled => Stop::Cancelled,
        TurnEnd::Failed(body) => return Err(told(body)),
    };
    let reason = match stop {
        Stop::EndTurn => StopReason::EndTurn,
        Stop::Cancelled => StopReason::Cancelled,
        Stop::Refused => StopReason::Refusal,
        Stop::MaxTokens | Stop::ReplyCut => StopReason::MaxTokens,
        // The protocol knows no other bounds; `_meta` says which it was.
        Stop::MaxRounds | Stop::MaxCost | Stop::MaxTime | Stop::RepeatedFailure => StopReason::MaxTurnRequests,
    };
    let meta = Map::from_iter([("jarvis".to_owned(), json!({"stopReason": stop}))]);
    Ok(PromptResponse::new(reason).meta(meta))
}

struct Following<'a> {
    agent: &'a Agent,
    id: &'a SessionId,
    attached: &'a Attached,
    cx: &'a Connection,
    teller: Teller,
    /// Questions that wait for the person, by their ids, with the calls that they are about.
    questions: HashMap<String, (CancellationToken, Option<String>)>,
}

impl Following<'_> {
    async fn until_the_end(&mut self, mut reader: Reader, given_up: &RequestCancellation) {
        let mut cancelled = false;
        loop {
            // Output that comes fast is told in few pieces.
            let next = match reader.next().now_or_never() {
                Some(next) => next,
                None => {
                    let waiting = self.teller.flush();
                    self.send(waiting).await;
                    tokio::select! {
                        next = reader.next() => next,
                        () = given_up.cancelled(), if !cancelled => {
                            cancelled = true;
                            self.attached.cancel();
                            continue;
                        }
                    }
                }
            };
            match next {
                None => return,
                Some(Followed::Missed { up_to }) => {
                    let text = format!("events up to {up_to} were not read in time and are not kept any more");
                    let missed = self.teller.notice(&text, NoticeSeverity::Warning);
                    self.send(vec![missed]).await;
                }
                Some(Followed::Event(told)) => {
                    self.event(&told.event).await;
                    if matches!(&*told.event, Event::TurnCompleted { .. } | Event::TurnFailed { .. }) {
                        return;
                    }
                }
            }
        }
    }

    async fn event(&mut self, event: &Event) {
        match event {
            Event::ApprovalRequested { id, capability, grants, reason, lasting, call_id, .. } => {
                let question = Question {
                    id: id.clone(),
                    capability: capability.clone(),
                    grants: grants.clone(),
                    reason: reason.clone(),
                    lasting: *lasting,
                    call: call_id.clone().filter(|id| self.teller.runs(id)),
                };
                let over = CancellationToken::new();
                self.questions.insert(id.clone(), (over.clone(), question.call.clone()));
                tokio::spawn(ask::ask(self.id.clone(), question, self.attached.live.clone(), self.cx.clone(), over));
            }
            Event::ApprovalResolved { id, allowed } => {
                let Some((over, call)) = self.questions.remove(id) else { return };
                over.cancel();
                // A call goes on and tells its own end; a question by itself is over.
                let status = match &call {
                    Some(_) => ToolCallStatus::InProgress,
                    None if *allowed => ToolCallStatus::Completed,
                    None => ToolCallStatus::Failed,
                };
                let answered = ToolCallUpdateFields::new().status(status);
                self.send(vec![tell::update(call.as_deref().unwrap_or(id), answered)]).await;
            }
            event => {
                let live = self.attached.live.clone();
                let told = self.teller.event(event, &|| live.snapshot());
                self.send(told).await;
            }
        }
    }

    async fn send(&self, updates: Vec<SessionUpdate>) {
        for update in updates {
            self.agent.send(self.id, update, self.cx).await;
        }
    }

    /// What is known once the turn is over.
    async fn afterwards(&mut self) {
        self.questions.drain().for_each(|(_, (over, _))| over.cancel());
        let mut told = vec![self.teller.usage(&self.attached.live.snapshot())];
        if let Some(title) = self.agent.title(self.attached).await {
            told.push(SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title(title)));
        }
        self.send(told).await;
        self.agent.settle(self.attached).await;
    }
}

impl Drop for Following<'_> {
    /// Nobody follows any more: nobody answers.
    fn drop(&mut self) {
        self.questions.drain().for_each(|(_, (over, _))| over.cancel());
    }
}
