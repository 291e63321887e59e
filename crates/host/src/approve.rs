//! Questions to the person behind a front end: told as events, answered by their id.

use crate::log::Log;
use futures::future::BoxFuture;
use jarvis_dispatch::{ApprovalRequest, Approver};
use jarvis_protocol::Event;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Questions that wait for an answer, by id.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    next: Mutex<u64>,
    open: Mutex<HashMap<String, oneshot::Sender<bool>>>,
}

impl Waiting {
    /// False where no such question waits.
    pub fn answer(&self, id: &str, allowed: bool) -> bool {
        let sender = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        sender.is_some_and(|sender| sender.send(allowed).is_ok())
    }

    pub fn ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.open.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        ids.sort();
        ids
    }

    /// Two questions of the same millisecond must not share an id.
    fn ask(&self) -> (String, oneshot::Receiver<bool>) {
        let (send, receive) = oneshot::channel();
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        *next += 1;
        let id = format!("approval-{next}");
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), send);
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
            let (id, answer) = self.waiting.ask();
            self.log.push(Event::ApprovalRequested {
                id: id.clone(),
                capability: request.capability.clone(),
                grants: request.grants.clone(),
                before: request.before.clone(),
                reason: request.reason.clone(),
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
