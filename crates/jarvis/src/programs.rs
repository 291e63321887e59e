//! Programs of the person that jarvis can make use of: python3 and deno as runtimes, others to be measured beside.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The first file of this name on PATH that can be run; a name with a slash is taken as it is.
pub fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        let path = std::path::absolute(name).ok()?;
        return runs(&path).then_some(path);
    }
    let path = std::env::var_os("PATH")?;
    // A relative folder on PATH would make it depend on where jarvis was started.
    std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name)).find(|file| runs(file))
}

fn runs(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
