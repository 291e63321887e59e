//! The body of a chat completion request. Its last field is `stream`.

use jarvis_protocol::{Message, Role};
use serde_json::{Map, Value, json};

use super::{Endpoint, decimal, no_grammar};
use crate::{ModelError, Request};

/// Where a provider departs from what most servers take; told by the host it is reached at.
struct Departures {
    /// OpenAI's reasoning models: `max_completion_tokens`, and no temperature but the default.
    reasoning_model: bool,
    /// Wants the reasoning of a running tool round back.
    wants_reasoning_back: bool,
}

fn departures(endpoint: &Endpoint) -> Departures {
    let url = reqwest::Url::parse(endpoint.base_url.trim()).ok();
    let host = url.as_ref().and_then(|u| u.host_str()).unwrap_or_default();
    let at = |domain: &str| host == domain || host.strip_suffix(domain).is_some_and(|h| h.ends_with('.'));
    let model = endpoint.model.as_str();
    let o_series = model.strip_prefix('o').is_some_and(|m| m.starts_with(|c: char| c.is_ascii_digit()));
    Departures {
        reasoning_model: at("api.openai.com") && (o_series || model.starts_with("gpt-5")),
        wants_reasoning_back: at("deepseek.com") || at("moonshot.ai") || at("moonshot.cn"),
    }
}

pub(super) fn build(endpoint: &Endpoint, request: &Request, stream: bool) -> Result<Value, ModelError> {
    if request.constraint.is_some() {
        return Err(no_grammar());
    }
    let departures = departures(endpoint);
    let told = request.told();
    // A reasoning belongs to the tool round it led to, and is forgotten with the next question.
    let round = told.iter().rposition(|m| m.role == Role::User).unwrap_or(0);
    let mut messages: Vec<Value> =
        told.iter().enumerate().map(|(at, m)| message(m, departures.wants_reasoning_back && at > round)).collect();
    if let Some(prefix) = request.assistant_prefix.as_deref().filter(|p| !p.is_empty()) {
        messages.push(json!({"role": "assistant", "content": prefix}));
    }

    let mut body = Map::new();
    body.insert("model".into(), endpoint.model.as_str().into());
    body.insert("messages".into(), messages.into());
    if !request.tools.is_empty() {
        let tools: Vec<Value> = request
            .tools
            .iter()
            .map(|t| {
                let function = json!({"name": t.name, "description": t.description, "parameters": t.parameters});
                json!({"type": "function", "function": function})
            })
            .collect();
        body.insert("tools".into(), tools.into());
    }
    let limit = if departures.reasoning_model { "max_completion_tokens" } else { "max_tokens" };
    body.insert(limit.into(), request.max_tokens.into());
    if let Some(temperature) = request.temperature.filter(|_| !departures.reasoning_model) {
        body.insert("temperature".into(), decimal(temperature));
    }
    if let Some(seed) = request.seed {
        body.insert("seed".into(), seed.into());
    }
    if !request.stop.is_empty() {
        body.insert("stop".into(), request.stop.clone().into());
    }
    if request.samples > 1 {
        body.insert("n".into(), request.samples.into());
    }
    body.insert("stream".into(), stream.into());
    Ok(Value::Object(body))
}

fn message(message: &Message, with_reasoning: bool) -> Value {
    match message.role {
        Role::System => json!({"role": "system", "content": message.text}),
        Role::User => json!({"role": "user", "content": message.text}),
        Role::Tool => json!({
            "role": "tool",
            "tool_call_id": message.tool_call_id.as_deref().unwrap_or_default(),
            "content": message.text,
        }),
        Role::Assistant => {
            let mut said = json!({"role": "assistant", "content": message.text});
            if message.tool_calls.is_empty() {
                return said;
            }
            if message.text.is_empty() {
                said["content"] = Value::Null;
            }
            if let Some(reasoning) = message.reasoning.as_deref().filter(|_| with_reasoning) {
                said["reasoning_content"] = reasoning.into();
            }
            let calls: Vec<Value> = message
                .tool_calls
                .iter()
                .map(|c| {
                    let function = json!({"name": c.name, "arguments": c.args.to_string()});
                    json!({"id": c.id, "type": "function", "function": function})
                })
                .collect();
            said["tool_calls"] = calls.into();
            said
        }
    }
}
