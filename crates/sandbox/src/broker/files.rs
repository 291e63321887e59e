//! Files for a worker, opened beneath what is granted: neither `..` nor a link leads out.

use super::kept::is_kept;
use super::{Access, Answer, Refusal, granted, short};
use crate::pool::lock;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use serde_json::json;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The most entries that a listing has.
const MOST_ENTRIES: usize = 10_000;

/// The most entries of denied places that are looked through for one with a second name.
const MOST_DENIED: usize = 200_000;

/// Device and inode of files beneath denied places that have more than one name; found out once a run, when a file with
/// several names is read. `None`: there are too many to tell.
pub(super) type Linked = Arc<Mutex<Option<Option<HashSet<(u64, u64)>>>>>;

/// What one request for a file is held against.
pub(crate) struct Files {
    pub(super) access: Arc<Access>,
    /// Those of the kind that is asked for.
    pub(super) grants: Vec<String>,
    pub(super) linked: Linked,
}

/// A granted root and the way from there.
struct Place {
    root: OwnedFd,
    /// Without `..`; empty for the root itself.
    below: PathBuf,
    shown: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Read,
    Write,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
        }
    }
}

impl Files {
    pub(crate) fn read(&self, path: &str, most: usize) -> Answer {
        let place = self.find(path, Kind::Read)?;
        let path = &place.shown;
        // Found without being opened: to open a device can do something, and to open a pipe waits.
        let found = open(&place.root, &place.below, OFlags::PATH).map_err(|e| failed(path, e))?;
        self.reachable(&place, &found)?;
        let stat = rustix::fs::fstat(&found).map_err(|e| failed(path, e))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Refusal::failed(format!("{path} is not a file; ctx.list shows a directory")));
        }
        let too_long = || Refusal { name: "RangeError".into(), message: format!("{path} is longer than {most} bytes") };
        if u64::try_from(stat.st_size).is_ok_and(|size| size > most as u64) {
            return Err(too_long());
        }
        let file = File::from(reopen(&found).map_err(|e| Refusal::failed(format!("{path}: {e}")))?);
        if stat.st_nlink > 1 && self.is_linked(&file) {
            return Err(Refusal::denied(format!(
                "{path} is not granted: it is another name of a file that lies where no capability may reach"
            )));
        }
        let mut bytes = Vec::new();
        let count = file.take(most as u64 + 1).read_to_end(&mut bytes);
        count.map_err(|e| Refusal::failed(format!("{path}: {e}")))?;
        if bytes.len() > most {
            return Err(too_long());
        }
        Ok((json!({}), bytes))
    }

    /// Replaces the file as a whole, so that nobody sees half of it. Missing directories are made.
    pub(super) fn write(&self, path: &str, bytes: &[u8]) -> Answer {
        let place = self.find(path, Kind::Write)?;
        let path = &place.shown;
        let (directory, name, mode) = self.target(&place)?;
        let done = replace(&directory, name, bytes, mode);
        done.map_err(|e| Refusal::failed(format!("{path}: {e}")))?;
        Ok((json!({}), Vec::new()))
    }

    /// Whether `write` would replace it, for somebody else who does. Missing directories are made.
    pub(crate) fn may_write(&self, path: &str) -> Result<(), Refusal> {
        self.target(&self.find(path, Kind::Write)?).map(|_| ())
    }

    /// The directory and the name that may be replaced in it, and with which rights.
    fn target<'a>(&self, place: &'a Place) -> Result<(OwnedFd, &'a OsStr, Mode), Refusal> {
        let path = &place.shown;
        let Some(name) = place.below.file_name() else { return Err(Refusal::failed(format!("{path} is a directory"))) };
        let parent = place.below.parent().unwrap_or(Path::new(""));
        let directory = make_directories(&place.root, parent).map_err(|e| failed(path, e))?;
        self.reachable(place, &directory)?;
        let about = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let mode = match about {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                let mode = Mode::from_raw_mode(stat.st_mode);
                if mode.intersects(Mode::XUSR | Mode::XGRP | Mode::XOTH) {
                    return Err(Refusal::denied(format!("{path} is a program, which no capability may change")));
                }
                mode
            }
            Ok(_) => return Err(Refusal::failed(format!("{path} is there and is not a file"))),
            Err(_) => Mode::from_raw_mode(0o644),
        };
        Ok((directory, name, mode))
    }

    pub(super) fn list(&self, path: &str) -> Answer {
        let place = self.find(path, Kind::Read)?;
        let path = &place.shown;
        let directory =
            open(&place.root, &place.below, OFlags::RDONLY | OFlags::DIRECTORY).map_err(|e| failed(path, e))?;
        self.reachable(&place, &directory)?;
        let entries = rustix::fs::Dir::read_from(&directory).map_err(|e| failed(path, e))?;
        let mut found = Vec::new();
        for entry in entries.take(MOST_ENTRIES + 2) {
            let entry = entry.map_err(|e| failed(path, e))?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let Ok(stat) = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let (kind, size) = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => ("file", Some(stat.st_size)),
                FileType::Directory => ("directory", None),
                _ => ("other", None),
            };
            // A name that is no text cannot be asked for; it is shown as well as it can be, as nothing to open.
            let kind = if name.to_str().is_ok() { kind } else { "other" };
            found.push((name.to_string_lossy().into_owned(), kind, size));
        }
        if found.len() > MOST_ENTRIES {
            return Err(Refusal {
                name: "RangeError".into(),
                message: format!("{path} has more than {MOST_ENTRIES} entries"),
            });
        }
        found.sort();
        let entries: Vec<_> =
            found.into_iter().map(|(name, kind, size)| json!({ "name": name, "kind": kind, "size": size })).collect();
        Ok((json!({ "entries": entries }), Vec::new()))
    }

    /// Whether the place is there and may be read at all.
    pub(crate) fn reachable_root(&self, path: &str) -> Result<(), Refusal> {
        let place = self.find(path, Kind::Read)?;
        let found = open(&place.root, &place.below, OFlags::PATH).map_err(|e| failed(&place.shown, e))?;
        self.reachable(&place, &found)
    }

    /// The granted root that the path lies in.
    fn find(&self, path: &str, kind: Kind) -> Result<Place, Refusal> {
        let not_granted = || {
            let (kind, path, granted) = (kind.name(), short(path), granted(&self.grants));
            Refusal::denied(format!("to {kind} {path} is not granted ({granted}); declare it in grants.{kind}"))
        };
        let workspace = self.access.workspace.as_deref();
        let full = absolute(workspace, path).ok_or_else(not_granted)?;
        if self.beyond(&full, kind) {
            return Err(beyond(path));
        }
        let covered = self.grants.iter().any(|grant| absolute(workspace, grant).is_some_and(|g| full.starts_with(g)));
        if !covered {
            return Err(not_granted());
        }
        // Followed from the workspace, where it lies in that, and else from the root of all: no link on the way leads
        // anywhere. A person approved this place, not another one that a link names.
        let root = workspace.filter(|workspace| full.starts_with(workspace)).unwrap_or(Path::new("/"));
        let below = full.strip_prefix(root).map_err(|_| not_granted())?.to_owned();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened =
            rustix::fs::open(root, flags, Mode::empty()).map_err(|e| failed(&root.display().to_string(), e))?;
        let place = Place { root: opened, below, shown: short(path).into_owned(), kind };
        // Before a directory is made.
        let real = real_path(&place.root).map_err(|e| Refusal::failed(format!("{}: {e}", root.display())))?;
        if self.beyond(&real.join(&place.below), kind) {
            return Err(beyond(path));
        }
        Ok(place)
    }

    /// Where something really lies is looked at once more when it is open, whatever led to it.
    fn reachable(&self, place: &Place, opened: &OwnedFd) -> Result<(), Refusal> {
        let real = real_path(opened).map_err(|e| Refusal::failed(format!("{}: {e}", place.shown)))?;
        if self.beyond(&real, place.kind) { Err(beyond(&place.shown)) } else { Ok(()) }
    }

    fn beyond(&self, place: &Path, kind: Kind) -> bool {
        denied(&self.access, place) || (kind == Kind::Write && kept(self.access.workspace.as_deref(), place))
    }

    /// Whether the file is one of a denied place by another name.
    fn is_linked(&self, file: &File) -> bool {
        let Ok(about) = file.metadata() else { return true };
        let mut linked = lock(&self.linked);
        let known = linked.get_or_insert_with(|| several_names(&self.access.denied));
        known.as_ref().is_none_or(|known| known.contains(&(about.dev(), about.ino())))
    }
}

