//! Files of a workspace by descriptors: every step from its root is opened without following a link, so that nothing is
//! read or written anywhere else, whatever a program made of the folders in the meantime.

use super::entry::Entry;
use super::store::Store;
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use std::sync::atomic::{AtomicU64, Ordering};

/// Larger files are not kept.
pub(super) const MOST_FILE: u64 = 32 << 20;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

static NEXT: AtomicU64 = AtomicU64::new(0);

pub(super) struct Root(OwnedFd);

impl Root {
    pub fn open(workspace: &Path) -> io::Result<Root> {
        Ok(Root(fs::open(workspace, FOLDER, Mode::empty())?))
    }

    pub fn folder(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// The folder that `path` is in, and its name there; none where that folder is not there. With `make` it is made.
    ///
    /// # Errors
    /// Where a part of the way is a link.
    fn parent(&self, path: &str, make: bool) -> io::Result<Option<(OwnedFd, OsString)>> {
        let path = Path::new(path);
        let (Some(name), Some(above)) = (path.file_name(), path.parent()) else {
            return Err(io::Error::from(Errno::INVAL));
        };
        let mut at = self.folder()?;
        for part in above.components() {
            let Component::Normal(part) = part else { return Err(io::Error::from(Errno::INVAL)) };
            if make {
                match fs::mkdirat(&at, part, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            at = match folder_at(&at, part) {
                Ok(next) => next,
                Err(Errno::NOENT) => return Ok(None),
                // In the place of the folder is a file now, so nothing is in it; a link may lead to something.
                Err(Errno::NOTDIR) if !make && !is_link(&at, part)? => return Ok(None),
                Err(error) => return Err(error.into()),
            };
        }
        Ok(Some((at, name.to_owned())))
    }

    /// What is at `path`; its content is kept where there is a store for it.
    ///
    /// # Errors
    /// Also where a part of the way is a link now.
    pub fn look(&self, path: &str, keep: Option<&Store>) -> io::Result<Entry> {
        let Some((folder, name)) = self.parent(path, false)? else { return Ok(Entry::Missing) };
        match fs::statat(&folder, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => entry_at(&folder, &name, &stat, keep),
            Err(Errno::NOENT) => Ok(Entry::Missing),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts a file in the place of what is there, which no reader sees half of.
    pub fn put_file(&self, path: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
        self.put(path, |folder, part| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut file = File::from(fs::openat(folder, part, flags, Mode::from_raw_mode(0o600))?);
            file.write_all(bytes)?;
            Ok(fs::fchmod(&file, Mode::from_raw_mode(mode))?)
        })
    }

    pub fn put_link(&self, path: &str, target: &str) -> io::Result<()> {
        self.put(path, |folder, part| Ok(fs::symlinkat(target, folder, part)?))
    }

    fn put(&self, path: &str, make: impl FnOnce(&OwnedFd, &str) -> io::Result<()>) -> io::Result<()> {
        let (folder, name) = self.parent(path, true)?.ok_or_else(|| io::Error::from(Errno::NOENT))?;
        let part = format!(".jarvis-undo-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let done = make(&folder, &part).and_then(|()| Ok(fs::renameat(&folder, &part, &folder, name.as_os_str())?));
        if done.is_err() {
            let _ = fs::unlinkat(&folder, &part, AtFlags::empty());
        }
        done
    }

    pub fn put_folder(&self, path: &str, mode: u32) -> io::Result<()> {
        let (folder, name) = self.parent(path, true)?.ok_or_else(|| io::Error::from(Errno::NOENT))?;
        match fs::mkdirat(&folder, name.as_os_str(), Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        // A link in its place is not followed.
        let made = folder_at(&folder, &name)?;
        Ok(fs::fchmod(&made, Mode::from_raw_mode(mode))?)
    }

    /// Takes away a file or a link, or a folder that is empty; gives whether it is gone.
    pub fn remove(&self, path: &str, folder: bool) -> io::Result<bool> {
        let Some((above, name)) = self.parent(path, false)? else { return Ok(true) };
        let flags = if folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match fs::unlinkat(&above, name.as_os_str(), flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            // Something of somebody else's is in it.
            Err(Errno::NOTEMPTY | Errno::EXIST) if folder => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_link(at: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let stat = fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

pub(super) fn folder_at(at: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    fs::openat(at, name, FOLDER, Mode::empty())
}

/// Names in a folder with what they are, in order; those that are no UTF-8 are left out, and that is told.
pub(super) fn entries(folder: &OwnedFd) -> io::Result<(Vec<(String, Stat)>, bool)> {
    let mut found = Vec::new();
    let mut whole = true;
    for entry in Dir::read_from(folder.as_fd())? {
        let entry = entry?;
        let bytes = entry.file_name().to_bytes();
        if bytes == b"." || bytes == b".." {
            continue;
        }
        let Ok(name) = std::str::from_utf8(bytes) else {
            whole = false;
            continue;
        };
        // What is gone again is not there.
        if let Ok(stat) = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            found.push((name.to_owned(), stat));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok((found, whole))
}

fn bits(stat: &Stat) -> u32 {
    Mode::from_raw_mode(stat.st_mode).bits() & 0o7777
}

pub(super) fn entry_at(folder: &OwnedFd, name: &OsStr, stat: &Stat, keep: Option<&Store>) -> io::Result<Entry> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(Entry::Folder { mode: bits(stat) }),
        FileType::Symlink => {
            let target = fs::readlinkat(folder, name, Vec::new())?;
            Ok(target.into_string().map_or(Entry::Other, |target| Entry::Link { target }))
        }
        FileType::RegularFile => match content(folder, name) {
            Ok(Content::Bytes(bytes, mode)) => {
                let digest = match keep {
                    Some(store) => store.put(&bytes).map_err(io::Error::other)?,
                    None => blake3::hash(&bytes).to_hex().to_string(),
                };
                Ok(Entry::File { digest, mode })
            }
            Ok(Content::Large(stat)) => Ok(Entry::Large {
                bytes: u64::try_from(stat.st_size).unwrap_or(0),
                changed: (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
            }),
            Ok(Content::NoFile) => Ok(Entry::Other),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Entry::Other),
            Err(error) => Err(error),
        },
        _ => Ok(Entry::Other),
    }
}

enum Content {
    Bytes(Vec<u8>, u32),
    Large(Stat),
    /// It was a file a moment ago.
    NoFile,
}

fn content(folder: &OwnedFd, name: &OsStr) -> io::Result<Content> {
    // Not blocking: a pipe may have taken its place.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match fs::openat(folder, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::LOOP) => return Ok(Content::NoFile),
        Err(error) => return Err(error.into()),
    };
    let stat = fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(Content::NoFile);
    }
    let mut bytes = Vec::new();
    File::from(file).take(MOST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_FILE { Ok(Content::Large(stat)) } else { Ok(Content::Bytes(bytes, bits(&stat))) }
}

/// Bytes of a small file of a folder, such as rules of what is ignored.
pub(super) fn small(folder: &OwnedFd, name: &str) -> Option<String> {
    match content(folder, OsStr::from_bytes(name.as_bytes())) {
        Ok(Content::Bytes(bytes, _)) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        _ => None,
    }
}
