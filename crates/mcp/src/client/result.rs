//! What a tool answered, as a model reads it: text and data, bounded.

use jarvis_dispatch::CallError;
use jarvis_protocol::ErrorKind;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

/// Characters of one result. Longer than what a model is shown, for whoever reads the events.
const MOST_CHARS: usize = 60_000;
const UNKNOWN: &str = "[something that jarvis does not know]";

/// An answer that says it failed is an error that the model reads.
pub(super) fn value_of(tool: &str, result: CallToolResult) -> Result<Value, CallError> {
    let text = result.content.iter().map(told).collect::<Vec<_>>().join("\n");
    if result.is_error == Some(true) {
        let text = if text.trim().is_empty() { "it failed without a word".to_owned() } else { cut(text) };
        return Err(CallError::respond(ErrorKind::Sandbox, format!("`{tool}`: {text}")));
    }
    match result.structured_content {
        // The data itself, where the text is the same once more or nothing.
        Some(data) if data.to_string().chars().count() <= MOST_CHARS && says_the_same(&text, &data) => Ok(data),
        Some(data) if text.trim().is_empty() => Ok(Value::String(cut(data.to_string()))),
        _ => Ok(Value::String(cut(text))),
    }
}

fn says_the_same(text: &str, data: &Value) -> bool {
    text.trim().is_empty() || serde_json::from_str::<Value>(text).is_ok_and(|said| said == *data)
}

pub(super) fn told(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[an image, {}, {} bytes]", image.mime_type, bytes(&image.data)),
        ContentBlock::Audio(audio) => format!("[a sound, {}, {} bytes]", audio.mime_type, bytes(&audio.data)),
        ContentBlock::ResourceLink(link) => format!("[a resource: {} ({})]", link.uri, link.name),
        ContentBlock::Resource(embedded) => resource(&embedded.resource),
        _ => UNKNOWN.to_owned(),
    }
}

pub(super) fn resource(contents: &ResourceContents) -> String {
    match contents {
        ResourceContents::TextResourceContents { uri, text, .. } => format!("[{uri}]\n{text}"),
        ResourceContents::BlobResourceContents { uri, blob, .. } => format!("[{uri}, {} bytes]", bytes(blob)),
        _ => UNKNOWN.to_owned(),
    }
}

/// Of what base64 holds.
fn bytes(coded: &str) -> usize {
    coded.trim_end_matches('=').len() * 3 / 4
}

/// Between characters, with a note of what is missing.
pub(super) fn cut(text: String) -> String {
    match text.char_indices().nth(MOST_CHARS) {
        None => text,
        Some((end, _)) => {
            let all = text.chars().count();
            format!("{}\n[… cut after {MOST_CHARS} of {all} characters]", &text[..end])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(value: Value) -> Result<Value, String> {
        let result: CallToolResult = serde_json::from_value(value).unwrap();
        value_of("t", result).map_err(|e| e.to_string())
    }

    #[test]
    fn an_answer_is_text_or_data_and_an_error_is_one() {
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        assert_eq!(answer(json!({"content": text("你好")})), Ok(json!("你好")));
        let both = json!({"content": text("{\"a\":1}"), "structuredContent": {"a": 1}});
        assert_eq!(answer(both), Ok(json!({"a": 1})));
        let other = json!({"content": text("one apple"), "structuredContent": {"a": 1}});
        assert_eq!(answer(other), Ok(json!("one apple")));
        let failed = json!({"content": text("no such file"), "isError": true});
        assert_eq!(answer(failed), Err("`t`: no such file".to_owned()));
        let image = json!({"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]});
        assert_eq!(answer(image), Ok(json!("[an image, image/png, 3 bytes]")));
    }

    #[test]
    fn a_long_answer_is_cut_between_characters_and_says_so() {
        let long = json!({"content": [{"type": "text", "text": "字".repeat(MOST_CHARS + 5)}]});
        let told = answer(long).unwrap();
        assert!(told.as_str().unwrap().ends_with("cut after 60000 of 60005 characters]"));
        let data = json!({"content": [], "structuredContent": {"a": "x".repeat(MOST_CHARS)}});
        assert!(answer(data).unwrap().as_str().unwrap().contains("[… cut after"));
    }
}
