//! Why notes could not be read or written, and what a person can do about it.

use crate::db::DbError;
use jarvis_protocol::{ErrorBody, ErrorKind};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error("no note or proposal is called `{0}`")]
    NotFound(String),
    #[error("this cannot be a note: {0}")]
    Invalid(String),
    #[error("another process has been writing to {} for {seconds} s", path.display())]
    Busy { path: PathBuf, seconds: u64 },
    #[error("{}: {message}", path.display())]
    Newer { path: PathBuf, message: String },
    #[error("the index {}: {message}", path.display())]
    Index { path: PathBuf, message: String },
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("the shared memory: {0}")]
    Server(String),
    #[error("a task of the memory ended early: {0}")]
    Task(String),
}

impl MemoryError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| MemoryError::Io { action, path, source }
    }

    pub(crate) fn db(path: &Path, error: &DbError) -> Self {
        let (path, message) = (path.to_owned(), error.to_string());
        match error {
            DbError::Newer { .. } => MemoryError::Newer { path, message },
            DbError::Sqlite(_) => MemoryError::Index { path, message },
        }
    }

    /// How front ends show it.
    pub fn body(&self) -> ErrorBody {
        let (kind, hint) = match self {
            MemoryError::NotFound(_) => (ErrorKind::NotFound, Some("list the notes to see their ids")),
            MemoryError::Invalid(_) => (ErrorKind::InvalidRequest, None),
            MemoryError::Busy { .. } => (ErrorKind::Disk, Some("wait for it, or end it, and try again")),
            MemoryError::Newer { .. } => (ErrorKind::Damaged, Some("update jarvis, or use another home")),
            MemoryError::Index { .. } => {
                (ErrorKind::Damaged, Some("the notes are in Markdown: move the index away and it is made anew"))
            }
            MemoryError::Io { .. } => (ErrorKind::Disk, Some("check free space and permissions")),
            MemoryError::Server(_) => (ErrorKind::Network, Some("check the server's address and that it runs")),
            MemoryError::Task(_) => (ErrorKind::Internal, None),
        };
        let body = ErrorBody::new(kind, self.to_string());
        hint.into_iter().fold(body, ErrorBody::hint)
    }
}
