//! The lock between processes, and files that are replaced whole or not at all.

use crate::RegistryError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LOCK: &str = ".lock";
/// Held by whoever is next in line. Without it the one that writes again and again would keep the lock from all others,
/// who look only now and then.
const NEXT: &str = ".lock.next";
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// Held while one process or thread writes; released when dropped, or by the system when the process dies.
pub(crate) struct WriteLock {
    _file: File,
}

/// Creates `root` where it is missing.
///
/// # Errors
/// `Busy` when the turn does not come within 15 s.
pub(crate) fn lock(root: &Path) -> Result<WriteLock, RegistryError> {
    fs::create_dir_all(root).map_err(|e| RegistryError::io("create", root, e))?;
    no_links(root)?;
    let start = Instant::now();
    // Many wait to be the next, and one of them for the lock itself.
    let _next = wait_for(root, NEXT, start, Duration::from_millis(4))?;
    Ok(WriteLock { _file: wait_for(root, LOCK, start, Duration::from_millis(1))? })
}

/// Folders that are emptied or filled without a look at each file. A pull can bring a link in the place of one.
fn no_links(root: &Path) -> Result<(), RegistryError> {
    for name in [crate::registry::STAGED, crate::aside::ASIDE] {
        let path = root.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|meta| !meta.is_dir()) {
            let problem = format!("`{name}` is jarvis's own folder, and here it is a link or a file; remove it");
            return Err(RegistryError::Code { name: "*".to_owned(), path, problem });
        }
    }
    Ok(())
}

fn wait_for(root: &Path, name: &str, start: Instant, longest_pause: Duration) -> Result<File, RegistryError> {
    let path = root.join(name);
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    // A link would lead elsewhere, and a pipe would be waited for.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits() as i32,
    );
    let file = options.open(&path).map_err(|e| RegistryError::io("open", &path, e))?;
    let mut pause = Duration::from_micros(200);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => return Err(RegistryError::io("lock", &path, e)),
        }
        if start.elapsed() > LONGEST_WAIT {
            return Err(RegistryError::Busy { root: root.to_owned(), seconds: LONGEST_WAIT.as_secs() });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(longest_pause);
    }
}

/// Writes `bytes` to `path` and waits until they are on disk. What was at `path` before is lost: for staged files only.
pub(crate) fn stage(path: &Path, bytes: &[u8]) -> Result<(), RegistryError> {
    let written = (|| {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_data()
    })();
    written.map_err(|e| {
        // A half-written staged file is of no use to anyone.
        let _ = fs::remove_file(path);
        RegistryError::io("write", path, e)
    })
}

/// Threads that wait for the disk together: 3,000 files took 20 s one after the other, and 0.4 s by eight, for the file
/// system writes its journal once for all that wait.
const SYNCING: usize = 8;

/// [`stage`] for many files; `go_on` is asked before each, and false ends it.
pub(crate) fn stage_all(
    files: &[(PathBuf, &[u8])],
    mut go_on: impl FnMut(usize) -> bool,
) -> Result<bool, RegistryError> {
    for (done, (path, bytes)) in files.iter().enumerate() {
        if !go_on(done) {
            return Ok(false);
        }
        fs::write(path, bytes).map_err(|e| RegistryError::io("write", path, e))?;
    }
    let sync = |part: &[(PathBuf, &[u8])]| {
        part.iter().try_for_each(|(path, _)| {
            File::open(path).and_then(|file| file.sync_data()).map_err(|e| RegistryError::io("sync", path, e))
        })
    };
    std::thread::scope(|scope| {
        let parts: Vec<_> =
            files.chunks(files.len().div_ceil(SYNCING).max(1)).map(|part| scope.spawn(move || sync(part))).collect();
        parts.into_iter().try_for_each(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    Ok(true)
}

/// Puts a staged file in its place.
pub(crate) fn publish(staged: &Path, path: &Path) -> Result<(), RegistryError> {
    fs::rename(staged, path).map_err(|e| RegistryError::io("replace", path, e))
}

/// Waits until the names in `dir` are on disk.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), RegistryError> {
    File::open(dir).and_then(|d| d.sync_all()).map_err(|e| RegistryError::io("sync", dir, e))
}

/// The bytes of `path`, or none where there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, RegistryError> {
    // A pipe would be waited for without end, and a device may have none.
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        let source = std::io::Error::other("it is a pipe or a device, not a file");
        return Err(RegistryError::io("read", path, source));
    }
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(RegistryError::io("read", path, e)),
    }
}

pub(crate) fn remove(path: &Path) -> Result<(), RegistryError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(RegistryError::io("remove", path, e)),
    }
}
