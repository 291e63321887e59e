//! The folder of models: locks, free space, digests, and the mark that says a file has been checked.

use super::{FetchError, ModelFile};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{File, TryLockError};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use tokio_util::sync::CancellationToken;

/// What the folder holds of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Presence {
    Missing,
    /// Bytes of an unfinished download.
    Partial {
        bytes: u64,
    },
    /// There, but its digest has not been compared since the file changed.
    Unchecked,
    /// There, and the digest matched.
    Checked,
    /// There, with another size than it must have.
    WrongSize {
        bytes: u64,
    },
}

/// A file's size and time when its digest matched; a changed file is checked anew.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    sha256: String,
    bytes: u64,
    modified_ns: u128,
}

pub fn model_path(model: &ModelFile, folder: &Path) -> PathBuf {
    folder.join(&model.file)
}

pub fn partial_dir(model: &ModelFile, folder: &Path) -> PathBuf {
    folder.join(format!("{}.partial", model.name))
}

/// Cheap: looks at names, sizes and times only.
pub fn presence(model: &ModelFile, folder: &Path) -> Presence {
    let path = model_path(model, folder);
    match std::fs::metadata(&path) {
        Ok(meta) if meta.len() != model.bytes => Presence::WrongSize { bytes: meta.len() },
        Ok(meta) => {
            let mark = std::fs::read(mark_path(&path)).ok().and_then(|raw| serde_json::from_slice::<Mark>(&raw).ok());
            if mark == Some(mark_of(model, &meta)) { Presence::Checked } else { Presence::Unchecked }
        }
        Err(_) => match tree_size(&partial_dir(model, folder)) {
            0 => Presence::Missing,
            bytes => Presence::Partial { bytes },
        },
    }
}

/// Reads the whole file, unless it is marked as checked already. A file that fails is left where it is.
pub fn check(model: &ModelFile, folder: &Path) -> Result<(), FetchError> {
    if presence(model, folder) == Presence::Checked {
        return Ok(());
    }
    let path = model_path(model, folder);
    let found = digest(&path)?;
    if found != model.sha256 {
        return Err(FetchError::Damaged { path, expected: model.sha256.clone(), found });
    }
    mark(model, &path);
    Ok(())
}

/// A folder that cannot be written (a shared one) only means that the next process checks again.
pub(super) fn mark(model: &ModelFile, path: &Path) {
    let Ok(meta) = std::fs::metadata(path) else { return };
    let written = serde_json::to_vec(&mark_of(model, &meta))
        .map_err(std::io::Error::other)
        .and_then(|raw| std::fs::write(mark_path(path), raw));
    if let Err(error) = written {
        tracing::debug!(%error, "the mark of a checked model was not written");
    }
}

fn mark_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".checked");
    PathBuf::from(name)
}

fn mark_of(model: &ModelFile, meta: &std::fs::Metadata) -> Mark {
    let modified_ns = meta.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok()).map_or(0, |d| d.as_nanos());
    Mark { sha256: model.sha256.clone(), bytes: meta.len(), modified_ns }
}

/// SHA-256 of a file, lower-case hex.
pub fn digest(path: &Path) -> Result<String, FetchError> {
    let wrap = |e: std::io::Error| FetchError::file(path, &e);
    let mut file = File::open(path).map_err(wrap)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0u8; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(wrap)? {
            0 => break,
            n => hash.update(&buffer[..n]),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

pub(super) fn free_bytes(folder: &Path) -> Result<u64, FetchError> {
    let stat = rustix::fs::statvfs(folder).map_err(|e| FetchError::file(folder, &e.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Bytes of a file; 0 where there is none.
pub(super) fn size_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

/// Sum of the sizes of all files below; 0 where there is nothing.
pub(super) fn tree_size(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => tree_size(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}

/// One process pulls a model; `waiting` is called once when another one holds the lock.
pub(super) async fn lock(
    model: &ModelFile,
    folder: &Path,
    waiting: &mut (dyn FnMut() + Send),
    cancel: &CancellationToken,
) -> Result<File, FetchError> {
    let path = folder.join(format!("{}.lock", model.name));
    let file = File::create(&path).map_err(|e| FetchError::file(&path, &e))?;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(e)) => return Err(FetchError::file(&path, &e)),
            Err(TryLockError::WouldBlock) => {
                if !std::mem::replace(&mut told, true) {
                    waiting();
                }
                tokio::select! {
                    () = cancel.cancelled() => return Err(FetchError::Cancelled),
                    () = tokio::time::sleep(Duration::from_millis(200)) => {}
                }
            }
        }
    }
}