fn beyond(path: &str) -> Refusal {
    let path = short(path);
    Refusal::denied(format!("{path} is not granted: it lies where no capability may reach"))
}

/// Whether it belongs to git, to jarvis or to what starts by itself. The workspace may lie anywhere.
fn kept(workspace: Option<&Path>, path: &Path) -> bool {
    let real = workspace.and_then(|workspace| workspace.canonicalize().ok());
    let below = [workspace, real.as_deref()].into_iter().flatten().find_map(|root| path.strip_prefix(root).ok());
    is_kept(below.unwrap_or(path))
}

/// The files beneath these places that have more than one name; `None` when there is too much to look through.
fn several_names(places: &[PathBuf]) -> Option<HashSet<(u64, u64)>> {
    // What the kernel shows there are no files of anybody.
    let mut open: Vec<PathBuf> = places
        .iter()
        .filter(|p| !["/proc", "/sys", "/dev"].iter().any(|kernel| p.starts_with(kernel)))
        .cloned()
        .collect();
    let (mut found, mut seen) = (HashSet::new(), 0);
    while let Some(place) = open.pop() {
        seen += 1;
        if seen > MOST_DENIED {
            return None;
        }
        // What cannot be looked at by this user cannot be linked by them either.
        let Ok(about) = place.symlink_metadata() else { continue };
        if about.is_dir() {
            let Ok(entries) = place.read_dir() else { continue };
            open.extend(entries.filter_map(Result::ok).map(|entry| entry.path()));
        } else if about.is_file() && about.nlink() > 1 {
            found.insert((about.dev(), about.ino()));
        }
    }
    Some(found)
}

