//! A workspace at one moment: every path with what stands there. What has the same size, times and inode as when it was
//! looked at before is not read again.

use super::entry::Entry;
use super::place::{self, MOST_FILE, Root};
use super::store::Store;
use crate::agents::LEFT_OUT;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A file that changed so shortly before it was looked at may change again without its times showing it.
const SETTLED: Duration = Duration::from_millis(50);

/// How much of a workspace is followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub entries: usize,
    pub bytes: u64,
}

impl Bounds {
    pub const STANDARD: Bounds = Bounds { entries: 50_000, bytes: 512 << 20 };
}

/// Size, mode, inode and times.
type Stamp = (i64, u32, u64, (i64, i64), (i64, i64));

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    pub entry: Entry,
    /// None: it is read again.
    stamp: Option<Stamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub paths: BTreeMap<String, Seen>,
    /// Some names are no UTF-8, and are not in it.
    pub partial: bool,
}

/// Why a workspace is not followed.
#[derive(Debug)]
pub(super) enum Unfollowed {
    TooLarge,
    Io(io::Error),
}

impl From<io::Error> for Unfollowed {
    fn from(error: io::Error) -> Self {
        Unfollowed::Io(error)
    }
}

/// What a walk goes by.
pub(super) struct Walk<'a> {
    pub store: &'a Store,
    pub workspace: &'a Path,
    /// Folders that are never looked into, absolute.
    pub never: &'a [PathBuf],
    pub bounds: Bounds,
    /// What was seen before.
    pub known: &'a Manifest,
}

struct Open {
    folder: OwnedFd,
    below: String,
    rules: Vec<Gitignore>,
}

impl Walk<'_> {
    /// Looks at every path, and keeps the contents.
    pub fn run(&self) -> Result<Manifest, Unfollowed> {
        let mut seen = Manifest::default();
        let mut bytes = 0;
        let mut open =
            vec![Open { folder: Root::open(self.workspace)?.folder()?, below: String::new(), rules: Vec::new() }];
        while let Some(Open { folder, below, mut rules }) = open.pop() {
            let (entries, whole) = place::entries(&folder)?;
            seen.partial |= !whole;
            rules.extend(self.rules(&folder, &below));
            for (name, stat) in entries {
                let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
                let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                if is_folder && self.is_left_out(&name, &path, &rules) {
                    continue;
                }
                if seen.paths.len() >= self.bounds.entries {
                    return Err(Unfollowed::TooLarge);
                }
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && size <= MOST_FILE {
                    bytes += size;
                    if bytes > self.bounds.bytes {
                        return Err(Unfollowed::TooLarge);
                    }
                }
                let now = SystemTime::now();
                let Some(entry) = self.entry(&folder, &name, &path, &stat)? else { continue };
                let stamp = settled(&stat, now).then(|| stamp(&stat));
                seen.paths.insert(path.clone(), Seen { entry, stamp });
                // What became a link since is not gone into.
                if is_folder && let Ok(inner) = place::folder_at(&folder, OsStr::new(&name)) {
                    open.push(Open { folder: inner, below: path, rules: rules.clone() });
                }
            }
        }
        Ok(seen)
    }

    /// None: it is gone again.
    fn entry(&self, folder: &OwnedFd, name: &str, path: &str, stat: &Stat) -> Result<Option<Entry>, io::Error> {
        let known = self.known.paths.get(path).filter(|seen| seen.stamp == Some(stamp(stat)));
        if let Some(known) = known {
            return Ok(Some(known.entry.clone()));
        }
        match place::entry_at(folder, OsStr::new(name), stat, Some(self.store)) {
            Ok(entry) => Ok(Some(entry)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Folders that programs make for themselves, those that the person's rules ignore, and jarvis's own. Files are
    /// followed whatever the rules say: settings with keys are ignored by git, and are wanted back all the same.
    fn is_left_out(&self, name: &str, path: &str, rules: &[Gitignore]) -> bool {
        if LEFT_OUT.contains(&name) || self.never.iter().any(|never| *never == self.workspace.join(path)) {
            return true;
        }
        // The rules nearest to it decide.
        let decided = rules.iter().rev().map(|rules| rules.matched(path, true)).find(|found| !found.is_none());
        matches!(decided, Some(Match::Ignore(_)))
    }

    fn rules(&self, folder: &OwnedFd, below: &str) -> Option<Gitignore> {
        let text = place::small(folder, ".gitignore")?;
        let mut builder = GitignoreBuilder::new(below);
        for line in text.lines() {
            // A line that is no rule rules nothing.
            let _ = builder.add_line(None, line);
        }
        builder.build().ok()
    }
}

impl Manifest {
    pub fn entry(&self, path: &str) -> Entry {
        self.paths.get(path).map_or(Entry::Missing, |seen| seen.entry.clone())
    }

    /// Paths that are not the same in both, with what they were and are.
    pub fn compare<'a>(&'a self, later: &'a Manifest) -> impl Iterator<Item = (&'a str, Entry, Entry)> {
        let gone = self.paths.keys().filter(|path| !later.paths.contains_key(*path));
        let all = later.paths.keys().chain(gone).map(String::as_str);
        all.map(|path| (path, self.entry(path), later.entry(path))).filter(|(_, before, after)| before != after)
    }

    pub fn digests(&self) -> impl Iterator<Item = &str> {
        self.paths.values().filter_map(|seen| match &seen.entry {
            Entry::File { digest, .. } => Some(digest.as_str()),
            _ => None,
        })
    }
}

#[allow(clippy::useless_conversion, reason = "the widths of these fields are the platform's")]
fn stamp(stat: &Stat) -> Stamp {
    let nanos = |n| i64::try_from(n).unwrap_or(0);
    (
        stat.st_size,
        u32::from(stat.st_mode),
        stat.st_ino,
        (stat.st_mtime, nanos(stat.st_mtime_nsec)),
        (stat.st_ctime, nanos(stat.st_ctime_nsec)),
    )
}

fn settled(stat: &Stat, now: SystemTime) -> bool {
    let Ok(seconds) = u64::try_from(stat.st_ctime) else { return false };
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_nanos(stat.st_ctime_nsec);
    now.duration_since(changed).is_ok_and(|since| since >= SETTLED)
}
