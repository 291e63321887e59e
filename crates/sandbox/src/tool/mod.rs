//! What the built-in tools do with files and hosts: the same broker that serves capabilities, held to one permit.

mod place;
mod search;

use crate::broker::Refusal;
use crate::executor::Executor;
use crate::frame::Packet;
use jarvis_policy::{Reach, ToolPermit};
use jarvis_protocol::Egress;
pub use place::{NewFile, Placed};
pub use search::{Match, SearchWish, Searched};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The most bytes of one file or one answer.
const MOST_BODY: usize = 16 << 20;

/// One thing to do. It must lie within the permit.
#[derive(Debug, Clone)]
pub enum ToolWork {
    Read {
        path: String,
    },
    /// Replaces the file as a whole; missing directories are made.
    Write {
        path: String,
        bytes: Vec<u8>,
    },
    List {
        path: String,
    },
    Fetch {
        url: String,
        method: String,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
}

/// `head` is `{"entries": …}` of a listing, `{"status", "url", "headers", …}` of a fetch; `body` the bytes that came.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDone {
    pub head: Value,
    pub body: Vec<u8>,
    pub egress: Vec<Egress>,
}

/// Why it was not done: an error as capabilities see it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// `PermissionError`, `RangeError`, …
    pub name: String,
    pub message: String,
}

impl ToolError {
    fn new(name: &str, message: impl Into<String>) -> Self {
        Self { name: name.to_owned(), message: message.into() }
    }
}

impl From<Refusal> for ToolError {
    fn from(refusal: Refusal) -> Self {
        Self::new(&refusal.name, refusal.message)
    }
}

impl Executor {
    /// Does one thing for a built-in tool.
    pub async fn tool(
        &self,
        permit: ToolPermit,
        work: ToolWork,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> Result<ToolDone, ToolError> {
        let grants = permit.into_grants();
        let desk = self
            .broker()
            .desk_for(&grants, MOST_BODY, timeout)
            .map_err(|e| ToolError::new("PermissionError", format!("network: {e}")))?;
        let (head, body) = match work {
            ToolWork::Read { path } => (json!({"op": "read", "path": path}), Vec::new()),
            ToolWork::Write { path, bytes } => (json!({"op": "write", "path": path}), bytes),
            ToolWork::List { path } => (json!({"op": "list", "path": path}), Vec::new()),
            ToolWork::Fetch { url, method, headers, body } => {
                (json!({"op": "fetch", "url": url, "method": method, "redirect": "follow", "headers": headers}), body)
            }
        };
        let packet = Packet { id: 0, head: head.to_string(), body };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ToolError::new("CancelledError", "cancelled")),
            done = tokio::time::timeout(timeout, desk.serve(packet)) => match done {
                Ok(answer) => {
                    let (head, body) = answer?;
                    Ok(ToolDone { head, body, egress: desk.egress() })
                }
                Err(_) => {
                    let seconds = timeout.as_secs_f64();
                    Err(ToolError::new("TimeoutError", format!("not finished after {seconds} seconds")))
                }
            },
        }
    }

    /// Whether a file may be replaced, by somebody who does it in place of the sandbox. Missing directories are made.
    pub async fn may_write(&self, permit: ToolPermit, path: &str) -> Result<(), ToolError> {
        let files = self.broker().files_of(permit.into_grants().write);
        let path = path.to_owned();
        let done = tokio::task::spawn_blocking(move || files.may_write(&path)).await;
        done.map_err(|e| ToolError::new("Error", format!("the file was not looked at: {e}")))?.map_err(ToolError::from)
    }

    /// Looks for lines in the files below a granted folder.
    pub async fn search(
        &self,
        permit: ToolPermit,
        wish: SearchWish,
        cancel: &CancellationToken,
    ) -> Result<Searched, ToolError> {
        let grants = permit.into_grants();
        let files = self.broker().files_of(grants.read);
        let cancel = cancel.clone();
        let done = tokio::task::spawn_blocking(move || search::run(&files, &wish, &cancel)).await;
        done.map_err(|e| ToolError::new("Error", format!("the search failed: {e}")))?
    }

    /// Puts a file or a folder at the place that was permitted, below the workspace, whole or not at all.
    pub async fn place(&self, permit: ToolPermit, new: Placed) -> Result<(), ToolError> {
        let Reach::Make { path, replaces, .. } = permit.reach() else {
            return Err(ToolError::new("PermissionError", "the permit is for something else"));
        };
        let (path, replaces) = (PathBuf::from(path), *replaces);
        let root = self.broker().workspace().map(Path::to_owned);
        let refuse = || ToolError::new("PermissionError", format!("{} lies outside the workspace", path.display()));
        let root = root.ok_or_else(refuse)?;
        let below = path.strip_prefix(&root).map_err(|_| refuse())?.to_owned();
        if self.broker().denies(&path) {
            let message = "the workspace is the folder that jarvis's own home lies in, where nothing is made; work in another one";
            return Err(ToolError::new("PermissionError", message));
        }
        let (Some(folder), Some(name)) = (below.parent(), below.file_name().and_then(|name| name.to_str())) else {
            return Err(refuse());
        };
        let (folder, name) = (folder.to_owned(), name.to_owned());
        let done = tokio::task::spawn_blocking(move || place::place(&root, &folder, &name, &new, replaces)).await;
        done.map_err(|e| ToolError::new("Error", format!("it was not put in place: {e}")))?
    }
}