pub(super) fn denied(access: &Access, path: &Path) -> bool {
    access
        .denied
        .iter()
        .any(|place| path.starts_with(place) || place.canonicalize().is_ok_and(|place| path.starts_with(place)))
}

/// Where something open really is, whatever links led to it.
fn real_path(opened: &OwnedFd) -> std::io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// The path from the root of the file system. `None` when it is relative and there is no workspace, or has `..`.
fn absolute(workspace: Option<&Path>, path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    let mut full = if path.is_absolute() { PathBuf::from("/") } else { workspace?.to_owned() };
    for part in path.components() {
        match part {
            Component::Normal(name) => full.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(full)
}

/// Beneath the root and without a link on the way.
fn open(root: &OwnedFd, below: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let flags = flags | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match rustix::fs::openat2(root, below, flags, Mode::empty(), resolve) {
            // A rename happened meanwhile; the kernel asks to try again.
            Err(Errno::AGAIN) => {}
            // An older kernel, or a container that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => return step_by_step(root, below, flags),
            outcome => return outcome,
        }
    }
}

/// The same by one open for each part of the path; slower, and on every kernel.
fn step_by_step(root: &OwnedFd, below: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut parts = below.components().filter(|part| *part != Component::CurDir).peekable();
    let into = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut here = rustix::fs::openat(root, ".", into, Mode::empty())?;
    if parts.peek().is_none() {
        return rustix::fs::openat(root, ".", flags, Mode::empty());
    }
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(Errno::XDEV) };
        let last = parts.peek().is_none();
        let next = rustix::fs::openat(&here, name, if last { flags | OFlags::NOFOLLOW } else { into }, Mode::empty());
        let next = match next {
            // What is no directory may be a link, which is said as openat2 says it.
            Err(Errno::NOTDIR) if is_link(&here, name) => return Err(Errno::LOOP),
            outcome => outcome?,
        };
        // With PATH, a link itself is opened.
        let stat = rustix::fs::fstat(&next)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP);
        }
        here = next;
    }
    Ok(here)
}

