//! What a subagent did, as jarvis saw it: from the outcomes of its calls, and from looking again in the end.

use super::tree::{Tree, is_named};
use jarvis_dispatch::{CallError, Content, Dispatch, FileState, exit_code};
use jarvis_protocol::ToolCall;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

/// Entries of one list.
const MOST: usize = 100;
const COMMAND_CHARS: usize = 200;

/// How things stood before a call that may change files.
pub(crate) enum Before {
    Nothing,
    File(FileState),
    Files(Tree),
}

/// Paths and how each was before; none where that is not known.
type Seen = Vec<(String, Option<Content>)>;

impl Before {
    pub async fn of(
        who: &str,
        dispatch: &Dispatch,
        call: &ToolCall,
        cancel: &CancellationToken,
    ) -> Result<Before, CallError> {
        match call.name.as_str() {
            "file_write" | "file_edit" => {
                let Some(path) = call.args.get("path").and_then(Value::as_str) else { return Ok(Before::Nothing) };
                Ok(Before::File(dispatch.file_state(who, path, cancel).await?))
            }
            "shell_exec" | crate::bootstrap::EXECUTE => Ok(Before::Files(Tree::of(dispatch.workspace()).await)),
            _ => Ok(Before::Nothing),
        }
    }

    /// What is different after it.
    pub async fn compare(self, dispatch: &Dispatch, ok: bool) -> (Seen, bool) {
        match self {
            Before::File(state) if ok => (vec![(state.path, Some(state.content))], true),
            Before::Files(before) => {
                let after = Tree::of(dispatch.workspace()).await;
                let was = |path: &str| (!before.has(path)).then_some(Content::Missing);
                let seen = before.changed(&after).into_iter().map(|path| (was(&path), path)).map(|(c, p)| (p, c));
                (seen.collect(), before.complete && after.complete)
            }
            Before::Nothing | Before::File(_) => (Vec::new(), true),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Recorder {
    files: BTreeMap<String, (Option<Content>, String)>,
    commands: Vec<Command>,
    requests: Vec<String>,
    read: Vec<String>,
    incomplete: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Command {
    pub command: String,
    /// None where it did not end by itself, or did not begin.
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FileEvidence {
    pub path: String,
    pub change: Change,
    /// The tool that changed it.
    pub by: String,
    /// BLAKE3 of the file before the subagent; null where there was none, or where `before_unknown`.
    pub before: Option<String>,
    /// The same of the file as it is now.
    pub after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    Made,
    Changed,
    /// It was written and is what it was.
    Same,
    Removed,
    /// It was written; it lies where it is not read again.
    Unread,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Evidence {
    pub files: Vec<FileEvidence>,
    pub commands: Vec<Command>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    pub capabilities_built: Vec<String>,
    pub capabilities_used: Vec<String>,
    /// What was not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Recorder {
    pub fn enter(&mut self, call: &ToolCall, (seen, complete): (Seen, bool), outcome: Result<&Value, &CallError>) {
        let text_of = |key: &str| call.args.get(key).and_then(Value::as_str).unwrap_or_default();
        self.incomplete |= !complete;
        for (path, before) in seen {
            // The first state counts: several changes are one.
            self.files.entry(path).or_insert_with(|| (before, call.name.clone()));
        }
        match call.name.as_str() {
            "shell_exec" => {
                let text = match outcome {
                    Ok(value) => value.as_str().unwrap_or_default().to_owned(),
                    Err(error) => error.body().message.clone(),
                };
                let exit_code = exit_code(&text);
                let first = text.lines().next().unwrap_or_default().chars().take(COMMAND_CHARS).collect();
                let problem = exit_code.is_none().then_some(first);
                let command = text_of("command").chars().take(COMMAND_CHARS).collect();
                put(&mut self.commands, Command { command, exit_code, problem });
            }
            "http_request" if outcome.is_ok() => put(&mut self.requests, text_of("url").to_owned()),
            "file_read" if outcome.is_ok() => put(&mut self.read, text_of("path").to_owned()),
            _ => {}
        }
    }

    /// Looks at every file again: what is there now counts, and not what a call said.
    pub async fn finish(
        self,
        who: &str,
        dispatch: &Dispatch,
        cancel: &CancellationToken,
    ) -> Result<Evidence, CallError> {
        let mut evidence =
            Evidence { commands: self.commands, requests: self.requests, read: self.read, ..Evidence::default() };
        let all = self.files.len();
        for (path, (before, by)) in self.files.into_iter().take(MOST) {
            let now = dispatch.file_state(who, &path, cancel).await?.content;
            evidence.files.extend(compared(path, by, before, now));
        }
        let mut notes = Vec::new();
        if all > MOST {
            notes.push(format!("{all} files changed; the first {MOST} are listed"));
        }
        if self.incomplete {
            notes.push("the workspace is too large to see every file that commands changed".to_owned());
        }
        evidence.note = (!notes.is_empty()).then(|| notes.join("; "));
        Ok(evidence)
    }
}

fn put<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if list.len() < MOST && !list.contains(&item) {
        list.push(item);
    }
}

/// None where nothing is left to tell: made and gone again.
fn compared(path: String, by: String, before: Option<Content>, now: Content) -> Option<FileEvidence> {
    let unknown = before.is_none();
    let digest_of = |content: &Content| match content {
        Content::Bytes { digest, .. } => Some(digest.clone()),
        Content::Missing | Content::Unread(_) => None,
    };
    let change = match (&before, &now) {
        (Some(Content::Missing), Content::Missing) => return None,
        (_, Content::Missing) => Change::Removed,
        (_, Content::Unread(_)) => Change::Unread,
        (Some(Content::Missing), Content::Bytes { .. }) => Change::Made,
        (Some(was), Content::Bytes { .. }) if *was == now => Change::Same,
        (_, Content::Bytes { .. }) => Change::Changed,
    };
    let bytes = if let Content::Bytes { bytes, .. } = &now { Some(*bytes) } else { None };
    let note = match &now {
        Content::Unread(why) => Some(why.clone()),
        _ if unknown => Some("how it was before is not known: a command changed it".to_owned()),
        _ => None,
    };
    let before = before.as_ref().and_then(digest_of);
    Some(FileEvidence { path, change, by, before, after: digest_of(&now), bytes, note })
}

impl Evidence {
    /// Exactly this file, and it is there.
    pub fn wrote_at(&self, path: &str) -> bool {
        self.files.iter().any(|file| file.change != Change::Removed && file.path == path)
    }

    /// The file that `name` says, if the subagent wrote it and it is there.
    pub fn wrote(&self, name: &str) -> bool {
        self.files.iter().any(|file| file.change != Change::Removed && is_named(&file.path, name))
    }

    pub fn removed(&self, name: &str) -> bool {
        self.files.iter().any(|file| file.change == Change::Removed && is_named(&file.path, name))
    }
}
