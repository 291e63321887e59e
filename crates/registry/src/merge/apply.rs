//! Carrying a merge out: files first, then git's list of conflicts, then the commit with both parents. Killed in
//! between, git is still in the middle of the merge, and the next call does the rest.

use super::entry::Outcome;
use super::plan::Plan;
use super::{CHOICES, Choices, MergeConflict, Merged, Side};
use crate::aside::Aside;
use crate::git::{Git, INDEX, kept_trailer};
use crate::index::Document;
use crate::middle::Middle;
use crate::registry::{STAGED, plain_tools};
use crate::{Registry, RegistryError, disk};
use jarvis_protocol::CapabilityName;
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;

impl Registry {
    /// What a merge left to choose; none where git is in the middle of nothing.
    pub fn conflicts(&self) -> Result<Vec<MergeConflict>, RegistryError> {
        let root = &self.inner.root;
        let (Some(middle), Some(git)) = (Middle::of(root), Git::open(root)?) else { return Ok(Vec::new()) };
        Ok(git.plan(middle, "")?.map(|plan| plan.conflicts()).unwrap_or_default())
    }

    /// Takes one side's version of a capability in conflict; with the last one the merge is committed.
    ///
    /// # Errors
    /// `NotFound` where `name` is not in conflict.
    pub fn settle(&self, name: &CapabilityName, side: Side) -> Result<Merged, RegistryError> {
        let root = &self.inner.root;
        let not_there = || RegistryError::NotInConflict(name.to_string());
        let _lock = disk::lock(root)?;
        let (Some(middle), Some(git)) = (Middle::of(root), Git::open(root)?) else { return Err(not_there()) };
        let mut plan = git.plan(middle, &now())?.ok_or_else(not_there)?;
        let row = plan.rows.iter().find(|row| row.key == name.as_str());
        if !row.is_some_and(|row| matches!(row.outcome, Outcome::Conflict(_))) {
            return Err(not_there());
        }
        plan.choices.made.insert(name.to_string(), side);
        let words = match side {
            Side::Ours => "the version that was here",
            Side::Theirs => "the version that came with the pull",
        };
        let mut merged = self.carry_out(&git, plan)?;
        merged.done.insert(0, format!("{name}: {words} is taken"));
        Ok(merged)
    }

    /// Merges what can be, and commits the merge where nothing is left to choose. Called under the lock.
    pub(crate) fn merge(&self, middle: Middle) -> Result<Merged, RegistryError> {
        let root = &self.inner.root;
        let Some(git) = Git::open(root)? else { return Ok(Merged::default()) };
        match git.plan(middle, &now())? {
            Some(plan) => self.carry_out(&git, plan),
            None => {
                let mut merged = Merged::default();
                self.finish(&git, middle, &[], &mut merged)?;
                Ok(merged)
            }
        }
    }

