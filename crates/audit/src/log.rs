//! Appending and reading back. An append reads the head and what stands behind it, never the whole file.

use crate::chain;
use crate::head::{Head, files};
use crate::private;
use crate::queue::{Appended, Duty, Queue, Waiting};
use crate::record::{AuditError, Entry, Filter, Kind, Record, Tail};
use crate::redact::{redact, redact_value};
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// Of a torn line, what is kept in the record about it, characters.
const TORN_KEPT: usize = 2000;

/// The log of one home. Several processes may append at once. Cheap to clone.
#[derive(Clone)]
pub struct AuditLog(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    dir: PathBuf,
    /// The open lock file, made by the first append.
    lock: Mutex<Option<File>>,
    pub(crate) queue: Queue,
}

/// A batch is in the file, and this is still to be waited for.
pub(crate) struct Unsynced {
    path: PathBuf,
    file: File,
}

impl Unsynced {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn sync(&self) -> Result<(), AuditError> {
        self.file.sync_data().map_err(|e| AuditError::io("write", &self.path, e))
    }
}

impl AuditLog {
    /// Touches nothing: the folder is made by the first record.
    pub fn open(dir: PathBuf) -> AuditLog {
        AuditLog(Arc::new(Shared { dir, lock: Mutex::new(None), queue: Queue::default() }))
    }

    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// Appends `record` with its secrets taken out and returns its number. Intents, decisions and changes of the
    /// registry are on disk when this returns; outcomes and steps of forge are with the operating system, safe from
    /// the death of the process.
    ///
    /// # Errors
    /// It was not appended, or is not known to be on disk.
    pub fn append(&self, record: Record) -> Result<u64, AuditError> {
        let (tell, told) = mpsc::channel();
        let duty = self.submit(record, move |appended| drop(tell.send(appended)))?;
        drop(duty);
        // It was told, or is about to be by whoever has the duty.
        told.recv()
            .unwrap_or_else(|_| Err(AuditError::io("append to", self.dir(), std::io::Error::other("lost record"))))
    }

    /// As [`AuditLog::append`], and `appended` hears of it from whoever writes. Where that falls to the caller it gets a
    /// duty, to be dropped where a thread may wait for the disk.
    ///
    /// # Errors
    /// It is no record, and `appended` hears nothing.
    pub fn submit(
        &self,
        record: Record,
        appended: impl FnOnce(Result<u64, AuditError>) + Send + 'static,
    ) -> Result<Option<Duty>, AuditError> {
        let month = month(&record.at).ok_or_else(|| AuditError::Time(record.at.clone()))?;
        let record = Record {
            actor: redact(&record.actor),
            subject: redact(&record.subject),
            detail: redact_value(&record.detail),
            ..record
        };
        let appended: Appended = Box::new(appended);
        Ok(self.0.queue.push(Waiting { month, record, appended }).then(|| Duty(self.clone())))
    }

    /// A result for each of `batch`, and what is to be waited for before those hold that must be on disk.
    pub(crate) fn write(&self, batch: &[Waiting]) -> (Vec<Result<u64, AuditError>>, Option<Unsynced>) {
        let dir = &self.0.dir;
        let mut slot = locked(&self.0.lock);
        let mut work = || {
            let lock = match slot.as_mut() {
                Some(lock) => lock,
                None => slot.insert(open_lock(dir)?),
            };
            acquire(lock, dir)?;
            let appended = append_locked(dir, batch);
            let _ = lock.unlock();
            appended
        };
        match work() {
            Ok(written) => written,
            Err(error) => (batch.iter().map(|_| Err(error.again())).collect(), None),
        }
    }

    /// The last `n` entries that pass, the oldest first.
    pub fn tail(&self, n: usize, filter: &Filter) -> Result<Tail, AuditError> {
        let mut tail = Tail::default();
        'files: for name in files(self.dir())?.iter().rev() {
            let path = self.dir().join(name);
            let bytes = fs::read(&path).map_err(|e| AuditError::io("read", &path, e))?;
            for line in bytes.split(|b| *b == b'\n').rev().filter(|line| !line.is_empty()) {
                if tail.entries.len() == n {
                    break 'files;
                }
                match serde_json::from_slice::<Entry>(line) {
                    Ok(entry) if filter.passes(&entry.record) => tail.entries.push(entry),
                    Ok(_) => {}
                    Err(_) => tail.unreadable += 1,
                }
            }
        }
        tail.entries.reverse();
        Ok(tail)
    }
}

