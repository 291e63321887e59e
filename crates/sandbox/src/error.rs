//! What can go wrong before, or around, the code that runs. What the code itself does wrong is in its `Execution`.

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Isolation cannot be set up here; nothing was run.
    #[error("the sandbox cannot be set up: {missing}")]
    Isolation {
        missing: String,
        /// What a person can do about it.
        fix: String,
    },
    #[error("the worker `{exe}` does not start: {source}")]
    Start { exe: String, source: std::io::Error },
    #[error("the worker is not this version of jarvis: {0}")]
    Mismatch(String),
    #[error("sandbox: {what}: {source}")]
    Io { what: &'static str, source: std::io::Error },
}

impl SandboxError {
    /// What to do about it, where there is something to do.
    pub fn hint(&self) -> Option<&str> {
        match self {
            SandboxError::Isolation { fix, .. } => Some(fix),
            SandboxError::Start { .. } => Some("check that the jarvis binary is still where it was started from"),
            SandboxError::Mismatch(_) => Some("start jarvis again: its binary was replaced while it ran"),
            SandboxError::Io { .. } => None,
        }
    }

    pub(crate) fn io(what: &'static str) -> impl FnOnce(std::io::Error) -> SandboxError {
        move |source| SandboxError::Io { what, source }
    }
}
