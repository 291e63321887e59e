//! Files that a person names on the command line: plain ones, of a bounded size. And writing files whole.

use crate::error::{Outcome, disk, unreadable, usage};
use std::fs::{OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The most that is read of code, a definition or arguments, bytes.
pub const MOST: u64 = 16 << 20;

/// The whole text. A device or a pipe could go on for ever, so only plain files are read.
pub fn text(path: &Path) -> Outcome<String> {
    text_of(path, MOST)
}

/// The same with another bound.
pub fn text_of(path: &Path, most: u64) -> Outcome<String> {
    let failed = |e: std::io::Error| unreadable(path, &e);
    // Opening a pipe would wait for somebody to write.
    let file = OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(path);
    let file = file.map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if meta.is_dir() {
        return Err(failed(std::io::ErrorKind::IsADirectory.into()));
    }
    if !meta.is_file() {
        return Err(usage(format!("{} is no plain file", path.display()), "name a file, or - for stdin"));
    }
    bounded(file, path, most)
}

/// Standard input, to its end.
pub fn stdin() -> Outcome<String> {
    stdin_of(MOST)
}

pub fn stdin_of(most: u64) -> Outcome<String> {
    bounded(std::io::stdin().lock(), Path::new("stdin"), most)
}

fn bounded(from: impl Read, name: &Path, most: u64) -> Outcome<String> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes).map_err(|e| unreadable(name, &e))?;
    if bytes.len() as u64 > most {
        let message = format!("{} is longer than {} MiB", name.display(), most >> 20);
        return Err(usage(message, "shorten it; what is that long is for a capability that was granted the file"));
    }
    String::from_utf8(bytes).map_err(|e| {
        let line = e.as_bytes()[..e.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        usage(format!("{} is no text in UTF-8 (line {line})", name.display()), "save it as UTF-8")
    })
}

/// Temporary file, fsync, rename: a reader sees the old file or the new one. It is for its owner alone from the
/// beginning.
pub fn replace(file: &Path, text: &str) -> Outcome {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .and_then(|()| tempfile::Builder::new().permissions(Permissions::from_mode(0o600)).tempfile_in(folder))
        .and_then(|mut new| {
            new.write_all(text.as_bytes())?;
            new.as_file().sync_all()?;
            new.persist(file).map_err(|e| e.error)
        })
        .map(|_| ())
        .map_err(|e| disk(file, &e))
}
