//! Names that a workspace does not have and that a program must not make, such as `.git`: something empty holds the
//! place while a jail lives, covered by a mount inside. It goes with the last jail; one left behind by a jarvis that was
//! killed is known by its time of change and goes with the next.

use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Held by every jail that relies on it, across processes.
#[derive(Debug)]
pub(super) struct Placeholder {
    path: PathBuf,
    folder: bool,
    file: File,
}

impl Placeholder {
    /// `None` where the person has a real one.
    pub(super) fn hold(path: &Path, folder: bool) -> io::Result<Option<Placeholder>> {
        loop {
            let made = match folder {
                true => std::fs::create_dir(path),
                false => File::options().write(true).create_new(true).open(path).map(|_| ()),
            };
            match made {
                Ok(()) => {
                    let file = open(path)?;
                    // Now, before it is marked: an unmarked one is never taken away.
                    rustix::fs::flock(&file, FlockOperation::LockShared)?;
                    file.set_modified(SystemTime::UNIX_EPOCH)?;
                    return Ok(Some(Placeholder { path: path.to_owned(), folder, file }));
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
            let file = match open(path) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                // Somebody else's: a real one.
                Err(_) => return Ok(None),
            };
            if !is_placeholder(&file, folder)? {
                return Ok(None);
            }
            rustix::fs::flock(&file, FlockOperation::LockShared)?;
            // Taken away between the two.
            if file.metadata()?.nlink() > 0 && same(&file, path) {
                return Ok(Some(Placeholder { path: path.to_owned(), folder, file }));
            }
        }
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        // Others that hold it take it away when they are done; a person may have put something in it meanwhile.
        let last = rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if last && is_placeholder(&self.file, self.folder).unwrap_or(false) && same(&self.file, &self.path) {
            let _ = if self.folder { std::fs::remove_dir(&self.path) } else { std::fs::remove_file(&self.path) };
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    Ok(rustix::fs::open(path, flags, Mode::empty()).map(File::from)?)
}

fn is_placeholder(file: &File, folder: bool) -> io::Result<bool> {
    let found = file.metadata()?;
    let empty = folder || found.len() == 0;
    Ok(found.is_dir() == folder && empty && found.mtime() == 0 && found.mtime_nsec() == 0)
}

fn same(file: &File, path: &Path) -> bool {
    let (Ok(one), Ok(other)) = (file.metadata(), path.symlink_metadata()) else { return false };
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_the_last_that_holds_it_and_a_real_one_stays() {
        let home = tempfile::tempdir().unwrap();
        for folder in [true, false] {
            let path = home.path().join(".git");
            let one = Placeholder::hold(&path, folder).unwrap().unwrap();
            let two = Placeholder::hold(&path, folder).unwrap().unwrap();
            drop(one);
            assert!(path.exists());
            drop(two);
            assert!(!path.exists());
        }
        let path = home.path().join(".git");
        std::fs::create_dir(&path).unwrap();
        assert!(Placeholder::hold(&path, true).unwrap().is_none());
        assert!(path.exists());
    }

    #[test]
    fn one_left_behind_goes_with_the_next_and_one_in_use_stays() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(".git");
        let left = Placeholder::hold(&path, true).unwrap().unwrap();
        // What the kernel does for a process that was killed: the lock goes, the file stays.
        let file = left.file.try_clone().unwrap();
        std::mem::forget(left);
        rustix::fs::flock(&file, FlockOperation::Unlock).unwrap();
        drop(Placeholder::hold(&path, true).unwrap().unwrap());
        assert!(!path.exists());
        let held = Placeholder::hold(&path, true).unwrap().unwrap();
        std::fs::write(path.join("HEAD"), "ref: refs/heads/main").unwrap();
        drop(held);
        assert!(path.join("HEAD").exists(), "a person made it a real one meanwhile");
    }
}
