//! The folder of notes: looked through without following links, written under one lock, each file whole or not at all.

use super::{MemoryError, Problem};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of one note. What is longer is a document.
const LARGEST: u64 = 1 << 20;
const DEEPEST: usize = 8;
const LONGEST_WAIT: Duration = Duration::from_secs(15);
const LOCK: &str = ".lock";
const UNFINISHED: &str = ".unfinished-";

#[derive(Debug, Clone)]
pub(crate) struct Folder {
    root: PathBuf,
}

/// What changes when a file does. The change time moves even where an editor sets the other one back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub size: i64,
    /// Nanoseconds.
    pub mtime: i64,
    pub ctime: i64,
    pub inode: i64,
}

impl Stamp {
    fn of(found: &fs::Metadata) -> Self {
        let nanoseconds = |s: i64, n: i64| s.saturating_mul(1_000_000_000).saturating_add(n);
        Self {
            size: i64::try_from(found.len()).unwrap_or(i64::MAX),
            mtime: nanoseconds(found.mtime(), found.mtime_nsec()),
            ctime: nanoseconds(found.ctime(), found.ctime_nsec()),
            inode: found.ino().cast_signed(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// The path below the folder, with `/`, and its stamp; by path.
    pub files: Vec<(String, Stamp)>,
    pub problems: Vec<Problem>,
}

/// Held while one process or thread changes files.
pub(crate) struct FolderLock {
    _file: File,
}

impl Folder {
    pub fn open(root: &Path) -> Result<Self, MemoryError> {
        fs::create_dir_all(root).map_err(MemoryError::io("create", root))?;
        Ok(Self { root: root.to_owned() })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn lock(&self) -> Result<FolderLock, MemoryError> {
        let path = self.root.join(LOCK);
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = opened.map_err(MemoryError::io("open", &path))?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(FolderLock { _file: file }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(e)) => return Err(MemoryError::io("lock", &path)(e)),
            }
            if start.elapsed() > LONGEST_WAIT {
                return Err(MemoryError::Busy { path: self.root.clone(), seconds: LONGEST_WAIT.as_secs() });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// All Markdown files but hidden ones.
    pub fn scan(&self) -> Result<Scan, MemoryError> {
        let mut scan = Scan::default();
        self.walk(&self.root, "", 0, &mut scan)?;
        scan.files.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(scan)
    }

    fn walk(&self, folder: &Path, below: &str, depth: usize, scan: &mut Scan) -> Result<(), MemoryError> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(e) if depth > 0 => {
                scan.problem(folder, format!("the folder cannot be read: {e}"));
                return Ok(());
            }
            Err(e) => return Err(MemoryError::io("read", folder)(e)),
        };
        for entry in entries {
            let entry = entry.map_err(MemoryError::io("read", folder))?;
            let name = entry.file_name();
            let path = entry.path();
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            // Of the entry itself: links are not followed.
            let found = match entry.metadata() {
                Ok(found) => found,
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => {
                    scan.problem(&path, format!("it cannot be looked at: {e}"));
                    continue;
                }
            };
            let markdown = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("md"));
            if found.is_symlink() {
                if markdown || path.is_dir() {
                    scan.problem(&path, "it is a link, and links are not followed".to_owned());
                }
                continue;
            }
            if !found.is_dir() && !markdown {
                continue;
            }
            let Some(name) = name.to_str() else {
                scan.problem(&path, "its name is not UTF-8".to_owned());
                continue;
            };
            let name = format!("{below}{name}");
            if found.is_dir() {
                if depth + 1 >= DEEPEST {
                    scan.problem(&path, format!("it lies more than {DEEPEST} folders deep"));
                } else {
                    self.walk(&path, &format!("{name}/"), depth + 1, scan)?;
                }
            } else if !found.is_file() {
                scan.problem(&path, "it is no file".to_owned());
            } else if found.len() > LARGEST {
                scan.problem(&path, format!("it has {} bytes; a note has at most {LARGEST}", found.len()));
            } else {
                let stamp = Stamp::of(&found);
                scan.files.push((name, stamp));
            }
        }
        Ok(())
    }

    /// Of a file that was written just now.
    pub fn stamp(&self, name: &str) -> Result<Stamp, MemoryError> {
        let path = self.path(name);
        fs::symlink_metadata(&path).map(|found| Stamp::of(&found)).map_err(MemoryError::io("look at", &path))
    }

    /// Its bytes, of which at most what a note may have; none where it is gone.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, MemoryError> {
        let path = self.path(name);
        let mut bytes = Vec::new();
        match File::open(&path).and_then(|f| f.take(LARGEST + 1).read_to_end(&mut bytes)) {
            Ok(_) => Ok(Some(bytes)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(MemoryError::io("read", &path)(e)),
        }
    }

    /// A file of our own, of any size; none where there is none.
    pub fn read_whole(&self, name: &str) -> Result<Option<Vec<u8>>, MemoryError> {
        let path = self.path(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(MemoryError::io("read", &path)(e)),
        }
    }

    /// Replaces the file as a whole; it is on disk afterwards. Under the lock.
    pub fn write(&self, name: &str, text: &str, _: &FolderLock) -> Result<(), MemoryError> {
        let path = self.path(name);
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(MemoryError::io("create", folder))?;
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        // Beside it, and hidden: never a note.
        let staged = folder.join(format!("{UNFINISHED}{file}"));
        let written = File::create(&staged)
            .and_then(|mut f| f.write_all(text.as_bytes()).and_then(|()| f.sync_all()))
            .and_then(|()| fs::rename(&staged, &path))
            .and_then(|()| File::open(folder)?.sync_all());
        written.map_err(|e| {
            // Half a note is of no use.
            let _ = fs::remove_file(&staged);
            MemoryError::io("write", &path)(e)
        })
    }

    /// Adds one line to a file.
    pub fn add_line(&self, name: &str, line: &str, _: &FolderLock) -> Result<(), MemoryError> {
        let path = self.path(name);
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        let written = opened.and_then(|mut f| f.write_all(format!("{line}\n").as_bytes()).and_then(|()| f.sync_all()));
        written.map_err(MemoryError::io("write", &path))
    }

    pub fn remove(&self, name: &str, _: &FolderLock) -> Result<(), MemoryError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(MemoryError::io("remove", &path)(e)),
            _ => Ok(()),
        }
    }

    /// The names in a folder below; of files alone.
    pub fn names(&self, below: &str) -> Result<Vec<String>, MemoryError> {
        let path = self.path(below);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(MemoryError::io("read", &path)(e)),
        };
        let files = entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_file()));
        let mut names: Vec<String> = files.filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// What a process that died in mid-write left, which may be something that is to be forgotten. Under the lock.
    pub fn remove_unfinished(&self, below: &str, lock: &FolderLock) -> Result<(), MemoryError> {
        for name in self.names(below)?.iter().filter(|n| n.starts_with(UNFINISHED)) {
            let name = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            self.remove(&name, lock)?;
        }
        Ok(())
    }
}

impl Scan {
    fn problem(&mut self, path: &Path, problem: String) {
        self.problems.push(Problem { path: path.to_owned(), problem });
    }
}
