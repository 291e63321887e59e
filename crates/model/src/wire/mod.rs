//! Providers over HTTP: OpenAI's chat completions and Anthropic's messages, with streaming, retries and typed errors.

mod answer;
mod anthropic;
mod anthropic_payload;
mod calls;
mod classify;
#[cfg(test)]
mod content_tests;
mod draft;
mod embeddings;
mod http;
mod openai;
mod openai_payload;
#[cfg(test)]
mod payload_tests;
mod provider;
mod sse;
#[cfg(test)]
mod stream_table;
#[cfg(test)]
mod stream_tests;
mod surrogates;

pub use embeddings::openai_embedder;
use jarvis_protocol::{Message, Role};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::{Backend, ModelError, Request};

/// The wire format that a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// `POST {base_url}/chat/completions`.
    OpenAi,
    /// `POST {base_url}/v1/messages`, or `/messages` where `base_url` ends in `/v1`.
    Anthropic,
}

/// A provider's key. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// White space around it, as a shell or a file leaves it, is dropped. `None` when nothing remains.
    pub fn new(key: &str) -> Option<Self> {
        let key = key.trim();
        (!key.is_empty()).then(|| Self(key.to_owned()))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiKey([key])")
    }
}

/// Where a model is and how to reach it. No `Default`: every limit is chosen.
#[derive(Clone)]
pub struct Endpoint {
    /// As a person writes it in `provider/model`; for messages.
    pub provider: String,
    /// For example `https://api.openai.com/v1`, `https://api.anthropic.com`, `http://localhost:11434/v1`.
    pub base_url: String,
    pub key: Option<ApiKey>,
    /// The provider's name of the model.
    pub model: String,
    pub connect_timeout: Duration,
    /// No byte for that long ends the request. Without streaming the first byte comes only with the finished answer,
    /// so there `total_timeout` alone bounds the wait for it.
    pub idle_timeout: Duration,
    /// Over all attempts of one request.
    pub total_timeout: Duration,
    /// How often a request is sent again after a transient error.
    pub retries: u32,
    /// Added to every request; one of the same name as ours replaces it.
    pub extra_headers: Vec<(String, String)>,
    /// Fields of the body that only this provider has, such as Anthropic's `thinking` or a server's `enable_thinking`.
    pub extra_body: Map<String, Value>,
    /// Whether the model wants its `reasoning_content` back with the conversation. `None`: known by the host.
    pub replay_reasoning: Option<bool>,
}

impl Endpoint {
    /// Without the key: some servers repeat it in their error messages. Cut to a length for a log or a person, which
    /// comes after, so that no part of a key is left.
    fn shown(&self, text: &str) -> String {
        match &self.key {
            Some(key) => classify::excerpt(&text.replace(&key.0, "[key]")),
            None => classify::excerpt(text),
        }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Header values and a base_url with a password may be secrets too.
        let names: Vec<&str> = self.extra_headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("key", &self.key)
            .field("extra_headers", &names)
            .finish_non_exhaustive()
    }
}

/// A model behind OpenAI's chat completions, as most servers speak it.
pub fn openai(endpoint: Endpoint) -> Arc<dyn Backend> {
    Arc::new(provider::Provider::new(Wire::OpenAi, endpoint))
}

/// A model behind Anthropic's messages.
pub fn anthropic(endpoint: Endpoint) -> Arc<dyn Backend> {
    Arc::new(provider::Provider::new(Wire::Anthropic, endpoint))
}

/// The body of a request. The one builder for both modes: the bytes differ in the value of `stream` alone.
fn build_payload(wire: Wire, endpoint: &Endpoint, request: &Request, stream: bool) -> Result<Vec<u8>, ModelError> {
    if let Some(t) = request.temperature
        && !t.is_finite()
    {
        return Err(not_sent(format!("temperature {t} is not a number")));
    }
    let body = match wire {
        Wire::OpenAi => openai_payload::build(endpoint, request, stream)?,
        Wire::Anthropic => anthropic_payload::build(endpoint, request, stream)?,
    };
    let mut bytes = Vec::with_capacity(SIZE);
    body.write(&mut bytes).map_err(|e| not_sent(format!("the request cannot be written: {e}")))?;
    Ok(bytes)
}

/// Bytes that most requests have; the definitions of the tools alone are ten thousand.
const SIZE: usize = 16 << 10;

/// What is sent: fields in their order, with definitions of tools that are written already.
struct Body<'a> {
    fields: Map<String, Value>,
    /// In the place of the field [`TOOLS`], each in JSON.
    tools: Vec<Cow<'a, str>>,
}

const TOOLS: &str = "tools";

impl Body<'_> {
    fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        out.push(b'{');
        for (at, (name, value)) in self.fields.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            serde_json::to_writer(&mut *out, name)?;
            out.push(b':');
            match name.as_str() {
                TOOLS => {
                    out.push(b'[');
                    out.extend_from_slice(self.tools.join(",").as_bytes());
                    out.push(b']');
                }
                _ => serde_json::to_writer(&mut *out, value)?,
            }
        }
        out.push(b'}');
        Ok(())
    }
}

fn not_sent(message: String) -> ModelError {
    ModelError::NotSent { message }
}

/// Adds the provider's own fields. Those that say what is asked cannot be replaced: two truths about a request would be
/// one too many.
fn add_own(body: &mut Map<String, Value>, endpoint: &Endpoint) -> Result<(), ModelError> {
    for (name, value) in &endpoint.extra_body {
        if ["model", "messages", "system", "tools", "stream", "stream_options", "n"].contains(&name.as_str()) {
            return Err(not_sent(format!("the body of {} in config may not set `{name}`", endpoint.provider)));
        }
        body.insert(name.clone(), value.clone());
    }
    Ok(())
}

/// Neither wire has a place for images in what the system or the model says.
fn check_images(messages: &[Message]) -> Result<(), ModelError> {
    let misplaced = messages.iter().find(|m| !m.images.is_empty() && matches!(m.role, Role::System | Role::Assistant));
    match misplaced {
        Some(_) => Err(not_sent("images belong to what a person or a tool says".to_owned())),
        None => Ok(()),
    }
}

/// Whether the endpoint is `domain` or below it.
fn at_host(endpoint: &Endpoint, domain: &str) -> bool {
    let url = reqwest::Url::parse(endpoint.base_url.trim()).ok();
    let host = url.as_ref().and_then(|u| u.host_str()).unwrap_or_default();
    host == domain || host.strip_suffix(domain).is_some_and(|h| h.ends_with('.'))
}

fn no_grammar() -> ModelError {
    not_sent("this provider does not decode under a grammar".to_owned())
}

/// 0.7 as JSON writes it, not as 0.699999988 by way of a wider float.
pub(crate) fn decimal(value: f32) -> serde_json::Value {
    value.to_string().parse::<f64>().map_or(serde_json::Value::Null, serde_json::Value::from)
}
