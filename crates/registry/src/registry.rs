//! The registry itself: reading, searching, counting. Writing is in `write`.

use crate::digest::digest;
use crate::git::{Git, INDEX};
use crate::index::{Document, parse_entry};
use crate::search;
use crate::snapshot::Snapshot;
use crate::stats::Statistics;
use crate::types::{Author, Code, HistoryEntry, Hit, Listing, Run, Stats, Statuses};
use crate::{RegistryError, disk};
use jarvis_protocol::{Capability, CapabilityName, Version};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Where a write is prepared; empty between writes.
pub(crate) const STAGED: &str = ".staged";

/// All capabilities of one home. Cheap to clone; clones share what was read.
#[derive(Clone)]
pub struct Registry {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub root: PathBuf,
    pub author: Author,
    pub stats: Statistics,
    snapshot: Mutex<Option<Arc<Snapshot>>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("root", &self.inner.root).finish_non_exhaustive()
    }
}

impl Registry {
    /// `root` is the workspace (`<home>/capabilities`), `statistics` the home's SQLite file; either may be missing
    /// and is made by the first write. Reads nothing but the kind of `root`.
    pub fn open(root: PathBuf, statistics: PathBuf, author: Author) -> Result<Registry, RegistryError> {
        if root.exists() && !root.is_dir() {
            let source = std::io::Error::from(std::io::ErrorKind::NotADirectory);
            return Err(RegistryError::io("open", &root, source));
        }
        let stats = Statistics::new(statistics);
        Ok(Registry { inner: Arc::new(Inner { root, author, stats, snapshot: Mutex::new(None) }) })
    }

    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    /// The state on disk now; read again only when the file has changed.
    pub(crate) fn snapshot(&self) -> Result<Arc<Snapshot>, RegistryError> {
        let mut slot = self.inner.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = Snapshot::load(&self.inner.root, slot.as_ref())?;
        *slot = Some(snapshot.clone());
        Ok(snapshot)
    }

    /// # Errors
    /// `Damaged` or `NewerHome` where the file as a whole cannot be read.
    pub fn list(&self) -> Result<Listing, RegistryError> {
        let snapshot = self.snapshot()?;
        Ok(Listing {
            capabilities: snapshot.capabilities().cloned().collect(),
            damaged: snapshot.damaged().cloned().collect(),
        })
    }

    /// # Errors
    /// `DamagedEntry` where the entry is there and cannot be read.
    pub fn get(&self, name: &CapabilityName) -> Result<Option<Capability>, RegistryError> {
        let snapshot = self.snapshot()?;
        if let Some(capability) = snapshot.get(name) {
            return Ok(Some(capability.clone()));
        }
        match snapshot.damaged().find(|d| d.entry == name.as_str()) {
            Some(d) => Err(RegistryError::DamagedEntry { entry: d.entry.clone(), problem: d.problem.clone() }),
            None => Ok(None),
        }
    }

    /// The code of `capability` as it was got from this registry, also when it has been replaced since.
    pub fn code(&self, capability: &Capability) -> Result<Code, RegistryError> {
        let root = &self.inner.root;
        let path = code_path(root, capability)?;
        let matches = |text: &str| !capability.digest.is_empty() && digest(capability, text) == capability.digest;
        let text = read_code(&path, capability)?;
        if let Some(text) = text.filter(|t| matches(t)) {
            return Ok(Code { text, matches_digest: true });
        }
        // The index is already the new one, and the file is about to be put in its place (or its writer was killed).
        if let Ok(Some(text)) = read_code(&staged_code(root, capability), capability)
            && matches(&text)
        {
            return Ok(Code { text, matches_digest: true });
        }
        let text = read_code(&path, capability)?;
        if let Some(text) = text.as_ref().filter(|t| matches(t)) {
            return Ok(Code { text: text.clone(), matches_digest: true });
        }
        // `capability` was got before a newer version was registered.
        let replaced = self.snapshot()?.get(&capability.name).is_none_or(|now| now.digest != capability.digest);
        if replaced
            && !capability.digest.is_empty()
            && let Some((_, text)) = self.at(&capability.name, &capability.version)?
            && matches(&text)
        {
            return Ok(Code { text, matches_digest: true });
        }
        match text {
            Some(text) => Ok(Code { text, matches_digest: false }),
            None => Err(RegistryError::Code {
                name: capability.name.to_string(),
                path,
                problem: "there is no such file".to_owned(),
            }),
        }
    }

