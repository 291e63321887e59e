//! Files that an editor has open. The sandbox looks at the path first, as it does without an editor, so that no link leads
//! the editor to a place that is not granted.

use super::{Call, TIMEOUT};
use crate::Editor;
use jarvis_policy::{Reach, ToolPermit};
use jarvis_sandbox::{ToolDone, ToolError, ToolWork};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long an editor may take. What it does not tell by then is read from the file.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was done, and whether the editor did it.
pub(super) type Done = (Result<ToolDone, ToolError>, bool);

impl Call<'_> {
    pub(super) async fn perform(&mut self, permit: ToolPermit, work: ToolWork) -> Done {
        let inside = matches!(permit.reach(), Reach::Read { inside: true, .. } | Reach::Write { inside: true, .. });
        let editor = self.dispatch.editor.clone().filter(|_| inside);
        match (editor, work) {
            (Some(editor), ToolWork::Write { path, bytes }) if editor.writes() => match String::from_utf8(bytes) {
                Ok(text) => (self.written(&editor, permit, path, &text).await, true),
                Err(e) => (self.by_itself(permit, ToolWork::Write { path, bytes: e.into_bytes() }).await, false),
            },
            (Some(editor), ToolWork::Read { path }) if editor.reads() => {
                let done = self.by_itself(permit, ToolWork::Read { path: path.clone() }).await;
                let Ok(done) = done else { return (done, false) };
                match self.unsaved(&editor, &path, &done.body).await {
                    Some(text) => (Ok(ToolDone { body: text.into_bytes(), ..done }), true),
                    None => (Ok(done), false),
                }
            }
            (_, work) => (self.by_itself(permit, work).await, false),
        }
    }

    async fn by_itself(&mut self, permit: ToolPermit, work: ToolWork) -> Result<ToolDone, ToolError> {
        self.dispatch.parts.executor.tool(permit, work, TIMEOUT, self.cancel).await
    }

    async fn unsaved(&mut self, editor: &Arc<dyn Editor>, path: &str, saved: &[u8]) -> Option<String> {
        // An editor's text of what is none would be something else than the file.
        if saved.contains(&0) || std::str::from_utf8(saved).is_err() {
            return None;
        }
        let told = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return None,
            told = tokio::time::timeout(PATIENCE, editor.read(Path::new(path))) => told,
        };
        match told {
            Ok(Ok(text)) => Some(text),
            Ok(Err(why)) => {
                tracing::debug!(path, why, "the editor does not tell its text; the file is read");
                None
            }
            Err(_) => {
                tracing::warn!(path, "the editor does not answer; the file is read");
                None
            }
        }
    }

    async fn written(
        &mut self,
        editor: &Arc<dyn Editor>,
        permit: ToolPermit,
        path: String,
        text: &str,
    ) -> Result<ToolDone, ToolError> {
        let wrong = |name: &str, message: String| ToolError { name: name.to_owned(), message };
        self.dispatch.parts.executor.may_write(permit, &path).await?;
        let written = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(wrong("CancelledError", "cancelled".to_owned())),
            written = tokio::time::timeout(PATIENCE, editor.write(Path::new(&path), text)) => written,
        };
        match written {
            Ok(Ok(())) => Ok(ToolDone { head: json!({}), body: Vec::new(), egress: Vec::new() }),
            Ok(Err(why)) => Err(wrong("Error", format!("the editor did not write {path}: {why}"))),
            Err(_) => {
                let seconds = PATIENCE.as_secs();
                Err(wrong("TimeoutError", format!("the editor did not answer in {seconds} s whether it wrote {path}")))
            }
        }
    }
}
