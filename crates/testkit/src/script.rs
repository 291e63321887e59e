//! A model that answers from a list, in order, and keeps what it was asked.

use futures::future::BoxFuture;
use jarvis_model::{Backend, Completion, Delta, Finish, ModelError, ModelHandle, Request, Traits};
use jarvis_protocol::{Message, ToolCall, Usage};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

pub struct ScriptedModel {
    replies: Mutex<VecDeque<Result<Completion, ModelError>>>,
    asked: Mutex<Vec<Vec<Message>>>,
}

impl ScriptedModel {
    pub fn new(replies: impl IntoIterator<Item = Result<Completion, ModelError>>) -> Arc<Self> {
        Arc::new(Self { replies: Mutex::new(replies.into_iter().collect()), asked: Mutex::new(Vec::new()) })
    }

    pub fn handle(self: &Arc<Self>, native_tools: bool) -> ModelHandle {
        let traits = Traits { native_tools, grammar: !native_tools, context_tokens: 32_768 };
        ModelHandle::new("test/script", traits, self.clone())
    }

    /// The messages of every request so far.
    pub fn asked(&self) -> Vec<Vec<Message>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Backend for ScriptedModel {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(request.messages.clone());
        let reply = self.replies.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        Box::pin(async move {
            let reply = reply.unwrap_or_else(|| {
                Err(ModelError::Protocol { message: "the script has no further reply".to_owned() })
            })?;
            if !reply.text.is_empty() {
                on_delta(Delta::Text(reply.text.clone()));
            }
            Ok(reply)
        })
    }
}

/// A reply of plain text, with 10 tokens in and 5 out.
pub fn text(text: &str) -> Result<Completion, ModelError> {
    Ok(Completion {
        text: text.to_owned(),
        reasoning: None,
        tool_calls: Vec::new(),
        malformed_calls: Vec::new(),
        alternatives: Vec::new(),
        usage: Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() },
        finish: Finish::Stop,
    })
}

/// A reply that calls one tool.
pub fn call(id: &str, name: &str, args: Value) -> Result<Completion, ModelError> {
    let reply = text("")?;
    let tool_calls = vec![ToolCall { id: id.to_owned(), name: name.to_owned(), args }];
    Ok(Completion { tool_calls, finish: Finish::ToolCalls, ..reply })
}