    fn carry_out(&self, git: &Git, mut plan: Plan) -> Result<Merged, RegistryError> {
        let root = &self.inner.root;
        let failed = |e: git2::Error| git.error(e);
        plain_tools(root)?;
        for dir in [root.join("tools"), root.join(STAGED)] {
            std::fs::create_dir_all(&dir).map_err(|e| RegistryError::io("create", &dir, e))?;
        }
        let finals: Vec<_> = plan.rows.iter().map(|row| plan.entry(row)).collect();
        let document = plan.document.with_entries(finals.iter().flatten().map(|f| f.raw.clone()).collect());
        let index = document.render();
        let mut merged = Merged { conflicts: plan.conflicts(), ..Merged::default() };

        let path = root.join(INDEX);
        let present = disk::read(&path)?.unwrap_or_default();
        let id = |bytes: &[u8]| git2::Oid::hash_object(git2::ObjectType::Blob, bytes).map_err(failed);
        let ours = plan.choices.written.clone().is_some_and(|w| id(&present).is_ok_and(|id| id.to_string() == w));
        if !ours && Document::parse(&present).is_ok() && !git.staged_as(INDEX, id(&present)?)? {
            merged.todo = Some(format!(
                "index.json was mended by hand since the {what}: git -C {root} add index.json, then jarvis doctor --fix",
                what = plan.sides.middle.as_str(),
                root = root.display()
            ));
            return Ok(merged);
        }
        let mut aside = Aside::new(root);
        if !ours && !present.is_empty() {
            let copy = aside.copy(&path)?;
            merged.done.push(format!("index.json as git left it is kept at {}", copy.display()));
        }

        // What was chosen, before anything of it is done.
        plan.choices.written = Some(id(index.as_bytes())?.to_string());
        let notes = serde_json::to_vec(&plan.choices)
            .map_err(|e| RegistryError::Git { root: root.clone(), message: e.to_string() })?;
        let staged_notes = root.join(STAGED).join(CHOICES);
        disk::stage(&staged_notes, &notes)?;
        disk::publish(&staged_notes, &Choices::path(git))?;

        let mut paths = vec![INDEX.to_owned()];
        let mut trailers = Vec::new();
        let used: HashSet<&str> = plan
            .rows
            .iter()
            .zip(&finals)
            .filter_map(|(row, f)| Some(row.side(f.as_ref()?.code)?.path.as_str()))
            .filter(|path| !path.is_empty())
            .collect();
        for (row, last) in plan.rows.iter().zip(&finals) {
            if row.ours == row.theirs || plan.open(row) {
                continue;
            }
            let chosen = last.as_ref().and_then(|f| row.side(f.code));
            let known: Vec<git2::Oid> = [&row.ours, &row.theirs].into_iter().flatten().filter_map(|i| i.code).collect();
            for item in [&row.ours, &row.theirs].into_iter().flatten().filter(|item| !item.path.is_empty()) {
                let wanted = chosen.filter(|c| c.path == item.path).and_then(|c| c.code);
                if wanted.is_none() && used.contains(item.path.as_str()) || paths.contains(&item.path) {
                    continue;
                }
                place(git, root, &item.path, wanted, &known, &mut aside)?;
                paths.push(item.path.clone());
            }
            if let Some(text) = last.as_ref().map(|f| f.raw.get())
                && [&row.ours, &row.theirs].into_iter().flatten().all(|item| item.raw.get() != text)
            {
                let version = serde_json::from_str::<Value>(text).ok();
                let version = version.as_ref().and_then(|v| v.get("version")).and_then(Value::as_str);
                trailers.extend(version.map(|version| kept_trailer(&row.key, version)));
            }
            merged.done.push(match (&row.outcome, last) {
                (_, None) => format!("{}: removed, as on one side", row.key),
                (Outcome::Both(..), _) => format!("{}: the changes of both sides are merged", row.key),
                (Outcome::Take(Side::Theirs), _) => format!("{}: taken from {}", row.key, plan.words),
                (Outcome::Take(Side::Ours), _) => format!("{}: kept as it is here", row.key),
                (Outcome::Conflict(_), _) => format!("{}: as it was chosen", row.key),
            });
        }
        let staged = root.join(STAGED).join(INDEX);
        disk::stage(&staged, index.as_bytes())?;
        disk::publish(&staged, &path)?;
        disk::sync_dir(root)?;
        if merged.conflicts.is_empty() {
            git.append_merge_message(&trailers)?;
            self.finish(git, plan.sides.middle, &paths, &mut merged)?;
        } else {
            merged.todo = Some("choose for each: jarvis cap merge NAME --ours, or --theirs".to_owned());
        }
        Ok(merged)
    }

    /// Tells git that `paths` are settled, and makes the merge commit where nothing else is in conflict.
    fn finish(&self, git: &Git, middle: Middle, paths: &[String], merged: &mut Merged) -> Result<(), RegistryError> {
        let root = &self.inner.root;
        git.resolve(paths)?;
        let (ours, others) = git.unmerged()?;
        if !ours.is_empty() || !others.is_empty() {
            let left: Vec<String> = ours.into_iter().chain(others).collect();
            merged.todo = Some(format!(
                "git has other files in conflict, which are no capabilities: {}; settle them, git add them, and {}",
                left.join(", "),
                middle.way_out(root)
            ));
            return Ok(());
        }
        disk::remove(&Choices::path(git))?;
        match middle {
            Middle::Merge => {
                let commit = git.commit_merge(&self.inner.author)?;
                merged.done.push(format!("the merge is committed as {commit:.10}, with both parents"));
                merged.commit = Some(commit);
            }
            other => merged.todo = Some(format!("nothing of jarvis is in conflict any more; {}", other.way_out(root))),
        }
        Ok(())
    }
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Puts a blob at `path`, or takes the file away. What a person wrote there meanwhile goes aside.
fn place(
    git: &Git,
    root: &Path,
    path: &str,
    blob: Option<git2::Oid>,
    known: &[git2::Oid],
    aside: &mut Aside,
) -> Result<(), RegistryError> {
    let target = root.join(path);
    crate::registry::inside(root, &target)?;
    let wanted = blob.map(|id| git.blob(id)).transpose()?;
    if let Some(present) = disk::read(&target)? {
        if wanted.as_ref() == Some(&present) {
            return Ok(());
        }
        let id = git2::Oid::hash_object(git2::ObjectType::Blob, &present).map_err(|e| git.error(e))?;
        let by_git = present.windows(8).any(|w| w == b"<<<<<<< ");
        if !by_git && !known.contains(&id) {
            aside.copy(&target)?;
        }
    }
    match wanted {
        Some(bytes) => {
            if let Some(dir) = target.parent() {
                std::fs::create_dir_all(dir).map_err(|e| RegistryError::io("create", dir, e))?;
            }
            let staged = root.join(STAGED).join("merged-code");
            disk::stage(&staged, &bytes)?;
            disk::publish(&staged, &target)
        }
        None => disk::remove(&target),
    }
}
