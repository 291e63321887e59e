//! Why the registry could not answer, and what a person can do about it.

use crate::middle::Middle;
use jarvis_protocol::{ErrorBody, ErrorKind};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The whole of `index.json` cannot be read. Nothing is written until it is repaired.
    #[error("{} is damaged: {problem}", path.display())]
    Damaged {
        path: PathBuf,
        problem: String,
        /// The copy that was put aside.
        kept: Result<PathBuf, String>,
    },
    #[error("the entry `{entry}` of index.json is damaged: {problem}")]
    DamagedEntry { entry: String, problem: String },
    #[error("{} has format {found}; this jarvis reads up to {known}", path.display())]
    NewerHome { path: PathBuf, found: u64, known: u64 },
    #[error("no capability is called `{0}`")]
    NotFound(String),
    /// A name leads to one capability.
    #[error("`{name}` is another name of `{bearer}`")]
    AliasTaken { name: String, bearer: String },
    #[error("the alias `{alias}` of `{name}` is the name of a capability")]
    AliasIsName { name: String, alias: String },
    /// A commit of jarvis would become part of somebody else's merge or rebase.
    #[error("git in {} is in the middle of a {}, so nothing was written", root.display(), middle.as_str())]
    InTheMiddle { root: PathBuf, middle: Middle },
    /// A commit now would begin a history of its own, without what was registered.
    #[error("the branch `{branch}` of {} is missing while its commits are there, so nothing was written", root.display())]
    LostBranch { root: PathBuf, branch: String },
    /// Somebody wrote `index.json` without the lock; theirs stays.
    #[error("index.json in {} is changed again and again by something else", root.display())]
    Moved { root: PathBuf },
    #[error("`{0}` is not in conflict")]
    NotInConflict(String),
    #[error("the definition of `{name}` cannot be registered: {problem}")]
    Invalid { name: String, problem: String },
    #[error("the code of `{name}` at {} cannot be used: {problem}", path.display())]
    Code { name: String, path: PathBuf, problem: String },
    #[error("another process has been writing to {} for {seconds} s", root.display())]
    Busy { root: PathBuf, seconds: u64 },
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("git in {}: {message}", root.display())]
    Git { root: PathBuf, message: String },
    /// The new state is in `index.json` and in force, but not in git; the next write commits it.
    #[error("`{name}` is registered, but its commit in {} failed: {message}", root.display())]
    NotCommitted { name: String, root: PathBuf, message: String },
    #[error("`{name}` is removed, but not its statistics: {message}")]
    NotForgotten { name: String, message: String },
    #[error("the statistics in {}: {message}", path.display())]
    Statistics { path: PathBuf, message: String },
}

impl RegistryError {
    pub(crate) fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        RegistryError::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn git(root: &Path, error: &git2::Error) -> Self {
        RegistryError::Git { root: root.to_owned(), message: error.message().to_owned() }
    }

    /// How front ends show it.
    pub fn body(&self) -> ErrorBody {
        let (kind, hint) = match self {
            RegistryError::Damaged { path, kept, .. } => {
                let kept = match kept {
                    Ok(copy) => format!("a copy is at {}. ", copy.display()),
                    Err(problem) => format!("no copy could be put aside ({problem}). "),
                };
                let root = path.parent().unwrap_or(Path::new("."));
                let way_back = if root.join(".git").exists() {
                    format!(
                        "let `jarvis doctor --fix` take the last good version (git -C {} checkout HEAD -- index.json \
                         does it by hand)",
                        root.display()
                    )
                } else {
                    "put a copy of your own in its place (there is no history here to take one from), or move it away to \
                     begin with an empty registry"
                        .to_owned()
                };
                (ErrorKind::Damaged, Some(format!("{kept}Mend the file, or {way_back}")))
            }
            RegistryError::DamagedEntry { .. } => {
                (ErrorKind::Damaged, Some("mend the entry, or delete it from index.json".to_owned()))
            }
            RegistryError::NewerHome { .. } => {
                (ErrorKind::Damaged, Some("update jarvis, or use another home".to_owned()))
            }
            RegistryError::InTheMiddle { root, middle } => (
                ErrorKind::Damaged,
                Some(format!("`jarvis doctor --fix` merges the capabilities that it can; {}", middle.way_out(root))),
            ),
            RegistryError::LostBranch { root, .. } => (
                ErrorKind::Damaged,
                Some(format!("put it back: jarvis doctor --fix (git -C {} reflog shows where it was)", root.display())),
            ),
            RegistryError::Moved { .. } => {
                (ErrorKind::Disk, Some("end what writes it, and try again; nothing was changed".to_owned()))
            }
            RegistryError::NotInConflict(_) => {
                (ErrorKind::NotFound, Some("`jarvis doctor` names what is in conflict".to_owned()))
            }
            RegistryError::NotFound(_) => (ErrorKind::NotFound, Some("see `jarvis cap list`".to_owned())),
            RegistryError::AliasTaken { bearer, .. } => (
                ErrorKind::InvalidRequest,
                Some(format!("use `{bearer}`, or take the name back from it: jarvis cap rollback {bearer}")),
            ),
            RegistryError::AliasIsName { alias, .. } => (
                ErrorKind::InvalidRequest,
                Some(format!("leave it out of `aliases`, or make one of the two: jarvis cap unify NAME {alias}")),
            ),
            RegistryError::Invalid { .. } => (ErrorKind::InvalidRequest, None),
            RegistryError::Code { name, .. } => {
                (ErrorKind::Damaged, Some(format!("register it again, or remove it: jarvis cap rm {name}")))
            }
            RegistryError::Busy { .. } => (ErrorKind::Disk, Some("wait for it, or end it, and try again".to_owned())),
            RegistryError::Io { .. } => {
                (ErrorKind::Disk, Some("check free space and permissions; nothing was changed".to_owned()))
            }
            RegistryError::Git { root, .. } => (
                ErrorKind::Damaged,
                Some(format!("look at it with: git -C {} status; nothing was changed", root.display())),
            ),
            RegistryError::NotCommitted { root, .. } => {
                (ErrorKind::Disk, Some(format!("look at it with: git -C {} status", root.display())))
            }
            RegistryError::NotForgotten { .. } => (
                ErrorKind::Damaged,
                Some("a capability of that name registered later would show its old runs".to_owned()),
            ),
            RegistryError::Statistics { path, .. } => {
                (ErrorKind::Damaged, Some(format!("check free space and permissions of {}", path.display())))
            }
        };
        ErrorBody { kind, message: self.to_string(), hint }
    }
}
