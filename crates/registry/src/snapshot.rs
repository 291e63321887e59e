//! `index.json` as it was read, shared until the file changes: another process's registration is seen at once.

use crate::git::{Git, INDEX};
use crate::index::{Document, FORMAT, ParseError, parse_entry};
use crate::merge::{Choices, MergeConflict};
use crate::middle::Middle;
use crate::search::{Bag, Document as Searched, Index};
use crate::types::{Damaged, Statuses};
use crate::{RegistryError, disk};
use jarvis_protocol::{Capability, CapabilityName, Status};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// What tells one state of the file from the next. Every write makes a new file, so the inode moves with each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    inode: u64,
    /// Of the rights and names: a file that may be read again is another one.
    changed: (i64, i64),
}

fn stamp(meta: &Metadata) -> Stamp {
    #[cfg(unix)]
    let (inode, changed) = {
        use std::os::unix::fs::MetadataExt;
        (meta.ino(), (meta.ctime(), meta.ctime_nsec()))
    };
    #[cfg(not(unix))]
    let (inode, changed) = (0, (0, 0));
    Stamp { modified: meta.modified().ok(), len: meta.len(), inode, changed }
}

/// What a snapshot was made from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Key {
    /// None where there is no file, or where it cannot be looked at.
    index: Option<Stamp>,
    middle: Option<Middle>,
    /// Only where git decides what is seen: in the middle of something, or while the file is damaged.
    git: Option<(Option<Stamp>, String)>,
}

/// Why the last committed state stands in for `index.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stale {
    pub problem: String,
    /// There is a file, but reading it is not allowed.
    pub denied: bool,
}

/// One entry; shared between snapshots while its text stays the same.
pub(crate) struct Entry {
    pub raw: Box<RawValue>,
    pub parsed: Result<Capability, Damaged>,
    bag: OnceLock<Bag>,
    searched: OnceLock<Searched>,
}

impl Entry {
    /// The entry at this position of the file.
    pub fn read(raw: &RawValue, position: usize) -> Entry {
        Entry {
            raw: raw.to_owned(),
            parsed: parse_entry(raw, position),
            bag: OnceLock::new(),
            searched: OnceLock::new(),
        }
    }

    /// Only asked of entries that parsed.
    pub fn bag(&self, capability: &Capability) -> &Bag {
        self.bag.get_or_init(|| Bag::of(capability))
    }

    /// Only asked of entries that parsed.
    pub fn document(&self, capability: &Capability) -> &Searched {
        self.searched.get_or_init(|| Searched::of(capability))
    }
}

pub(crate) struct Snapshot {
    key: Key,
    pub bytes: Vec<u8>,
    pub document: Document,
    pub entries: Vec<Arc<Entry>>,
    pub stale: Option<Stale>,
    /// What is wrong beside the entries.
    beside: Vec<Damaged>,
    by_name: HashMap<CapabilityName, usize>,
    /// Other names of entries that are not retired; the first entry that has one bears it.
    by_alias: HashMap<CapabilityName, usize>,
    active: OnceLock<Index>,
    with_quarantined: OnceLock<Index>,
}

