//! The body of an Anthropic messages request. Its last field is `stream`.
//!
//! Not in this wire: `seed`, which it has none of.

use jarvis_protocol::{Image, Message, Role};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

use super::{Body, Endpoint, TOOLS, add_own, at_host, check_images, decimal, no_grammar, not_sent};
use crate::{ModelError, Request, Tool};

pub(super) fn build<'r>(endpoint: &Endpoint, request: &'r Request, stream: bool) -> Result<Body<'r>, ModelError> {
    if request.constraint.is_some() {
        return Err(no_grammar());
    }
    check_images(&request.messages)?;
    let keep = Keep { model: request.handle().id(), signed_only: at_host(endpoint, "anthropic.com") };
    let told = request.told();
    let mut system = system(&told);
    let mut turns = turns(&told, &keep);
    mark(request, &keep, &mut system, &mut turns);
    let thinking = Thinking::of(endpoint);
    if let Some(prefix) = request.assistant_prefix.as_deref().map(str::trim_end).filter(|p| !p.is_empty()) {
        if thinking.on {
            return Err(not_sent("a model that thinks first cannot be given the beginning of its answer".to_owned()));
        }
        // White space at its end is refused.
        add(&mut turns, "assistant", [text_block(prefix)]);
    }
    let messages: Vec<Value> =
        turns.into_iter().map(|(role, blocks)| json!({"role": role, "content": blocks})).collect();

    let mut body = Map::new();
    body.insert("model".into(), endpoint.model.as_str().into());
    // The limit here is on thinking and answer together.
    body.insert("max_tokens".into(), (u64::from(request.max_tokens) + thinking.budget).into());
    if !system.is_empty() {
        body.insert("system".into(), system.into());
    }
    body.insert("messages".into(), messages.into());
    if !request.tools.is_empty() {
        body.insert(TOOLS.into(), Value::Null);
    }
    // Thinking takes only the default.
    if let Some(temperature) = request.temperature.filter(|_| !thinking.on) {
        // This wire's range ends at 1.
        body.insert("temperature".into(), decimal(temperature.min(1.0)));
    }
    if !request.stop.is_empty() {
        body.insert("stop_sequences".into(), request.stop.clone().into());
    }
    add_own(&mut body, endpoint)?;
    body.insert("stream".into(), stream.into());
    Ok(Body { fields: body, tools: tools(&request.tools) })
}

fn tools(tools: &[Tool]) -> Vec<Cow<'_, str>> {
    let mut told: Vec<_> = tools.iter().map(|tool| Cow::Borrowed(tool.anthropic())).collect();
    if let (Some(last), Some(tool)) = (told.last_mut(), tools.last()) {
        // Tools come before the system prompt: they stay in the cache where that one changes.
        let mut value = tool.anthropic_value();
        cache(&mut value);
        *last = Cow::Owned(value.to_string());
    }
    told
}

/// What the endpoint's own fields say of thinking.
struct Thinking {
    on: bool,
    budget: u64,
}

impl Thinking {
    fn of(endpoint: &Endpoint) -> Self {
        let thinking = endpoint.extra_body.get("thinking");
        let kind = thinking.and_then(|t| t.get("type")).and_then(Value::as_str);
        let budget = thinking.and_then(|t| t.get("budget_tokens")).and_then(Value::as_u64).unwrap_or(0);
        Self { on: matches!(kind, Some("enabled" | "adaptive")), budget }
    }
}

/// Which reasoning goes back.
struct Keep<'a> {
    /// What this model said.
    model: &'a str,
    /// A block that the token limit cut has no signature, and is refused.
    signed_only: bool,
}

impl Keep<'_> {
    fn reasoning(&self, message: &Message) -> Vec<Value> {
        let blocks = message.reasoning.as_ref().map(|r| r.blocks_of(self.model)).unwrap_or_default();
        let wanted = |block: &&Value| match block.get("type").and_then(Value::as_str) {
            Some("thinking") => !self.signed_only || block.get("signature").is_some_and(|s| s != ""),
            Some("redacted_thinking") => true,
            // Of the other wire, should a provider have changed its own.
            _ => false,
        };
        blocks.iter().filter(wanted).cloned().collect()
    }
}

