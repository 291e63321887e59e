//! The registry itself: reading, searching, counting. Writing is in `write`.

use crate::bulk::IMPORTED;
use crate::digest::digest;
use crate::edges::CallEdge;
use crate::git::{Git, INDEX, VersionCommit};
use crate::index::{Document, parse_entry};
use crate::search;
use crate::snapshot::{Snapshot, keep_aside};
use crate::stats::Statistics;
use crate::types::{Author, Code, FailingCall, HistoryEntry, Hit, InUse, Listing, Near, Run, Stats, Statuses};
use crate::vectors::{TextDigest, Vectors};
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
    pub vectors: Vectors,
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
        let vectors = Vectors::new(statistics.clone());
        let stats = Statistics::new(statistics);
        Ok(Registry { inner: Arc::new(Inner { root, author, stats, vectors, snapshot: Mutex::new(None) }) })
    }

    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    /// The state on disk now; read again only when the file has changed.
    pub(crate) fn snapshot(&self) -> Result<Arc<Snapshot>, RegistryError> {
        self.look().map_err(|e| match e {
            RegistryError::Damaged { path, problem, .. } => {
                let kept = keep_aside(&self.inner.root, &path);
                RegistryError::Damaged { path, problem, kept }
            }
            other => other,
        })
    }

    /// The same, and nothing is written whatever is found.
    pub(crate) fn look(&self) -> Result<Arc<Snapshot>, RegistryError> {
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

    /// What answers to `name`, by its own name or as the successor that bears it as an alias. Calls go by this; whatever
    /// changes a capability goes by its own name, with [`get`](Self::get).
    ///
    /// # Errors
    /// `DamagedEntry` where the entry of that name cannot be read.
    pub fn resolve(&self, name: &CapabilityName) -> Result<Option<Capability>, RegistryError> {
        match self.snapshot()?.resolve(name) {
            Some(capability) => Ok(Some(capability.clone())),
            None => self.get(name),
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
        // `capability` was got before a newer version was registered, or from the last commit because the index is
        // damaged: then the file may be of another version too.
        let now = self.look()?;
        let replaced =
            now.stale.is_some() || now.get(&capability.name).is_none_or(|now| now.digest != capability.digest);
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
        let (mut seen, mut answer) = (0, Ok(None));
        git.versions_of(name.as_str(), |found| {
            for commit in found[seen..].iter().filter(|c| c.version == wanted) {
                // A commit that a rebase put upon others may hold another version than its message says.
                answer = content_at(&git, &commit.commit, name)
                    .map(|content| content.filter(|(capability, _)| capability.version == *version));
                if !matches!(answer, Ok(None)) {
                    return true;
                }
            }
            seen = found.len();
            false
        })?;
        answer
    }

    /// What was registered as the version that `capability` says it is, whatever was changed by hand since; from git.
    pub fn as_registered(&self, capability: &Capability) -> Result<Option<(Capability, String)>, RegistryError> {
        let Some(git) = Git::open(&self.inner.root)? else { return Ok(None) };
        let version = capability.version.to_string();
        for commit in git.versions_of(capability.name.as_str(), |_| false)? {
            if commit.version == version
                && let Some((found, code)) = content_at(&git, &commit.commit, &capability.name)?
                && found.version == capability.version
                && digest(&found, &code) == found.digest
            {
                return Ok(Some((found, code)));
            }
        }
        Ok(None)
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

    /// [`Registry::search_with`], fused with nearness in meaning to capabilities that have a vector of the same model.
    pub fn search_near(
        &self,
        query: &str,
        near: &Near,
        limit: usize,
        which: Statuses,
    ) -> Result<Vec<Hit>, RegistryError> {
        let snapshot = self.snapshot()?;
        let known = self.inner.vectors.of(&near.model)?;
        Ok(hits(&snapshot, search::search_near(&snapshot, query, near, &known, limit, which)))
    }

    /// What is to be embedded before `search_near` can find it by its meaning.
    pub fn texts_without_vector(
        &self,
        model: &str,
        which: Statuses,
    ) -> Result<Vec<(TextDigest, String)>, RegistryError> {
        let snapshot = self.snapshot()?;
        let known = self.inner.vectors.of(model)?;
        let included = snapshot.capabilities().filter(|cap| which.include(cap.status));
        let texts = included.map(search::text).map(|text| (search::text_digest(&text), text));
        Ok(texts.filter(|(digest, _)| !known.contains_key(digest)).collect())
    }

    /// Keeps vectors of `model`, of length 1 each.
    pub fn keep_vectors(&self, model: &str, vectors: &[(TextDigest, Vec<f32>)]) -> Result<(), RegistryError> {
        self.inner.vectors.keep(model, vectors)
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
        self.record_use(name, run, None, true).map(|_| ())
    }

    /// Counts an execution, keeps the call where it failed, and tells how its version has done with it. `telling` is
    /// false for a failure that says nothing about the code.
    pub fn record_use(
        &self,
        name: &CapabilityName,
        run: &Run,
        failed: Option<&FailingCall>,
        telling: bool,
    ) -> Result<InUse, RegistryError> {
        self.inner.stats.record(name, run, failed, telling)
    }

    pub fn in_use(&self, name: &CapabilityName, version: &Version) -> Result<InUse, RegistryError> {
        self.inner.stats.in_use(name, version)
    }

    /// Calls that failed, of any version, the newest first.
    pub fn failing_calls(&self, name: &CapabilityName) -> Result<Vec<FailingCall>, RegistryError> {
        self.inner.stats.failing_calls(name)
    }

    /// Judges the next runs by themselves; all counts stay.
    pub fn start_over(&self, name: &CapabilityName) -> Result<(), RegistryError> {
        self.inner.stats.start_over(name)
    }

    /// Counts what one capability ran of another: adds to what is known of the two.
    pub fn record_call(&self, edge: &CallEdge) -> Result<(), RegistryError> {
        self.inner.stats.record_call(edge)
    }

    /// Which capability called which so far, the most travelled first.
    pub fn calls(&self) -> Result<Vec<CallEdge>, RegistryError> {
        self.inner.stats.calls()
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

    /// Came by an import, and nobody has had this very version checked since.
    pub fn is_unchecked(&self, capability: &Capability) -> Result<bool, RegistryError> {
        Ok(capability.extra.contains_key(IMPORTED) && !self.inner.stats.approved(&capability.digest)?)
    }

    /// Keeps that it was allowed. Called with the digest checked against the code.
    pub fn approve(&self, capability: &Capability, now: &str) -> Result<(), RegistryError> {
        self.inner.stats.approve(&capability.name, &capability.digest, now)
    }

    /// Every version, the oldest first; also of a capability that was removed, as far as git knows it.
    pub fn history(&self, name: &CapabilityName) -> Result<Vec<HistoryEntry>, RegistryError> {
        let snapshot = self.snapshot()?;
        let capability = snapshot.get(name);
        let lines = capability.map(|cap| cap.changelog.as_slice()).unwrap_or_default();
        // Both sides of a merge may have made the same number.
        let times = |of: &Version| lines.iter().filter(|c| c.version == *of).count();
        let commits = match Git::open(&self.inner.root)? {
            Some(git) => git.versions_of(name.as_str(), |found| {
                let known = |of: &Version| found.iter().filter(|f| f.version == of.to_string()).count();
                !lines.is_empty() && lines.iter().all(|c| known(&c.version) >= times(&c.version))
            })?,
            None => Vec::new(),
        };
        let Some(capability) = capability else {
            let mut entries: Vec<HistoryEntry> = commits.into_iter().filter_map(from_commit).collect();
            entries.reverse();
            return if entries.is_empty() { Err(RegistryError::NotFound(name.to_string())) } else { Ok(entries) };
        };
        let mut free: Vec<&VersionCommit> = commits.iter().collect();
        let mut take = |version: &Version, change: Option<&str>| {
            let fits = |c: &VersionCommit| {
                c.version == version.to_string()
                    && change.is_none_or(|change| c.summary.split_once(": ").is_some_and(|(_, told)| told == change))
            };
            let position = free.iter().position(|c| fits(c))?;
            Some(free.remove(position).commit.clone())
        };
        // First those whose message says the same change, so that no line takes the commit of another.
        let exact: Vec<Option<String>> = lines.iter().map(|c| take(&c.version, Some(&c.change))).collect();
        let mut entries: Vec<HistoryEntry> = lines
            .iter()
            .zip(exact)
            .map(|(c, exact)| HistoryEntry {
                commit: exact.or_else(|| take(&c.version, None)),
                version: c.version.clone(),
                date: c.date.clone(),
                change: c.change.clone(),
            })
            .collect();
        // An index of another tool has no changelog; its version is known all the same.
        if !entries.iter().any(|e| e.version == capability.version) {
            entries.push(HistoryEntry {
                commit: take(&capability.version, None),
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

/// The entry of `name` and its code, as a commit holds them.
fn content_at(git: &Git, commit: &str, name: &CapabilityName) -> Result<Option<(Capability, String)>, RegistryError> {
    let Some(index) = git.content(Some(commit), INDEX)? else { return Ok(None) };
    let Ok(document) = Document::parse(&index) else { return Ok(None) };
    let mut entries = document.entries.iter().enumerate().filter_map(|(i, raw)| parse_entry(raw, i).ok());
    let Some(capability) = entries.find(|cap| cap.name == *name) else { return Ok(None) };
    // A definition that was imported without code.
    if capability.tool_path.is_empty() {
        return Ok(None);
    }
    let code = git.content(Some(commit), &crate::recover::relative(&capability))?;
    Ok(code.and_then(|bytes| String::from_utf8(bytes).ok()).map(|code| (capability, code)))
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
    let path = root.join(&capability.tool_path);
    let refuse = |problem: &str| RegistryError::Code {
        name: capability.name.to_string(),
        path: path.clone(),
        problem: problem.to_owned(),
    };
    if !is_below(&capability.tool_path) {
        return Err(refuse("`tool_path` is not a path below the workspace"));
    }
    match inside(root, &path) {
        Ok(()) => Ok(path),
        Err(_) => Err(refuse("it leads out of the workspace")),
    }
}

/// Is `tool_path` a path that stays below the workspace, as it is written?
pub(crate) fn is_below(tool_path: &str) -> bool {
    let path = Path::new(tool_path);
    let below = path.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    below && path.components().next().is_some()
}

/// Resolved as well, for a symbolic link on the way: also on the way to a file that is not there yet.
pub(crate) fn inside(root: &Path, path: &Path) -> Result<(), RegistryError> {
    let there = path.ancestors().find_map(|path| path.canonicalize().ok());
    match (there.ok_or(()), root.canonicalize()) {
        (Ok(real), Ok(root)) if !real.starts_with(&root) => {
            let source = std::io::Error::other("it leads out of the workspace");
            Err(RegistryError::io("use", path, source))
        }
        _ => Ok(()),
    }
}

/// Nothing is written through a linked `tools`.
pub(crate) fn plain_tools(root: &Path) -> Result<(), RegistryError> {
    let tools = root.join("tools");
    if std::fs::symlink_metadata(&tools).is_ok_and(|meta| meta.is_symlink()) {
        let problem = "`tools` is a symbolic link, which could lead out of the workspace".to_owned();
        return Err(RegistryError::Code { name: "*".to_owned(), path: tools, problem });
    }
    Ok(())
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