impl Snapshot {
    /// The state on disk now; `previous` itself when nothing has changed. A damaged file is replaced in memory by the
    /// last good commit, and what a merge left in conflict is damaged until it is settled. Writes nothing.
    ///
    /// # Errors
    /// `Damaged` where there is no commit to go back to; `kept` is for the caller to fill in.
    pub fn load(root: &Path, previous: Option<&Arc<Snapshot>>) -> Result<Arc<Snapshot>, RegistryError> {
        let path = root.join(INDEX);
        let mut key =
            Key { index: fs::metadata(&path).ok().map(|meta| stamp(&meta)), middle: Middle::of(root), git: None };
        let unsettled = previous.is_some_and(|p| p.stale.is_some()) || key.middle.is_some();
        if unsettled {
            key.git = Some(git_key(root));
        }
        if let Some(previous) = previous
            && previous.key == key
        {
            return Ok(previous.clone());
        }
        // A file replaced after its stamp was taken only means that the next call reads again.
        let (read, denied) = match disk::read(&path) {
            Ok(Some(bytes)) => match Document::parse(&bytes) {
                Ok(document) => (Ok(Some((bytes, document))), false),
                Err(ParseError::Newer(found)) => {
                    return Err(RegistryError::NewerHome { path, found, known: FORMAT });
                }
                Err(ParseError::Damaged(problem)) => (Err(problem), false),
            },
            Ok(None) => (Ok(None), false),
            Err(RegistryError::Io { source, .. }) => {
                (Err(format!("it cannot be read: {source}")), source.kind() == std::io::ErrorKind::PermissionDenied)
            }
            Err(other) => return Err(other),
        };
        let (stale, bytes, document) = match read {
            Ok(Some((bytes, document))) => (None, bytes, document),
            Ok(None) => match committed(root)? {
                Some((bytes, document)) => {
                    (Some("it is missing, and the last commit has it".to_owned()), bytes, document)
                }
                None => (None, Vec::new(), Document::empty()),
            },
            // Without a history to go back to, the damage is all there is.
            Err(problem) => match committed(root) {
                Ok(Some((bytes, document))) => (Some(problem), bytes, document),
                Ok(None) | Err(_) => {
                    let kept = Err("it was only looked at".to_owned());
                    return Err(RegistryError::Damaged { path, problem, kept });
                }
            },
        };
        if stale.is_some() && key.git.is_none() {
            key.git = Some(git_key(root));
        }
        let conflicts = match key.middle {
            Some(middle) => Git::open(root)?.map(|git| git.plan(middle, "")).transpose()?.flatten(),
            None => None,
        };
        let conflicts = conflicts.map(|plan| plan.conflicts()).unwrap_or_default();
        let mut snapshot = Self::build(key, bytes, document, previous, &conflicts);
        if let Some(problem) = stale {
            let shown = format!("{problem}; what is seen is the last commit, and nothing can be registered");
            snapshot.beside.push(Damaged { entry: INDEX.to_owned(), problem: shown });
            snapshot.stale = Some(Stale { problem, denied });
        }
        Ok(Arc::new(snapshot))
    }

    fn build(
        key: Key,
        bytes: Vec<u8>,
        document: Document,
        previous: Option<&Arc<Snapshot>>,
        conflicts: &[MergeConflict],
    ) -> Snapshot {
        let mut by_name = HashMap::with_capacity(document.entries.len());
        let mut by_alias = HashMap::new();
        let mut entries: Vec<Arc<Entry>> = Vec::with_capacity(document.entries.len());
        let mut conflicts: HashMap<&str, String> = conflicts
            .iter()
            .map(|c| (c.name.as_str(), format!("in conflict: {}; settle it: {}", c.problem, choices(&c.name))))
            .collect();
        let damaged = |raw: &RawValue, name: &CapabilityName, problem: String| {
            let parsed = Err(Damaged { entry: name.to_string(), problem });
            Arc::new(Entry { raw: raw.to_owned(), parsed, bag: OnceLock::new(), searched: OnceLock::new() })
        };
        for (i, raw) in document.entries.iter().enumerate() {
            let known = previous
                .and_then(|p| p.entries.get(i))
                .filter(|e| e.parsed.is_ok() && e.raw.get() == raw.get())
                .cloned();
            let mut entry = known.unwrap_or_else(|| Arc::new(Entry::read(raw, i)));
            if let Ok(capability) = &entry.parsed {
                if let Some(problem) = conflicts.remove(capability.name.as_str()) {
                    entry = damaged(raw, &capability.name, problem);
                } else if by_name.contains_key(&capability.name) {
                    entry = damaged(raw, &capability.name, DUPLICATE.to_owned());
                } else {
                    by_name.insert(capability.name.clone(), i);
                    for alias in capability.aliases.iter().filter(|_| capability.status != Status::Retired) {
                        by_alias.entry(alias.clone()).or_insert(i);
                    }
                }
            }
            entries.push(entry);
        }
        // In conflict, and in no entry of the file.
        let mut beside: Vec<Damaged> = conflicts
            .into_iter()
            .filter(|(name, _)| !entries.iter().any(|e| e.parsed.as_ref().is_err_and(|d| d.entry == *name)))
            .map(|(name, problem)| Damaged { entry: name.to_owned(), problem })
            .collect();
        beside.sort_by(|a, b| a.entry.cmp(&b.entry));
        Snapshot {
            key,
            bytes,
            document,
            entries,
            stale: None,
            beside,
            by_name,
            by_alias,
            active: OnceLock::new(),
            with_quarantined: OnceLock::new(),
        }
    }

    /// Of things that are in no file.
    pub fn of(capabilities: impl Iterator<Item = Capability>) -> Snapshot {
        let entry = |capability| {
            let raw = RawValue::NULL.to_owned();
            Arc::new(Entry { raw, parsed: Ok(capability), bag: OnceLock::new(), searched: OnceLock::new() })
        };
        let mut snapshot = Self::build(Key::default(), Vec::new(), Document::empty(), None, &[]);
        snapshot.entries = capabilities.map(entry).collect();
        snapshot
    }

