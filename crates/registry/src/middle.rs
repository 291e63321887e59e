//! What git is in the middle of. Nobody else's merge or rebase gets a commit of jarvis; reading goes on.

use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Middle {
    Merge,
    Rebase,
    CherryPick,
    Revert,
    Bisect,
    /// `git am`
    Patches,
}

/// The files by which git itself tells, the more telling ones first: a rebase can leave a `CHERRY_PICK_HEAD` too.
const SIGNS: [(&str, Middle); 7] = [
    ("rebase-merge", Middle::Rebase),
    ("rebase-apply/applying", Middle::Patches),
    ("rebase-apply", Middle::Rebase),
    ("MERGE_HEAD", Middle::Merge),
    ("CHERRY_PICK_HEAD", Middle::CherryPick),
    ("REVERT_HEAD", Middle::Revert),
    ("BISECT_LOG", Middle::Bisect),
];

impl Middle {
    /// The command of git that it belongs to.
    pub fn as_str(self) -> &'static str {
        match self {
            Middle::Merge => "merge",
            Middle::Rebase => "rebase",
            Middle::CherryPick => "cherry-pick",
            Middle::Revert => "revert",
            Middle::Bisect => "bisect",
            Middle::Patches => "am",
        }
    }

    /// How a person ends it, with the commands.
    pub fn way_out(self, root: &Path) -> String {
        let git = format!("git -C {}", root.display());
        match self {
            Middle::Bisect => format!("end it: {git} bisect reset"),
            other => format!("end it: {git} {what} --continue, or {git} {what} --abort", what = other.as_str()),
        }
    }

    /// A few looks at files; no repository is opened, so every read can afford it.
    pub(crate) fn of(root: &Path) -> Option<Middle> {
        let git = git_dir(root)?;
        SIGNS.into_iter().find(|(file, _)| git.join(file).exists()).map(|(_, middle)| middle)
    }
}

/// Where git keeps its files: a folder, or what a file of that name points to (`git worktree`).
pub(crate) fn git_dir(root: &Path) -> Option<PathBuf> {
    let path = root.join(".git");
    let kind = std::fs::metadata(&path).ok()?;
    if kind.is_dir() {
        return Some(path);
    }
    let text = std::fs::read_to_string(&path).ok()?;
    Some(root.join(text.strip_prefix("gitdir:")?.trim()))
}
