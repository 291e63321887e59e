//! The index, kept up with the files: what was added, changed, moved or removed by whatever program is noticed.

use super::Inner;
use crate::{
    db::{self, Steps},
    notes::{
        MemoryError, Note, NoteKind, Problem,
        files::Stamp,
        markdown::{Document, Parsed},
        similar::indexed,
        vectors::Vectors,
    },
};
use jiff::{Timestamp, civil::Date};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

pub(super) const STEPS: Steps = &["
    CREATE TABLE note_files (
        path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL,
        inode INTEGER NOT NULL, read_at INTEGER NOT NULL, hash BLOB NOT NULL, problem TEXT,
        duplicate INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
    CREATE TABLE notes (
        row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, path TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
        date TEXT NOT NULL, importance INTEGER NOT NULL, tags TEXT NOT NULL, session TEXT, text TEXT NOT NULL,
        hash BLOB NOT NULL);
    CREATE INDEX notes_by_date ON notes (date DESC, row DESC);
    CREATE INDEX notes_by_hash ON notes (hash);
    CREATE TABLE note_tags (note INTEGER NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (tag, note)) WITHOUT ROWID;
    CREATE INDEX note_tags_by_note ON note_tags (note);
    CREATE VIRTUAL TABLE note_words USING fts5 (words, tokenize = \"ascii tokenchars '+#'\");
    INSERT INTO note_words (note_words, rank) VALUES ('secure-delete', 1);
    -- Of texts, not of notes: a note that moves, or an index made anew, asks for none again.
    CREATE TABLE note_vectors (
        row INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB NOT NULL, model TEXT NOT NULL, vector BLOB NOT NULL,
        UNIQUE (hash, model));"];

/// A file that was changed this shortly before it was read may have been changed after with the same times.
const UNSURE: i64 = 2_000_000_000;
/// Of all time, a tenth is spent on looking for changed files.
const REST: u32 = 9;

pub(super) struct Index {
    pub db: Connection,
    /// What the index knows of each file; of the state of the database in `known_at`.
    known: HashMap<String, Known>,
    known_at: Option<i64>,
    looked: Option<(Instant, Duration)>,
    /// Things in the folder that are not even files to be read.
    strange: Vec<Problem>,
    pub vectors: Vectors,
    /// The model and the state of the database the vectors in memory are of.
    pub vectors_at: Option<(String, i64, u64)>,
}

struct Known {
    stamp: Stamp,
    read_at: i64,
    hash: Vec<u8>,
}

impl Index {
    pub fn new(db: Connection) -> Self {
        let (known, vectors) = (HashMap::new(), Vectors::default());
        Self { db, known, known_at: None, looked: None, strange: Vec::new(), vectors, vectors_at: None }
    }

    /// Changes when another connection has written.
    pub fn state(&self) -> Result<i64, rusqlite::Error> {
        self.db.query_row("PRAGMA data_version", [], |r| r.get(0))
    }

    /// Takes over what changed in the folder. `now`: however short ago that was done.
    pub fn sync(&mut self, inner: &Inner, now: bool) -> Result<(), MemoryError> {
        if !now && self.looked.is_some_and(|(at, took)| at.elapsed() < took * REST) {
            return Ok(());
        }
        let start = Instant::now();
        self.refresh(inner)?;
        let scan = inner.folder.scan()?;
        self.strange = scan.problems;
        let there: HashSet<&str> = scan.files.iter().map(|(path, _)| path.as_str()).collect();
        let gone: Vec<String> = self.known.keys().filter(|path| !there.contains(path.as_str())).cloned().collect();
        let changed: Vec<(String, Stamp)> =
            scan.files.into_iter().filter(|(path, stamp)| self.unsure(path, stamp)).collect();
        if !gone.is_empty() || !changed.is_empty() {
            self.take_over(inner, &gone, changed)?;
        }
        self.looked = Some((Instant::now(), start.elapsed()));
        Ok(())
    }

    /// Takes over one file that was just written; whatever else changed is for the next look.
    pub fn take_one(&mut self, inner: &Inner, name: &str) -> Result<(), MemoryError> {
        self.refresh(inner)?;
        let stamp = inner.folder.stamp(name)?;
        self.take_over(inner, &[], vec![(name.to_owned(), stamp)])
    }

    /// What another process has taken over is known here, too.
    fn refresh(&mut self, inner: &Inner) -> Result<(), MemoryError> {
        let sql = inner.sql();
        let state = self.state().map_err(&sql)?;
        if self.known_at != Some(state) {
            self.known = known(&self.db).map_err(&sql)?;
            self.known_at = Some(state);
        }
        Ok(())
    }

    fn unsure(&self, path: &str, stamp: &Stamp) -> bool {
        self.known.get(path).is_none_or(|known| {
            known.stamp != *stamp || known.read_at < stamp.mtime.max(stamp.ctime).saturating_add(UNSURE)
        })
    }

    fn take_over(&mut self, inner: &Inner, gone: &[String], changed: Vec<(String, Stamp)>) -> Result<(), MemoryError> {
        let sql = inner.sql();
        // Read before the index is locked for others.
        let mut read = Vec::with_capacity(changed.len());
        for (path, stamp) in changed {
            let read_at = now();
            // Gone since: the next look sees to it.
            let Some(bytes) = inner.folder.read(&path)? else { continue };
            let hash = blake3::hash(&bytes).as_bytes().to_vec();
            let same = self.known.get(&path).is_some_and(|known| known.hash == hash);
            // A file just written is read again until its times tell it from the next change; that alone is not worth
            // a write.
            if same && self.known[&path].stamp == stamp && read_at < stamp.mtime.max(stamp.ctime).saturating_add(UNSURE)
            {
                continue;
            }
            let text = (!same).then(|| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()));
            read.push((path, Known { stamp, read_at, hash }, text));
        }
        if gone.is_empty() && read.is_empty() {
            return Ok(());
        }
        let tx = db::write(&mut self.db).map_err(&sql)?;
        let mut orphans = Vec::new();
        let mut work = || -> Result<(), rusqlite::Error> {
            // First, so that a note that moved is not taken for one that is there twice.
            for path in gone {
                tx.prepare_cached("DELETE FROM note_files WHERE path = ?")?.execute([path])?;
                remove(&tx, path, &mut orphans)?;
            }
            for (path, known, text) in &read {
                match text {
                    None => stamp_file(&tx, path, known)?,
                    Some(text) => {
                        remove_if_renamed(&tx, path, text, &mut orphans)?;
                        stamp_file(&tx, path, known)?;
                        set_problem(&tx, path, &index(&tx, path, text, &mut orphans)?)?;
                    }
                }
            }
            // What was there twice may be there once now.
            let twice: Vec<String> = tx
                .prepare_cached("SELECT path FROM note_files WHERE duplicate ORDER BY path")?
                .query_map([], |r| r.get(0))?
                .collect::<Result<_, _>>()?;
            for path in twice {
                if let Ok(Some(bytes)) = inner.folder.read(&path) {
                    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned());
                    set_problem(&tx, &path, &index(&tx, &path, &text, &mut orphans)?)?;
                }
            }
            remove_vectors(&tx, &orphans)
        };
        work().map_err(&sql)?;
        tx.commit().map_err(&sql)?;
        gone.iter().for_each(|path| drop(self.known.remove(path)));
        self.known.extend(read.into_iter().map(|(path, known, _)| (path, known)));
        Ok(())
    }

    /// Empties the index, but not the vectors, and makes it anew.
    pub fn rebuild(&mut self, inner: &Inner) -> Result<(), MemoryError> {
        let sql = inner.sql();
        let tx = db::write(&mut self.db).map_err(&sql)?;
        tx.execute_batch(
            "DELETE FROM note_files; DELETE FROM notes; DELETE FROM note_tags; DELETE FROM note_words;
             INSERT INTO note_words (note_words) VALUES ('optimize');",
        )
        .map_err(&sql)?;
        tx.commit().map_err(&sql)?;
        self.known.clear();
        self.known_at = Some(self.state().map_err(&sql)?);
        self.sync(inner, true)?;
        self.db
            .execute("DELETE FROM note_vectors WHERE hash NOT IN (SELECT hash FROM notes)", [])
            .map(drop)
            .map_err(&sql)
    }

    /// Files that are no notes, of whatever kind.
    pub fn problems(&self, inner: &Inner) -> Result<Vec<Problem>, MemoryError> {
        let found = self
            .db
            .prepare_cached("SELECT path, problem FROM note_files WHERE problem IS NOT NULL ORDER BY path")
            .and_then(|mut s| {
                s.query_map([], |r| Ok((r.get::<_, String>(0)?, r.get(1)?)))?.collect::<Result<Vec<_>, _>>()
            })
            .map_err(inner.sql())?;
        let files = found.into_iter().map(|(path, problem)| Problem { path: inner.folder.path(&path), problem });
        Ok(self.strange.iter().cloned().chain(files).collect())
    }
}

/// Of a time in nanoseconds.
fn day_of(time: i64) -> Date {
    let at = Timestamp::from_nanosecond(i128::from(time)).unwrap_or_else(|_| Timestamp::now());
    at.to_zoned(jiff::tz::TimeZone::UTC).date()
}

fn now() -> i64 {
    i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}

fn known(db: &Connection) -> Result<HashMap<String, Known>, rusqlite::Error> {
    db.prepare_cached("SELECT path, size, mtime, ctime, inode, read_at, hash FROM note_files")?
        .query_map([], |r| {
            let stamp = Stamp { size: r.get(1)?, mtime: r.get(2)?, ctime: r.get(3)?, inode: r.get(4)? };
            Ok((r.get(0)?, Known { stamp, read_at: r.get(5)?, hash: r.get(6)? }))
        })?
        .collect()
}

fn stamp_file(tx: &Transaction<'_>, path: &str, known: &Known) -> Result<(), rusqlite::Error> {
    let stamp = known.stamp;
    tx.prepare_cached(
        "INSERT INTO note_files (path, size, mtime, ctime, inode, read_at, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (path) DO UPDATE SET size = ?2, mtime = ?3, ctime = ?4, inode = ?5, read_at = ?6, hash = ?7",
    )?
    .execute(params![path, stamp.size, stamp.mtime, stamp.ctime, stamp.inode, known.read_at, known.hash])?;
    Ok(())
}

type Text = Result<String, String>;

fn set_problem(tx: &Transaction<'_>, path: &str, problem: &Option<Wrong>) -> Result<(), rusqlite::Error> {
    let duplicate = matches!(problem, Some(Wrong::Twice(_)));
    let text = problem.as_ref().map(|(Wrong::Twice(text) | Wrong::Unreadable(text))| text);
    tx.prepare_cached("UPDATE note_files SET problem = ?2, duplicate = ?3 WHERE path = ?1")?
        .execute(params![path, text, duplicate])?;
    Ok(())
}

enum Wrong {
    Unreadable(String),
    Twice(String),
}

fn parse(text: &Text) -> Result<Parsed, String> {
    Document::parse(text.as_ref().map_err(Clone::clone)?)?.note()
}

/// A file without an id has one by its name.
fn id_of(path: &str, parsed: &Parsed) -> String {
    parsed.id.clone().unwrap_or_else(|| format!("f-{}", &blake3::hash(path.as_bytes()).to_hex()[..12]))
}

/// A note that got another id, or can no longer be read, makes way for a file with the id it had.
fn remove_if_renamed(
    tx: &Transaction<'_>,
    path: &str,
    text: &Text,
    orphans: &mut Orphans,
) -> Result<(), rusqlite::Error> {
    let had: Option<String> =
        tx.prepare_cached("SELECT id FROM notes WHERE path = ?")?.query_row([path], |r| r.get(0)).optional()?;
    let has = parse(text).ok().map(|parsed| id_of(path, &parsed));
    if had.is_some() && had != has { remove(tx, path, orphans) } else { Ok(()) }
}

/// Puts one file into the index, or says why it is no note.
fn index(
    tx: &Transaction<'_>,
    path: &str,
    text: &Text,
    orphans: &mut Orphans,
) -> Result<Option<Wrong>, rusqlite::Error> {
    let parsed = match parse(text) {
        Ok(parsed) => parsed,
        Err(problem) => {
            remove(tx, path, orphans)?;
            return Ok(Some(Wrong::Unreadable(problem)));
        }
    };
    let id = id_of(path, &parsed);
    let other: Option<String> = tx
        .prepare_cached("SELECT path FROM notes WHERE id = ? AND path <> ?")?
        .query_row([&id, path], |r| r.get(0))
        .optional()?;
    if let Some(other) = other {
        remove(tx, path, orphans)?;
        return Ok(Some(Wrong::Twice(format!("{other} has the same id, {id}; give it another, or none"))));
    }
    let hash = blake3::hash(parsed.text.as_bytes()).as_bytes().to_vec();
    let date = match parsed.date {
        Some(date) => date,
        None => {
            day_of(tx.prepare_cached("SELECT mtime FROM note_files WHERE path = ?")?.query_row([path], |r| r.get(0))?)
        }
    };
    let old: Option<i64> =
        tx.prepare_cached("SELECT row FROM notes WHERE path = ?")?.query_row([path], |r| r.get(0)).optional()?;
    if old.is_some() {
        remove(tx, path, orphans)?;
    }
    tx.prepare_cached(
        "INSERT INTO notes (row, id, path, kind, date, importance, tags, session, text, hash)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        old,
        id,
        path,
        parsed.kind.as_str(),
        date.to_string(),
        parsed.importance,
        serde_json::to_string(&parsed.tags).unwrap_or_default(),
        parsed.session,
        parsed.text,
        hash
    ])?;
    let row = tx.last_insert_rowid();
    for tag in &parsed.tags {
        tx.prepare_cached("INSERT OR IGNORE INTO note_tags (note, tag) VALUES (?, ?)")?
            .execute(params![row, tag.to_lowercase()])?;
    }
    let words = indexed(&parsed.text, &parsed.tags);
    tx.prepare_cached("INSERT INTO note_words (rowid, words) VALUES (?, ?)")?.execute(params![row, words])?;
    Ok(None)
}

