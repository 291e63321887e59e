//! How a question reaches a person and the answer comes back. Each front end has its own `Approver`.

use futures::future::BoxFuture;
use jarvis_protocol::Grants;
use serde_json::Value;

/// One question. `grants` is all that the code could reach and that no flag allowed beforehand.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRequest {
    pub id: String,
    pub capability: String,
    pub grants: Grants,
    /// What the version before it was allowed on this machine, where there is one.
    pub before: Option<Grants>,
    pub reason: String,
    /// A yes is kept: the same is not asked about again. Else it is for this once.
    pub lasting: bool,
    /// The call that led to it; none where it was no call of a model.
    pub call: Option<String>,
}

/// What a server outside asks a person to fill in.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    /// Who asks.
    pub server: String,
    /// Its words, not jarvis's.
    pub message: String,
    /// A JSON Schema of an object with plain values.
    pub schema: Value,
}

pub trait Approver: Send {
    /// Resolves to true only on a person's yes. A front end without a person answers false.
    fn ask<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, bool>;

    /// Resolves to what a person filled in, and to nothing where they would not, or nobody is there. What comes back
    /// is checked against the schema by whoever asked.
    fn fill<'a>(&'a mut self, _form: &'a Form) -> BoxFuture<'a, Option<Value>> {
        Box::pin(async { None })
    }
}

/// Nobody is there to be asked.
#[derive(Debug, Clone, Copy)]
pub struct DenyAll;

impl Approver for DenyAll {
    fn ask<'a>(&'a mut self, _: &'a ApprovalRequest) -> BoxFuture<'a, bool> {
        Box::pin(async { false })
    }
}