fn is_link(directory: &OwnedFd, name: &OsStr) -> bool {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// The very file that was found, for reading.
fn reopen(found: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty())
}

pub(crate) fn make_directories(root: &OwnedFd, below: &Path) -> rustix::io::Result<OwnedFd> {
    let mut here = open(root, Path::new(""), OFlags::RDONLY | OFlags::DIRECTORY)?;
    for part in below.components() {
        let name = Path::new(part.as_os_str());
        match rustix::fs::mkdirat(&here, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(e) => return Err(e),
        }
        here = open(&here, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
    }
    Ok(here)
}

fn replace(directory: &OwnedFd, name: &OsStr, bytes: &[u8], mode: Mode) -> std::io::Result<()> {
    let mut random = [0u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let temporary = format!(".jarvis-{:016x}", u64::from_ne_bytes(random));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(
        directory.as_fd(),
        temporary.as_str(),
        flags,
        mode & Mode::from_raw_mode(0o666),
    )?);
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| Ok(rustix::fs::renameat(directory.as_fd(), temporary.as_str(), directory.as_fd(), name)?));
    if written.is_err() {
        // What is left over is removed; the first error is the one to tell.
        let _ = rustix::fs::unlinkat(directory.as_fd(), temporary.as_str(), AtFlags::empty());
    }
    written
}

pub(crate) fn failed(path: &str, error: rustix::io::Errno) -> Refusal {
    match error {
        Errno::LOOP | Errno::XDEV => Refusal::denied(format!(
            "{path} is not granted: a link on the way is not followed; grant the place that it leads to"
        )),
        Errno::NOENT => Refusal { name: "FileNotFoundError".into(), message: format!("{path} is not there") },
        other => Refusal::failed(format!("{path}: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Older kernels walk; both ways must say the same.
    #[test]
    fn step_by_step_finds_and_refuses_the_same_as_the_kernel_at_once() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/x"), "x").unwrap();
        std::os::unix::fs::symlink("b", root.join("a/link")).unwrap();
        std::os::unix::fs::symlink("b/x", root.join("a/file")).unwrap();
        std::os::unix::fs::symlink("nowhere", root.join("a/broken")).unwrap();
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(root, directory, Mode::empty()).unwrap();
        for (path, found) in [
            ("", true),
            ("a", true),
            ("./a/./b", true),
            ("a/b/x", true),
            ("a/link/x", false),
            ("a/link", false),
            ("a/file", false),
            ("a/broken", false),
            ("a/b/x/y", false),
            ("a/none", false),
            ("../a", false),
            ("a/../a", false),
            ("/etc/passwd", false),
        ] {
            for flags in [OFlags::PATH, OFlags::RDONLY] {
                let walked = step_by_step(&opened, Path::new(path), flags | OFlags::CLOEXEC);
                assert_eq!(walked.is_ok(), found, "{path}: {walked:?}");
                if let Ok(walked) = walked {
                    let at_once = open(&opened, Path::new(path), flags).unwrap();
                    assert_eq!(real_path(&walked).unwrap(), real_path(&at_once).unwrap(), "{path}");
                }
            }
        }
        // `openat2` takes `..` that stays beneath; it never comes that far, for no path has it.
        assert!(absolute(Some(root), "a/../a").is_none());
    }
}
