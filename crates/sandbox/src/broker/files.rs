//! Files for a worker, opened beneath what is granted: neither `..` nor a link leads out.

use super::{Access, Answer, Refusal, granted, short};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use serde_json::json;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// The most entries that a listing has.
const MOST_ENTRIES: usize = 10_000;

/// A granted root and the way from there.
struct Place {
    root: OwnedFd,
    /// Without `..`; empty for the root itself.
    below: PathBuf,
    shown: String,
}

pub(super) fn read(access: &Access, grants: &[String], path: &str, most: usize) -> Answer {
    let place = find(access, grants, path, "read")?;
    let path = &place.shown;
    let file =
        open(&place.root, &place.below, OFlags::RDONLY | OFlags::NONBLOCK).map_err(|e| failed(&place.shown, e))?;
    let file = File::from(file);
    let about = file.metadata().map_err(|e| Refusal::failed(format!("{path}: {e}")))?;
    if !about.is_file() {
        return Err(Refusal::failed(format!("{path} is not a file; ctx.list shows a directory")));
    }
    let mut bytes = Vec::new();
    let count = file.take(most as u64 + 1).read_to_end(&mut bytes);
    count.map_err(|e| Refusal::failed(format!("{path}: {e}")))?;
    if bytes.len() > most {
        return Err(Refusal { name: "RangeError", message: format!("{path} is longer than {most} bytes") });
    }
    Ok((json!({}), bytes))
}

/// Replaces the file as a whole, so that nobody sees half of it. Missing directories are made.
pub(super) fn write(access: &Access, grants: &[String], path: &str, bytes: &[u8]) -> Answer {
    let place = find(access, grants, path, "write")?;
    let path = &place.shown;
    let Some(name) = place.below.file_name() else { return Err(Refusal::failed(format!("{path} is a directory"))) };
    let parent = place.below.parent().unwrap_or(Path::new(""));
    let directory = make_directories(&place.root, parent).map_err(|e| failed(&place.shown, e))?;
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
    let done = replace(&directory, name, bytes, mode);
    done.map_err(|e| Refusal::failed(format!("{path}: {e}")))?;
    Ok((json!({}), Vec::new()))
}

pub(super) fn list(access: &Access, grants: &[String], path: &str) -> Answer {
    let place = find(access, grants, path, "read")?;
    let path = &place.shown;
    let directory =
        open(&place.root, &place.below, OFlags::RDONLY | OFlags::DIRECTORY).map_err(|e| failed(&place.shown, e))?;
    let entries = rustix::fs::Dir::read_from(&directory).map_err(|e| failed(&place.shown, e))?;
    let mut found = Vec::new();
    for entry in entries.take(MOST_ENTRIES + 2) {
        let entry = entry.map_err(|e| failed(&place.shown, e))?;
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
        found.push((name.to_string_lossy().into_owned(), kind, size));
    }
    if found.len() > MOST_ENTRIES {
        return Err(Refusal { name: "RangeError", message: format!("{path} has more than {MOST_ENTRIES} entries") });
    }
    found.sort();
    let entries: Vec<_> =
        found.into_iter().map(|(name, kind, size)| json!({ "name": name, "kind": kind, "size": size })).collect();
    Ok((json!({ "entries": entries }), Vec::new()))
}

/// The granted root that the path lies in.
fn find(access: &Access, grants: &[String], path: &str, kind: &str) -> Result<Place, Refusal> {
    let not_granted = || {
        let (path, granted) = (short(path), granted(grants));
        Refusal::denied(format!("to {kind} {path} is not granted ({granted}); declare it in grants.{kind}"))
    };
    let workspace = access.workspace.as_deref();
    let full = absolute(workspace, path).ok_or_else(not_granted)?;
    let reachable = |place: &Path| !denied(access, place) && (kind != "write" || !kept(workspace, place));
    if !reachable(&full) {
        return Err(beyond(path));
    }
    for grant in grants {
        let Some(granted) = absolute(workspace, grant) else { continue };
        if !full.starts_with(&granted) {
            continue;
        }
        // A relative grant is followed from the workspace, so that a link inside it leads nowhere. An absolute one is
        // a place that a person named; a file is opened from its directory, for the same reason.
        let root = match workspace {
            Some(workspace) if !Path::new(grant).is_absolute() => workspace.to_owned(),
            _ if granted.is_dir() => granted,
            _ => granted.parent().map(Path::to_owned).unwrap_or(granted),
        };
        let below = full.strip_prefix(&root).map_err(|_| not_granted())?.to_owned();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened =
            rustix::fs::open(&root, flags, Mode::empty()).map_err(|e| failed(&root.display().to_string(), e))?;
        let real = real_path(&opened).map_err(|e| Refusal::failed(format!("{}: {e}", root.display())))?.join(&below);
        if !reachable(&real) {
            return Err(beyond(path));
        }
        return Ok(Place { root: opened, below, shown: short(path).into_owned() });
    }
    Err(not_granted())
}

fn beyond(path: &str) -> Refusal {
    let path = short(path);
    Refusal::denied(format!("{path} is not granted: it lies where no capability may reach"))
}

/// Whether it belongs to git or to jarvis: what is written there may be run later. The workspace may lie anywhere.
fn kept(workspace: Option<&Path>, path: &Path) -> bool {
    let real = workspace.and_then(|workspace| workspace.canonicalize().ok());
    let below = [workspace, real.as_deref()].into_iter().flatten().find_map(|root| path.strip_prefix(root).ok());
    below.unwrap_or(path).components().any(|part| {
        let name = part.as_os_str();
        name.eq_ignore_ascii_case(".git") || name.eq_ignore_ascii_case(".jarvis")
    })
}

fn denied(access: &Access, path: &Path) -> bool {
    access
        .denied
        .iter()
        .any(|place| path.starts_with(place) || place.canonicalize().is_ok_and(|place| path.starts_with(place)))
}

/// Where an open directory really is, whatever links led to it.
fn real_path(directory: &OwnedFd) -> std::io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))
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

fn open(root: &OwnedFd, below: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match rustix::fs::openat2(root, below, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // A rename happened meanwhile; the kernel asks to try again.
            Err(rustix::io::Errno::AGAIN) => {}
            outcome => return outcome,
        }
    }
}

fn make_directories(root: &OwnedFd, below: &Path) -> rustix::io::Result<OwnedFd> {
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

fn failed(path: &str, error: rustix::io::Errno) -> Refusal {
    use rustix::io::Errno;
    match error {
        Errno::LOOP | Errno::XDEV => {
            Refusal::denied(format!("{path} is not granted: a link on the way is not followed"))
        }
        Errno::NOENT => Refusal::failed(format!("{path} is not there")),
        other => Refusal::failed(format!("{path}: {other}")),
    }
}
