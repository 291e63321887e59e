//! Reading capabilities from elsewhere. Nothing of them runs, and nothing is written: [`Registry::import`] does that.
//!
//! [`Registry::import`]: crate::Registry::import

mod archive;
mod error;
mod files;
mod list;
mod names;
mod repository;
mod workspace;

pub use archive::MOST_UNPACKED;
pub use error::PortError;
pub(crate) use names::numbered;

use crate::digest::digest;
use crate::types::Damaged;
use files::Folder;
use jarvis_protocol::{Capability, Status, percent_decoded};
use serde_json::Value;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

/// The most capabilities of one package.
pub const MOST_ENTRIES: usize = 100_000;
/// The name that a capability had where it came from, when that was no name here.
pub const ORIGINAL_NAME: &str = "x_original_name";

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub done: usize,
    pub total: usize,
}

/// Told of the progress; false stops the work.
pub type Watch<'a> = &'a mut dyn FnMut(Progress) -> bool;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageKind {
    /// An `index.json` with code beside it.
    Workspace,
    /// Written by `jarvis cap export`; every digest was right.
    Export,
    /// Definitions without code.
    List,
}

/// What was found in a source.
#[derive(Debug, Clone, PartialEq)]
pub struct Package {
    pub kind: PackageKind,
    pub entries: Vec<Incoming>,
    pub damaged: Vec<Damaged>,
    /// Of an export: the digest of the whole.
    pub digest: Option<String>,
}

impl Package {
    fn new(kind: PackageKind) -> Package {
        Package { kind, entries: Vec::new(), damaged: Vec::new(), digest: None }
    }
}

/// A capability from elsewhere: quarantined, its digest that of what came along.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    pub capability: Capability,
    pub code: Option<String>,
    /// Its name where it came from.
    pub original: String,
}

impl Incoming {
    fn new(mut capability: Capability, code: Option<String>, original: &str) -> Incoming {
        capability.status = Status::Quarantined;
        capability.tool_path = String::new();
        capability.digest = code.as_deref().map(|code| digest(&capability, code)).unwrap_or_default();
        if capability.name.as_str() != original {
            capability.extra.insert(ORIGINAL_NAME.to_owned(), Value::String(original.to_owned()));
        }
        Incoming { capability, code, original: original.to_owned() }
    }
}

/// Reads a folder, a bare git repository, a tarball or a list.
pub fn read(path: &Path, watch: Watch<'_>) -> Result<Package, PortError> {
    let meta = std::fs::metadata(path).map_err(|e| PortError::Unreadable { path: path.to_owned(), source: e })?;
    if meta.is_dir() {
        return match repository::is_bare(path) {
            true => workspace::read(&repository::open(path)?, watch),
            false => workspace::read(&Folder::new(path), watch),
        };
    }
    if !meta.is_file() {
        return Err(PortError::Refused { what: path.display().to_string(), problem: "it is no plain file".to_owned() });
    }
    let file = std::fs::File::open(path).map_err(|e| PortError::Unreadable { path: path.to_owned(), source: e })?;
    // The index itself means the workspace that it stands for.
    if path.file_name().is_some_and(|name| name == "index.json")
        && let Some(folder) = std::path::absolute(path).ok().as_deref().and_then(Path::parent)
    {
        let folder = if folder.ends_with("tools") { folder.parent().unwrap_or(folder) } else { folder };
        return workspace::read(&Folder::new(folder), watch);
    }
    read_from(file, watch)
}

/// Reads a tarball or a list from a stream.
pub fn read_from(mut from: impl Read, watch: Watch<'_>) -> Result<Package, PortError> {
    let failed = |problem: String| PortError::Refused { what: "it".to_owned(), problem };
    let mut start = Vec::new();
    from.by_ref().take(512).read_to_end(&mut start).map_err(|e| failed(e.to_string()))?;
    let (gzip, tar) = (archive::is_gzip(&start), archive::is_tar(&start));
    let whole = Cursor::new(start).chain(from);
    if gzip || tar {
        return workspace::read(&archive::read(whole, gzip)?, watch);
    }
    let bytes = files::bounded(whole, MOST_UNPACKED).map_err(failed)?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| PortError::NotAList("it is neither a tarball nor text in UTF-8".to_owned()))?;
    list::read(text, watch)
}

/// What a git repository at a path holds in its last commit, whether or not files are checked out beside it.
pub fn read_repository(path: &Path, watch: Watch<'_>) -> Result<Package, PortError> {
    workspace::read(&repository::open(path)?, watch)
}

/// Reads what a person names: a path, or a `file://` address of a repository.
pub fn read_named(source: &str, watch: Watch<'_>) -> Result<Package, PortError> {
    match local(source)? {
        (path, true) if path.is_dir() => match repository::is_bare(&path) || path.join(".git").exists() {
            true => read_repository(&path, watch),
            false => read(&path, watch),
        },
        (path, _) => read(&path, watch),
    }
}

/// The path that `source` means, and whether it was an address.
fn local(source: &str) -> Result<(PathBuf, bool), PortError> {
    if let Some((scheme, rest)) = source.split_once("://") {
        let path = rest.strip_prefix("localhost").unwrap_or(rest);
        if scheme != "file" || !path.starts_with('/') {
            return Err(PortError::Remote(source.to_owned()));
        }
        return Ok((PathBuf::from(percent_decoded(path)), true));
    }
    // `git@host:path`; a path with a colon that is there is a path.
    let before = source.split('/').next().unwrap_or_default();
    if before.contains('@') && before.contains(':') && !Path::new(source).exists() {
        return Err(PortError::Remote(source.to_owned()));
    }
    Ok((PathBuf::from(source), false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_addresses_are_told_apart() {
        assert_eq!(local("some/folder").unwrap(), (PathBuf::from("some/folder"), false));
        assert_eq!(local("file:///tmp/a%20b/%E8%AE%A1").unwrap(), (PathBuf::from("/tmp/a b/计"), true));
        for remote in [
            "https://example.com/x.git",
            "ssh://git@example.com/x",
            "git@example.com:x.git",
            "git://h/x",
            "file://host/x",
        ] {
            assert!(matches!(local(remote), Err(PortError::Remote(_))), "{remote}");
        }
    }
}
