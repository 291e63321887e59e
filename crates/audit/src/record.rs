//! What a record holds, and why one could not be written.

use jarvis_protocol::{ErrorBody, ErrorKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Something is about to run. On disk before it does.
    Intent,
    /// What came of an intent.
    Outcome,
    /// A permit, a question and its answer, or a refusal.
    Decision,
    /// A transition of forge.
    Forge,
    /// A change of the registry.
    Registry,
    /// The log about itself: what was found wrong when it was opened to append. Only the log writes these.
    Audit,
}

/// One thing that happened. Every string in it is redacted when it is appended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// RFC 3339; its month chooses the file.
    pub at: String,
    /// Who: `cli`, `session:…`, `forge`.
    pub actor: String,
    pub kind: Kind,
    /// What it is about: the name of a capability, a command.
    pub subject: String,
    pub detail: Value,
}

/// A record as it stands in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// BLAKE3 over the previous line's hash and the bytes of this line after its hash, in hexadecimal.
    pub hash: String,
    /// From 1, without gaps, across the files.
    pub seq: u64,
    #[serde(flatten)]
    pub record: Record,
}

/// Which entries `tail` answers with; a field that is `None` lets all pass.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub kind: Option<Kind>,
    pub actor: Option<String>,
    pub subject: Option<String>,
}

impl Filter {
    pub(crate) fn passes(&self, record: &Record) -> bool {
        self.kind.is_none_or(|kind| kind == record.kind)
            && self.actor.as_ref().is_none_or(|actor| *actor == record.actor)
            && self.subject.as_ref().is_none_or(|subject| *subject == record.subject)
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tail {
    /// The oldest first.
    pub entries: Vec<Entry>,
    /// Lines on the way that are no entry; `verify` says where.
    pub unreadable: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("`{0}` is not a time in RFC 3339")]
    Time(String),
    #[error("another process has kept the audit log at {} for {seconds} s", dir.display())]
    Busy { dir: PathBuf, seconds: u64 },
    #[error("the record cannot be written as JSON: {0}")]
    Encode(#[from] serde_json::Error),
}

impl AuditError {
    pub(crate) fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        AuditError::Io { action, path: path.to_owned(), source }
    }

    /// The same for another record that was to be written with this one.
    pub(crate) fn again(&self) -> Self {
        let source = |kind, text: String| std::io::Error::new(kind, text);
        match self {
            AuditError::Io { action, path, source: e } => Self::io(action, path, source(e.kind(), e.to_string())),
            AuditError::Time(time) => AuditError::Time(time.clone()),
            AuditError::Busy { dir, seconds } => AuditError::Busy { dir: dir.clone(), seconds: *seconds },
            AuditError::Encode(e) => {
                AuditError::Encode(serde_json::Error::io(source(std::io::ErrorKind::InvalidData, e.to_string())))
            }
        }
    }

    /// How front ends show it.
    pub fn body(&self) -> ErrorBody {
        let (kind, hint) = match self {
            AuditError::Io { .. } => (ErrorKind::Disk, Some("check free space and permissions of the audit folder")),
            AuditError::Busy { .. } => (ErrorKind::Disk, Some("wait for it, or end it, and try again")),
            AuditError::Time(_) | AuditError::Encode(_) => (ErrorKind::Internal, None),
        };
        ErrorBody { kind, message: self.to_string(), hint: hint.map(str::to_owned) }
    }
}
