//! What stays as it is inside writable places, what is covered, and what holds both in their places.

use super::kept::{KEPT_NAMES, names_kept};
use super::lists::{BARE_HEAD, NEVER_MADE};
use super::placeholder::Placeholder;
use super::plan::Mount;
use super::settle::spec_error;
use super::wire::Raw;
use crate::error::SandboxError;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How far a place is looked through before a jail starts.
const MOST_ENTRIES: usize = 20_000;
const MOST_LEVELS: usize = 8;
/// Large, and nobody's settings.
const NOT_INTO: [&str; 2] = ["node_modules", "target"];

/// What is asked of a jail, without links.
pub(super) struct Places<'a> {
    pub workspace: Option<&'a Path>,
    pub read_only: &'a [PathBuf],
    pub read_write: &'a [PathBuf],
    /// True: writable.
    pub shown: &'a BTreeMap<PathBuf, bool>,
    pub hidden: &'a [PathBuf],
    pub whole: bool,
}

#[derive(Default)]
pub(super) struct Guards {
    /// On top of what is shown, in this order.
    pub mounts: Vec<Mount>,
    pub placeholders: Vec<Placeholder>,
    /// What a person should know of.
    pub notes: Vec<String>,
}

/// True: nothing is lost when it is gone by the time the jail is built.
type Kept = BTreeMap<PathBuf, bool>;

pub(super) fn guard(places: &Places<'_>) -> Result<Guards, SandboxError> {
    let mut guards = Guards::default();
    let mut kept = Kept::new();
    let visible = |path: &&PathBuf| places.whole || places.shown.keys().any(|above| path.starts_with(above));
    let mut covered: BTreeSet<PathBuf> = places.hidden.iter().filter(visible).cloned().collect();
    if !places.whole {
        let writable = places.shown.iter().filter(|(_, write)| **write).map(|(path, _)| path.as_path());
        for folder in writable.filter(|path| path.is_dir()) {
            let is_workspace = Some(folder) == places.workspace;
            // Only where no repository of its own is found first: beside one, a file of that name makes `HEAD` ambiguous.
            let head = is_workspace && !has_repository(folder);
            for name in KEPT_NAMES.iter().copied().chain(head.then_some(BARE_HEAD)) {
                protect(folder, name, is_workspace, &mut guards.placeholders, &mut kept)?;
            }
        }
        let asked = places.workspace.into_iter().chain(places.read_only.iter().map(PathBuf::as_path));
        for root in asked.chain(places.read_write.iter().map(PathBuf::as_path)) {
            let found = look(root, places.hidden);
            if places.shown.get(root) == Some(&true) {
                found.kept.into_iter().for_each(|path| {
                    kept.entry(path).or_insert(true);
                });
            }
            covered.extend(found.sockets);
            if found.cut {
                guards.notes.push(format!(
                    "only the first {MOST_ENTRIES} entries of {} were looked through for sockets and settings",
                    root.display()
                ));
            }
        }
        let files: Vec<_> = kept.keys().filter(|path| path.ends_with(".git")).cloned().collect();
        for target in files.iter().flat_map(|file| git_folders(file)) {
            let inside = places.shown.iter().any(|(root, write)| *write && target.starts_with(root));
            // A whole place is never meant.
            if inside && !places.shown.keys().any(|root| root.starts_with(&target)) {
                kept.entry(target).or_insert(true);
            }
        }
    }
    let pins = pins(places, &kept, &covered);
    guards.mounts.extend(pins.iter().map(|path| Mount::Pin { path: Raw::from(path) }));
    let keep = |(path, may_go): (&PathBuf, &bool)| Mount::Protect { path: Raw::from(path), may_go: *may_go };
    guards.mounts.extend(kept.iter().map(keep));
    guards.mounts.extend(covered.iter().map(|path| Mount::Hide { path: Raw::from(path) }));
    Ok(guards)
}

/// Git looks no further where this is.
fn has_repository(folder: &Path) -> bool {
    let git = folder.join(".git");
    git.is_file() || ["HEAD", "objects", "refs"].iter().all(|name| git.join(name).symlink_metadata().is_ok())
}

