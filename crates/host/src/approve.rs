//! Questions to the person behind a front end: told as events, answered by their id.

use crate::log::Log;
use futures::future::BoxFuture;
use jarvis_dispatch::{ApprovalRequest, Approver};
use jarvis_protocol::{Event, Grants};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// What a person is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// In its session.
    pub id: String,
    pub capability: String,
    pub grants: Grants,
    pub reason: String,
    /// A yes is kept: the same is not asked about again.
    pub lasting: bool,
    /// The call that led to it.
    pub call_id: Option<String>,
}

/// Questions that wait for an answer, by id.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    next: Mutex<u64>,
    open: Mutex<HashMap<String, (Question, oneshot::Sender<bool>)>>,
}

impl Waiting {
    /// False where no such question waits.
    pub fn answer(&self, id: &str, allowed: bool) -> bool {
        let asked = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        asked.is_some_and(|(_, sender)| sender.send(allowed).is_ok())
    }

    pub fn ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.open.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        ids.sort();
        ids
    }

    /// In the order in which they were asked.
    pub fn questions(&self) -> Vec<Question> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Question> = open.values().map(|(question, _)| question.clone()).collect();
        all.sort_by(|a, b| (a.id.len(), &a.id).cmp(&(b.id.len(), &b.id)));
        all
    }

    /// Two questions of the same millisecond must not share an id.
    fn ask(&self, request: &ApprovalRequest) -> (String, oneshot::Receiver<bool>) {
        let (send, receive) = oneshot::channel();
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        *next += 1;
        let id = format!("approval-{next}");
        let question = Question {
            id: id.clone(),
            capability: request.capability.clone(),
            grants: request.grants.clone(),
            reason: request.reason.clone(),
            lasting: request.lasting,
            call_id: request.call.clone(),
        };
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), (question, send));
        (id, receive)
    }
}

pub(crate) struct Asker {
    pub log: Arc<Log>,
    pub waiting: Arc<Waiting>,
    pub cancel: CancellationToken,
}

impl Approver for Asker {
    fn ask<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let (id, answer) = self.waiting.ask(request);
            self.log.push(Event::ApprovalRequested {
                id: id.clone(),
                capability: request.capability.clone(),
                grants: request.grants.clone(),
                reason: request.reason.clone(),
                before: request.before.clone(),
                lasting: request.lasting,
                call_id: request.call.clone(),
            });
            let allowed = tokio::select! {
                biased;
                () = self.cancel.cancelled() => false,
                answer = answer => answer.unwrap_or(false),
            };
            self.waiting.answer(&id, false);
            self.log.push(Event::ApprovalResolved { id, allowed });
            allowed
        })
    }
}
