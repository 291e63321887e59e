//! A conversation as text, for a model that summarises it.

use super::cut;
use jarvis_model::estimate_tokens;
use jarvis_protocol::{Message, Role};

/// Tokens of one message in it; a longer one is cut in its middle.
const MESSAGE_TOKENS: u64 = 800;

/// The parts of `messages`, each in at most `most` tokens, with the number of messages told up to its end.
pub(super) fn parts(messages: &[Message], most: u64) -> Vec<(String, usize)> {
    let mut parts: Vec<(String, usize)> = Vec::new();
    let mut text = String::new();
    for (index, message) in messages.iter().enumerate() {
        let line = cut::middle(&told(message), MESSAGE_TOKENS.min(most));
        if !text.is_empty() && estimate_tokens(&text) + estimate_tokens(&line) > most {
            parts.push((std::mem::take(&mut text), index));
        }
        text.push_str(&line);
        text.push('\n');
    }
    if !text.is_empty() {
        parts.push((text, messages.len()));
    }
    parts
}

fn told(message: &Message) -> String {
    let who = match message.role {
        Role::System => "System",
        Role::User => "Person",
        Role::Assistant => "Assistant",
        Role::Tool if message.is_error => "Failed tool",
        Role::Tool => "Tool",
    };
    let mut line = format!("{who}: {}", message.text.trim());
    for call in &message.tool_calls {
        line.push_str(&format!("\n  called {} {}", call.name, call.args));
    }
    line
}
