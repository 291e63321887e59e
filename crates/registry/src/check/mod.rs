//! What is wrong with a home's registry, and what of it can be repaired without losing anything. Looking changes nothing.

mod entries;
mod history;
mod repair;
mod statistics;

use crate::middle::Middle;
use crate::{Registry, RegistryError};
use std::path::{Path, PathBuf};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Worth knowing.
    Note,
    /// Everything works, with less than there could be.
    Weak,
    /// Something does not work.
    Broken,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The capability that it concerns alone, or the part of the home: `index.json`, `tools`, `git`, `statistics`.
    pub about: String,
    pub level: Level,
    /// What, and why.
    pub problem: String,
    /// What to do about it.
    pub todo: String,
    pub(crate) cure: Option<Cure>,
}

impl Trouble {
    /// Does [`Registry::repair`] do something about it?
    pub fn fixable(&self) -> bool {
        self.cure.is_some()
    }

    fn new(about: &str, level: Level, problem: impl Into<String>, todo: impl Into<String>) -> Trouble {
        Trouble { about: about.to_owned(), level, problem: problem.into(), todo: todo.into(), cure: None }
    }

    /// Says what the repair does in place of what a person would do.
    fn cured(self, cure: Cure) -> Trouble {
        let todo = format!("jarvis doctor --fix {}", cure.promise());
        Trouble { todo, cure: Some(cure), ..self }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repaired {
    /// Each thing that was done, in words.
    pub done: Vec<String>,
    /// What is left, with the reason where a repair was tried.
    pub left: Vec<Trouble>,
}

/// What is safe to do by itself: nothing that a person made is lost by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cure {
    /// Of what is left aside: nothing, where there is no file.
    RestoreIndex,
    /// A link becomes the file that it points to.
    Unlink,
    RestoreEntry(String),
    DropDuplicate(usize),
    RestoreCode(String),
    /// What is in the way of a folder goes aside.
    Folder(PathBuf),
    Permit(PathBuf),
    Merge(Middle),
    StaleLock(PathBuf),
    Head(String),
    Object(git2::Oid, String),
    Tip(git2::Oid),
    /// Git's staging area: made from the last commit.
    Staging,
    Attach(Option<String>),
    NewHistory,
    Statistics(PathBuf),
}

impl Cure {
    fn promise(&self) -> String {
        match self {
            Cure::RestoreIndex => "puts the last good version back and keeps the damaged one".to_owned(),
            Cure::Unlink => "puts a file with the same content in its place and keeps the link".to_owned(),
            Cure::RestoreEntry(_) => "puts the last committed entry back and keeps a copy of the index".to_owned(),
            Cure::DropDuplicate(_) => "removes the second one, which says the same, and keeps a copy".to_owned(),
            Cure::RestoreCode(_) => {
                "takes it from git, where its digest fits, and keeps what is in its place".to_owned()
            }
            Cure::Folder(_) => "puts it aside and makes the folder".to_owned(),
            Cure::Permit(_) => "gives you the right to read and write it".to_owned(),
            Cure::Merge(_) => "merges what only one side changed, and leaves what both changed to you".to_owned(),
            Cure::StaleLock(_) => "puts the lock aside".to_owned(),
            Cure::Head(branch) => format!("points it to the branch {branch} again and keeps a copy"),
            Cure::Object(..) => {
                "writes it again from the file in the workspace, which has this very content".to_owned()
            }
            Cure::Tip(id) => format!("goes back to the last whole commit {id:.10}; the files stay as they are"),
            Cure::Staging => "makes it again from the last commit, and keeps the damaged one".to_owned(),
            Cure::Attach(Some(branch)) => format!("brings the branch {branch} up to here; no file changes"),
            Cure::Attach(None) => "makes a branch here; no file changes".to_owned(),
            Cure::NewHistory => "begins a new history with what is there, and keeps the broken one".to_owned(),
            Cure::Statistics(_) => "puts it aside; counting begins anew".to_owned(),
        }
    }
}

impl Registry {
    /// Everything that is wrong with the workspace and the statistics. Changes nothing, and needs nothing to work.
    pub fn check(&self) -> Vec<Trouble> {
        let root = &self.inner.root;
        let mut found = Vec::new();
        if !workspace(root, &mut found) {
            statistics::check(self.inner.stats.path(), &mut found);
            return found;
        }
        history::check(root, &mut found);
        entries::check(self, &mut found);
        statistics::check(self.inner.stats.path(), &mut found);
        found
    }
}

/// False where there is nothing to look into.
fn workspace(root: &Path, found: &mut Vec<Trouble>) -> bool {
    let Ok(kind) = std::fs::symlink_metadata(root) else { return false };
    if kind.is_symlink() {
        let target = std::fs::read_link(root).unwrap_or_default();
        if !root.exists() {
            let problem =
                format!("the workspace {} is a link to {}, which is not there", root.display(), target.display());
            found.push(Trouble::new("workspace", Level::Broken, problem, "make the folder, or remove the link"));
            return false;
        }
        let problem = format!("the workspace is a link to {}; everything goes there", target.display());
        found.push(Trouble::new("workspace", Level::Note, problem, "nothing, if you made the link"));
    }
    if !root.is_dir() {
        let problem = format!("{} is no folder", root.display());
        found.push(Trouble::new("workspace", Level::Broken, problem, "move it away"));
        return false;
    }
    let tools = root.join("tools");
    let Ok(kind) = std::fs::symlink_metadata(&tools) else { return true };
    if kind.is_symlink() {
        let target = std::fs::read_link(&tools).unwrap_or_default();
        let problem = format!(
            "`tools` is a link to {}: code would be written outside of the workspace, so nothing is registered",
            target.display()
        );
        let todo = "move the files of that folder into a real folder `tools` here; it is not done for you, because \
                    the link may be meant";
        found.push(Trouble::new("tools", Level::Broken, problem, todo));
    } else if !kind.is_dir() {
        let trouble = Trouble::new("tools", Level::Broken, "`tools` is a file where a folder should be", "");
        found.push(trouble.cured(Cure::Folder(tools)));
    } else if let Err(e) = std::fs::read_dir(&tools) {
        let trouble = Trouble::new("tools", Level::Broken, format!("`tools` cannot be read: {e}"), "");
        found.push(trouble.cured(Cure::Permit(tools)));
    }
    true
}

fn words(error: &RegistryError) -> (String, String) {
    let body = error.body();
    (body.message, body.hint.unwrap_or_default())
}