fn month(at: &str) -> Option<String> {
    let bytes = at.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    let shape = [0, 1, 2, 3, 5, 6, 8, 9].into_iter().all(digit)
        && bytes.get(4) == Some(&b'-')
        && bytes.get(7) == Some(&b'-')
        && bytes.get(10) == Some(&b'T');
    shape.then(|| at[..7].to_owned())
}

fn open_lock(dir: &Path) -> Result<File, AuditError> {
    private::folder(dir).map_err(|e| AuditError::io("create", dir, e))?;
    let path = dir.join(".lock");
    private::file().truncate(false).write(true).open(&path).map_err(|e| AuditError::io("open", &path, e))
}

fn acquire(lock: &File, dir: &Path) -> Result<(), AuditError> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(100);
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => return Err(AuditError::io("lock", &dir.join(".lock"), e)),
        }
        if start.elapsed() > LONGEST_WAIT {
            return Err(AuditError::Busy { dir: dir.to_owned(), seconds: LONGEST_WAIT.as_secs() });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(2));
    }
}

type Written = (Vec<Result<u64, AuditError>>, Option<Unsynced>);

fn append_locked(dir: &Path, batch: &[Waiting]) -> Result<Written, AuditError> {
    let (mut head, found) = current(dir)?;
    if let Some((found, first)) = found.zip(batch.first()) {
        let about = Record {
            at: first.record.at.clone(),
            actor: "audit".to_owned(),
            kind: Kind::Audit,
            subject: "log".to_owned(),
            detail: redact_value(&found),
        };
        let (next, unsynced) = write_lines(dir, &head, &first.month, &[&about])?;
        unsynced.sync()?;
        head = next;
    }
    let mut numbers = Vec::with_capacity(batch.len());
    let mut unsynced = None;
    // Almost always one: they wait for milliseconds.
    for month in batch.chunk_by(|one, next| one.month == next.month) {
        let Some(first) = month.first() else { continue };
        let records: Vec<&Record> = month.iter().map(|waiting| &waiting.record).collect();
        let from = head.seq + 1;
        let before = unsynced.take().map_or(Ok(()), |before: Unsynced| before.sync());
        match before.and_then(|()| write_lines(dir, &head, &first.month, &records)) {
            Ok((next, written)) => {
                head = next;
                unsynced = Some(written);
            }
            Err(error) => {
                numbers.extend(batch[numbers.len()..].iter().map(|_| Err(error.again())));
                break;
            }
        }
        numbers.extend((from..=head.seq).map(Ok));
    }
    Ok((numbers, unsynced))
}

pub(crate) fn is_on_disk(kind: Kind) -> bool {
    match kind {
        Kind::Intent | Kind::Decision | Kind::Registry | Kind::Audit => true,
        Kind::Outcome | Kind::Forge => false,
    }
}

/// All of `records`, or none of them. They are with the operating system then.
fn write_lines(dir: &Path, head: &Head, month: &str, records: &[&Record]) -> Result<(Head, Unsynced), AuditError> {
    let (mut lines, mut seq, mut hash) = (String::new(), head.seq, head.hash.clone());
    for record in records {
        seq += 1;
        let (line, next) = chain::line(&hash, seq, record)?;
        lines.push_str(&line);
        hash = next;
    }
    // A clock that was set back does not send the chain to an older file.
    let name = format!("{month}.jsonl").max(head.file.clone());
    let path = dir.join(&name);
    let new = !path.exists();
    let before = if name == head.file { head.bytes } else { 0 };
    let mut file = private::file().append(true).open(&path).map_err(|e| AuditError::io("open", &path, e))?;
    let head = Head { seq, hash, file: name, bytes: before + lines.len() as u64 };
    let mut write = || -> Result<(), AuditError> {
        let io = |e| AuditError::io("write", &path, e);
        file.write_all(lines.as_bytes()).map_err(io)?;
        if new {
            File::open(dir).and_then(|d| d.sync_all()).map_err(io)?;
        }
        head.write(dir)
    };
    // A full disk can leave half a line; without it the log is as it was.
    write().inspect_err(|_| drop(file.set_len(before)))?;
    Ok((head, Unsynced { path, file }))
}

