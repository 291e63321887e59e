//! Many capabilities at once: one write and one commit, however many they are. Killed anywhere, all of them are there
//! or none.

use crate::git::{Change, Git, INDEX, kept_trailer};
use crate::import::{Incoming, PortError, Progress, Watch, numbered};
use crate::index::{LARGEST, entry};
use crate::recover::relative;
use crate::registry::{Registry, STAGED, staged_code};
use crate::snapshot::Snapshot;
use crate::write::successor;
use crate::{NewVersion, RegistryError, disk};
use jarvis_protocol::{Capability, CapabilityName, Status, Version};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// Which import an entry came from, so that the same one is known again whatever became of it here.
pub(crate) const IMPORTED: &str = "x_imported";

/// What to do with a name that is taken by something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// What is here stays, what comes is left out.
    Skip,
    /// What comes gets a number behind its name.
    Rename,
    /// What comes is the next version of what is here.
    Replace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportOptions {
    pub conflict: Conflict,
    /// Put in front of every name, with `_` between.
    pub prefix: Option<String>,
    /// RFC 3339.
    pub now: String,
    /// For the commit.
    pub from: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Added,
    /// The next version of what had the name.
    Replaced,
    /// It is here already.
    Same,
    /// The name is taken by something else.
    Skipped,
}

/// What became, or would become, of one entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    pub original: String,
    pub name: CapabilityName,
    pub version: Version,
    pub fate: Fate,
    /// False for a definition without code, which can be found and not run.
    pub has_code: bool,
    /// Grants that will be asked for.
    pub grants: jarvis_protocol::Grants,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ImportReport {
    pub entries: Vec<Imported>,
    /// None where nothing was new.
    pub commit: Option<String>,
}

/// One entry that will be written.
struct Planned {
    capability: Capability,
    code: Option<String>,
    /// Its place in the index, where it is one of those.
    position: Option<usize>,
}

impl Registry {
    /// What [`Registry::import`] would do now; writes nothing.
    pub fn plan_import(&self, entries: Vec<Incoming>, options: &ImportOptions) -> Result<Vec<Imported>, PortError> {
        Ok(plan(&*self.snapshot()?, entries, options)?.0)
    }

    /// Takes over `entries`, all quarantined. Nothing of them is approved by that.
    ///
    /// # Errors
    /// Nothing has changed, but where `NotCommitted` says that they are in force.
    pub fn import(
        &self,
        entries: Vec<Incoming>,
        options: &ImportOptions,
        watch: Watch<'_>,
    ) -> Result<ImportReport, PortError> {
        let (report, planned) = plan(&*self.snapshot()?, entries.clone(), options)?;
        if planned.is_empty() {
            return Ok(ImportReport { entries: report, commit: None });
        }
        let _lock = disk::lock(&self.inner.root)?;
        let (git, snapshot) = self.prepare_to_write()?;
        // Again: another process may have written until the lock was ours.
        let (report, planned) = plan(&snapshot, entries, options)?;
        let commit = self.put_all_in_force(&git, &snapshot, &planned, options, watch)?;
        Ok(ImportReport { entries: report, commit: Some(commit) })
    }

