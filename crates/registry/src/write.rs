//! Changes of the registry. Each is staged, written to git as objects, and then put in force by one rename of
//! `index.json`; killed anywhere, the state is the old one or the new one.

use crate::aside::Aside;
use crate::bump::bump;
use crate::digest::digest;
use crate::git::{Change, Git, INDEX, trailer};
use crate::index::{Document, LARGEST, entry};
use crate::middle::Middle;
use crate::recover::{recover, relative};
use crate::registry::{Registry, STAGED, code_path, plain_tools, staged_code};
use crate::snapshot::{Snapshot, keep_aside};
use crate::{NewVersion, Registered, RegistryError, disk};
use jarvis_protocol::{Capability, CapabilityName, Status, Version};
use std::fs;
use std::sync::Arc;

/// One change, ready to be put in force.
struct Write<'a> {
    name: &'a CapabilityName,
    /// What the document was made from.
    read: &'a Snapshot,
    when: i64,
    message: String,
    document: Document,
    /// The capability whose code becomes this text.
    code: Option<(&'a Capability, &'a str)>,
    /// A path whose code is no longer needed.
    delete: Option<String>,
}

impl Registry {
    /// Registers `new` as the next version of its name, or as 1.0.0. When it returns, the version is on disk, in
    /// force in every process, and committed.
    ///
    /// # Errors
    /// Before the version is in force nothing has changed; `NotCommitted` alone says that it is in force.
    pub fn register(&self, new: NewVersion) -> Result<Registered, RegistryError> {
        self.register_in_place_of(new, &[])
    }

    /// The same, and in the same moment the capabilities called `retired` are retired: what is registered answers for
    /// them. Either all of it is in force, or nothing has changed.
    ///
    /// # Errors
    /// As of [`register`](Self::register), and `NotFound` where one of `retired` is not there.
    pub fn register_in_place_of(
        &self,
        new: NewVersion,
        retired: &[CapabilityName],
    ) -> Result<Registered, RegistryError> {
        until_still(|| self.register_once(&new, retired))
    }

    fn register_once(&self, new: &NewVersion, retired: &[CapabilityName]) -> Result<Registered, RegistryError> {
        let name = new.capability.name.clone();
        let invalid = |problem: String| RegistryError::Invalid { name: name.to_string(), problem };
        let now: jiff::Timestamp = new.now.parse().map_err(|e| invalid(format!("time `{}`: {e}", new.now)))?;
        if new.code.trim().is_empty() {
            return Err(invalid("the code is empty".to_owned()));
        }
        if !new.capability.parameters.is_object() {
            return Err(invalid("`parameters` is not a JSON Schema object".to_owned()));
        }

        let _lock = disk::lock(&self.inner.root)?;
        let (git, snapshot) = self.prepare_to_write()?;
        if let Some(damaged) = snapshot.damaged().find(|d| d.entry == name.as_str()) {
            return Err(RegistryError::DamagedEntry { entry: damaged.entry.clone(), problem: damaged.problem.clone() });
        }
        let previous = snapshot.get(&name);
        let untouched = previous.is_some_and(|p| self.code(p).is_ok_and(|code| code.matches_digest));
        // The number moves by what differs from the version that was registered, not from an entry edited by hand.
        let edited = previous.filter(|_| !untouched);
        let before = edited.map(|p| self.as_registered(p)).transpose()?.flatten().map(|(found, _)| found);
        let capability = successor(previous, before.as_ref().or(previous), new);
        one_bearer(&snapshot, &capability, retired)?;
        // Whoever registers has had it approved; should this write fail, the approval is of a version that is not there.
        if !self.is_approved(&capability)? || self.is_unchecked(&capability)? {
            self.approve(&capability, &new.now)?;
        }
        if let Some(previous) = previous
            && retired.is_empty()
            && nothing_new(previous, &capability)
            && untouched
        {
            let commit = git.head_id()?.unwrap_or_default();
            let version = previous.version.clone();
            return Ok(Registered { name, previous: Some(version.clone()), version, commit });
        }
        self.keep_hand_edits(&git, previous, &capability, now.as_second())?;

        let mut document = snapshot.document.clone();
        let raw = entry(&capability).map_err(|e| invalid(e.to_string()))?;
        if raw.get().len() > LARGEST {
            return Err(invalid(format!("it has {} bytes; the most is {LARGEST}", raw.get().len())));
        }
        match snapshot.position(&name) {
            Some(i) => document.entries[i] = raw,
            None => document.entries.push(raw),
        }
        for other in retired {
            let (position, other) = found(&snapshot, other)?;
            let other = Capability { status: Status::Retired, ..other.clone() };
            document.entries[position] = entry(&other).map_err(|e| invalid(e.to_string()))?;
        }
        let version = capability.version.to_string();
        let commit = self.put_in_force(
            &git,
            Write {
                name: &name,
                read: &snapshot,
                when: now.as_second(),
                message: format!("{name} {version}: {}\n\n{}", one_line(&new.change), trailer(name.as_str(), &version)),
                document,
                code: Some((&capability, &new.code)),
                delete: previous
                    .and_then(|old| self.own_file(&snapshot, old))
                    .filter(|old| *old != capability.tool_path),
            },
        )?;
        Ok(Registered { name, previous: previous.map(|p| p.version.clone()), version: capability.version, commit })
    }

