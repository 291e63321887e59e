//! A tarball, read into memory and never unpacked: an archive that tries anything but plain files is refused whole.

use super::PortError;
use super::files::{MOST_FILES, Memory, inside};
use flate2::read::MultiGzDecoder;
use std::io::{BufReader, Read};
use tar::{Archive, EntryType};

/// The most that an archive may unpack to, bytes; a bomb ends here.
pub const MOST_UNPACKED: u64 = 256 << 20;
/// The most of one file, bytes.
const MOST_OF_A_FILE: u64 = 64 << 20;

/// gzip's first bytes.
pub(crate) fn is_gzip(start: &[u8]) -> bool {
    start.starts_with(&[0x1f, 0x8b])
}

/// The mark of every tar that is written today, 257 bytes in.
pub(crate) fn is_tar(start: &[u8]) -> bool {
    start.get(257..262) == Some(b"ustar")
}

pub(crate) fn read(from: impl Read, gzip: bool) -> Result<Memory, PortError> {
    let from = BufReader::new(from);
    if gzip {
        entries(Bounded { from: MultiGzDecoder::new(from), left: MOST_UNPACKED })
    } else {
        entries(Bounded { from, left: MOST_UNPACKED })
    }
}

fn entries(from: impl Read) -> Result<Memory, PortError> {
    let broken = |e: std::io::Error| PortError::Refused { what: "the archive".to_owned(), problem: e.to_string() };
    let mut archive = Archive::new(from);
    let mut memory = Memory::default();
    for (count, entry) in archive.entries().map_err(broken)?.enumerate() {
        let mut entry = entry.map_err(broken)?;
        let raw = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let refuse =
            |problem: &str| PortError::Refused { what: format!("`{raw}` in the archive"), problem: problem.to_owned() };
        if count >= MOST_FILES {
            return Err(refuse(&format!("it holds more than {MOST_FILES} files")));
        }
        let kind = entry.header().entry_type();
        match kind {
            EntryType::XGlobalHeader => continue,
            EntryType::Regular | EntryType::Continuous | EntryType::Directory => {}
            EntryType::Symlink | EntryType::Link => return Err(refuse("it is a link")),
            _ => return Err(refuse("it is no plain file")),
        }
        let path = match inside(&raw) {
            Some(path) => path,
            None if kind == EntryType::Directory && matches!(raw.as_str(), "." | "./") => continue,
            None => return Err(refuse("it leads out of the archive")),
        };
        if entry.size() > MOST_OF_A_FILE {
            return Err(refuse(&format!("it is longer than {MOST_OF_A_FILE} bytes")));
        }
        if kind == EntryType::Directory {
            continue;
        }
        if memory.files.contains_key(&path) {
            return Err(refuse("it is there twice"));
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(broken)?;
        memory.files.insert(path, bytes);
    }
    Ok(memory)
}

/// Ends with an error, not quietly, where there is more.
struct Bounded<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| std::io::Error::other(format!("it unpacks to more than {} MiB", MOST_UNPACKED >> 20)))?;
        Ok(count)
    }
}