    fn put_all_in_force(
        &self,
        git: &Git,
        snapshot: &Snapshot,
        planned: &[Planned],
        options: &ImportOptions,
        watch: Watch<'_>,
    ) -> Result<String, PortError> {
        let root = &self.inner.root;
        let now = time(options)?;
        let mut document = snapshot.document.clone();
        let mut deleted: Vec<String> = Vec::new();
        for new in planned {
            let name = new.capability.name.to_string();
            let raw = entry(&new.capability)
                .map_err(|e| RegistryError::Invalid { name: name.clone(), problem: e.to_string() })?;
            if raw.get().len() > LARGEST {
                let problem = format!("it has {} bytes; the most is {LARGEST}", raw.get().len());
                return Err(RegistryError::Invalid { name, problem }.into());
            }
            match new.position {
                Some(position) => {
                    let previous = snapshot.capability(position);
                    self.keep_hand_edits(git, previous, &new.capability, now)?;
                    let old = previous.and_then(|old| self.own_file(snapshot, old));
                    deleted.extend(old.filter(|old| *old != new.capability.tool_path));
                    document.entries[position] = raw;
                }
                None => {
                    // A file that nobody registered is a person's.
                    if new.code.is_some() && root.join(&new.capability.tool_path).exists() {
                        self.keep_hand_edits(git, None, &new.capability, now)?;
                    }
                    document.entries.push(raw);
                }
            }
        }
        let index = document.render();
        let staged_index = root.join(STAGED).join(INDEX);
        let code: Vec<(&Capability, &str)> =
            planned.iter().filter_map(|new| Some((&new.capability, new.code.as_deref()?))).collect();
        let mut changes: Vec<Change<'_>> = vec![(INDEX, Some(index.as_bytes()))];
        changes.extend(code.iter().map(|(cap, text)| (cap.tool_path.as_str(), Some(text.as_bytes()))));
        changes.extend(deleted.iter().map(|path| (path.as_str(), None)));

        let files: Vec<(PathBuf, &[u8])> =
            code.iter().map(|(cap, text)| (staged_code(root, cap), text.as_bytes())).collect();
        let total = files.len();
        let mut staged = || -> Result<String, PortError> {
            if !disk::stage_all(&files, |done| watch(Progress { done, total }))? {
                return Err(PortError::Cancelled);
            }
            let commit = git.prepare(&self.inner.author, now, &message(planned, options), &changes)?;
            disk::stage(&staged_index, index.as_bytes())?;
            if !watch(Progress { done: total, total }) {
                return Err(PortError::Cancelled);
            }
            // Saved by somebody without the lock: theirs stays.
            if snapshot.outdated(root) {
                return Err(RegistryError::Moved { root: root.clone() }.into());
            }
            disk::publish(&staged_index, &root.join(INDEX))?;
            Ok(commit)
        };
        let commit = staged().inspect_err(|_| {
            // If this fails too, the next write does it.
            let _ = disk::remove(&staged_index);
            for (path, _) in &files {
                let _ = disk::remove(path);
            }
        })?;
        let finish = || -> Result<(), RegistryError> {
            disk::sync_dir(root)?;
            for ((cap, _), (staged, _)) in code.iter().zip(&files) {
                disk::publish(staged, &root.join(&cap.tool_path))?;
            }
            for path in &deleted {
                disk::remove(&root.join(path))?;
            }
            let paths: Vec<&str> = changes.iter().map(|(path, _)| *path).collect();
            git.publish(&commit, &paths)
        };
        finish().map_err(|e| RegistryError::NotCommitted {
            name: format!("{} capabilities", planned.len()),
            root: root.clone(),
            message: e.to_string(),
        })?;
        Ok(commit)
    }
}

fn time(options: &ImportOptions) -> Result<i64, RegistryError> {
    let now: Result<jiff::Timestamp, _> = options.now.parse();
    now.map(|now| now.as_second())
        .map_err(|e| RegistryError::Invalid { name: "*".to_owned(), problem: format!("time `{}`: {e}", options.now) })
}

/// Imported versions are kept, not registered: nobody counts them as made here.
fn message(planned: &[Planned], options: &ImportOptions) -> String {
    let count = match planned {
        [one] => format!("import {}", one.capability.name),
        many => format!("import {} capabilities", many.len()),
    };
    let trailers: Vec<String> = planned
        .iter()
        .map(|new| kept_trailer(new.capability.name.as_str(), &new.capability.version.to_string()))
        .collect();
    format!("{count} from {}\n\n{}", options.from, trailers.join("\n"))
}

