//! A conversation that was kept, as the updates that it would have been told by.

use crate::desk::Desk;
use crate::{tell, tools};
use agent_client_protocol::v1::schema::{ContentBlock, ContentChunk, ImageContent, SessionUpdate, ToolCallStatus};
use jarvis_protocol::{Message, Role};
use serde_json::{Value, json};
use std::collections::HashMap;

pub(crate) fn updates(messages: &[Message], desk: &Desk) -> Vec<SessionUpdate> {
    let mut calls: HashMap<&str, (&str, &Value)> = HashMap::new();
    let mut told = Vec::new();
    for message in messages {
        match message.role {
            Role::User => {
                let pictures = message
                    .images
                    .iter()
                    .map(|image| ContentBlock::Image(ImageContent::new(image.data(), image.media_type())));
                let text = (!message.text.is_empty()).then(|| ContentBlock::from(message.text.as_str()));
                told.extend(
                    text.into_iter()
                        .chain(pictures)
                        .map(|block| SessionUpdate::UserMessageChunk(ContentChunk::new(block))),
                );
            }
            Role::Assistant => {
                if let Some(reasoning) =
                    message.reasoning.as_ref().map(|r| r.text.as_str()).filter(|text| !text.is_empty())
                {
                    told.push(tell::thought(reasoning));
                }
                if !message.text.is_empty() {
                    told.push(tell::message(&message.text));
                }
                for call in &message.tool_calls {
                    calls.insert(&call.id, (&call.name, &call.args));
                    let begun = tools::begun(&call.id, &call.name, &call.args, desk).status(ToolCallStatus::Pending);
                    told.push(SessionUpdate::ToolCall(begun));
                }
            }
            Role::Tool => {
                let Some((id, (tool, args))) =
                    message.tool_call_id.as_deref().and_then(|id| calls.remove(id).map(|call| (id, call)))
                else {
                    continue;
                };
                let ok = !message.is_error;
                let text = jarvis_agent::unfenced(&message.text);
                let content = if ok { json!(text) } else { json!({ "error": text }) };
                let mut ended = tools::ended(tool, args, ok, &content, desk);
                if ok && tool == "file_edit" {
                    // The difference that the call was told with says more than its result.
                    ended.content = None;
                }
                told.push(tell::update(id, ended));
            }
            // Instructions of jarvis's own.
            Role::System => {}
        }
    }
    told
}