/// Marks what the provider shall keep: the stable prefix, and a conversation under way. Each round of one sends
/// everything again; the mark lets the next one read it from the cache. With the mark on the tools there are four at
/// most, which is the limit.
fn mark(request: &Request, keep: &Keep<'_>, system: &mut [Value], turns: &mut [Turn]) {
    let (stable, later) = request.messages.split_at(request.stable_prefix.min(request.messages.len()));
    let stable_system = self::system(stable).len();
    let stable_blocks = self::turns(stable, keep).iter().map(|(_, blocks)| blocks.len()).sum::<usize>();
    // The whole system prompt comes first, so a part of it that changes leaves nothing stable behind it.
    let system_changes = later.iter().any(|m| m.role == Role::System);
    if stable_blocks > 0 && !system_changes {
        mark_last(turns.iter_mut().flat_map(|(_, blocks)| blocks).take(stable_blocks));
    } else if stable_system > 0 {
        cache(&mut system[stable_system - 1]);
    }
    if later.iter().any(|m| m.role == Role::Assistant) {
        // Also where the round before ended: a cache is looked for only 20 blocks back, and a round may have more.
        let mut ends = turns.iter_mut().rev().filter(|(role, _)| *role == "user");
        for (_, blocks) in ends.by_ref().take(2) {
            mark_last(blocks.iter_mut());
        }
    }
}

/// The last block that may carry a mark; one of reasoning may not.
fn mark_last<'a>(blocks: impl Iterator<Item = &'a mut Value>) {
    let thinks = |block: &Value| matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"));
    blocks.filter(|b| !thinks(b)).last().into_iter().for_each(cache);
}

/// An empty text block is refused.
fn system(messages: &[Message]) -> Vec<Value> {
    let said = messages.iter().filter(|m| m.role == Role::System && !m.text.trim().is_empty());
    said.map(|m| text_block(&m.text)).collect()
}

type Turn = (&'static str, Vec<Value>);

/// Roles must alternate here, and results of tools are part of what the user says.
fn turns(messages: &[Message], keep: &Keep<'_>) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for message in messages {
        let text = (!message.text.trim().is_empty()).then(|| text_block(&message.text));
        match message.role {
            Role::System => {}
            Role::User => add(&mut turns, "user", message.images.iter().map(image_block).chain(text)),
            Role::Assistant => {
                add(&mut turns, "assistant", keep.reasoning(message));
                add(&mut turns, "assistant", text);
                let calls = message.tool_calls.iter();
                let block = |c: &jarvis_protocol::ToolCall| json!({"type": "tool_use", "id": c.id, "name": c.name, "input": c.args});
                add(&mut turns, "assistant", calls.map(block));
            }
            Role::Tool => {
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                let mut result = json!({"type": "tool_result", "tool_use_id": id, "content": message.text});
                if !message.images.is_empty() {
                    result["content"] = text.into_iter().chain(message.images.iter().map(image_block)).collect();
                } else if message.is_error {
                    // Only where all is text: a result with images is not taken as an error.
                    result["is_error"] = Value::Bool(true);
                }
                add(&mut turns, "user", [result]);
            }
        }
    }
    turns
}

fn add(turns: &mut Vec<Turn>, role: &'static str, blocks: impl IntoIterator<Item = Value>) {
    for block in blocks {
        match turns.last_mut() {
            Some((last, list)) if *last == role => list.push(block),
            _ => turns.push((role, vec![block])),
        }
    }
}

fn image_block(image: &Image) -> Value {
    let source = json!({"type": "base64", "media_type": image.media_type(), "data": image.data()});
    json!({"type": "image", "source": source})
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn cache(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}
