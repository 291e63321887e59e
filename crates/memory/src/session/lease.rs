//! Who writes a session: a lock that the system takes away from a process that dies, so that nothing has to time out.

use super::SessionError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Held until dropped, or until the process is gone.
#[derive(Debug)]
pub(super) struct Lease {
    file: File,
    path: PathBuf,
}

impl Lease {
    /// `id` is one of ours: it has nothing of a path.
    pub fn take(folder: &Path, id: &str) -> Result<Lease, SessionError> {
        let path = folder.join(id);
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| SessionError::Io { action, path, source }
        };
        fs::create_dir_all(folder).map_err(io("create", folder))?;
        loop {
            let opened = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
            let mut file = opened.map_err(io("open", &path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut pid = String::new();
                    // Only for the message; the holder may be just writing it.
                    let _ = file.read_to_string(&mut pid);
                    return Err(SessionError::Busy { id: id.to_owned(), pid: pid.trim().parse().ok() });
                }
                Err(TryLockError::Error(e)) => return Err(io("lock", &path)(e)),
            }
            // The holder before may have removed the file between our opening and locking it; then others lock
            // another file by this name.
            let ours = file.metadata().map_err(io("read", &path))?.ino();
            if !fs::metadata(&path).is_ok_and(|there| there.ino() == ours) {
                continue;
            }
            let written =
                file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
            written.map_err(io("write", &path))?;
            return Ok(Lease { file, path });
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // What cannot be removed stays behind as an empty lock that the next one takes.
        let _ = fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}
