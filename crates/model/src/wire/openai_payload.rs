//! The body of a chat completion request. Its last field is `stream`.

use jarvis_protocol::{Image, Message, Role};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

use super::{Body, Endpoint, TOOLS, add_own, at_host, check_images, decimal, no_grammar};
use crate::{ModelError, Request};

/// Where a provider departs from what most servers take; told by the host it is reached at.
struct Departures {
    /// OpenAI's reasoning models: `max_completion_tokens`, and no temperature but the default.
    reasoning_model: bool,
    /// Wants `reasoning_content` back.
    wants_reasoning_back: bool,
}

fn departures(endpoint: &Endpoint) -> Departures {
    let at = |domain: &str| at_host(endpoint, domain);
    let model = endpoint.model.as_str();
    let o_series = model.strip_prefix('o').is_some_and(|m| m.starts_with(|c: char| c.is_ascii_digit()));
    let wants = at("deepseek.com") || at("moonshot.ai") || at("moonshot.cn");
    Departures {
        reasoning_model: at("api.openai.com") && (o_series || model.starts_with("gpt-5")),
        wants_reasoning_back: endpoint.replay_reasoning.unwrap_or(wants),
    }
}

pub(super) fn build<'r>(endpoint: &Endpoint, request: &'r Request, stream: bool) -> Result<Body<'r>, ModelError> {
    if request.constraint.is_some() {
        return Err(no_grammar());
    }
    check_images(&request.messages)?;
    let departures = departures(endpoint);
    let mut messages = messages(request, departures.wants_reasoning_back);
    if let Some(prefix) = request.assistant_prefix.as_deref().filter(|p| !p.is_empty()) {
        messages.push(json!({"role": "assistant", "content": prefix}));
    }

    let mut body = Map::new();
    body.insert("model".into(), endpoint.model.as_str().into());
    body.insert("messages".into(), messages.into());
    if !request.tools.is_empty() {
        body.insert(TOOLS.into(), Value::Null);
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
    add_own(&mut body, endpoint)?;
    body.insert("stream".into(), stream.into());
    let tools = request.tools.iter().map(|tool| Cow::Borrowed(tool.openai())).collect();
    Ok(Body { fields: body, tools })
}

fn messages(request: &Request, wants_reasoning_back: bool) -> Vec<Value> {
    let told = request.told();
    // A model that thinks wants all its replies with their reasoning, also those of earlier turns and those that had
    // none; one that does not think is not told of the field.
    let thinks = told.iter().any(|m| m.reasoning.as_ref().is_some_and(|r| !r.text.is_empty()));
    let with_reasoning = wants_reasoning_back && thinks;
    let mut messages: Vec<Value> = Vec::new();
    let mut shown: Vec<(&str, &[Image])> = Vec::new();
    for (at, message) in told.iter().enumerate() {
        messages.push(self::message(message, request.handle().id(), with_reasoning));
        if message.role != Role::Tool {
            continue;
        }
        if !message.images.is_empty() {
            shown.push((message.tool_call_id.as_deref().unwrap_or_default(), &message.images));
        }
        // A tool's message holds text alone here, and the results of one reply may not be parted.
        if told.get(at + 1).is_none_or(|next| next.role != Role::Tool) && !shown.is_empty() {
            messages.push(results(&std::mem::take(&mut shown)));
        }
    }
    messages
}

/// The images that tools returned, as a message of the user, with the calls they belong to.
fn results(shown: &[(&str, &[Image])]) -> Value {
    let mut parts = Vec::new();
    for (call, images) in shown {
        parts.push(text_part(&format!("Returned by tool call {call}:")));
        parts.extend(images.iter().map(image_part));
    }
    json!({"role": "user", "content": parts})
}

fn message(message: &Message, model: &str, with_reasoning: bool) -> Value {
    match message.role {
        Role::System => json!({"role": "system", "content": message.text}),
        Role::User if message.images.is_empty() => json!({"role": "user", "content": message.text}),
        Role::User => {
            let text = (!message.text.is_empty()).then(|| text_part(&message.text));
            let parts: Vec<Value> = text.into_iter().chain(message.images.iter().map(image_part)).collect();
            json!({"role": "user", "content": parts})
        }
        Role::Tool => json!({
            "role": "tool",
            "tool_call_id": message.tool_call_id.as_deref().unwrap_or_default(),
            "content": message.text,
        }),
        Role::Assistant => assistant(message, model, with_reasoning),
    }
}

fn assistant(message: &Message, model: &str, with_reasoning: bool) -> Value {
    let mut said = json!({"role": "assistant", "content": message.text});
    if message.text.is_empty() && !message.tool_calls.is_empty() {
        said["content"] = Value::Null;
    }
    let reasoning = message.reasoning.as_ref();
    if with_reasoning {
        said["reasoning_content"] = reasoning.map_or("", |r| r.text.as_str()).into();
    }
    let details = reasoning.map(|r| r.blocks_of(model)).unwrap_or_default();
    if details.iter().any(is_detail) {
        said["reasoning_details"] = details.iter().filter(|b| is_detail(b)).cloned().collect();
    }
    if !message.tool_calls.is_empty() {
        let call = |c: &jarvis_protocol::ToolCall| {
            let function = json!({"name": c.name, "arguments": c.args.to_string()});
            let mut call = json!({"id": c.id, "type": "function", "function": function});
            if let Some(extra) = reasoning.and_then(|r| r.of_call(model, &c.id)) {
                call["extra_content"] = extra.clone();
            }
            call
        };
        said["tool_calls"] = message.tool_calls.iter().map(call).collect();
    }
    said
}

/// Not a block of the other wire, should a provider have changed its own.
fn is_detail(block: &Value) -> bool {
    block.get("type").and_then(Value::as_str).is_some_and(|t| t.starts_with("reasoning."))
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image_part(image: &Image) -> Value {
    let url = format!("data:{};base64,{}", image.media_type(), image.data());
    json!({"type": "image_url", "image_url": {"url": url}})
}