    /// An earlier version with its code, from git.
    pub fn at(&self, name: &CapabilityName, version: &Version) -> Result<Option<(Capability, String)>, RegistryError> {
        let Some(git) = Git::open(&self.inner.root)? else { return Ok(None) };
        let wanted = version.to_string();
        let commits = git.versions_of(name.as_str(), |found| found.last().is_some_and(|c| c.version == wanted))?;
        let Some(commit) = commits.into_iter().find(|c| c.version == wanted) else { return Ok(None) };
        let Some(index) = git.content(Some(&commit.commit), INDEX)? else { return Ok(None) };
        let Ok(document) = Document::parse(&index) else { return Ok(None) };
        let capability = document
            .entries
            .iter()
            .enumerate()
            .filter_map(|(i, raw)| parse_entry(raw, i).ok())
            .find(|cap| cap.name == *name);
        let Some(capability) = capability else { return Ok(None) };
        let code = git.content(Some(&commit.commit), &crate::recover::relative(&capability))?;
        Ok(code.and_then(|bytes| String::from_utf8(bytes).ok()).map(|code| (capability, code)))
    }

    /// The best `limit` active capabilities for a request in English or Chinese, the best first. A score below
    /// [`FITS`](crate::FITS) means that it likely does not fit; nothing in common at all is no hit.
    pub fn search(&self, query: &str, limit: usize) -> Result<Vec<Hit>, RegistryError> {
        self.search_with(query, limit, Statuses::Active)
    }

    /// [`Registry::search`] over the capabilities of these statuses; each hit tells its own.
    pub fn search_with(&self, query: &str, limit: usize, which: Statuses) -> Result<Vec<Hit>, RegistryError> {
        let snapshot = self.snapshot()?;
        Ok(hits(&snapshot, search::search(&snapshot, query, limit, which)))
    }

    /// Registered capabilities that `candidate` would repeat: its name, or its meaning with a signature that takes
    /// the same kinds of values. The closest first; the same name has score 1, whatever it means: for that see
    /// [`similarity`](crate::similarity).
    pub fn find_similar(&self, candidate: &Capability) -> Result<Vec<Hit>, RegistryError> {
        let snapshot = self.snapshot()?;
        Ok(hits(&snapshot, search::similar(&snapshot, candidate)))
    }

    /// Counts an execution.
    pub fn record_run(&self, name: &CapabilityName, run: &Run) -> Result<(), RegistryError> {
        self.inner.stats.record(name, run)
    }

    pub fn stats(&self, name: &CapabilityName) -> Result<Stats, RegistryError> {
        let snapshot = self.snapshot()?;
        self.inner.stats.of(name, snapshot.get(name).map(|cap| &cap.version))
    }

    /// Did a person on this machine, or their policy, allow this very version what it may reach? Being in `index.json`
    /// says nothing of that: it may have come by a pull. Pure computation needs nobody.
    pub fn is_approved(&self, capability: &Capability) -> Result<bool, RegistryError> {
        let pure = capability.grants.is_empty() && capability.dependencies.is_empty();
        if pure { Ok(true) } else { self.inner.stats.approved(&capability.digest) }
    }

    /// Keeps that it was allowed. Called with the digest checked against the code.
    pub fn approve(&self, capability: &Capability, now: &str) -> Result<(), RegistryError> {
        self.inner.stats.approve(&capability.name, &capability.digest, now)
    }

