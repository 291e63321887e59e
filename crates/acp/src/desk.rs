//! The editor's files: its unsaved text is what jarvis reads, and what jarvis changes is written by it, where it offers
//! that. What was changed is kept until the call that did it is told, with its difference.

use agent_client_protocol::Client;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    Diff, FileSystemCapabilities, ReadTextFileRequest, SessionId, WriteTextFileRequest,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use jarvis_host::Editor;
use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Changes that are kept to be told; calls that are never told leave theirs.
const MOST_CHANGES: usize = 64;
/// The longest text whose difference is told.
const MOST_TEXT: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Desk {
    connection: ConnectionTo<Client>,
    offers: FileSystemCapabilities,
    /// As the client names it; links in its path are the client's.
    cwd: PathBuf,
    /// The session and its folder as jarvis names it, once it is open.
    opened: OnceLock<(SessionId, PathBuf)>,
    changes: Mutex<VecDeque<Change>>,
}

#[derive(Debug)]
struct Change {
    path: PathBuf,
    before: Option<String>,
    after: String,
}

impl Desk {
    pub fn new(connection: ConnectionTo<Client>, offers: FileSystemCapabilities, cwd: PathBuf) -> Self {
        Self { connection, offers, cwd, opened: OnceLock::new(), changes: Mutex::default() }
    }

    pub fn opened(&self, id: SessionId, workspace: PathBuf) {
        // A session is opened once; the first name stays.
        let _ = self.opened.set((id, workspace));
    }

    fn workspace(&self) -> &Path {
        self.opened.get().map_or(&self.cwd, |(_, workspace)| workspace)
    }

    /// The absolute path of what a tool was given, in the client's words.
    pub fn place(&self, named: &str) -> PathBuf {
        self.clients(&absolute(self.workspace(), named))
    }

    fn clients(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(self.workspace()) {
            // To join nothing would add a slash.
            Ok(below) if below.as_os_str().is_empty() => self.cwd.clone(),
            Ok(below) => self.cwd.join(below),
            Err(_) => path.to_owned(),
        }
    }

    /// What the earliest call that is not told yet changed in that file.
    pub fn take(&self, named: &str) -> Option<Diff> {
        let path = absolute(self.workspace(), named);
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let at = changes.iter().position(|change| change.path == path)?;
        let change = changes.remove(at)?;
        Some(Diff::new(self.clients(&path), change.after).old_text(change.before))
    }

    fn ours(&self, path: &Path) -> Result<(SessionId, PathBuf), String> {
        let (id, _) = self.opened.get().ok_or("the session is not open yet")?;
        Ok((id.clone(), self.clients(path)))
    }
}

/// Without `..`, from the workspace where it is relative; as the tools understand it.
fn absolute(workspace: &Path, named: &str) -> PathBuf {
    let mut full = if Path::new(named).is_absolute() { PathBuf::from("/") } else { workspace.to_owned() };
    for part in Path::new(named).components() {
        match part {
            Component::Normal(name) => full.push(name),
            Component::ParentDir => _ = full.pop(),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    full
}

impl Editor for Desk {
    fn reads(&self) -> bool {
        self.offers.read_text_file
    }

    fn writes(&self) -> bool {
        self.offers.write_text_file
    }

    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, String>> {
        async move {
            let (id, path) = self.ours(path)?;
            let asked = self.connection.send_request(ReadTextFileRequest::new(id, path)).block_task().await;
            asked.map(|told| told.content).map_err(|error| error.message)
        }
        .boxed()
    }

    fn write<'a>(&'a self, path: &'a Path, text: &'a str) -> BoxFuture<'a, Result<(), String>> {
        async move {
            let (id, path) = self.ours(path)?;
            let asked = self.connection.send_request(WriteTextFileRequest::new(id, path, text)).block_task().await;
            asked.map(|_| ()).map_err(|error| error.message)
        }
        .boxed()
    }

    fn changed(&self, path: &Path, before: Option<&[u8]>, after: &[u8]) {
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MOST_TEXT);
            text.map(str::to_owned)
        };
        let (Some(after), Ok(before)) = (text(after), before.map(|b| text(b).ok_or(())).transpose()) else { return };
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.len() == MOST_CHANGES {
            changes.pop_front();
        }
        changes.push_back(Change { path: path.to_owned(), before, after });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_understood_as_the_tools_do() {
        let workspace = Path::new("/w/s");
        assert_eq!(absolute(workspace, "./a/../b.txt"), Path::new("/w/s/b.txt"));
        assert_eq!(absolute(workspace, "../文.txt"), Path::new("/w/文.txt"));
        assert_eq!(absolute(workspace, "/x/../../y"), Path::new("/y"));
    }
}
