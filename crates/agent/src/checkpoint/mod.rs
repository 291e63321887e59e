//! What a turn changed in the workspace, so that it can be undone: the state of the files before each call that may
//! change some, and after it. Contents are kept in a folder of jarvis's own; the person's repository is not touched.

mod entry;
mod manifest;
mod place;
mod store;
mod undo;
mod window;

pub(crate) use entry::Changes;
use manifest::Manifest;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::Store;
pub use undo::{Restored, Undone, undo_last};
pub(crate) use undo::{last_turn, nothing};
pub(crate) use window::TurnFiles;

#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{} is damaged: it is not what it is called by", path.display())]
    Damaged { path: PathBuf },
    #[error("what was kept of a turn cannot be read: {0}")]
    Record(String),
}

impl CheckpointError {
    fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        CheckpointError::Io { action, path: path.to_owned(), source }
    }
}

/// Where contents are kept. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    store: Store,
    never: Arc<[PathBuf]>,
    /// A person was told that a workspace cannot be followed.
    told: Arc<AtomicBool>,
}

impl Checkpoints {
    /// `folder` is jarvis's own. What lies in one of `never`, all absolute, is never looked at.
    pub fn new(folder: PathBuf, never: Vec<PathBuf>) -> Self {
        Self { store: Store::new(folder), never: never.into(), told: Arc::default() }
    }

    /// Whether anything of a workspace may be looked at.
    fn may_follow(&self, workspace: &Path) -> bool {
        !self.never.iter().any(|never| workspace.starts_with(never))
    }

    fn first_time(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }

    fn index_name(workspace: &Path) -> String {
        format!("index/{}", blake3::hash(workspace.as_os_str().as_encoded_bytes()).to_hex())
    }

    /// How a workspace was when it was last looked at. One that cannot be read is found out anew.
    fn index(&self, workspace: &Path) -> Manifest {
        let bytes = self.store.read(&Self::index_name(workspace));
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    fn save_index(&self, workspace: &Path, manifest: &Manifest) -> Result<String, CheckpointError> {
        let bytes = serde_json::to_vec(manifest).map_err(|e| CheckpointError::Record(e.to_string()))?;
        self.store.write(&Self::index_name(workspace), &bytes)?;
        Ok(blake3::hash(&bytes).to_hex().to_string())
    }

    /// Once a day: contents that neither one of `records` (those of all sessions) nor a workspace names are thrown away.
    pub fn sweep(&self, records: impl FnOnce() -> Option<Vec<String>>) {
        if !self.store.is_due() {
            return;
        }
        // Without them nothing is known to be unwanted.
        let Some(records) = records() else { return };
        let mut kept: HashSet<String> = HashSet::new();
        for record in records {
            let Ok(changes) = serde_json::from_str::<Changes>(&record) else { return };
            kept.extend(changes.digests().map(str::to_owned));
        }
        for index in self.store.files("index") {
            let Ok(manifest) = serde_json::from_slice::<Manifest>(&index) else { return };
            kept.extend(manifest.digests().map(str::to_owned));
        }
        match self.store.sweep(&kept) {
            Ok(gone) => tracing::debug!(gone, "contents that no turn needs any more"),
            Err(error) => tracing::warn!(%error, "contents that no turn needs are still there"),
        }
    }
}

#[cfg(test)]
mod tests;
