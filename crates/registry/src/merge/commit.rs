//! Git's side of a merge: its list of conflicts, its message, its commit.

use super::Choices;
use crate::git::Git;
use crate::middle::git_dir;
use crate::{Author, RegistryError, disk};
use git2::{ErrorCode, Oid, Signature, Time};
use std::path::Path;

const MESSAGE: &str = "MERGE_MSG";
/// Where a rebase keeps it.
const REBASE_MESSAGE: &str = "rebase-merge/message";

impl Git {
    pub fn blob(&self, id: Oid) -> Result<Vec<u8>, RegistryError> {
        self.repo().find_blob(id).map(|blob| blob.content().to_vec()).map_err(|e| self.error(e))
    }

    /// Is `id` what git itself put at `path`, by a merge of its own that went well?
    pub fn staged_as(&self, path: &str, id: Oid) -> Result<bool, RegistryError> {
        let index = self.repo().index().map_err(|e| self.error(e))?;
        Ok(index.get_path(Path::new(path), 0).is_some_and(|entry| entry.id == id))
    }

    /// As they are in the workspace now, `paths` are no longer in conflict.
    pub fn resolve(&self, paths: &[String]) -> Result<(), RegistryError> {
        if paths.is_empty() {
            return Ok(());
        }
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        self.locked(|| self.stage_paths(&paths))
    }

    /// The lines by which history finds the versions that the merge made, into the message that git has prepared: a
    /// person who commits by hand keeps them.
    pub fn append_merge_message(&self, trailers: &[String]) -> Result<(), RegistryError> {
        let rebase = self.repo().path().join(REBASE_MESSAGE);
        if rebase.exists() {
            append(&rebase, trailers)?;
        }
        append(&self.repo().path().join(MESSAGE), trailers)
    }

    /// Commits what is staged, with HEAD and what is merged into it as parents, and ends the merge.
    pub fn commit_merge(&self, author: &Author) -> Result<String, RegistryError> {
        let path = self.repo().path().join("MERGE_HEAD");
        let text = disk::read(&path)?.map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
        let message = disk::read(&self.repo().path().join(MESSAGE))?;
        let message = message.map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
        let message: Vec<&str> = message.lines().filter(|line| !line.starts_with('#')).collect();
        let message = Some(message.join("\n").trim().to_owned()).filter(|m| !m.is_empty());
        let when = jiff::Timestamp::now().as_second();
        let id = self.locked(|| {
            let head = self.head()?.ok_or_else(|| git2::Error::from_str("there is no commit yet to merge into"))?;
            let mut parents = vec![head.clone()];
            for line in text.lines() {
                let other = Oid::from_str(line.trim())?;
                // Killed after the commit, before the end of the merge: it is in already.
                if head.id() != other && !self.repo().graph_descendant_of(head.id(), other)? {
                    parents.push(self.repo().find_commit(other)?);
                }
            }
            if parents.len() == 1 {
                self.repo().cleanup_state()?;
                return Ok(head.id());
            }
            let mut index = self.repo().index()?;
            index.read(true)?;
            let tree = self.repo().find_tree(index.write_tree()?)?;
            let who = Signature::new(&author.name, &author.email, &Time::new(when, 0))?;
            let parents: Vec<&git2::Commit<'_>> = parents.iter().collect();
            let message = message.as_deref().unwrap_or("merge");
            let id = self.repo().commit(None, &who, &who, message, &tree, &parents)?;
            self.advance(id, Some(head.id()), message.lines().next().unwrap_or("merge"))?;
            self.repo().cleanup_state()?;
            Ok(id)
        })?;
        disk::remove(&Choices::path(self))?;
        Ok(id.to_string())
    }

    /// Takes git's locks, saying so in case of being killed, and waits for a person's git.
    pub fn locked<T>(&self, work: impl FnMut() -> Result<T, git2::Error>) -> Result<T, RegistryError> {
        crate::git::with_locks(self.root(), work).map_err(|e| match e {
            crate::git::LockError::Git(e) if e.code() == ErrorCode::Locked => RegistryError::Git {
                root: self.root().to_owned(),
                message: format!(
                    "{}; is another git at work, or was one killed? `jarvis doctor` tells about the lock in {}",
                    e.message(),
                    git_dir(self.root()).unwrap_or_default().display()
                ),
            },
            crate::git::LockError::Git(e) => self.error(e),
            crate::git::LockError::Mark(e) => e,
        })
    }
}

fn append(path: &Path, trailers: &[String]) -> Result<(), RegistryError> {
    let present = disk::read(path)?.map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
    let missing: Vec<&str> =
        trailers.iter().map(String::as_str).filter(|t| !present.lines().any(|line| line == *t)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    // Git's notes on conflicts are comments at the end.
    let words: Vec<&str> = present.lines().filter(|line| !line.starts_with('#')).collect();
    let text = format!("{}\n\n{}\n", words.join("\n").trim_end(), missing.join("\n"));
    disk::stage(path, text.trim_start().as_bytes())
}
