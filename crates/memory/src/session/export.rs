//! A session as a file: Markdown to read, JSON to take elsewhere and bring back whole.

use super::{
    NewSession, SessionError, SessionInfo, SessionStore,
    store::{Stored, stamp},
};
use jarvis_protocol::{Message, Role};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::fmt::Write;

const FORMAT: u64 = 1;
/// Fields of a message that Markdown shows; others are only named.
const SHOWN: [&str; 7] = ["role", "text", "tool_calls", "tool_call_id", "is_error", "reasoning", "images"];

#[derive(Serialize, Deserialize)]
struct Document {
    jarvis_session: u64,
    session: SessionInfo,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    messages: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    at: Timestamp,
    /// As it was written, with what a newer jarvis may have put there.
    message: Box<RawValue>,
}

impl SessionStore {
    /// Everything of a session; [`SessionStore::import_json`] makes the same messages of it again.
    pub fn export_json(&self, id: &str) -> Result<String, SessionError> {
        let session = self.find(id)?;
        let lines = self.stored(&session.id, u64::MAX)?.into_iter().map(|stored| {
            Ok(Line {
                at: stored.at.parse().map_err(|e: jiff::Error| SessionError::Import(e.to_string()))?,
                message: RawValue::from_string(stored.json).map_err(SessionError::Message)?,
            })
        });
        let messages = lines.collect::<Result<_, SessionError>>()?;
        let document = Document { jarvis_session: FORMAT, state: self.state(&session.id)?, session, messages };
        serde_json::to_string_pretty(&document).map(|text| text + "\n").map_err(SessionError::Message)
    }

    /// A new session, with an id of its own, from an exported one.
    pub fn import_json(&self, text: &str) -> Result<SessionInfo, SessionError> {
        let document: Document = serde_json::from_str(text).map_err(|e| SessionError::Import(e.to_string()))?;
        if document.jarvis_session != FORMAT {
            let problem = format!("it has format {}; this jarvis reads {FORMAT}", document.jarvis_session);
            return Err(SessionError::Import(problem));
        }
        let lines = (1..).zip(document.messages).map(|(number, line): (usize, Line)| {
            let json = compact(line.message.get());
            let message: Message = json
                .as_ref()
                .map_err(ToString::to_string)
                .and_then(|json| serde_json::from_str(json).map_err(|e| e.to_string()))
                .map_err(|e| SessionError::Import(format!("message {number}: {e}")))?;
            let json = json.map_err(SessionError::Message)?;
            Ok(Stored { at: stamp(line.at), json, message })
        });
        let messages = lines.collect::<Result<Vec<_>, SessionError>>()?;
        let SessionInfo { title, workspace, model, strategy, created, usage, .. } = document.session;
        let new = NewSession { id: None, title, workspace, model, strategy };
        self.add(&new, created, None, &messages, usage, document.state.as_deref())
    }

    /// For reading: what was said, what was called, what came back.
    pub fn export_markdown(&self, id: &str) -> Result<String, SessionError> {
        let session = self.find(id)?;
        let mut out = format!("# {}\n\n", session.name().replace('\n', " "));
        let mut line = |name: &str, value: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "- {name}: {value}");
        };
        line("session", &session.id);
        line("created", &session.created.to_string());
        for (name, value) in [("model", &session.model), ("workspace", &session.workspace)] {
            if let Some(value) = value {
                line(name, value);
            }
        }
        let usage = session.usage;
        line("tokens", &format!("{} in, {} out; ${:.4}", usage.input_tokens, usage.output_tokens, usage.cost_usd));
        for stored in self.stored(&session.id, u64::MAX)? {
            message(&mut out, &stored);
        }
        Ok(out)
    }
}

/// Without the white space of a pretty file; numbers and the order of fields stay.
fn compact(json: &str) -> Result<String, serde_json::Error> {
    let value: Value = serde_json::from_str(json)?;
    serde_json::to_string(&value)
}

fn message(out: &mut String, stored: &Stored) {
    let of = &stored.message;
    let title = match of.role {
        Role::System => "System",
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::Tool if of.is_error => "Result (failed)",
        Role::Tool => "Result",
    };
    let _ = write!(out, "\n## {title}\n\n");
    if let Some(reasoning) = &of.reasoning {
        let quoted: Vec<String> = reasoning.text.lines().map(|l| format!("> {l}")).collect();
        let _ = write!(out, "{}\n\n", quoted.join("\n"));
    }
    if of.role == Role::Tool {
        fenced(out, "", &of.text);
    } else if !of.text.is_empty() {
        let _ = writeln!(out, "{}", of.text.trim_end());
    }
    for image in &of.images {
        let name = image.source().unwrap_or("image").replace(['\n', '[', ']', '(', ')'], " ");
        let size = image.pixels().map(|(width, height)| format!(", {width}×{height}")).unwrap_or_default();
        let kilobytes = (image.data().len() / 4 * 3).div_ceil(1024);
        let _ = write!(out, "\n[image: {name}, {}{size}, {kilobytes} KB]\n", image.media_type());
    }
    for call in &of.tool_calls {
        let _ = write!(out, "\nCall of `{}`:\n\n", call.name);
        fenced(out, "json", &serde_json::to_string_pretty(&call.args).unwrap_or_default());
    }
    let fields: Map<String, Value> = serde_json::from_str(&stored.json).unwrap_or_default();
    for field in fields.keys().filter(|f| !SHOWN.contains(&f.as_str())) {
        let _ = write!(out, "\n(not shown: {field})\n");
    }
}

/// In a fence that nothing of the text can close.
fn fenced(out: &mut String, language: &str, text: &str) {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let _ = writeln!(out, "{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'));
}
