//! Why a model file could not be had.

use jarvis_protocol::{ErrorBody, ErrorKind};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("no source gave the model {name}: {}", reasons(.tried))]
    NoSource { name: String, tried: Vec<(String, String)> },
    #[error("not enough room in {}: {} needed, {} free", .folder.display(), size(*.needed), size(*.free))]
    Room { folder: PathBuf, needed: u64, free: u64 },
    #[error("{}: {problem}", .path.display())]
    File { path: PathBuf, problem: String },
    #[error("{} is damaged: its SHA-256 is {found}, and {expected} is expected", .path.display())]
    Damaged { path: PathBuf, expected: String, found: String },
    #[error("{0}")]
    Source(String),
    #[error("cancelled; what was downloaded is kept")]
    Cancelled,
}

impl FetchError {
    pub(super) fn file(path: &Path, error: &std::io::Error) -> Self {
        FetchError::File { path: path.to_owned(), problem: error.to_string() }
    }

    /// True where another source would fail in the same way.
    pub(super) fn ends_the_pull(&self) -> bool {
        match self {
            FetchError::Room { .. } | FetchError::File { .. } | FetchError::Cancelled => true,
            FetchError::NoSource { .. } | FetchError::Damaged { .. } | FetchError::Source(_) => false,
        }
    }

    /// How front ends show it.
    pub fn body(&self) -> ErrorBody {
        let (kind, hint) = match self {
            FetchError::NoSource { .. } => (
                ErrorKind::NoModel,
                "check the network and run `jarvis model pull` again (what was downloaded is kept), use any GGUF file \
                 with --model local//path/to/file.gguf, or set a provider's key, for example ANTHROPIC_API_KEY",
            ),
            FetchError::Room { .. } => {
                (ErrorKind::Disk, "free some space, or put the models elsewhere with JARVIS_MODELS=/another/folder")
            }
            FetchError::File { .. } => (ErrorKind::Disk, "check the folder's permissions and space"),
            FetchError::Damaged { .. } => (ErrorKind::Damaged, "fetch it again with `jarvis model pull`"),
            FetchError::Source(_) => (ErrorKind::Network, "run `jarvis model pull` again"),
            FetchError::Cancelled => (ErrorKind::Cancelled, "`jarvis model pull` goes on from there"),
        };
        ErrorBody::new(kind, self.to_string()).hint(hint)
    }
}

fn reasons(tried: &[(String, String)]) -> String {
    tried.iter().map(|(source, reason)| format!("\n  {source}: {reason}")).collect()
}

/// `1.1 GB`: decimal units, as disks and downloads are labelled.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
