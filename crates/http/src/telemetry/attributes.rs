//! What a field of a span is called by OpenTelemetry's conventions for generative AI.

use jarvis_audit::redact;
use opentelemetry::{KeyValue, StringValue, Value};

/// Characters of what was said that one attribute carries.
const MOST: usize = 16_000;

/// The kinds of spans that are made; told apart by their target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Turn,
    Chat,
    Tool,
}

impl Kind {
    pub fn of(target: &str) -> Option<Kind> {
        match target {
            "jarvis::turn" => Some(Kind::Turn),
            "jarvis::chat" => Some(Kind::Chat),
            "jarvis::tool" => Some(Kind::Tool),
            _ => None,
        }
    }

    pub fn operation(self) -> &'static str {
        match self {
            Kind::Turn => "invoke_agent",
            Kind::Chat => "chat",
            Kind::Tool => "execute_tool",
        }
    }
}

/// Attributes of a field; none where it is content that nobody asked for, or of no interest.
pub fn of(kind: Kind, field: &str, value: Value, content: bool) -> Vec<KeyValue> {
    let one = |key: &'static str, value: Value| vec![KeyValue::new(key, value)];
    let said = |key: &'static str, value: &Value| if content { one(key, Value::from(told(value))) } else { Vec::new() };
    let messages = |key: &'static str, role: &str, value: &Value| match content {
        true => one(key, message(role, value)),
        false => Vec::new(),
    };
    match (kind, field) {
        (Kind::Turn | Kind::Chat, "model") => {
            let id = value.to_string();
            let (provider, model) = id.split_once('/').unwrap_or(("", &id));
            let name = KeyValue::new("gen_ai.request.model", model.to_owned());
            vec![KeyValue::new("gen_ai.provider.name", provider.to_owned()), name]
        }
        (Kind::Turn, "session") => one("gen_ai.conversation.id", value),
        (_, "input_tokens") => one("gen_ai.usage.input_tokens", value),
        (_, "output_tokens") => one("gen_ai.usage.output_tokens", value),
        (_, "cached_tokens") => one("gen_ai.usage.cache_read.input_tokens", value),
        (Kind::Turn, "stop") | (Kind::Chat, "finish") => {
            let reason = StringValue::from(snake(&value.to_string()));
            one("gen_ai.response.finish_reasons", Value::Array(vec![reason].into()))
        }
        (Kind::Chat, "purpose") => one("jarvis.purpose", value),
        (Kind::Chat, "max_tokens") => one("gen_ai.request.max_tokens", value),
        (Kind::Turn, "input") => messages("gen_ai.input.messages", "user", &value),
        (Kind::Turn | Kind::Chat, "output") => messages("gen_ai.output.messages", "assistant", &value),
        (Kind::Tool, "name") => {
            vec![KeyValue::new("gen_ai.tool.name", value), KeyValue::new("gen_ai.tool.type", "function")]
        }
        (Kind::Tool, "id") => one("gen_ai.tool.call.id", value),
        (Kind::Tool, "args") => said("gen_ai.tool.call.arguments", &value),
        (Kind::Tool, "output") => said("gen_ai.tool.call.result", &value),
        (Kind::Tool, "error") => {
            let mut attributes = one("error.type", Value::from("tool_error"));
            attributes.extend(said("gen_ai.tool.call.result", &value));
            attributes
        }
        (_, "error") => one("error.type", Value::from(snake(&value.to_string()))),
        _ => Vec::new(),
    }
}

/// Without secrets of known shapes, and not without end.
fn told(value: &Value) -> String {
    // A key that is cut in two looks like none: cut is what is redacted.
    redact(&value.as_str()).chars().take(MOST).collect()
}

/// Whole, whatever is cut of its text: half a JSON says nothing.
fn message(role: &str, text: &Value) -> Value {
    let said = serde_json::json!([{"role": role, "parts": [{"type": "text", "content": told(text)}]}]);
    Value::from(said.to_string())
}

/// `EndTurn` as it is written elsewhere: `end_turn`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_told_only_where_it_was_asked_for_and_never_with_secrets() {
        let key = Value::from(r#"{"key": "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD"}"#);
        assert!(of(Kind::Tool, "args", key.clone(), false).is_empty());
        let told = of(Kind::Tool, "args", key, true);
        assert_eq!(told.len(), 1);
        assert!(!told[0].value.to_string().contains("abcdefghijklmnop"), "{told:?}");
        assert!(of(Kind::Turn, "input", Value::from("问"), false).is_empty());
        assert_eq!(snake("EndTurn"), "end_turn");
    }

    #[test]
    fn what_is_long_is_cut_after_its_secrets_are_out_and_stays_json() {
        let key = format!("sk-proj-{}", "a1B2c3D4".repeat(6));
        let text = format!("{}{key} {}", "x ".repeat(MOST / 2 - 10), "\"".repeat(MOST));
        let told = of(Kind::Turn, "input", Value::from(text), true);
        let parsed: serde_json::Value = serde_json::from_str(&told[0].value.as_str()).unwrap();
        let content = parsed[0]["parts"][0]["content"].as_str().unwrap();
        assert_eq!(content.chars().count(), MOST);
        assert!(!content.contains("sk-proj"), "{}", &content[content.len() - 60..]);
    }
}
