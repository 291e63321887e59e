//! The body of an Anthropic messages request. Its last field is `stream`.
//!
//! Not in this wire: `seed` (it has none), and earlier reasoning (wanted back only where thinking was asked for, which
//! jarvis does not do).

use jarvis_protocol::{Message, Role};
use serde_json::{Map, Value, json};

use super::{Endpoint, decimal, no_grammar};
use crate::{ModelError, Request};

pub(super) fn build(endpoint: &Endpoint, request: &Request, stream: bool) -> Result<Value, ModelError> {
    if request.constraint.is_some() {
        return Err(no_grammar());
    }
    let mut system = system(&request.messages);
    let mut turns = turns(&request.messages);
    mark(request, &mut system, &mut turns);
    if let Some(note) = request.note.as_deref().filter(|n| !n.trim().is_empty()) {
        // A block of its own, behind the mark: what is before it stays the same.
        system.push(text_block(note));
    }
    if let Some(prefix) = request.assistant_prefix.as_deref().map(str::trim_end).filter(|p| !p.is_empty()) {
        // White space at its end is refused.
        add(&mut turns, "assistant", [text_block(prefix)]);
    }
    let messages: Vec<Value> =
        turns.into_iter().map(|(role, blocks)| json!({"role": role, "content": blocks})).collect();

    let mut body = Map::new();
    body.insert("model".into(), endpoint.model.as_str().into());
    body.insert("max_tokens".into(), request.max_tokens.into());
    if !system.is_empty() {
        body.insert("system".into(), system.into());
    }
    body.insert("messages".into(), messages.into());
    if !request.tools.is_empty() {
        let tools: Vec<Value> = request
            .tools
            .iter()
            .map(|t| json!({"name": t.name, "description": t.description, "input_schema": t.parameters}))
            .collect();
        body.insert("tools".into(), tools.into());
    }
    if let Some(temperature) = request.temperature {
        // This wire's range ends at 1.
        body.insert("temperature".into(), decimal(temperature.min(1.0)));
    }
    if !request.stop.is_empty() {
        body.insert("stop_sequences".into(), request.stop.clone().into());
    }
    body.insert("stream".into(), stream.into());
    Ok(Value::Object(body))
}

/// Marks what the provider shall keep: the stable prefix, and a conversation under way. Each round of one sends
/// everything again; the mark lets the next one read it from the cache.
fn mark(request: &Request, system: &mut [Value], turns: &mut [Turn]) {
    let (stable, later) = request.messages.split_at(request.stable_prefix.min(request.messages.len()));
    let stable_system = self::system(stable).len();
    let stable_blocks = self::turns(stable).iter().map(|(_, blocks)| blocks.len()).sum::<usize>();
    // The whole system prompt comes first, so a part of it that changes leaves nothing stable behind it.
    let system_changes = request.note.is_some() || later.iter().any(|m| m.role == Role::System);
    if stable_blocks > 0 && !system_changes {
        let mut blocks = turns.iter_mut().flat_map(|(_, blocks)| blocks);
        blocks.nth(stable_blocks - 1).into_iter().for_each(cache);
    } else if stable_system > 0 {
        cache(&mut system[stable_system - 1]);
    }
    if later.iter().any(|m| m.role == Role::Assistant)
        && let Some(last) = turns.last_mut().and_then(|(_, blocks)| blocks.last_mut())
    {
        cache(last);
    }
}

/// An empty text block is refused.
fn system(messages: &[Message]) -> Vec<Value> {
    let said = messages.iter().filter(|m| m.role == Role::System && !m.text.trim().is_empty());
    said.map(|m| text_block(&m.text)).collect()
}

type Turn = (&'static str, Vec<Value>);

/// Roles must alternate here, and results of tools are part of what the user says.
fn turns(messages: &[Message]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for message in messages {
        let text = (!message.text.trim().is_empty()).then(|| text_block(&message.text));
        match message.role {
            Role::System => {}
            Role::User => add(&mut turns, "user", text),
            Role::Assistant => {
                add(&mut turns, "assistant", text);
                let calls = message.tool_calls.iter();
                let block = |c: &jarvis_protocol::ToolCall| json!({"type": "tool_use", "id": c.id, "name": c.name, "input": c.args});
                add(&mut turns, "assistant", calls.map(block));
            }
            Role::Tool => {
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                let mut result = json!({"type": "tool_result", "tool_use_id": id, "content": message.text});
                if message.is_error {
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

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn cache(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}
