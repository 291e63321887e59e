//! `.aside/`: where a repair puts what it takes out of the way. Nothing of a person's is ever deleted.

use crate::RegistryError;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const ASIDE: &str = ".aside";

/// One repair's things, each under the time and its old name.
pub(crate) struct Aside {
    dir: PathBuf,
    at: String,
    count: usize,
}

impl Aside {
    pub fn new(root: &Path) -> Aside {
        Aside { dir: root.join(ASIDE), at: stamp(), count: 0 }
    }

    fn place(&mut self, path: &Path) -> Result<PathBuf, RegistryError> {
        fs::create_dir_all(&self.dir).map_err(|e| RegistryError::io("create", &self.dir, e))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.count += 1;
        Ok(self.dir.join(format!("{}-{}-{}", self.at, self.count, name.trim_start_matches('.'))))
    }

    /// A file, a folder or a link itself.
    pub fn take(&mut self, path: &Path) -> Result<PathBuf, RegistryError> {
        let to = self.place(path)?;
        fs::rename(path, &to).map_err(|e| RegistryError::io("put aside", path, e))?;
        Ok(to)
    }

    pub fn copy(&mut self, path: &Path) -> Result<PathBuf, RegistryError> {
        let to = self.place(path)?;
        fs::copy(path, &to).map_err(|e| RegistryError::io("copy aside", path, e))?;
        Ok(to)
    }
}

/// Sorts by time, and no two are the same.
pub(crate) fn stamp() -> String {
    jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S%.6fZ").to_string()
}
