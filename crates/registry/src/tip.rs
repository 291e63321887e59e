//! Where a branch ended that lost its file: from git's own log of it, or from the commits that are there.

use crate::RegistryError;
use crate::git::Git;
use git2::{ErrorCode, ObjectType, Oid, TreeWalkMode, TreeWalkResult};
use std::collections::HashSet;
use std::path::PathBuf;

/// Commits whose files are all read, the newest first.
const TRIED: usize = 200;

impl Git {
    /// The branch that HEAD names while it is not there and commits are: then it is lost, and not about to begin.
    pub fn lost_branch(&self) -> Option<String> {
        let head = self.repo().find_reference("HEAD").ok()?;
        let branch = head.symbolic_target().ok().flatten()?.to_owned();
        let gone = self.repo().find_reference(&branch).is_err_and(|e| e.code() == ErrorCode::NotFound);
        (gone && self.has_history(&branch)).then_some(branch)
    }

    /// A first commit that nothing names yet is no history: a killed process leaves it behind.
    fn has_history(&self, branch: &str) -> bool {
        let named = || self.repo().references().is_ok_and(|mut all| all.any(|one| one.is_ok()));
        !self.logged(branch).is_empty() || named() || self.commits().iter().any(|commit| !commit.parents.is_empty())
    }

    /// The newest commit that is there with all of its files, of those that the branch or HEAD was at, or else of all.
    pub fn last_whole(&self) -> Option<Oid> {
        let head = self.repo().find_reference("HEAD").ok();
        let branch = head.as_ref().and_then(|head| head.symbolic_target().ok().flatten()).unwrap_or("HEAD");
        let whole = |id: &Oid| {
            let tree = self.repo().find_commit(*id).and_then(|commit| commit.tree());
            tree.is_ok_and(|tree| self.broken(&tree).is_empty())
        };
        self.logged(branch).into_iter().take(TRIED).find(whole).or_else(|| {
            let mut commits = self.commits();
            let inner: HashSet<Oid> = commits.iter().flat_map(|commit| commit.parents.iter().copied()).collect();
            // In the same second the one that no other is built upon.
            commits.sort_by_key(|commit| (std::cmp::Reverse(commit.seconds), inner.contains(&commit.id)));
            commits.into_iter().map(|commit| commit.id).take(TRIED).find(whole)
        })
    }

    /// The logs that git keeps of the branch and of HEAD.
    pub fn logs(&self, branch: &str) -> [PathBuf; 2] {
        [self.repo().commondir().join("logs").join(branch), self.repo().path().join("logs/HEAD")]
    }

    /// The commits of these logs, the newest first.
    pub fn logged(&self, branch: &str) -> Vec<Oid> {
        let lines = |path: &PathBuf| -> Vec<Oid> {
            let text = std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let ids = text.unwrap_or_default();
            let ids = ids.lines().rev().filter_map(|line| Oid::from_str(line.split(' ').nth(1)?).ok());
            ids.filter(|id| !id.is_zero()).collect()
        };
        self.logs(branch).iter().flat_map(lines).collect()
    }

    fn commits(&self) -> Vec<Known> {
        let mut found = Vec::new();
        let Ok(odb) = self.repo().odb() else { return found };
        let walked = odb.foreach(|id| {
            let commit = odb.read_header(*id).is_ok_and(|(_, kind)| kind == ObjectType::Commit);
            if let Some(commit) = commit.then(|| self.repo().find_commit(*id).ok()).flatten() {
                let parents = commit.parent_ids().collect();
                found.push(Known { id: *id, seconds: commit.time().seconds(), parents });
            }
            true
        });
        // What was found until something could not be read is better than nothing.
        let _ = walked;
        found
    }

    /// Files of `tree` whose content cannot be read, or is not what its name says.
    pub fn broken(&self, tree: &git2::Tree<'_>) -> Vec<(Oid, String)> {
        let mut bad = Vec::new();
        let Ok(odb) = self.repo().odb() else { return bad };
        let walked = tree.walk(TreeWalkMode::PreOrder, |dir, entry| {
            if entry.kind() == Some(ObjectType::Blob) && odb.read(entry.id()).is_err() {
                bad.push((entry.id(), format!("{dir}{}", String::from_utf8_lossy(entry.name_bytes()))));
            }
            TreeWalkResult::Ok
        });
        if walked.is_err() {
            bad.push((tree.id(), "a folder".to_owned()));
        }
        bad
    }

    /// Puts the branch of HEAD, or HEAD itself, at `id`, whatever stands there now. What cannot be read goes aside.
    pub fn put_back(&self, id: Oid, aside: &mut crate::aside::Aside) -> Result<(), RegistryError> {
        let head = self.repo().find_reference("HEAD").map_err(|e| self.error(e))?;
        let branch = head.symbolic_target().ok().flatten().map(str::to_owned);
        if let Some(branch) = &branch {
            let path = self.repo().commondir().join(branch);
            let unreadable = self.repo().find_reference(branch).is_err_and(|e| e.code() != ErrorCode::NotFound);
            if unreadable && std::fs::symlink_metadata(&path).is_ok() {
                aside.take(&path)?;
            }
        }
        self.locked(|| match &branch {
            Some(branch) => self.repo().reference(branch, id, true, "jarvis: back to a whole commit").map(|_| ()),
            None => self.repo().set_head_detached(id),
        })?;
        // Also with the line that was just added they may name what is not there any more.
        let there = self.repo().odb().map_err(|e| self.error(e))?;
        let name = branch.as_deref().unwrap_or("HEAD");
        if self.logged(name).iter().any(|id| !there.exists(*id)) {
            for log in self.logs(name).iter().filter(|log| log.exists()) {
                aside.take(log)?;
            }
        }
        Ok(())
    }
}

struct Known {
    id: Oid,
    seconds: i64,
    parents: Vec<Oid>,
}
