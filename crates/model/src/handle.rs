//! Handle, request and completion: what callers see of any model.

use crate::ModelError;
use futures::future::BoxFuture;
use jarvis_protocol::{Message, Role, ToolCall, ToolSpec, Usage};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a model can do; decides how it is led.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traits {
    /// Drives tools itself. Without it jarvis leads the model through staged steps.
    pub native_tools: bool,
    /// Decodes under a grammar (`Constraint::Gbnf`).
    pub grammar: bool,
    /// Tokens of prompt and answer together.
    pub context_tokens: usize,
}

/// What the embedded engine can do. Known without it: a replay leads the model in the same way and never loads it.
pub fn local_traits(context_tokens: usize) -> Traits {
    Traits { native_tools: false, grammar: true, context_tokens }
}

/// A model that answers requests. Implemented by each wire format, the embedded engine, and the test script.
pub trait Backend: Send + Sync {
    /// Answers one request. `on_delta` sees text as it comes. A request is sent again after an error only while no text
    /// of it was shown; what `on_delta` sees is then the beginning of one answer.
    /// Cancelling returns [`ModelError::Cancelled`] soon.
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Completion, ModelError>>;
}

/// One model, resolved once. Cheap to clone.
#[derive(Clone)]
pub struct ModelHandle {
    id: Arc<str>,
    traits: Traits,
    backend: Arc<dyn Backend>,
}

impl ModelHandle {
    /// `id` is `provider/model` as a person writes it.
    pub fn new(id: impl Into<Arc<str>>, traits: Traits, backend: Arc<dyn Backend>) -> Self {
        Self { id: id.into(), traits, backend }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn traits(&self) -> Traits {
        self.traits
    }

    pub fn request(&self, messages: Vec<Message>) -> Request {
        Request {
            handle: self.clone(),
            messages,
            tools: Vec::new(),
            max_tokens: 4096,
            temperature: None,
            seed: None,
            constraint: None,
            samples: 1,
            stable_prefix: 0,
            note: None,
            assistant_prefix: None,
            stop: Vec::new(),
            stream: true,
        }
    }
}

impl std::fmt::Debug for ModelHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelHandle").field("id", &self.id).field("traits", &self.traits).finish_non_exhaustive()
    }
}

/// What the answer must look like.
#[derive(Debug, Clone, PartialEq)]
pub enum Constraint {
    /// A llama.cpp grammar with a rule `root`. Only for models with `Traits::grammar`.
    Gbnf(String),
}

/// Made by [`ModelHandle::request`] alone.
#[derive(Debug, Clone)]
pub struct Request {
    handle: ModelHandle,
    pub messages: Vec<Message>,
    pub tools: Vec<ToolSpec>,
    pub max_tokens: u32,
    pub temperature: Option<f32>,
    pub seed: Option<u32>,
    pub constraint: Option<Constraint>,
    /// Independent answers wanted (the embedded engine decodes them in one batch); the first is `Completion::text`.
    pub samples: u8,
    /// How many leading messages are the same in every call of this kind; their state is kept between processes.
    pub stable_prefix: usize,
    /// What changes from call to call (date and time). The model is told it at the end of its system prompt; a cassette
    /// leaves it out when it compares requests.
    pub note: Option<String>,
    /// Text the answer must begin with; it is part of `Completion::text`.
    pub assistant_prefix: Option<String>,
    pub stop: Vec<String>,
    /// Whether a provider sends the answer in pieces as it comes. Both ways the same body is sent but for this flag, and
    /// the same completion comes back.
    pub stream: bool,
}

impl Request {
    pub fn handle(&self) -> &ModelHandle {
        &self.handle
    }

    /// The messages with the note behind the last system message's text, or as a system message of its own.
    pub(crate) fn told(&self) -> Cow<'_, [Message]> {
        let Some(note) = self.note.as_deref() else { return Cow::Borrowed(&self.messages) };
        let mut messages = self.messages.clone();
        match messages.iter_mut().rfind(|m| m.role == Role::System) {
            Some(system) => system.text = format!("{}\n\n{note}", system.text),
            None => messages.insert(0, Message::system(note)),
        }
        Cow::Owned(messages)
    }

    pub async fn send(
        &self,
        on_delta: &mut (dyn FnMut(Delta) + Send),
        cancel: &CancellationToken,
    ) -> Result<Completion, ModelError> {
        self.handle.backend.complete(self, on_delta, cancel).await
    }
}

/// A piece of an answer as it comes.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    Text(String),
    Reasoning(String),
    /// Something slow that is no answer yet: loading, reading the prompt, waiting to retry.
    Status(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
}

/// A call whose arguments did not parse; the model is told, nothing runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MalformedCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
    pub problem: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    pub text: String,
    pub reasoning: Option<String>,
    pub tool_calls: Vec<ToolCall>,
    #[serde(default)]
    pub malformed_calls: Vec<MalformedCall>,
    /// The other answers when `samples` > 1.
    #[serde(default)]
    pub alternatives: Vec<String>,
    pub usage: Usage,
    pub finish: Finish,
}
