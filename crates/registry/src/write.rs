//! Changes of the registry. Each is staged, written to git as objects, and then put in force by one rename of
//! `index.json`; killed anywhere, the state is the old one or the new one.

use crate::bump::bump;
use crate::digest::digest;
use crate::git::{Change, Git, INDEX, trailer};
use crate::index::{Document, entry};
use crate::recover::{recover, relative};
use crate::registry::{Registry, STAGED, code_path, staged_code};
use crate::snapshot::Snapshot;
use crate::{NewVersion, Registered, RegistryError, disk};
use jarvis_protocol::{Capability, CapabilityName, Status, Version};
use std::fs;
use std::sync::Arc;

/// One change, ready to be put in force.
struct Write<'a> {
    name: &'a CapabilityName,
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
        let capability = successor(previous, &new);
        // Whoever registers has had it approved; should this write fail, the approval is of a version that is not there.
        if !self.is_approved(&capability)? {
            self.approve(&capability, &new.now)?;
        }
        if let Some(previous) = previous
            && nothing_new(previous, &capability)
            && self.code(previous).is_ok_and(|code| code.matches_digest)
        {
            let commit = git.head_id()?.unwrap_or_default();
            let version = previous.version.clone();
            return Ok(Registered { name, previous: Some(version.clone()), version, commit });
        }
        self.keep_hand_edits(&git, previous, &capability, now.as_second())?;

        let mut document = snapshot.document.clone();
        let raw = entry(&capability).map_err(|e| invalid(e.to_string()))?;
        match snapshot.position(&name) {
            Some(i) => document.entries[i] = raw,
            None => document.entries.push(raw),
        }
        let version = capability.version.to_string();
        let commit = self.put_in_force(
            &git,
            Write {
                name: &name,
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
        let _lock = disk::lock(&self.inner.root)?;
        let (git, snapshot) = self.prepare_to_write()?;
        let (position, capability) = found(&snapshot, name)?;
        if status == Status::Active && capability.tool_path.is_empty() {
            let problem = "it has no code yet, so it cannot be used".to_owned();
            return Err(RegistryError::Invalid { name: name.to_string(), problem });
        }
        if capability.status == status {
            return Ok(git.head_id()?.unwrap_or_default());
        }
        let capability = Capability { status, ..capability.clone() };
        let mut document = snapshot.document.clone();
        document.entries[position] = entry(&capability)
            .map_err(|e| RegistryError::Invalid { name: name.to_string(), problem: e.to_string() })?;
        let message = format!("{name}: {}", status.as_str());
        let when = jiff::Timestamp::now().as_second();
        self.put_in_force(&git, Write { name, when, message, document, code: None, delete: None })
    }

    /// Takes the capability, its code and its statistics away; git keeps the versions. Returns the commit.
    ///
    /// # Errors
    /// `NotCommitted` and `NotForgotten` alone say that it is removed.
    pub fn remove(&self, name: &CapabilityName) -> Result<String, RegistryError> {
        let _lock = disk::lock(&self.inner.root)?;
        let (git, snapshot) = self.prepare_to_write()?;
        let (position, capability) = found(&snapshot, name)?;
        let when = jiff::Timestamp::now().as_second();
        self.keep_hand_edits(&git, Some(capability), capability, when)?;
        let mut document = snapshot.document.clone();
        document.entries.remove(position);
        let delete = self.own_file(&snapshot, capability);
        let message = format!("{name}: removed");
        let done = self.put_in_force(&git, Write { name, when, message, document, code: None, delete });
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
        let tools = root.join("tools");
        if fs::symlink_metadata(&tools).is_ok_and(|meta| meta.is_symlink()) {
            let problem = "`tools` is a symbolic link, which could lead out of the workspace".to_owned();
            return Err(RegistryError::Code { name: "*".to_owned(), path: tools, problem });
        }
        for dir in [&tools, &root.join(STAGED)] {
            fs::create_dir_all(dir).map_err(|e| RegistryError::io("create", dir, e))?;
        }
        // A damaged or newer index stops here, before anything is touched.
        let snapshot = self.snapshot()?;
        let git = Git::open_or_create(root)?;
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
            disk::publish(&staged_index, &root.join(INDEX))?;
            Ok(commit)
        })();
        let commit = staged.inspect_err(|_| {
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
            git.publish(&commit, &paths)
        };
        finish().map_err(|e: RegistryError| RegistryError::NotCommitted {
            name: write.name.to_string(),
            root: root.clone(),
            message: e.to_string(),
        })?;
        Ok(commit)
    }
}

fn found<'a>(snapshot: &'a Snapshot, name: &CapabilityName) -> Result<(usize, &'a Capability), RegistryError> {
    let position = snapshot.position(name);
    position
        .and_then(|i| snapshot.capability(i).map(|cap| (i, cap)))
        .ok_or_else(|| RegistryError::NotFound(name.to_string()))
}

/// `new` with what the registry decides: version, status, digest, changelog, and all that survives an update.
pub(crate) fn successor(previous: Option<&Capability>, new: &NewVersion) -> Capability {
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
        next.version = bump(previous, &next).apply(&previous.version);
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
