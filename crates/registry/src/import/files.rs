//! Where a package is read from: a folder, or what an archive held. Nothing is followed out of it, and every read is
//! bounded.

use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Files of one package. Paths are relative, with `/`, without `.` and `..`.
pub(crate) trait Files {
    /// None where there is no such file.
    ///
    /// # Errors
    /// In words: it is no plain file, or longer than `most`.
    fn read(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>, String>;
    /// The names of the folders and files at the top, folders marked.
    fn top(&self) -> Result<Vec<(String, bool)>, String>;
    /// Every file, in order.
    fn all(&self) -> Result<Vec<String>, String>;
}

/// The most files that are looked at.
pub(crate) const MOST_FILES: usize = 250_000;

/// `a/./b` as `a/b`; none where it leads out, is absolute, or holds nothing.
pub(crate) fn inside(path: &str) -> Option<String> {
    if path.starts_with('/') || path.contains(['\\', '\0']) {
        return None;
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.is_empty() && !parts.contains(&"..")).then(|| parts.join("/"))
}

pub(crate) fn too_long(most: u64) -> String {
    format!("it is longer than {most} bytes")
}

/// A folder of the disk.
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub fn new(root: &Path) -> Folder {
        Folder { root: root.to_owned() }
    }

    /// Opens one step after the other, so that no symbolic link on the way is followed, however it is exchanged.
    fn open(&self, path: &str) -> Result<Option<File>, String> {
        let mut here =
            rustix::fs::open(&self.root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|e| e.to_string())?;
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            let kind = if parts.peek().is_some() { OFlags::DIRECTORY } else { OFlags::NONBLOCK };
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | kind;
            here = match rustix::fs::openat(&here, part, flags, Mode::empty()) {
                Ok(next) => next,
                Err(rustix::io::Errno::NOENT) => return Ok(None),
                Err(rustix::io::Errno::LOOP) => return Err(format!("`{part}` is a symbolic link")),
                // A link where a folder is wanted.
                Err(rustix::io::Errno::NOTDIR) => return Err(format!("`{part}` is no folder")),
                Err(e) => return Err(e.to_string()),
            };
        }
        Ok(Some(File::from(here)))
    }
}

impl Files for Folder {
    fn read(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>, String> {
        let Some(file) = self.open(path)? else { return Ok(None) };
        if !file.metadata().map_err(|e| e.to_string())?.is_file() {
            return Err("it is no plain file".to_owned());
        }
        bounded(file, most).map(Some)
    }

    fn top(&self) -> Result<Vec<(String, bool)>, String> {
        list(&self.root)
    }

    fn all(&self) -> Result<Vec<String>, String> {
        let mut open = vec![String::new()];
        let mut found = Vec::new();
        while let Some(folder) = open.pop() {
            for (name, is_folder) in list(&self.root.join(&folder))? {
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                if is_folder { &mut open } else { &mut found }.push(path);
                if found.len() + open.len() > MOST_FILES {
                    return Err(format!("it holds more than {MOST_FILES} files"));
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

fn list(folder: &Path) -> Result<Vec<(String, bool)>, String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| e.to_string())? {
        let entry = entry.map_err(|e| e.to_string())?;
        let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        names.push((entry.file_name().to_string_lossy().into_owned(), folder));
    }
    Ok(names)
}

pub(crate) fn bounded(from: impl Read, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > most { Err(too_long(most)) } else { Ok(bytes) }
}

/// What an archive held.
#[derive(Default)]
pub(crate) struct Memory {
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Files for Memory {
    fn read(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>, String> {
        match self.files.get(path) {
            Some(bytes) if bytes.len() as u64 > most => Err(too_long(most)),
            found => Ok(found.cloned()),
        }
    }

    fn top(&self) -> Result<Vec<(String, bool)>, String> {
        let mut names: Vec<(String, bool)> = Vec::new();
        for path in self.files.keys() {
            let (name, folder) = path.split_once('/').map_or((path.as_str(), false), |(name, _)| (name, true));
            if names.last().is_none_or(|(last, _)| last != name) {
                names.push((name.to_owned(), folder));
            }
        }
        Ok(names)
    }

    fn all(&self) -> Result<Vec<String>, String> {
        Ok(self.files.keys().cloned().collect())
    }
}
