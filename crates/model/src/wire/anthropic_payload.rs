//! The body of an Anthropic messages request. Its last field is `stream`.
//!
//! Not in this wire: `seed` (it has none), and earlier reasoning (wanted back only where thinking was asked for, which
//! jarvis does not do).

use jarvis_protocol::{Message, Role};
use serde_json::{Map, Value, json};

use super::{Endpoint, decimal, no_grammar, schema_advice};
use crate::{Constraint, ModelError, Request};

pub(super) fn build(endpoint: &Endpoint, request: &Request, stream: bool) -> Result<Value, ModelError> {
    let mut system: Vec<Value> = request
        .messages
        .iter()
        .filter(|m| m.role == Role::System && !m.text.trim().is_empty())
        .map(|m| text_block(&m.text))
        .collect();
    if request.stable_prefix > 0
        && let Some(last) = system.last_mut()
    {
        cache(last);
    }
    match &request.constraint {
        None => {}
        Some(Constraint::Gbnf(_)) => return Err(no_grammar()),
        // Only the newest models know an output format; as an instruction it reaches all of them.
        Some(Constraint::JsonSchema(schema)) => system.push(text_block(&schema_advice(schema))),
    }

    let mut turns = turns(&request.messages);
    // In a conversation under way each round sends everything again; this lets the next one read it from the cache.
    if request.messages.iter().any(|m| m.role == Role::Assistant)
        && let Some(last) = turns.last_mut().and_then(|(_, blocks)| blocks.last_mut())
    {
        cache(last);
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

type Turn = (&'static str, Vec<Value>);

/// Roles must alternate here, and results of tools are part of what the user says.
fn turns(messages: &[Message]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for message in messages {
        // An empty text block is refused.
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
