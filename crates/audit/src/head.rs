//! `head.json`: which line is the last. Replaced whole after every append.

use crate::chain::START;
use crate::private;
use crate::record::AuditError;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Of the last line; 0 before the first.
    pub seq: u64,
    pub hash: String,
    /// The file it is in; empty before the first.
    pub file: String,
    /// The length of that file, bytes.
    pub bytes: u64,
}

impl Head {
    pub fn start() -> Head {
        Head { seq: 0, hash: START.to_owned(), file: String::new(), bytes: 0 }
    }

    /// `None`: there is no such file. `Err` inside: it cannot be understood.
    pub fn read(dir: &Path) -> Result<Option<Result<Head, String>>, AuditError> {
        let path = path(dir);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(AuditError::io("read", &path, e)),
        };
        let head: Result<Head, String> = serde_json::from_slice(&bytes).map_err(|e| e.to_string());
        // It becomes a file name.
        Ok(Some(head.and_then(|head| match head.file.is_empty() || is_log(&head.file) {
            true => Ok(head),
            false => Err(format!("`{}` is not a log file", head.file)),
        })))
    }

    /// Puts a head that cannot be understood aside under a name of its own, which is returned.
    pub fn keep_aside(dir: &Path) -> Result<String, AuditError> {
        let free = (1u32..).map(|n| format!("head.json.damaged-{n}")).find(|name| !dir.join(name).exists());
        let name = free.unwrap_or_else(|| "head.json.damaged".to_owned());
        let path = path(dir);
        fs::rename(&path, dir.join(&name)).map_err(|e| AuditError::io("keep", &path, e))?;
        Ok(name)
    }

    /// Not synced: a head that is older than the log is brought up from the log.
    pub fn write(&self, dir: &Path) -> Result<(), AuditError> {
        let staged = dir.join("head.json.tmp");
        let text = serde_json::to_string(self)?;
        private::file()
            .write(true)
            .truncate(true)
            .open(&staged)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|e| AuditError::io("write", &staged, e))?;
        let path = path(dir);
        fs::rename(&staged, &path).map_err(|e| AuditError::io("replace", &path, e))
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("head.json")
}

/// `YYYY-MM.jsonl`
pub(crate) fn is_log(name: &str) -> bool {
    let digits = |part: &str, len| part.len() == len && part.bytes().all(|b| b.is_ascii_digit());
    name.strip_suffix(".jsonl")
        .and_then(|month| month.split_once('-'))
        .is_some_and(|(year, month)| digits(year, 4) && digits(month, 2))
}

/// The log files, the oldest first.
pub(crate) fn files(dir: &Path) -> Result<Vec<String>, AuditError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(AuditError::io("read", dir, e)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(|e| AuditError::io("read", dir, e))?.file_name().to_string_lossy().into_owned();
        if is_log(&name) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
