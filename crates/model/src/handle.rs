//! Handle, request and completion: what callers see of any model.

use crate::account::Account;
use crate::estimate::{self, Tokens};
use crate::{ModelError, Price, Tool};
use futures::future::BoxFuture;
use jarvis_protocol::{Message, Purpose, Reasoning, Role, ToolCall, Usage};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, field::Empty};

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

    /// Tokens of a prompt, where the model's own tokenizer is here. The first count may load it.
    fn count(&self, _messages: &[Message], _tools: &[Tool]) -> Option<u64> {
        None
    }
}

/// One model, resolved once. Cheap to clone; clones share what they have learned of the model and what they have spent.
#[derive(Clone)]
pub struct ModelHandle {
    id: Arc<str>,
    traits: Traits,
    images: bool,
    price: Option<Price>,
    account: Arc<Account>,
    backend: Arc<dyn Backend>,
}

impl ModelHandle {
    /// `id` is `provider/model` as a person writes it.
    pub fn new(id: impl Into<Arc<str>>, traits: Traits, backend: Arc<dyn Backend>) -> Self {
        Self { id: id.into(), traits, images: true, price: None, account: Arc::default(), backend }
    }

    /// Whether the model looks at images; without a word it is taken to, and the provider says otherwise.
    #[must_use]
    pub fn with_images(mut self, images: bool) -> Self {
        self.images = images;
        self
    }

    /// Every call from now on has its cost, unless the provider says what it was.
    #[must_use]
    pub fn with_price(mut self, price: Option<Price>) -> Self {
        self.price = price;
        self
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn traits(&self) -> Traits {
        self.traits
    }

    pub fn takes_images(&self) -> bool {
        self.images
    }

    /// What all calls of this handle and its clones have used, by what they were for.
    pub fn spent(&self) -> BTreeMap<Purpose, Spent> {
        self.account.spent()
    }

    /// Tokens that these messages and tools take of the context: exact where the model's tokenizer is here, else an
    /// estimate corrected by what the provider has counted so far. An image counts what providers charge for its size.
    pub fn count(&self, messages: &[Message], tools: &[Tool]) -> Tokens {
        match self.backend.count(messages, tools) {
            Some(count) => Tokens { count, exact: true },
            None => Tokens { count: self.account.corrected(estimate::prompt(&self.id, messages, tools)), exact: false },
        }
    }

    pub fn request(&self, messages: Vec<Message>) -> Request {
        Request {
            handle: self.clone(),
            purpose: Purpose::Chat,
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
    /// Under which its tokens and cost are counted; the model is not told.
    pub purpose: Purpose,
    pub messages: Vec<Message>,
    pub tools: Vec<Tool>,
    pub max_tokens: u32,
    pub temperature: Option<f32>,
    pub seed: Option<u32>,
    pub constraint: Option<Constraint>,
    /// Independent answers wanted (the embedded engine decodes them in one batch); the first is `Completion::text`.
    pub samples: u8,
    /// How many leading messages are the same in every call of this kind; their state is kept between processes.
    pub stable_prefix: usize,
    /// What changes from call to call (date and time). A provider's model is told it with the last message of the person,
    /// so that what comes before stays as it was and is read from a cache; the embedded one at the end of its system
    /// prompt. A cassette leaves it out when it compares requests.
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

    /// The messages with the note before the text of the person's last one; behind the system prompt where there is none.
    pub(crate) fn told(&self) -> Cow<'_, [Message]> {
        let Some(note) = self.note.as_deref().filter(|note| !note.trim().is_empty()) else {
            return Cow::Borrowed(&self.messages);
        };
        let mut messages = self.messages.clone();
        match messages.iter_mut().rfind(|m| m.role == Role::User) {
            Some(asked) if asked.text.is_empty() => note.clone_into(&mut asked.text),
            Some(asked) => asked.text = format!("({note})\n\n{}", asked.text),
            None => {
                let behind = messages.iter().take_while(|m| m.role == Role::System).count();
                messages.insert(behind, Message::system(note));
            }
        }
        Cow::Owned(messages)
    }

    pub async fn send(
        &self,
        on_delta: &mut (dyn FnMut(Delta) + Send),
        cancel: &CancellationToken,
    ) -> Result<Completion, ModelError> {
        let ModelHandle { id, images, price, account, backend, .. } = &self.handle;
        if let Some(image) = self.messages.iter().flat_map(|m| &m.images).next().filter(|_| !images) {
            let which = image.source().map(|s| format!(" ({s})")).unwrap_or_default();
            let message = format!("{id} does not look at images{which}; leave it out, or choose a model that does");
            return Err(ModelError::NotSent { message });
        }
        let span = tracing::info_span!(
            target: "jarvis::chat", "chat",
            model = &**id, purpose = self.purpose.as_str(), max_tokens = self.max_tokens,
            input_tokens = Empty, output_tokens = Empty, cached_tokens = Empty, finish = Empty, output = Empty,
            error = Empty,
        );
        let completed = backend.complete(self, on_delta, cancel).instrument(span.clone()).await;
        let mut completion = completed.inspect_err(|error| {
            span.record("error", tracing::field::debug(error.body().kind));
        })?;
        span.record("input_tokens", completion.usage.input_tokens)
            .record("output_tokens", completion.usage.output_tokens)
            .record("cached_tokens", completion.usage.cached_tokens)
            .record("finish", tracing::field::debug(&completion.finish))
            .record("output", completion.text.as_str());
        if let Some(price) = price.filter(|_| completion.usage.cost_usd == 0.0) {
            completion.usage.cost_usd = price.cost(&completion.usage);
        }
        account.enter(self, &completion.usage);
        Ok(completion)
    }
}

/// Calls and what they used.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spent {
    pub calls: u64,
    pub usage: Usage,
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
    pub reasoning: Option<Reasoning>,
    pub tool_calls: Vec<ToolCall>,
    #[serde(default)]
    pub malformed_calls: Vec<MalformedCall>,
    /// The other answers when `samples` > 1.
    #[serde(default)]
    pub alternatives: Vec<String>,
    pub usage: Usage,
    pub finish: Finish,
}
