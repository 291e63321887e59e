//! Why a session could not be read or written, and what a person can do about it.

use crate::db::DbError;
use jarvis_protocol::{ErrorBody, ErrorKind};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("no session is called `{0}`")]
    NotFound(String),
    #[error("{count} sessions begin with `{prefix}`")]
    Ambiguous { prefix: String, count: usize },
    /// Two processes must not write one conversation: each would answer half of what the other was asked.
    #[error("the session {id} is open in another place{}", pid.map(|p| format!(" (process {p})")).unwrap_or_default())]
    Busy { id: String, pid: Option<u32> },
    #[error("message {number} of the session {id} cannot be read: {problem}")]
    Unreadable { id: String, number: u64, problem: String },
    #[error("this is no exported session: {0}")]
    Import(String),
    #[error("a message cannot be written as JSON: {0}")]
    Message(serde_json::Error),
    #[error("{}: {message}", path.display())]
    Newer { path: PathBuf, message: String },
    #[error("the sessions in {}: {message}", path.display())]
    Database { path: PathBuf, message: String },
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
}

impl SessionError {
    pub(crate) fn db(path: &Path, error: &DbError) -> Self {
        let (path, message) = (path.to_owned(), error.to_string());
        match error {
            DbError::Newer { .. } => SessionError::Newer { path, message },
            DbError::Sqlite(_) => SessionError::Database { path, message },
        }
    }

    /// How front ends show it.
    pub fn body(&self) -> ErrorBody {
        let (kind, hint) = match self {
            SessionError::NotFound(_) => (ErrorKind::NotFound, Some("list the sessions to see their ids")),
            SessionError::Ambiguous { .. } => (ErrorKind::Usage, Some("give more of the id")),
            SessionError::Busy { .. } => {
                (ErrorKind::Conflict, Some("go on there, end that process, or fork the session and go on in the copy"))
            }
            SessionError::Unreadable { .. } => {
                (ErrorKind::Damaged, Some("a newer jarvis may have written it; fork the session before that message"))
            }
            SessionError::Import(_) => (ErrorKind::InvalidRequest, Some("give a file that `export` wrote as JSON")),
            SessionError::Message(_) => (ErrorKind::Internal, None),
            SessionError::Newer { .. } => (ErrorKind::Damaged, Some("update jarvis, or use another home")),
            SessionError::Database { .. } => (ErrorKind::Damaged, Some("check free space and permissions of the file")),
            SessionError::Io { .. } => (ErrorKind::Disk, Some("check free space and permissions")),
        };
        let body = ErrorBody::new(kind, self.to_string());
        hint.into_iter().fold(body, ErrorBody::hint)
    }
}