/// Hashes of texts that may be no note's any more.
pub(super) type Orphans = Vec<Vec<u8>>;

/// Takes a note out of the index.
pub(super) fn remove(tx: &Transaction<'_>, path: &str, orphans: &mut Orphans) -> Result<(), rusqlite::Error> {
    let found: Option<(i64, Vec<u8>)> = tx
        .prepare_cached("SELECT row, hash FROM notes WHERE path = ?")?
        .query_row([path], |r| Ok((r.get(0)?, r.get(1)?)))
        .optional()?;
    let Some((row, hash)) = found else { return Ok(()) };
    tx.prepare_cached("DELETE FROM note_words WHERE rowid = ?")?.execute([row])?;
    tx.prepare_cached("DELETE FROM note_tags WHERE note = ?")?.execute([row])?;
    tx.prepare_cached("DELETE FROM notes WHERE row = ?")?.execute([row])?;
    orphans.push(hash);
    Ok(())
}

/// Last of all, so that a note that only moved keeps its vector.
pub(super) fn remove_vectors(tx: &Transaction<'_>, orphans: &Orphans) -> Result<(), rusqlite::Error> {
    for hash in orphans {
        tx.prepare_cached(
            "DELETE FROM note_vectors WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM notes WHERE hash = ?1)",
        )?
        .execute([hash])?;
    }
    Ok(())
}

pub(super) const COLUMNS: &str = "id, kind, date, importance, tags, session, text, path";

pub(super) fn note(inner: &Inner, row: &Row<'_>) -> Result<Note, rusqlite::Error> {
    let kind: String = row.get(1)?;
    let date: String = row.get(2)?;
    let tags: String = row.get(4)?;
    let path: String = row.get(7)?;
    Ok(Note {
        id: row.get(0)?,
        // Only what was parsed gets into the index.
        kind: NoteKind::parse(&kind).unwrap_or(NoteKind::Note),
        date: date.parse().unwrap_or(Date::ZERO),
        importance: row.get(3)?,
        tags: serde_json::from_str(&tags).unwrap_or_default(),
        session: row.get(5)?,
        text: row.get(6)?,
        path: Some(inner.folder.path(&path)),
    })
}