    /// Changes the status alone; the version stays. Returns the commit.
    pub fn set_status(&self, name: &CapabilityName, status: Status) -> Result<String, RegistryError> {
        let commit = until_still(|| self.set_status_if(name, status, |_| Ok::<bool, RegistryError>(true)))?;
        Ok(commit.unwrap_or_default())
    }

    /// The same where `agreed` says so of what is registered now, asked under the lock: of two processes that mean the
    /// same change, one does it. None where it did not agree.
    ///
    /// # Errors
    /// As `set_status`, and those of `agreed`, before anything has changed.
    pub fn set_status_if<E: From<RegistryError>>(
        &self,
        name: &CapabilityName,
        status: Status,
        agreed: impl FnOnce(&Capability) -> Result<bool, E>,
    ) -> Result<Option<String>, E> {
        let _lock = disk::lock(&self.inner.root)?;
        let (git, snapshot) = self.prepare_to_write()?;
        let (position, capability) = found(&snapshot, name)?;
        if !agreed(capability)? {
            return Ok(None);
        }
        if status == Status::Active && capability.tool_path.is_empty() {
            let problem = "it has no code yet, so it cannot be used".to_owned();
            return Err(RegistryError::Invalid { name: name.to_string(), problem }.into());
        }
        if capability.status == status {
            return Ok(Some(git.head_id()?.unwrap_or_default()));
        }
        if status != Status::Retired {
            one_bearer(&snapshot, capability, &[])?;
        }
        let capability = Capability { status, ..capability.clone() };
        let mut document = snapshot.document.clone();
        document.entries[position] = entry(&capability)
            .map_err(|e| RegistryError::Invalid { name: name.to_string(), problem: e.to_string() })?;
        let message = format!("{name}: {}", status.as_str());
        let when = jiff::Timestamp::now().as_second();
        Ok(Some(
            self.put_in_force(
                &git,
                Write { name, read: &snapshot, when, message, document, code: None, delete: None },
            )?,
        ))
    }

    /// Takes the capability, its code and its statistics away; git keeps the versions. Returns the commit.
    ///
    /// # Errors
    /// `NotCommitted` and `NotForgotten` alone say that it is removed.
    pub fn remove(&self, name: &CapabilityName) -> Result<String, RegistryError> {
        until_still(|| self.remove_once(name))
    }

    fn remove_once(&self, name: &CapabilityName) -> Result<String, RegistryError> {
        let _lock = disk::lock(&self.inner.root)?;
        let (git, snapshot) = self.prepare_to_write()?;
        let (position, capability) = found(&snapshot, name)?;
        let when = jiff::Timestamp::now().as_second();
        self.keep_hand_edits(&git, Some(capability), capability, when)?;
        let mut document = snapshot.document.clone();
        document.entries.remove(position);
        let delete = self.own_file(&snapshot, capability);
        let message = format!("{name}: removed");
        let done =
            self.put_in_force(&git, Write { name, read: &snapshot, when, message, document, code: None, delete });
        // Of a capability that is still there the statistics stay.
        if !matches!(done, Ok(_) | Err(RegistryError::NotCommitted { .. })) {
            return done;
        }
        let forgotten = self.inner.stats.forget(name);
        let commit = done?;
        forgotten
            .map_err(|e| RegistryError::NotForgotten { name: name.to_string(), message: e.to_string() })
            .map(|()| commit)
    }