fn protect(
    folder: &Path,
    name: &str,
    is_workspace: bool,
    placeholders: &mut Vec<Placeholder>,
    kept: &mut Kept,
) -> Result<(), SandboxError> {
    let path = folder.join(name);
    let never_made = NEVER_MADE.iter().find(|(known, _)| is_workspace && *known == name);
    match (std::fs::symlink_metadata(&path), never_made) {
        (Ok(found), Some(_)) if found.is_symlink() => {
            return Err(spec_error(
                format!("{} is a symbolic link, which cannot be kept from being replaced", path.display()),
                "put what it points to in its place, or choose the preset read-only",
            ));
        }
        // A program may have made it in an earlier jail: no reason to refuse all that come after.
        (Ok(found), None) if found.is_symlink() => return Ok(()),
        (_, Some((_, folder))) => match Placeholder::hold(&path, *folder) {
            Ok(held) => placeholders.extend(held),
            // Where the person may not make it, neither may the program.
            Err(e)
                if e.kind() == std::io::ErrorKind::PermissionDenied
                    || e.kind() == std::io::ErrorKind::ReadOnlyFilesystem =>
            {
                return Ok(());
            }
            Err(source) => return Err(SandboxError::Io { what: "placeholder in the workspace", source }),
        },
        (Ok(_), None) => {}
        (Err(_), None) => return Ok(()),
    }
    kept.insert(path, never_made.is_none());
    Ok(())
}

/// What lies in a place, as far as it was looked through.
#[derive(Default)]
struct Found {
    kept: Vec<PathBuf>,
    sockets: Vec<PathBuf>,
    cut: bool,
}

/// Level by level, so that a bound cuts what lies deepest. Links are not followed.
fn look(root: &Path, hidden: &[PathBuf]) -> Found {
    let mut found = Found::default();
    let mut folders = VecDeque::from([(root.to_owned(), 1)]);
    let mut seen = 0;
    while let Some((folder, level)) = folders.pop_front() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MOST_ENTRIES {
                found.cut = true;
                return found;
            }
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            if kind.is_socket() {
                found.sockets.push(path);
                continue;
            }
            if kind.is_symlink() {
                continue;
            }
            let kept = path.strip_prefix(root).is_ok_and(names_kept);
            let enter = kind.is_dir() && level < MOST_LEVELS && !NOT_INTO.iter().any(|name| path.ends_with(name));
            if enter && !hidden.contains(&path) {
                // What is kept is not looked through, but git and editors put sockets at its top.
                folders.push_back((path.clone(), if kept { MOST_LEVELS } else { level + 1 }));
            }
            if kept {
                found.kept.push(path);
            }
        }
    }
    found
}

/// Where a `.git` that is a file leads: its repository, and the one that this shares with others.
fn git_folders(file: &Path) -> Vec<PathBuf> {
    let own = line(file).and_then(|text| {
        let path = text.strip_prefix(b"gitdir:")?.trim_ascii();
        file.parent()?.join(std::ffi::OsStr::from_bytes(path)).canonicalize().ok()
    });
    let Some(own) = own else { return Vec::new() };
    let common = line(&own.join("commondir"))
        .and_then(|text| own.join(std::ffi::OsStr::from_bytes(text.trim_ascii())).canonicalize().ok());
    std::iter::once(own).chain(common).filter(|folder| folder.is_dir() && !file.starts_with(folder)).collect()
}

/// The beginning of a small file; nothing that could make one wait.
fn line(file: &Path) -> Option<Vec<u8>> {
    if !file.symlink_metadata().is_ok_and(|found| found.is_file()) {
        return None;
    }
    let opened = std::fs::File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(file);
    let mut text = Vec::new();
    opened.ok()?.take(4096).read_to_end(&mut text).ok()?;
    let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
    text.truncate(end);
    Some(text)
}

/// The folders between a writable place and what is kept or covered in it. Renamed, they would take that along to a path
/// that the next jail does not know; as mounts of their own they cannot be.
fn pins(places: &Places<'_>, kept: &Kept, covered: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    // What is shown inside of another like it is no mount.
    let is_mount = |(path, write): &(&PathBuf, &bool)| {
        path.ancestors().skip(1).find_map(|above| places.shown.get(above)) != Some(*write)
    };
    let mounts: Vec<_> = places.shown.iter().filter(is_mount).collect();
    let mut roots: BTreeMap<&Path, bool> = mounts.iter().map(|(path, write)| (path.as_path(), **write)).collect();
    if places.whole {
        roots.insert(Path::new("/"), true);
    }
    let fixed = |path: &Path| kept.contains_key(path) || covered.contains(path);
    // Folders that are shown inside of others, too; those in a private /tmp are gone with it.
    let nested = mounts.into_iter().map(|(path, _)| path).filter(|_| !places.whole);
    let mut pins = BTreeSet::new();
    for place in kept.keys().chain(covered).chain(nested) {
        let mut between = Vec::new();
        for folder in place.ancestors().skip(1) {
            match roots.get(folder) {
                Some(true) => {
                    pins.extend(between);
                    break;
                }
                Some(false) => break,
                // A mount already, and nothing below it can be renamed.
                None if fixed(folder) => between.clear(),
                None => between.push(folder.to_owned()),
            }
        }
    }
    pins
}
