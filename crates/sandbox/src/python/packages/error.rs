//! Why declared packages cannot be had: what, why, what to do.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum DependencyError {
    #[error("the dependency `{text}` is not of the form name==version: {why}")]
    Form { text: String, why: &'static str },
    #[error("{what}")]
    Missing { what: String, fix: String },
    #[error("the packages {wanted} are not installed")]
    NotInstalled { wanted: String },
    #[error("no wheel of `{wanted}` fits this Python{known}")]
    NoWheel { wanted: String, known: String },
    #[error("the declared packages exclude each other: {why}")]
    Conflict { why: String },
    #[error("the package index cannot be reached: {why}")]
    Network { why: String },
    #[error("`{file}` is not the wheel that was locked: its content has another hash{found}")]
    Hash { file: String, found: String },
    #[error("the wheel was not unpacked: {why}")]
    Wheel { why: String },
    #[error("the environment `{}` was changed after it was built: {what}", .path.display())]
    Changed { path: PathBuf, what: String },
    #[error("pip failed: {why}")]
    Pip { why: String },
    #[error("cancelled")]
    Cancelled,
    #[error("{what}: {source}")]
    Io { what: &'static str, source: std::io::Error },
    #[error(transparent)]
    Sandbox(#[from] crate::SandboxError),
}

impl DependencyError {
    /// What to do about it, where there is something to do.
    pub fn hint(&self) -> Option<&str> {
        Some(match self {
            Self::Form { .. } => "write the exact version, for example \"requests==2.31.0\"",
            Self::Missing { fix, .. } => fix,
            Self::NotInstalled { .. } => "approve the capability again: its packages are installed then",
            Self::NoWheel { .. } => {
                "name a version that exists and has a wheel; source packages are not built, because that runs their code"
            }
            Self::Conflict { .. } => "declare versions that go together",
            Self::Network { .. } => "check the network and pip's configuration (pip config list), then try again",
            Self::Hash { .. } => "somebody replaced the package: find out who before you remove the lock",
            Self::Wheel { .. } => "this package cannot be used here; choose another or another version",
            Self::Changed { .. } => "remove that folder; it is built again when the packages are installed",
            Self::Sandbox(error) => return error.hint(),
            Self::Pip { .. } | Self::Cancelled | Self::Io { .. } => return None,
        })
    }

    pub(in crate::python) fn io(what: &'static str) -> impl FnOnce(std::io::Error) -> DependencyError {
        move |source| DependencyError::Io { what, source }
    }
}