    /// Called under the lock.
    pub(crate) fn prepare_to_write(&self) -> Result<(Git, Arc<Snapshot>), RegistryError> {
        let root = &self.inner.root;
        // Before anything is touched: a merge or rebase of somebody else, a damaged or newer index.
        if let Some(middle) = Middle::of(root) {
            return Err(RegistryError::InTheMiddle { root: root.clone(), middle });
        }
        let snapshot = self.snapshot()?;
        if let Some(stale) = &snapshot.stale {
            let path = root.join(INDEX);
            let kept = keep_aside(root, &path);
            return Err(RegistryError::Damaged { path, problem: stale.problem.clone(), kept });
        }
        plain_tools(root)?;
        let tools = root.join("tools");
        for dir in [&tools, &root.join(STAGED)] {
            fs::create_dir_all(dir).map_err(|e| RegistryError::io("create", dir, e))?;
        }
        let git = Git::open_or_create(root)?;
        // Made from the last commit anyway; damaged, it would let every commit fail after its version is in force.
        git.mend_staging(&mut Aside::new(root))?;
        recover(root, &git, &self.inner.author, &snapshot)?;
        Ok((git, snapshot))
    }

    /// Commits code that a person changed in place, before it is overwritten.
    pub(crate) fn keep_hand_edits(
        &self,
        git: &Git,
        previous: Option<&Capability>,
        next: &Capability,
        when: i64,
    ) -> Result<(), RegistryError> {
        let root = &self.inner.root;
        let mut paths: Vec<String> =
            [Some(next), previous].into_iter().flatten().filter(|c| code_path(root, c).is_ok()).map(relative).collect();
        paths.dedup();
        for path in paths {
            let Some(bytes) = disk::read(&root.join(&path))? else { continue };
            let registered = previous
                .zip(std::str::from_utf8(&bytes).ok())
                .is_some_and(|(cap, text)| digest(cap, text) == cap.digest);
            if registered || git.head_has(&path, &bytes)? {
                continue;
            }
            let message = format!("{}: keep the file as it was edited by hand", next.name);
            let commit = git.prepare(&self.inner.author, when, &message, &[(&path, Some(&bytes))])?;
            git.publish(&commit, &[&path])?;
        }
        Ok(())
    }

    /// The file of a capability that leaves it: none where another entry uses it, or where it is not in the workspace.
    pub(crate) fn own_file(&self, snapshot: &Snapshot, capability: &Capability) -> Option<String> {
        let path = relative(capability);
        let shared = snapshot.capabilities().any(|c| c.name != capability.name && relative(c) == path);
        (!shared && code_path(&self.inner.root, capability).is_ok()).then_some(path)
    }

    fn put_in_force(&self, git: &Git, write: Write<'_>) -> Result<String, RegistryError> {
        let root = &self.inner.root;
        let index = write.document.render();
        let staged_index = root.join(STAGED).join(INDEX);
        let staged_tool = write.code.map(|(cap, text)| (staged_code(root, cap), cap.tool_path.as_str(), text));

        let mut changes: Vec<Change<'_>> = vec![(INDEX, Some(index.as_bytes()))];
        changes.extend(staged_tool.iter().map(|(_, path, text)| (*path, Some(text.as_bytes()))));
        changes.extend(write.delete.iter().map(|path| (path.as_str(), None)));

        // Everything that can fail for want of space or permission comes before the rename below.
        let staged = (|| {
            if let Some((path, _, text)) = &staged_tool {
                disk::stage(path, text.as_bytes())?;
            }
            disk::stage(&staged_index, index.as_bytes())?;
            let commit = git.prepare(&self.inner.author, write.when, &write.message, &changes)?;
            let look = fs::metadata(&staged_index).ok();
            if write.read.outdated(root) {
                return Err(RegistryError::Moved { root: root.clone() });
            }
            disk::publish(&staged_index, &root.join(INDEX))?;
            Ok((commit, look))
        })();
        let (commit, look) = staged.inspect_err(|_| {
            // Removed again so that nothing is left behind; if that fails too, the next write does it.
            let _ = disk::remove(&staged_index);
            if let Some((path, _, _)) = &staged_tool {
                let _ = disk::remove(path);
            }
        })?;

        let finish = || {
            disk::sync_dir(root)?;
            if let Some((staged, path, _)) = &staged_tool {
                disk::publish(staged, &root.join(path))?;
            }
            if let Some(path) = &write.delete {
                disk::remove(&root.join(path))?;
            }
            let paths: Vec<&str> = changes.iter().map(|(path, _)| *path).collect();
            git.publish_known(&commit, &paths, look.as_ref().map(|look| (INDEX, look)))
        };
        finish().map_err(|e: RegistryError| RegistryError::NotCommitted {
            name: write.name.to_string(),
            root: root.clone(),
            message: e.to_string(),
        })?;
        Ok(commit)
    }
}

