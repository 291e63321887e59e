//! Calls of one capability by another. Here they are only handed on: what may run, and with what, is decided behind the
//! [`Caller`].

use super::{Answer, Desk, Refusal};
use crate::frame::Packet;
use futures::future::BoxFuture;
use jarvis_protocol::ScriptError;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::time::Duration;

/// How deep calls may nest: the outermost code is at 0.
pub const MOST_DEPTH: usize = 8;

/// What code asks for with `capability(name, args)`. It comes from a worker, which is not trusted.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    pub name: String,
    /// An object.
    pub args: Value,
    /// What is left of the time of whoever asks.
    pub left: Duration,
}

/// Runs capabilities for code that runs. An error goes to that code, which may catch it. Dropping the future ends the
/// call: its caller is gone.
pub trait Caller: Send + Sync {
    fn call(&self, wanted: Wanted) -> BoxFuture<'_, Result<Value, ScriptError>>;
}

/// Where a run stands, and who runs what it calls.
#[derive(Clone, Copy)]
pub struct Nesting<'a> {
    pub caller: &'a dyn Caller,
    /// 0 for the outermost code.
    pub depth: usize,
}

impl Desk<'_> {
    pub(super) async fn call(&self, name: String, packet: &Packet) -> Answer {
        let Some(nesting) = &self.nesting else {
            return Err(Refusal::denied("nothing can be called here: this code does not run among capabilities"));
        };
        let args: Value = serde_json::from_slice(&packet.body)
            .map_err(|e| Refusal::wrong(format!("capability: the arguments are no data: {e}")))?;
        if !args.is_object() {
            return Err(Refusal::wrong("capability(name, args): the arguments must be an object"));
        }
        let wanted = Wanted { name, args, left: self.left() };
        let done = nesting.caller.call(wanted).await;
        let mut value = done.map_err(|error| Refusal { name: Cow::Owned(error.name), message: error.message })?;
        self.redact_value(&mut value);
        let body = serde_json::to_vec(&value).map_err(|e| Refusal::failed(format!("the result is no data: {e}")))?;
        if body.len() > self.most_body {
            let message =
                format!("the result has {} bytes; {} fit into the memory of this run", body.len(), self.most_body);
            return Err(Refusal { name: "RangeError".into(), message });
        }
        Ok((json!({}), body))
    }
}