    /// Every version, the oldest first; also of a capability that was removed, as far as git knows it.
    pub fn history(&self, name: &CapabilityName) -> Result<Vec<HistoryEntry>, RegistryError> {
        let snapshot = self.snapshot()?;
        let capability = snapshot.get(name);
        let commits = match Git::open(&self.inner.root)? {
            Some(git) => git.versions_of(name.as_str(), |found| {
                capability.is_some_and(|cap| {
                    !cap.changelog.is_empty()
                        && cap.changelog.iter().all(|c| found.iter().any(|f| f.version == c.version.to_string()))
                })
            })?,
            None => Vec::new(),
        };
        let Some(capability) = capability else {
            let mut entries: Vec<HistoryEntry> = commits.into_iter().filter_map(from_commit).collect();
            entries.reverse();
            return if entries.is_empty() { Err(RegistryError::NotFound(name.to_string())) } else { Ok(entries) };
        };
        let commit_of =
            |version: &Version| commits.iter().find(|c| c.version == version.to_string()).map(|c| c.commit.clone());
        let mut entries: Vec<HistoryEntry> = capability
            .changelog
            .iter()
            .map(|c| HistoryEntry {
                commit: commit_of(&c.version),
                version: c.version.clone(),
                date: c.date.clone(),
                change: c.change.clone(),
            })
            .collect();
        // An index of another tool has no changelog; its version is known all the same.
        if !entries.iter().any(|e| e.version == capability.version) {
            entries.push(HistoryEntry {
                commit: commit_of(&capability.version),
                version: capability.version.clone(),
                date: capability.created.clone(),
                change: String::new(),
            });
        }
        Ok(entries)
    }

    /// Versions registered at or after `since`, for the alarm on bursts. Entries of an index that was taken over, and
    /// what people changed by hand, do not count.
    pub fn recent_registrations(&self, since: jiff::Timestamp) -> Result<usize, RegistryError> {
        match Git::open(&self.inner.root)? {
            Some(git) => git.registrations_since(since.as_second()),
            None => Ok(0),
        }
    }
}

fn hits(snapshot: &Snapshot, found: Vec<search::Found>) -> Vec<Hit> {
    found
        .into_iter()
        .filter_map(|found| {
            let capability = snapshot.capability(found.position)?.clone();
            Some(Hit { capability, score: found.score, suppressed_by: found.suppressed_by })
        })
        .collect()
}

fn from_commit(commit: crate::git::VersionCommit) -> Option<HistoryEntry> {
    Some(HistoryEntry {
        version: Version::parse(&commit.version).ok()?,
        date: jiff::Timestamp::from_second(commit.seconds).ok()?.to_string(),
        change: commit.summary.split_once(": ").map_or(commit.summary.as_str(), |(_, change)| change).to_owned(),
        commit: Some(commit.commit),
    })
}

/// The file of the code. It comes from a file that anyone may edit, so it must not lead out of `root`.
pub(crate) fn code_path(root: &Path, capability: &Capability) -> Result<PathBuf, RegistryError> {
    let relative = Path::new(&capability.tool_path);
    let path = root.join(relative);
    let refuse = |problem: &str| RegistryError::Code {
        name: capability.name.to_string(),
        path: path.clone(),
        problem: problem.to_owned(),
    };
    let inside = relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    if !inside || relative.components().next().is_none() {
        return Err(refuse("`tool_path` is not a path below the workspace"));
    }
    // Resolved as well, for a symbolic link on the way.
    match (path.canonicalize(), root.canonicalize()) {
        (Ok(real), Ok(root)) if !real.starts_with(&root) => Err(refuse("it leads out of the workspace")),
        _ => Ok(path),
    }
}

/// Where the code waits until the index that names it is in force.
pub(crate) fn staged_code(root: &Path, capability: &Capability) -> PathBuf {
    root.join(STAGED).join(format!("{}.{}", capability.name, capability.runtime.extension()))
}

fn read_code(path: &Path, capability: &Capability) -> Result<Option<String>, RegistryError> {
    let Some(bytes) = disk::read(path)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|e| RegistryError::Code {
        name: capability.name.to_string(),
        path: path.to_owned(),
        problem: e.to_string(),
    })
}