/// Again from what is there now, when a person saved `index.json` meanwhile; nobody saves that often.
fn until_still<T>(write: impl Fn() -> Result<T, RegistryError>) -> Result<T, RegistryError> {
    for _ in 0..5 {
        match write() {
            Err(RegistryError::Moved { .. }) => {}
            done => return done,
        }
    }
    write()
}

fn found<'a>(snapshot: &'a Snapshot, name: &CapabilityName) -> Result<(usize, &'a Capability), RegistryError> {
    let position = snapshot.position(name);
    position
        .and_then(|i| snapshot.capability(i).map(|cap| (i, cap)))
        .ok_or_else(|| RegistryError::NotFound(name.to_string()))
}

/// A name and its other names lead to one capability: `capability` may not be called as another one is also called, nor
/// answer to the name of one that is there. Retired ones have given theirs up, and those of `retired` are about to.
fn one_bearer(snapshot: &Snapshot, capability: &Capability, retired: &[CapabilityName]) -> Result<(), RegistryError> {
    let name = &capability.name;
    let other_bearer = |of: &CapabilityName| {
        let bearer = snapshot.bearer(of).filter(|b| b.name != *name && !retired.contains(&b.name));
        bearer.map(|b| RegistryError::AliasTaken { name: of.to_string(), bearer: b.name.to_string() })
    };
    if let Some(taken) = other_bearer(name) {
        return Err(taken);
    }
    for alias in &capability.aliases {
        let named = snapshot.get(alias).filter(|c| c.status != Status::Retired && !retired.contains(alias));
        if alias == name || named.is_some() {
            return Err(RegistryError::AliasIsName { name: name.to_string(), alias: alias.to_string() });
        }
        if let Some(taken) = other_bearer(alias) {
            return Err(taken);
        }
    }
    Ok(())
}

/// `new` with what the registry decides: version, status, digest, changelog, and all that survives an update. What
/// changed is told by `before`, which is `previous` unless that was edited by hand.
pub(crate) fn successor(previous: Option<&Capability>, before: Option<&Capability>, new: &NewVersion) -> Capability {
    let mut next = new.capability.clone();
    next.tool_path = format!("tools/{}.{}", next.name, next.runtime.extension());
    next.digest = digest(&next, &new.code);
    next.created = new.now.clone();
    next.created_by = new.created_by;
    next.model = new.model.clone();
    next.version = Version::new(1, 0, 0);
    next.changelog = Vec::new();
    // A definition taken from one that is switched off says so still; what is registered now is to be used.
    next.status = Status::Active;
    if let Some(previous) = previous {
        next.version = bump(before.unwrap_or(previous), &next).apply(&previous.version);
        next.changelog = previous.changelog.clone();
        next.created_by = previous.created_by;
        if !previous.created.is_empty() {
            next.created = previous.created.clone();
        }
        next.model = next.model.or_else(|| previous.model.clone());
        next.supersedes = next.supersedes.or_else(|| previous.supersedes.clone());
        for (key, value) in &previous.extra {
            next.extra.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    let change = one_line(&new.change);
    next.changelog.push(jarvis_protocol::Change { version: next.version.clone(), date: new.now.clone(), change });
    next
}

/// Would registering `next` change anything but the number?
fn nothing_new(previous: &Capability, next: &Capability) -> bool {
    let mut as_before = next.clone();
    as_before.version = previous.version.clone();
    as_before.changelog = previous.changelog.clone();
    as_before.model = previous.model.clone();
    as_before == *previous
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
