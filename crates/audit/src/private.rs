//! Folders and files that only their owner can read: the log tells what a person asked for.

use std::fs::{DirBuilder, OpenOptions};
use std::path::Path;

/// Makes `dir` with all above it.
pub(crate) fn folder(dir: &Path) -> std::io::Result<()> {
    if let Some(above) = dir.parent() {
        std::fs::create_dir_all(above)?;
    }
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    // `recursive`: one that is there is no error.
    builder.recursive(true).create(dir)
}

/// Creates what is not there.
pub(crate) fn file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
