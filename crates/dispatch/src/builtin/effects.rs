//! What can be seen of an effect: the state of a file of the workspace, and the record of a subagent's work.

use super::Call;
use crate::{CallError, DenyAll, Dispatch};
use jarvis_audit::Kind;
use serde_json::Value;
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// A file as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileState {
    /// Relative to the workspace where it lies in it, else absolute; without `..`.
    pub path: String,
    pub content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Missing,
    Bytes {
        /// BLAKE3, in hex.
        digest: String,
        bytes: usize,
    },
    /// Why it was not read: it lies outside the workspace, is a folder, is too large.
    Unread(String),
}

impl Dispatch {
    /// Looks at one file for `who`, by the same way as file_read. Outside the workspace nothing is looked at.
    pub async fn file_state(&self, who: &str, path: &str, cancel: &CancellationToken) -> Result<FileState, CallError> {
        let mut nobody = DenyAll;
        let mut call = Call { dispatch: self, tool: who, approver: &mut nobody, cancel };
        let (full, inside) = call.place(path)?;
        if !inside {
            return Ok(FileState { path: full, content: Content::Unread("it lies outside the workspace".to_owned()) });
        }
        let shown = Path::new(&full).strip_prefix(self.workspace()).map(|p| p.to_string_lossy().into_owned());
        let content = match super::files::bytes_of(&mut call, &full, inside).await {
            Ok(Some(bytes)) => Content::Bytes { digest: blake3::hash(&bytes).to_hex().to_string(), bytes: bytes.len() },
            Ok(None) => Content::Missing,
            Err(CallError::RespondToModel(body)) => Content::Unread(body.message),
            Err(fatal @ CallError::Fatal(_)) => return Err(fatal),
        };
        Ok(FileState { path: shown.unwrap_or(full), content })
    }

    /// What a subagent was sent to do and what came of it, on the audit.
    pub fn record_agent(&self, name: &str, ended: bool, detail: Value) -> Result<(), CallError> {
        self.record(if ended { Kind::Outcome } else { Kind::Intent }, name, detail)
    }
}
