//! Why nothing was imported or exported.

use crate::RegistryError;
use jarvis_protocol::{ErrorBody, ErrorKind};
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum PortError {
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// An address that is not of this machine.
    #[error("`{0}` is not on this machine, and cannot be fetched from there")]
    Remote(String),
    #[error("there is nothing to import: none of {tried} is there")]
    NoPackage { tried: String },
    #[error("{what} is refused: {problem}")]
    Refused { what: String, problem: String },
    /// An export that is not what was exported.
    #[error("`{file}` was changed since it was exported: {problem}")]
    Changed { file: String, problem: String },
    #[error("it is no list of tools: {0}")]
    NotAList(String),
    #[error("git in {}: {message}", path.display())]
    Git { path: PathBuf, message: String },
    #[error("cancelled; nothing was changed")]
    Cancelled,
    #[error("{} cannot be written: {source}", path.display())]
    Unwritable { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl PortError {
    /// How front ends show it.
    pub fn body(&self) -> ErrorBody {
        let (kind, hint) = match self {
            PortError::Registry(error) => return error.body(),
            PortError::Unreadable { .. } => (ErrorKind::Usage, Some("check the path")),
            PortError::Remote(_) => (
                ErrorKind::Usage,
                Some("fetch it with your own git (git clone ADDRESS FOLDER), then: jarvis cap import FOLDER"),
            ),
            PortError::NoPackage { .. } => (
                ErrorKind::Usage,
                Some("name a workspace, a jarvis home, an export, a git repository, a tarball or a JSON list of tools"),
            ),
            PortError::Refused { .. } => (ErrorKind::Damaged, None),
            PortError::Changed { .. } => (ErrorKind::Damaged, Some("get the export again from where it was made")),
            PortError::NotAList(_) => {
                (ErrorKind::Usage, Some("a list is [{\"name\": …, \"description\": …, \"parameters\": {…}}]"))
            }
            PortError::Git { .. } => (ErrorKind::Damaged, Some("look at it with your own git")),
            PortError::Cancelled => (ErrorKind::Cancelled, None),
            PortError::Unwritable { .. } => (ErrorKind::Disk, Some("check the path, free space and permissions")),
        };
        ErrorBody { kind, message: self.to_string(), hint: hint.map(str::to_owned) }
    }
}
