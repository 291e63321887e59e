//! Before each write: finish what an interrupted one left, and put into git what was changed outside of jarvis.
//! `index.json` is the truth: a version that is in it is registered, one that is not is dropped.

use crate::digest::digest;
use crate::git::{Change, Git, INDEX, kept_trailer, trailer};
use crate::index::{Document, parse_entry};
use crate::registry::{STAGED, code_path, staged_code};
use crate::snapshot::Snapshot;
use crate::{Author, RegistryError, disk};
use jarvis_protocol::Capability;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Called under the write lock.
pub(crate) fn recover(root: &Path, git: &Git, author: &Author, snapshot: &Snapshot) -> Result<(), RegistryError> {
    // Git's notes are about the file as it is now; `outdated` says that this is the one that was read.
    let known = || git.head_has_file(INDEX) && !snapshot.outdated(root);
    if snapshot.exists() && !known() && !git.head_has(INDEX, &snapshot.bytes)? {
        bring_history_up(root, git, author, snapshot)?;
    }
    // What is still staged belongs to a write that never reached the index.
    let staged = root.join(STAGED);
    match fs::read_dir(&staged) {
        Ok(files) => files.flatten().try_for_each(|file| disk::remove(&file.path())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(RegistryError::io("read", &staged, e)),
    }
}

fn bring_history_up(root: &Path, git: &Git, author: &Author, snapshot: &Snapshot) -> Result<(), RegistryError> {
    let committed = git.content(None, INDEX)?;
    let first = committed.is_none();
    // A committed index that cannot be read any more says nothing about what changed; then all of it is looked at.
    let before: HashMap<String, Capability> = committed
        .and_then(|bytes| Document::parse(&bytes).ok())
        .map(|doc| doc.entries.iter().enumerate().filter_map(|(i, raw)| parse_entry(raw, i).ok()).collect::<Vec<_>>())
        .unwrap_or_default()
        .into_iter()
        .map(|cap| (cap.name.to_string(), cap))
        .collect();

    let mut kept: Vec<&Capability> = Vec::new();
    let mut written: Vec<&Capability> = Vec::new();
    let mut files: Vec<(String, Option<Vec<u8>>)> = Vec::new();
    for cap in snapshot.capabilities() {
        let old = before.get(cap.name.as_str());
        if old.is_some_and(|old| old.digest == cap.digest && old.version == cap.version) {
            continue;
        }
        let Ok(path) = code_path(root, cap) else { continue };
        let staged = staged_code(root, cap);
        if let Some(bytes) = disk::read(&staged)?
            && std::str::from_utf8(&bytes).is_ok_and(|text| digest(cap, text) == cap.digest)
        {
            disk::publish(&staged, &path)?;
        }
        let mut digest_fits = false;
        if let Some(bytes) = disk::read(&path)? {
            digest_fits = std::str::from_utf8(&bytes).is_ok_and(|text| digest(cap, text) == cap.digest);
            files.push((relative(cap), Some(bytes)));
        }
        // Nobody works out a digest by hand.
        if digest_fits {
            written.push(cap)
        } else {
            kept.push(cap)
        }
        if let Some(old) = old.filter(|old| relative(old) != relative(cap)) {
            drop_file(root, git, old, &mut files)?;
        }
    }
    for (name, old) in &before {
        let gone = !snapshot.capabilities().any(|cap| cap.name.as_str() == name.as_str());
        // An entry that is only damaged may be mended, with its code.
        if gone && !snapshot.damaged().any(|d| d.entry == *name) {
            drop_file(root, git, old, &mut files)?;
        }
    }

    // An interrupted write leaves one version uncommitted, as every write begins here; more of them were copied from
    // another workspace.
    let interrupted = written.len() == 1;
    if !interrupted {
        kept.append(&mut written);
    }
    let what = match (first, interrupted) {
        (true, false) => "take over the index as it is",
        (_, true) => "finish an interrupted write",
        (false, false) => "keep changes made outside of jarvis",
    };
    let line = |of: fn(&str, &str) -> String, cap: &Capability| of(cap.name.as_str(), &cap.version.to_string());
    let trailers: Vec<String> =
        written.iter().map(|cap| line(trailer, cap)).chain(kept.iter().map(|cap| line(kept_trailer, cap))).collect();
    let message = format!("{what}\n\n{}", trailers.join("\n"));
    let mut changes: Vec<Change<'_>> = vec![(INDEX, Some(&snapshot.bytes))];
    changes.extend(files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_deref())));
    let commit = git.prepare(author, jiff::Timestamp::now().as_second(), message.trim_end(), &changes)?;
    let paths: Vec<&str> = changes.iter().map(|(path, _)| *path).collect();
    git.publish(&commit, &paths)
}

/// Removes the code of an entry that left the index, unless a person changed the file: that one stays, uncommitted.
fn drop_file(
    root: &Path,
    git: &Git,
    old: &Capability,
    files: &mut Vec<(String, Option<Vec<u8>>)>,
) -> Result<(), RegistryError> {
    let Ok(path) = code_path(root, old) else { return Ok(()) };
    if let Some(bytes) = disk::read(&path)? {
        if !git.head_has(&relative(old), &bytes)? {
            return Ok(());
        }
        disk::remove(&path)?;
    }
    files.push((relative(old), None));
    Ok(())
}

/// The path of the code as git knows it.
pub(crate) fn relative(cap: &Capability) -> String {
    clean(&cap.tool_path)
}

pub(crate) fn clean(path: &str) -> String {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").collect::<Vec<_>>().join("/")
}
