//! The write-ahead log of the sessions, brought to the disk: once for all conversations that wait for it at the same
//! time, and without the connection being held meanwhile. SQLite itself waits at each commit, one after the other.

use super::SessionError;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a power cut may take of a turn that is not over.
const AT_MOST: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Wal {
    path: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Waits so far, and how many of them are over; each has its number.
    asked: u64,
    done: u64,
    /// One of them is with the disk.
    busy: bool,
    /// Kept open: SQLite's locks are on other files, so closing it would not matter, but opening it costs.
    file: Option<File>,
    last: Instant,
}

impl Wal {
    pub fn beside(database: &Path) -> Wal {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        let state = State { asked: 0, done: 0, busy: false, file: None, last: Instant::now() };
        Wal { path: path.into(), state: Mutex::new(state), changed: Condvar::new() }
    }

    pub fn is_due(&self) -> bool {
        self.locked().last.elapsed() >= AT_MOST
    }

    /// What was committed before this was called is on disk when it returns.
    pub fn sync(&self) -> Result<(), SessionError> {
        let mut state = self.locked();
        state.asked += 1;
        let mine = state.asked;
        while state.done < mine {
            if state.busy {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.busy = true;
            let (upto, file) = (state.asked, state.file.take());
            drop(state);
            let synced = self.to_disk(file);
            state = self.locked();
            state.busy = false;
            self.changed.notify_all();
            // Where it failed the others try for themselves, and each is told.
            state.file = synced?;
            state.done = upto;
            state.last = Instant::now();
        }
        Ok(())
    }

    fn to_disk(&self, file: Option<File>) -> Result<Option<File>, SessionError> {
        let io = |action| move |source| SessionError::Io { action, path: self.path.clone(), source };
        // Another file may be in its place since.
        let same = file.filter(|file| file.metadata().is_ok_and(|there| there.nlink() > 0));
        let file = match same {
            Some(file) => file,
            None => match File::open(&self.path) {
                Ok(file) => file,
                // Taken over into the database, which SQLite then has brought to the disk.
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
                Err(e) => return Err(io("open")(e)),
            },
        };
        file.sync_data().map_err(io("write"))?;
        Ok(Some(file))
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
