//! Contents of files by their digest, in a folder of jarvis's own. A content is there whole or not at all, and is thrown
//! away when no session and no workspace names it any more.

use super::CheckpointError;
use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// What is this young may belong to a record that another process is about to write.
const YOUNG: Duration = Duration::from_secs(3600);
/// A workspace that nobody worked in for so long is read anew when somebody does.
const UNUSED: Duration = Duration::from_secs(14 * 24 * 3600);
/// How often what nothing names is looked for.
const SWEEP: Duration = Duration::from_secs(24 * 3600);

static NEXT: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, Clone)]
pub(super) struct Store {
    folder: PathBuf,
}

impl Store {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn path(&self, digest: &str) -> PathBuf {
        let (begin, rest) = digest.split_at_checked(2).unwrap_or((digest, ""));
        self.folder.join("objects").join(begin).join(rest)
    }

    /// Keeps `bytes`; gives their digest.
    pub fn put(&self, bytes: &[u8]) -> Result<String, CheckpointError> {
        let digest = blake3::hash(bytes).to_hex().to_string();
        let path = self.path(&digest);
        if !path.exists() {
            self.replace(&path, bytes)?;
        }
        Ok(digest)
    }

    /// The content of that digest; one that is not what it is called is none.
    pub fn get(&self, digest: &str) -> Result<Vec<u8>, CheckpointError> {
        let path = self.path(digest);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(|source| CheckpointError::io("read", &path, source))?;
        if blake3::hash(&bytes).to_hex().as_str() != digest {
            return Err(CheckpointError::Damaged { path });
        }
        Ok(bytes)
    }

    /// A small file of this folder.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.folder.join(name)).ok()
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), CheckpointError> {
        self.replace(&self.folder.join(name), bytes)
    }

    pub fn remove(&self, name: &str) {
        // What stays behind is found to be out of date.
        let _ = fs::remove_file(self.folder.join(name));
    }

    /// Seen by others whole, readable by its owner alone.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
        let folder = path.parent().unwrap_or(&self.folder);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|source| CheckpointError::io("make", folder, source))?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let part = folder.join(format!(".part-{}-{number}", std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&part)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&part, path));
        written.map_err(|source| {
            let _ = fs::remove_file(&part);
            CheckpointError::io("write", path, source)
        })
    }

    /// Whether it is time to look for what nothing names.
    pub fn is_due(&self) -> bool {
        age(&self.folder.join("swept")).is_none_or(|age| age >= SWEEP)
    }

    /// Throws away every content that is not among `kept` and not young.
    pub fn sweep(&self, kept: &HashSet<String>) -> Result<usize, CheckpointError> {
        self.write("swept", b"")?;
        let mut gone = 0;
        for outer in entries(&self.folder.join("objects")) {
            for path in entries(&outer) {
                let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let young = age(&path).is_some_and(|age| age < YOUNG);
                if !young && !kept.contains(&(name(&outer) + &name(&path))) && fs::remove_file(&path).is_ok() {
                    gone += 1;
                }
            }
        }
        Ok(gone)
    }

    /// Files of a folder of this folder; those that were not written for long are removed.
    pub fn files(&self, folder: &str) -> Vec<Vec<u8>> {
        let all = entries(&self.folder.join(folder));
        let (old, used): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|path| age(path).is_some_and(|age| age >= UNUSED));
        old.iter().for_each(|path| {
            // It is tried again the next time.
            let _ = fs::remove_file(path);
        });
        used.iter().filter_map(|path| fs::read(path).ok()).collect()
    }
}

/// Since it was written; nothing for what lies in the future. None: it is not there.
fn age(path: &Path) -> Option<Duration> {
    let written = fs::metadata(path).and_then(|about| about.modified()).ok()?;
    Some(SystemTime::now().duration_since(written).unwrap_or_default())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).map(|found| found.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_names_is_thrown_away_and_what_is_damaged_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_owned());
        let (kept, lost) = (store.put("保留".as_bytes()).unwrap(), store.put(b"lost").unwrap());
        let old = SystemTime::now() - 2 * YOUNG;
        for digest in [&kept, &lost] {
            File::options().write(true).open(store.path(digest)).unwrap().set_modified(old).unwrap();
        }
        let young = store.put(b"young").unwrap();
        assert!(store.is_due());
        assert_eq!(store.sweep(&HashSet::from([kept.clone()])).unwrap(), 1);
        assert!(!store.is_due());
        assert_eq!(store.get(&kept).unwrap(), "保留".as_bytes());
        assert!(store.get(&lost).is_err() && store.get(&young).is_ok());
        fs::write(store.path(&kept), b"something else").unwrap();
        assert!(matches!(store.get(&kept), Err(CheckpointError::Damaged { .. })));
    }
}
