//! A tool as its server describes it: bounded, without what could fool a reader, and recognised again by its digest.

use jarvis_protocol::is_deceptive;
use rmcp::model::Tool;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Characters of a description that are kept.
const MOST_TEXT: usize = 2000;
/// Bytes of a schema; a tool with a longer one is left out.
const MOST_SCHEMA: usize = 64 << 10;
/// Tools of one server.
pub(super) const MOST_TOOLS: usize = 2000;
const MOST_NAME: usize = 128;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// As the server calls it.
    pub name: String,
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
    /// The server says that it changes nothing.
    pub read_only: bool,
    /// Of all that the server says of it, also what is not kept; BLAKE3, in hex.
    pub digest: String,
}

/// None where it cannot be offered to a model.
pub(super) fn definition(tool: &Tool) -> Option<Definition> {
    let parameters = Value::Object((*tool.input_schema).clone());
    let name = tool.name.to_string();
    let offered = !name.is_empty() && name.len() <= MOST_NAME && !name.contains(|c: char| c.is_control());
    if !offered
        || parameters.to_string().len() > MOST_SCHEMA
        || jarvis_dispatch::check_schema(&parameters, true).is_err()
    {
        return None;
    }
    let hints = tool.annotations.as_ref();
    let said = json!([tool.name, tool.title, tool.description, parameters, tool.output_schema, hints]);
    Some(Definition {
        name,
        description: plain(tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default()),
        parameters,
        read_only: hints.and_then(|hints| hints.read_only_hint).unwrap_or(false),
        digest: blake3::hash(said.to_string().as_bytes()).to_hex().to_string(),
    })
}

/// Without control characters, and cut between characters.
fn plain(text: &str) -> String {
    let shown: String = text.chars().filter(|c| !is_deceptive(*c)).take(MOST_TEXT).collect();
    if text.chars().count() > MOST_TEXT { shown + "…" } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(value: Value) -> Tool {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_could_fool_a_reader_is_taken_out_and_still_counts_as_a_change() {
        let schema = json!({"type": "object"});
        let clean =
            definition(&tool(json!({"name": "a", "description": "reads 文件", "inputSchema": schema}))).unwrap();
        let dirty = definition(&tool(
            json!({"name": "a", "description": "reads\u{1b}[2J\u{202e} 文件", "inputSchema": schema}),
        ))
        .unwrap();
        assert_eq!(dirty.description, "reads[2J 文件");
        assert_ne!(clean.digest, dirty.digest);
        assert!(!clean.read_only);
        let long = definition(&tool(json!({"name": "a", "description": "字".repeat(3000), "inputSchema": schema})));
        assert_eq!(long.unwrap().description.chars().count(), MOST_TEXT + 1);
    }

    #[test]
    fn a_change_of_the_hints_alone_is_another_definition() {
        let of = |hint: bool| {
            let hints = json!({"readOnlyHint": hint});
            definition(&tool(json!({"name": "a", "inputSchema": {"type": "object"}, "annotations": hints}))).unwrap()
        };
        assert!(of(true).read_only && !of(false).read_only);
        assert_ne!(of(true).digest, of(false).digest);
    }

    #[test]
    fn what_no_model_could_call_is_left_out() {
        for value in [
            json!({"name": "", "inputSchema": {"type": "object"}}),
            json!({"name": "a\nb", "inputSchema": {"type": "object"}}),
            json!({"name": "a", "inputSchema": {"type": "object", "description": "x".repeat(MOST_SCHEMA)}}),
        ] {
            assert_eq!(definition(&tool(value)), None);
        }
    }
}
