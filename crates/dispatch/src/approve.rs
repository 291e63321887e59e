//! How a question reaches a person and the answer comes back. Each front end has its own `Approver`.

use futures::future::BoxFuture;
use jarvis_protocol::Grants;

/// One question. `grants` is all that the code could reach and that no flag allowed beforehand.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRequest {
    pub id: String,
    pub capability: String,
    pub grants: Grants,
    /// What the version before it was allowed on this machine, where there is one.
    pub before: Option<Grants>,
    pub reason: String,
}

pub trait Approver: Send {
    /// Resolves to true only on a person's yes. A front end without a person answers false.
    fn ask<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, bool>;
}

/// Nobody is there to be asked.
#[derive(Debug, Clone, Copy)]
pub struct DenyAll;

impl Approver for DenyAll {
    fn ask<'a>(&'a mut self, _: &'a ApprovalRequest) -> BoxFuture<'a, bool> {
        Box::pin(async { false })
    }
}
