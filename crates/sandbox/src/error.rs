//! What can go wrong before, or around, the code that runs. What the code itself does wrong is in its `Execution`.

use crate::isolate::Missing;

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Isolation cannot be set up here; nothing was run.
    #[error("the sandbox cannot be set up: {missing}")]
    Isolation {
        missing: String,
        /// What a person can do about it.
        fix: String,
    },
    /// What was asked for cannot be done, here or anywhere; nothing was run.
    #[error("{what}")]
    Spec {
        what: String,
        /// What a person can do about it.
        fix: String,
    },
    #[error("the worker `{exe}` does not start: {source}")]
    Start { exe: String, source: std::io::Error },
    #[error("the worker is not this version of jarvis: {0}")]
    Mismatch(String),
    /// The kernel gives no process for a worker.
    #[error("no process for a worker: {0}")]
    Fork(std::io::Error),
    #[error("sandbox: {what}: {source}")]
    Io { what: &'static str, source: std::io::Error },
}

impl From<Missing> for SandboxError {
    fn from(Missing { missing, fix }: Missing) -> Self {
        SandboxError::Isolation { missing, fix }
    }
}

impl SandboxError {
    /// What to do about it, where there is something to do.
    pub fn hint(&self) -> Option<&str> {
        match self {
            SandboxError::Isolation { fix, .. } | SandboxError::Spec { fix, .. } => Some(fix),
            SandboxError::Start { .. } => Some("check that the jarvis binary is still where it was started from"),
            SandboxError::Mismatch(_) => Some("start jarvis again: its binary was replaced while it ran"),
            SandboxError::Fork(_) => Some(
                "too many processes or too little memory: see `ulimit -u`, the container's pids.max, and free memory",
            ),
            SandboxError::Io { .. } => None,
        }
    }

    pub(crate) fn io(what: &'static str) -> impl FnOnce(std::io::Error) -> SandboxError {
        move |source| SandboxError::Io { what, source }
    }
}