/// The true end of the log, and what is to be recorded about how it was found.
fn current(dir: &Path) -> Result<(Head, Option<Value>), AuditError> {
    let names = files(dir)?;
    let (head, mut found) = match (Head::read(dir)?, names.last()) {
        (Some(Ok(head)), _) => (head, None),
        (None, None) => {
            // Before the first line, so that a log without a head is never the trace of a crash.
            let head = Head::start();
            head.write(dir)?;
            (head, None)
        }
        (Some(Err(problem)), _) => {
            let kept = Head::keep_aside(dir)?;
            (last_line(dir, &names)?, Some(json!({"head_damaged": problem, "kept_as": kept})))
        }
        (None, Some(_)) => (last_line(dir, &names)?, Some(json!({"head_missing": true}))),
    };
    let mut head = head;
    let later = names.iter().filter(|name| **name > head.file);
    for name in std::iter::once(head.file.clone()).filter(|f| !f.is_empty()).chain(later.cloned()).collect::<Vec<_>>() {
        let from = if name == head.file { head.bytes } else { 0 };
        let end = catch_up(dir, &name, from, &mut head)?;
        if let Some(problem) = end {
            found = Some(match found {
                Some(Value::Object(mut map)) => {
                    map.insert("end".to_owned(), problem);
                    Value::Object(map)
                }
                _ => problem,
            });
        }
    }
    Ok((head, found))
}

/// Reads what stands behind the head: whole lines of a process that was killed before it wrote the head, or half a
/// line of one killed in mid-write, which is taken off the file and returned to be recorded.
fn catch_up(dir: &Path, name: &str, from: u64, head: &mut Head) -> Result<Option<Value>, AuditError> {
    let path = dir.join(name);
    let mut file = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let lost = json!({"lines_missing_at_end": true, "head_seq": head.seq, "file": name, "file_missing": true});
            head.bytes = 0;
            return Ok(Some(lost));
        }
        Err(e) => return Err(AuditError::io("open", &path, e)),
    };
    let io = |e| AuditError::io("read", &path, e);
    let len = file.metadata().map_err(io)?.len();
    if len == from {
        return Ok(None);
    }
    if len < from {
        // The numbers go on from the head, so the gap stays visible for good.
        let lost = json!({"lines_missing_at_end": true, "head_seq": head.seq, "file": name,
            "bytes_expected": from, "bytes_found": len});
        terminate(&mut file, len).map_err(io)?;
        head.bytes = file.metadata().map_err(io)?.len();
        return Ok(Some(lost));
    }
    file.seek(SeekFrom::Start(from)).map_err(io)?;
    let mut behind = Vec::new();
    file.read_to_end(&mut behind).map_err(io)?;
    let mut strange = None;
    let mut done = 0;
    while let Some(end) = behind[done..].iter().position(|b| *b == b'\n') {
        match chain::read(&head.hash, &behind[done..done + end]) {
            Ok(read) if read.follows && read.entry.seq == head.seq + 1 => {
                *head = Head { seq: read.entry.seq, hash: read.entry.hash, file: name.to_owned(), bytes: head.bytes };
            }
            // Stays where it is, for `verify` to show.
            _ => strange = Some(json!({"foreign_lines_at_end": true, "file": name, "after_seq": head.seq})),
        }
        done += end + 1;
        head.file = name.to_owned();
        head.bytes = from + done as u64;
    }
    let torn = &behind[done..];
    if torn.is_empty() {
        return Ok(strange);
    }
    file.set_len(from + done as u64).map_err(io)?;
    let text = String::from_utf8_lossy(torn);
    let kept: String = text.chars().take(TORN_KEPT).collect();
    Ok(Some(json!({"torn_line": kept, "bytes": torn.len(), "file": name, "after_seq": head.seq,
        "foreign_lines": strange.is_some()})))
}

/// Ends a line that was cut, so that the next one does not run into it.
fn terminate(file: &mut File, len: u64) -> std::io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    let mut last = [0u8];
    file.seek(SeekFrom::Start(len - 1))?;
    file.read_exact(&mut last)?;
    if last != *b"\n" {
        file.seek(SeekFrom::Start(len))?;
        file.write_all(b"\n")?;
    }
    Ok(())
}

/// Where there is no head to trust: the last line of the newest file that has one. Read once, in whole.
fn last_line(dir: &Path, names: &[String]) -> Result<Head, AuditError> {
    for name in names.iter().rev() {
        let path = dir.join(name);
        let bytes = fs::read(&path).map_err(|e| AuditError::io("read", &path, e))?;
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        for line in bytes[..whole].split(|b| *b == b'\n').rev() {
            if let Ok(entry) = serde_json::from_slice::<Entry>(line) {
                return Ok(Head { seq: entry.seq, hash: entry.hash, file: name.clone(), bytes: whole as u64 });
            }
        }
    }
    let file = names.first().cloned().unwrap_or_default();
    Ok(Head { file, ..Head::start() })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