    /// Has the file been replaced or written since this was read?
    pub fn outdated(&self, root: &Path) -> bool {
        fs::metadata(root.join(INDEX)).ok().map(|meta| stamp(&meta)) != self.key.index
    }

    pub fn exists(&self) -> bool {
        self.key.index.is_some()
    }

    pub fn position(&self, name: &CapabilityName) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub fn get(&self, name: &CapabilityName) -> Option<&Capability> {
        self.position(name).and_then(|i| self.capability(i))
    }

    /// Whom `name` is another name of.
    pub fn bearer(&self, name: &CapabilityName) -> Option<&Capability> {
        self.by_alias.get(name).and_then(|i| self.capability(*i))
    }

    /// What answers to `name`: the one of that name, and if that is retired or not there, the one that bears it as an
    /// alias.
    pub fn resolve(&self, name: &CapabilityName) -> Option<&Capability> {
        let own = self.get(name);
        own.filter(|capability| capability.status != Status::Retired).or_else(|| self.bearer(name)).or(own)
    }

    pub fn capability(&self, position: usize) -> Option<&Capability> {
        self.entries.get(position).and_then(|e| e.parsed.as_ref().ok())
    }

    pub fn capabilities(&self) -> impl Iterator<Item = &Capability> {
        self.entries.iter().filter_map(|e| e.parsed.as_ref().ok())
    }

    pub fn damaged(&self) -> impl Iterator<Item = &Damaged> {
        self.entries.iter().filter_map(|e| e.parsed.as_ref().err()).chain(&self.beside)
    }

    pub fn beside(&self) -> &[Damaged] {
        &self.beside
    }

    pub fn index(&self, which: Statuses) -> &Index {
        let slot = match which {
            Statuses::Active => &self.active,
            Statuses::WithQuarantined => &self.with_quarantined,
        };
        slot.get_or_init(|| Index::build(&self.entries, which))
    }
}

pub(crate) const DUPLICATE: &str = "another entry above has the same name";

/// How a conflict is settled.
pub(crate) fn choices(name: &str) -> String {
    format!("jarvis cap merge {name} --ours, or --theirs")
}

/// The newest committed index that can be read.
fn committed(root: &Path) -> Result<Option<(Vec<u8>, Document)>, RegistryError> {
    let Some(git) = Git::open(root)? else { return Ok(None) };
    let found = git.newest(INDEX, |bytes| Document::parse(bytes).ok().map(|document| (bytes.to_vec(), document)))?;
    Ok(found.map(|(_, found)| found))
}

/// What git decides: its commit, its list of conflicts, and what was chosen.
fn git_key(root: &Path) -> (Option<Stamp>, String) {
    let Ok(Some(git)) = Git::open(root) else { return (None, String::new()) };
    let staging = fs::metadata(git.repo().path().join("index")).ok().map(|meta| stamp(&meta));
    let chosen = disk::read(&Choices::path(&git)).ok().flatten().unwrap_or_default();
    let head = git.head_id().ok().flatten().unwrap_or_default();
    (staging, format!("{head}{}", String::from_utf8_lossy(&chosen)))
}

/// Copies a damaged index beside itself, once: its name carries the time of the damage.
pub(crate) fn keep_aside(root: &Path, path: &Path) -> Result<PathBuf, String> {
    let bytes = fs::read(path).map_err(|e| e.to_string())?;
    for file in fs::read_dir(root).map_err(|e| e.to_string())?.flatten() {
        let name = file.file_name();
        if name.to_string_lossy().starts_with("index.json.damaged-")
            && fs::read(file.path()).is_ok_and(|kept| kept == bytes)
        {
            return Ok(file.path());
        }
    }
    let at = fs::metadata(path)
        .and_then(|m| m.modified())
        .ok()
        .and_then(|t| jiff::Timestamp::try_from(t).ok())
        .unwrap_or_else(jiff::Timestamp::now);
    let copy = root.join(format!("index.json.damaged-{}", at.strftime("%Y%m%dT%H%M%S%.9fZ")));
    let staged = root.join(format!(".damaged.{}.tmp", std::process::id()));
    disk::stage(&staged, &bytes).and_then(|()| disk::publish(&staged, &copy)).map_err(|e| e.to_string())?;
    Ok(copy)
}
