//! Conversation messages, in no provider's format.

use crate::{Image, Reasoning};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    User,
    Assistant,
    /// The result of one tool call.
    Tool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// Always an object when it came from a model; arguments that do not parse never get this far.
    pub args: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub text: String,
    /// Of an assistant message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Of a tool message: the call it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Of a tool message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Of an assistant message: some providers need it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// Of a user's message, or of a tool's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}

impl Message {
    fn plain(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            text: text.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            is_error: false,
            reasoning: None,
            images: Vec::new(),
        }
    }

    pub fn system(text: impl Into<String>) -> Self {
        Self::plain(Role::System, text)
    }

    pub fn user(text: impl Into<String>) -> Self {
        Self::plain(Role::User, text)
    }

    pub fn assistant(text: impl Into<String>) -> Self {
        Self::plain(Role::Assistant, text)
    }

    pub fn tool(call_id: impl Into<String>, text: impl Into<String>, is_error: bool) -> Self {
        Self { tool_call_id: Some(call_id.into()), is_error, ..Self::plain(Role::Tool, text) }
    }
}

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON Schema; an object.
    pub parameters: Value,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_of_earlier_versions_are_read_and_written_as_they_were() {
        let old = json!({"role": "assistant", "text": "好", "reasoning": "想"});
        let message: Message = serde_json::from_value(old.clone()).unwrap();
        assert_eq!(message.reasoning, Some(Reasoning::from("想")));
        assert!(message.images.is_empty());
        assert_eq!(serde_json::to_value(&message).unwrap(), old);
    }

    #[test]
    fn images_stay_with_their_message() {
        let mut message = Message::user("what is this?");
        message.images = vec![Image::from_bytes(b"GIF89a\x01\x00\x01\x00\x00\x00\x00", Some("a.gif")).unwrap()];
        let text = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), message);
    }
}
