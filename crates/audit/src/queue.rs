//! Records that wait to be written. Whoever has the duty writes all of them; while it waits for the disk, others write on,
//! and what they wrote meanwhile is waited for once.

use crate::log::{AuditLog, Unsynced, is_on_disk};
use crate::record::{AuditError, Record};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) type Appended = Box<dyn FnOnce(Result<u64, AuditError>) + Send>;

pub(crate) struct Waiting {
    pub month: String,
    pub record: Record,
    pub appended: Appended,
}

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Held by the one that waits for the disk; those behind it wait for it and then, together, once.
    disk: Mutex<()>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    /// Somebody has the duty to write what waits.
    writing: bool,
    /// Somebody is about to wait for the disk, for all of `unsynced`.
    syncing: bool,
    unsynced: Vec<Unsynced>,
    /// Who waits until it is on disk.
    records: Vec<(u64, Appended)>,
}

/// To write what waits, done when it is dropped: it blocks. A runtime that ends before it comes to it drops it, too, so
/// nobody waits in vain.
#[must_use = "what waits is written when it is dropped, where a thread may wait for the disk"]
pub struct Duty(pub(crate) AuditLog);

impl Drop for Duty {
    fn drop(&mut self) {
        let (log, queue) = (&self.0, &self.0.0.queue);
        let mut mine = false;
        loop {
            let batch = std::mem::take(&mut locked(&queue.state).waiting);
            let (numbers, file) = log.write(&batch);
            let (mut told, mut records) = (Vec::new(), Vec::new());
            for (waiting, number) in batch.into_iter().zip(numbers) {
                match number {
                    Ok(number) if is_on_disk(waiting.record.kind) => records.push((number, waiting.appended)),
                    number => told.push((number, waiting.appended)),
                }
            }
            let more = queue.written(records, file, &mut mine);
            told.into_iter().for_each(|(number, appended)| appended(number));
            if !more {
                break;
            }
        }
        if mine {
            queue.sync();
        }
    }
}

impl Queue {
    /// Whether the duty to write falls to the caller.
    pub fn push(&self, waiting: Waiting) -> bool {
        let mut state = locked(&self.state);
        state.waiting.push(waiting);
        !std::mem::replace(&mut state.writing, true)
    }

    /// Whether more is to be written; else the duty is given up. `mine` becomes true where it falls to the caller to wait
    /// for the disk.
    fn written(&self, records: Vec<(u64, Appended)>, file: Option<Unsynced>, mine: &mut bool) -> bool {
        let mut state = locked(&self.state);
        if !records.is_empty() {
            state.records.extend(records);
            // Only at the turn of a month there is another one.
            let another = file.filter(|file| state.unsynced.iter().all(|one| one.path() != file.path()));
            state.unsynced.extend(another);
            *mine |= !std::mem::replace(&mut state.syncing, true);
        }
        state.writing = !state.waiting.is_empty();
        state.writing
    }

    /// Returns when all that was written before is on disk, and those who waited for it know.
    fn sync(&self) {
        let _disk = locked(&self.disk);
        let (files, records) = {
            let mut state = locked(&self.state);
            state.syncing = false;
            (std::mem::take(&mut state.unsynced), std::mem::take(&mut state.records))
        };
        let synced = files.iter().try_for_each(Unsynced::sync);
        for (number, appended) in records {
            appended(synced.as_ref().map(|()| number).map_err(|error| error.again()));
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
