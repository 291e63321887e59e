//! `index.json` as it was read, shared until the file changes: another process's registration is seen at once.

use crate::index::{Document, FORMAT, ParseError, parse_entry};
use crate::search::{Index, Terms};
use crate::types::{Damaged, Statuses};
use crate::{RegistryError, disk};
use jarvis_protocol::{Capability, CapabilityName};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// What tells one state of the file from the next. Every write makes a new file, so the inode moves with each.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    inode: u64,
}

fn stamp(meta: &Metadata) -> Stamp {
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(meta);
    #[cfg(not(unix))]
    let inode = 0;
    Stamp { modified: meta.modified().ok(), len: meta.len(), inode }
}

/// One entry; shared between snapshots while its text stays the same.
pub(crate) struct Entry {
    pub raw: Box<RawValue>,
    pub parsed: Result<Capability, Damaged>,
    terms: OnceLock<Terms>,
}

impl Entry {
    /// Only asked of entries that parsed.
    pub fn terms(&self, capability: &Capability) -> &Terms {
        self.terms.get_or_init(|| Terms::of(capability))
    }
}

pub(crate) struct Snapshot {
    /// None where there is no file yet.
    stamp: Option<Stamp>,
    pub bytes: Vec<u8>,
    pub document: Document,
    pub entries: Vec<Arc<Entry>>,
    by_name: HashMap<CapabilityName, usize>,
    active: OnceLock<Index>,
    with_quarantined: OnceLock<Index>,
}

impl Snapshot {
    /// The state on disk now; `previous` itself when the file is the same.
    pub fn load(root: &Path, previous: Option<&Arc<Snapshot>>) -> Result<Arc<Snapshot>, RegistryError> {
        let path = root.join("index.json");
        let now = match fs::metadata(&path) {
            Ok(meta) => Some(stamp(&meta)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(RegistryError::io("read", &path, e)),
        };
        if let Some(previous) = previous
            && previous.stamp == now
        {
            return Ok(previous.clone());
        }
        // A file replaced after its stamp was taken only means that the next call reads again.
        let Some(bytes) = disk::read(&path)? else {
            return Ok(Arc::new(Self::build(None, Vec::new(), Document::empty(), previous)));
        };
        match Document::parse(&bytes) {
            Ok(document) => Ok(Arc::new(Self::build(now, bytes, document, previous))),
            Err(ParseError::Newer(found)) => Err(RegistryError::NewerHome { path, found, known: FORMAT }),
            Err(ParseError::Damaged(problem)) => {
                let kept = keep_aside(root, &path, &bytes);
                Err(RegistryError::Damaged { path, problem, kept })
            }
        }
    }

    fn build(stamp: Option<Stamp>, bytes: Vec<u8>, document: Document, previous: Option<&Arc<Snapshot>>) -> Snapshot {
        let mut by_name = HashMap::with_capacity(document.entries.len());
        let mut entries: Vec<Arc<Entry>> = Vec::with_capacity(document.entries.len());
        for (i, raw) in document.entries.iter().enumerate() {
            let known = previous
                .and_then(|p| p.entries.get(i))
                .filter(|e| e.parsed.is_ok() && e.raw.get() == raw.get())
                .cloned();
            let mut entry = known.unwrap_or_else(|| {
                Arc::new(Entry { raw: raw.clone(), parsed: parse_entry(raw, i), terms: OnceLock::new() })
            });
            if let Ok(capability) = &entry.parsed {
                if by_name.contains_key(&capability.name) {
                    let problem = "another entry above has the same name".to_owned();
                    let parsed = Err(Damaged { entry: capability.name.to_string(), problem });
                    entry = Arc::new(Entry { raw: raw.clone(), parsed, terms: OnceLock::new() });
                } else {
                    by_name.insert(capability.name.clone(), i);
                }
            }
            entries.push(entry);
        }
        Snapshot {
            stamp,
            bytes,
            document,
            entries,
            by_name,
            active: OnceLock::new(),
            with_quarantined: OnceLock::new(),
        }
    }

    pub fn exists(&self) -> bool {
        self.stamp.is_some()
    }

    pub fn position(&self, name: &CapabilityName) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub fn get(&self, name: &CapabilityName) -> Option<&Capability> {
        self.position(name).and_then(|i| self.capability(i))
    }

    pub fn capability(&self, position: usize) -> Option<&Capability> {
        self.entries.get(position).and_then(|e| e.parsed.as_ref().ok())
    }

    pub fn capabilities(&self) -> impl Iterator<Item = &Capability> {
        self.entries.iter().filter_map(|e| e.parsed.as_ref().ok())
    }

    pub fn damaged(&self) -> impl Iterator<Item = &Damaged> {
        self.entries.iter().filter_map(|e| e.parsed.as_ref().err())
    }

    pub fn index(&self, which: Statuses) -> &Index {
        let slot = match which {
            Statuses::Active => &self.active,
            Statuses::WithQuarantined => &self.with_quarantined,
        };
        slot.get_or_init(|| Index::build(&self.entries, which))
    }
}

/// Copies a damaged index beside itself, once: its name carries the time of the damage.
fn keep_aside(root: &Path, path: &Path, bytes: &[u8]) -> Result<PathBuf, String> {
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
    disk::stage(&staged, bytes).and_then(|()| disk::publish(&staged, &copy)).map_err(|e| e.to_string())?;
    Ok(copy)
}