/// What becomes of each entry, and those that are to be written.
fn plan(
    snapshot: &Snapshot,
    entries: Vec<Incoming>,
    options: &ImportOptions,
) -> Result<(Vec<Imported>, Vec<Planned>), PortError> {
    let mut planned: Vec<Planned> = Vec::new();
    // Names that this very import has given away, with what got them.
    let mut given: HashMap<CapabilityName, String> = HashMap::new();
    let damaged: HashSet<&str> = snapshot.damaged().map(|d| d.entry.as_str()).collect();
    // The next number to try of a name, so that thousands of one name are not tried from the first on each time.
    let mut next: HashMap<CapabilityName, usize> = HashMap::new();
    let mut report = Vec::with_capacity(entries.len());
    for incoming in entries {
        let base = prefixed(&incoming.capability.name, options)?;
        let print = fingerprint(&incoming);
        let mut name = base.clone();
        let mut number = 1;
        let fate = loop {
            if let Some(here) = snapshot.get(&name).filter(|_| !given.contains_key(&name)) {
                if same(here, &incoming, &print) {
                    break Fate::Same;
                }
                match options.conflict {
                    Conflict::Skip => break Fate::Skipped,
                    // A definition without code takes no code away.
                    Conflict::Replace if incoming.code.is_none() && !here.tool_path.is_empty() => break Fate::Skipped,
                    Conflict::Replace => break Fate::Replaced,
                    Conflict::Rename => {}
                }
            } else if given.get(&name) == Some(&print) {
                break Fate::Same;
            } else if !given.contains_key(&name) && !damaged.contains(name.as_str()) && snapshot.bearer(&name).is_none()
            {
                break Fate::Added;
            }
            number = if number == 1 { next.get(&base).copied().unwrap_or(2) } else { number + 1 };
            name = numbered(&base, number).ok_or_else(|| RegistryError::Invalid {
                name: base.to_string(),
                problem: "no name is left for it".to_owned(),
            })?;
        };
        if matches!(fate, Fate::Added) && number > 1 && options.conflict != Conflict::Rename {
            next.insert(base.clone(), number + 1);
        }
        let mut capability = incoming.capability;
        let has_code = incoming.code.is_some();
        let grants = capability.grants.clone();
        let mut version = capability.version.clone();
        match fate {
            Fate::Same => version = snapshot.get(&name).map_or(version, |here| here.version.clone()),
            Fate::Skipped => version = snapshot.get(&name).map_or(version, |here| here.version.clone()),
            Fate::Added | Fate::Replaced => {
                capability.name = name.clone();
                capability.extra.insert(IMPORTED.to_owned(), Value::String(print.clone()));
                // Another capability's name is not to be answered to.
                capability.aliases.retain(|alias| snapshot.get(alias).is_none() && snapshot.bearer(alias).is_none());
                let position = if fate == Fate::Replaced { snapshot.position(&name) } else { None };
                if let Some(previous) = position.and_then(|at| snapshot.capability(at)) {
                    capability =
                        successor(Some(previous), Some(previous), &next_version(capability, &incoming.code, options));
                }
                capability.status = Status::Quarantined;
                capability.tool_path = match has_code {
                    true => format!("tools/{name}.{}", capability.runtime.extension()),
                    false => String::new(),
                };
                if !has_code {
                    capability.digest = String::new();
                }
                version = capability.version.clone();
                given.insert(name.clone(), print);
                planned.push(Planned { capability, code: incoming.code, position });
            }
        }
        report.push(Imported { original: incoming.original, name, version, fate, has_code, grants });
    }
    keep_files_apart(snapshot, &mut planned);
    Ok((report, planned))
}

/// Code is never written over that of an entry which keeps it under a path of another name.
fn keep_files_apart(snapshot: &Snapshot, planned: &mut [Planned]) {
    let owners: HashMap<String, &CapabilityName> =
        snapshot.capabilities().filter(|cap| !cap.tool_path.is_empty()).map(|cap| (relative(cap), &cap.name)).collect();
    for new in planned {
        let cap = &mut new.capability;
        if owners.get(&cap.tool_path).is_some_and(|owner| **owner != cap.name) {
            cap.tool_path = format!("tools/{}.imported.{}", cap.name, cap.runtime.extension());
        }
    }
}

fn next_version(capability: Capability, code: &Option<String>, options: &ImportOptions) -> NewVersion {
    NewVersion {
        created_by: capability.created_by,
        model: capability.model.clone(),
        capability,
        code: code.clone().unwrap_or_default(),
        change: format!("imported from {}", options.from),
        now: options.now.clone(),
    }
}

fn prefixed(name: &CapabilityName, options: &ImportOptions) -> Result<CapabilityName, PortError> {
    let Some(prefix) = &options.prefix else { return Ok(name.clone()) };
    let mut whole = format!("{prefix}_{name}");
    whole.truncate(64);
    CapabilityName::new(whole)
        .map_err(|e| RegistryError::Invalid { name: name.to_string(), problem: e.to_string() }.into())
}

fn fingerprint(incoming: &Incoming) -> String {
    let cap = &incoming.capability;
    let said = (&incoming.original, &cap.capability, &cap.triggers, &cap.suppression, &cap.parameters, &cap.digest);
    let text = serde_json::to_string(&said).unwrap_or_default();
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}

fn same(here: &Capability, incoming: &Incoming, print: &str) -> bool {
    let cap = &incoming.capability;
    here.extra.get(IMPORTED).and_then(Value::as_str) == Some(print)
        || here.digest == cap.digest
            && here.parameters == cap.parameters
            && here.capability == cap.capability
            && here.triggers == cap.triggers
            && here.suppression == cap.suppression
}
