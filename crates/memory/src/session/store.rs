//! The sessions of a home: made, loaded, forked, renamed, deleted.

use super::{
    Loaded, NewSession, Parent, SessionError, SessionInfo, SessionWriter, lease::Lease, mend, wal::Wal,
    writer::Appended,
};
use crate::db::{self, DbError, Examined, Steps};
use jarvis_protocol::{Message, Role, Usage};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const PART: &str = "sessions";
const STEPS: Steps = &[
    "
    CREATE TABLE sessions (
        row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT, opening TEXT, created TEXT NOT NULL,
        updated TEXT NOT NULL, workspace TEXT, model TEXT, strategy TEXT, parent TEXT, parent_messages INTEGER,
        messages INTEGER NOT NULL DEFAULT 0, input_tokens INTEGER NOT NULL DEFAULT 0,
        output_tokens INTEGER NOT NULL DEFAULT 0, cached_tokens INTEGER NOT NULL DEFAULT 0,
        cost_usd REAL NOT NULL DEFAULT 0);
    CREATE INDEX sessions_by_update ON sessions (updated DESC, row DESC);
    CREATE TABLE session_messages (
        row INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions (row), seq INTEGER NOT NULL,
        at TEXT NOT NULL, message TEXT NOT NULL, UNIQUE (session, seq));
    -- The words of a message under its row; those of a title under the session's row, negative.
    CREATE VIRTUAL TABLE session_words USING fts5 (
        words, session UNINDEXED, tokenize = \"ascii tokenchars '+#'\");
    INSERT INTO session_words (session_words, rank) VALUES ('secure-delete', 1);",
    "
    ALTER TABLE sessions ADD COLUMN state TEXT;
    ALTER TABLE sessions ADD COLUMN cache_write_tokens INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE sessions ADD COLUMN reasoning_tokens INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE sessions ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0;",
    "
    -- What the turn that begins at a message changed, as the assistant wrote it.
    CREATE TABLE session_checkpoints (
        session INTEGER NOT NULL REFERENCES sessions (row), at INTEGER NOT NULL, record TEXT NOT NULL,
        PRIMARY KEY (session, at)) WITHOUT ROWID;",
];

pub(super) const COLUMNS: &str = "id, title, opening, created, updated, workspace, model, strategy, parent, \
    parent_messages, messages, input_tokens, output_tokens, cached_tokens, cost_usd, \
    cache_write_tokens, reasoning_tokens, estimated";

/// All sessions of one SQLite file. Cloning is cheap; the clones share a connection.
///
/// What is written is in the file when a call returns, and stays there however the process ends. Against the end of the
/// machine's power it is safe after [`SessionStore::sync`], or a second later at the latest while more is written.
#[derive(Clone, Debug)]
pub struct SessionStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    leases: PathBuf,
    db: Mutex<Connection>,
    wal: Wal,
}

/// One message as it is stored.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub at: String,
    pub json: String,
    pub message: Message,
}

impl SessionStore {
    /// Makes the file, and its tables, where they are missing. Beside it stands a folder for locks.
    pub fn open(path: &Path) -> Result<Self, SessionError> {
        let db = db::open(path, PART, STEPS).map_err(|e| SessionError::db(path, &e))?;
        let (leases, wal) = (path.with_extension("leases"), Wal::beside(path));
        let inner = Inner { path: path.to_owned(), leases, db: Mutex::new(db), wal };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Looks at the file of sessions and changes nothing. None where there is none.
    pub fn examine(path: &Path) -> Result<Option<Examined>, SessionError> {
        db::examine(path, PART, STEPS, "sessions").map_err(|e| SessionError::db(path, &e))
    }

    /// Waits until all that was written is on disk. Waits that come together wait for the disk once.
    pub fn sync(&self) -> Result<(), SessionError> {
        self.inner.wal.sync()
    }

    /// The same, where that was not done for a while.
    pub(super) fn sync_if_due(&self) -> Result<(), SessionError> {
        if self.inner.wal.is_due() { self.sync() } else { Ok(()) }
    }

    /// On disk when it returns.
    pub(super) fn durably<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, SessionError> {
        let done = self.with(work)?;
        self.sync()?;
        Ok(done)
    }

    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, SessionError> {
        let mut db = self.inner.db.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut db).map_err(|e| SessionError::db(&self.inner.path, &DbError::Sqlite(e)))
    }

    /// A new session, and the right to write it.
    pub fn create(&self, new: NewSession) -> Result<SessionWriter, SessionError> {
        let now = Timestamp::now();
        let id = self.with(|db| {
            let tx = db::write(db)?;
            let id = new.id.clone().map_or_else(|| fresh_id(&tx, now), Ok)?;
            insert(&tx, &id, &new, now, None)?;
            tx.commit()?;
            Ok(id)
        })?;
        let lease = Lease::take(&self.inner.leases, &id)?;
        self.writer(lease, &id)
    }

    /// An id that no session has; nothing is written.
    pub fn fresh_id(&self) -> Result<String, SessionError> {
        self.with(|db| fresh_id(db, Timestamp::now()))
    }

    fn writer(&self, lease: Lease, id: &str) -> Result<SessionWriter, SessionError> {
        let found = self.with(|db| {
            db.query_row("SELECT row, messages FROM sessions WHERE id = ?", [id], |r| Ok((r.get(0)?, r.get(1)?)))
                .optional()
        })?;
        let (row, next) = found.ok_or_else(|| SessionError::NotFound(id.to_owned()))?;
        Ok(SessionWriter::new(self.clone(), lease, id.to_owned(), row, next))
    }

    /// The one session whose id is `id`, or begins with it.
    pub fn find(&self, id: &str) -> Result<SessionInfo, SessionError> {
        let mut found = self.with(|db| {
            db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM sessions WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id = ?1 DESC, row LIMIT 20"
            ))?
            .query_map([id], info)?
            .collect::<Result<Vec<_>, _>>()
        })?;
        match found.len() {
            0 => Err(SessionError::NotFound(id.to_owned())),
            _ if id.is_empty() => Err(SessionError::NotFound(String::new())),
            1 => Ok(found.remove(0)),
            _ if found[0].id == id => Ok(found.remove(0)),
            count => Err(SessionError::Ambiguous { prefix: id.to_owned(), count }),
        }
    }

    /// The session changed last of those that work in `workspace`.
    pub fn latest_for(&self, workspace: &str) -> Result<Option<SessionInfo>, SessionError> {
        self.with(|db| {
            db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM sessions WHERE workspace = ? ORDER BY updated DESC, row DESC LIMIT 1"
            ))?
            .query_row([workspace], info)
            .optional()
        })
    }

    /// Its history, valid as it is given. Nothing is written.
    pub fn load(&self, id: &str) -> Result<Loaded, SessionError> {
        let info = self.find(id)?;
        let stored = self.stored(&info.id, u64::MAX)?;
        let state = self.state(&info.id)?;
        let (messages, interrupted) = mend(stored.into_iter().map(|s| s.message).collect());
        Ok(loaded(info, messages, interrupted, state))
    }

    /// Goes on with a session: its history, and the right to write it, which one place has at a time. What
    /// [`Loaded::interrupted`] counts is written first.
    ///
    /// # Errors
    /// `Busy` when it is open elsewhere.
    pub fn resume(&self, id: &str) -> Result<(SessionWriter, Loaded), SessionError> {
        let id = self.find(id)?.id;
        let lease = Lease::take(&self.inner.leases, &id)?;
        let mut writer = self.writer(lease, &id)?;
        let stored = self.stored(&id, u64::MAX)?;
        let (mended, interrupted) = mended(&stored)?;
        let changed = mended.len() != stored.len() || mended.iter().zip(&stored).any(|(a, b)| a.json != b.json);
        if changed {
            writer.replace(&mended)?;
        }
        let messages = mended.into_iter().map(|s| s.message).collect();
        Ok((writer, loaded(self.find(&id)?, messages, interrupted, self.state(&id)?)))
    }

    /// A new session with the first `messages` messages (or all) of another, which may be open elsewhere. A cut that
    /// would part a call from its result is made before the call.
    pub fn fork(&self, id: &str, messages: Option<usize>) -> Result<SessionInfo, SessionError> {
        let of = self.find(id)?;
        // A message that cannot be read does not keep those before it from being forked.
        let (mut kept, _) = mended(&self.stored(&of.id, messages.map_or(u64::MAX, |n| n as u64 + 1))?)?;
        if let Some(at) = messages {
            let plain: Vec<Message> = kept.iter().map(|s| s.message.clone()).collect();
            kept.truncate(mend::whole(&plain, at));
        }
        let parent = Parent { id: of.id, messages: kept.len() as u64 };
        let new =
            NewSession { id: None, title: of.title, workspace: of.workspace, model: of.model, strategy: of.strategy };
        let state = self.state(&parent.id)?;
        self.add(&new, Timestamp::now(), Some(&parent), &kept, Usage::default(), state.as_deref())
    }

    /// What the conversation keeps beside its messages.
    pub(super) fn state(&self, id: &str) -> Result<Option<String>, SessionError> {
        self.with(|db| db.query_row("SELECT state FROM sessions WHERE id = ?", [id], |r| r.get(0)).optional())
            .map(Option::flatten)
    }

    /// A session with messages from elsewhere.
    pub(super) fn add(
        &self,
        new: &NewSession,
        created: Timestamp,
        parent: Option<&Parent>,
        messages: &[Stored],
        usage: Usage,
        state: Option<&str>,
    ) -> Result<SessionInfo, SessionError> {
        let now = Timestamp::now();
        let id = self.durably(|db| {
            let tx = db::write(db)?;
            let id = fresh_id(&tx, now)?;
            let row = insert(&tx, &id, new, created, parent)?;
            Appended { row, next: 0 }.write(&tx, messages, usage, now)?;
            tx.execute("UPDATE sessions SET state = ?2 WHERE row = ?1", params![row, state])?;
            tx.commit()?;
            Ok(id)
        })?;
        self.find(&id)
    }

    /// An empty title takes it away; the session is then shown by how it began.
    pub fn rename(&self, id: &str, title: &str) -> Result<SessionInfo, SessionError> {
        let id = self.find(id)?.id;
        let title = Some(title.trim()).filter(|t| !t.is_empty());
        self.durably(|db| {
            let tx = db::write(db)?;
            tx.execute("UPDATE sessions SET title = ?2 WHERE id = ?1", params![id, title])?;
            let row: i64 = tx.query_row("SELECT row FROM sessions WHERE id = ?", [&id], |r| r.get(0))?;
            index_title(&tx, row, title)?;
            tx.commit()
        })?;
        self.find(&id)
    }

    /// For good: its bytes leave the file.
    ///
    /// # Errors
    /// `Busy` when it is open elsewhere.
    pub fn delete(&self, id: &str) -> Result<SessionInfo, SessionError> {
        let of = self.find(id)?;
        let _lease = Lease::take(&self.inner.leases, &of.id)?;
        self.durably(|db| {
            let tx = db::write(db)?;
            let row: Option<i64> =
                tx.query_row("SELECT row FROM sessions WHERE id = ?", [&of.id], |r| r.get(0)).optional()?;
            if let Some(row) = row {
                tx.execute(
                    "DELETE FROM session_words WHERE rowid IN (SELECT row FROM session_messages WHERE session = ?)",
                    [row],
                )?;
                tx.execute("DELETE FROM session_words WHERE rowid = ?", [-row])?;
                tx.execute("DELETE FROM session_messages WHERE session = ?", [row])?;
                tx.execute("DELETE FROM session_checkpoints WHERE session = ?", [row])?;
                tx.execute("DELETE FROM sessions WHERE row = ?", [row])?;
            }
            tx.commit()?;
            db::empty_wal(db)
        })?;
        Ok(of)
    }

    /// The first `limit` messages as they were written.
    pub(super) fn stored(&self, id: &str, limit: u64) -> Result<Vec<Stored>, SessionError> {
        let rows = self.with(|db| {
            db.prepare_cached(
                "SELECT at, message FROM session_messages WHERE session = (SELECT row FROM sessions WHERE id = ?)
                 ORDER BY seq LIMIT ?",
            )?
            .query_map(params![id, i64::try_from(limit).unwrap_or(i64::MAX)], |r| Ok((r.get(0)?, r.get(1)?)))?
            .collect::<Result<Vec<(String, String)>, _>>()
        })?;
        let parse = |(number, (at, json)): (u64, (String, String))| {
            serde_json::from_str(&json)
                .map(|message| Stored { at, json, message })
                .map_err(|e| SessionError::Unreadable { id: id.to_owned(), number, problem: e.to_string() })
        };
        (1..).zip(rows).map(parse).collect()
    }
}

fn loaded(info: SessionInfo, messages: Vec<Message>, interrupted: usize, state: Option<String>) -> Loaded {
    let unanswered = messages.last().is_some_and(|m| m.role == Role::User);
    Loaded { info, messages, interrupted, unanswered, state }
}

/// The stored messages as they should be, the bytes of each kept.
fn mended(stored: &[Stored]) -> Result<(Vec<Stored>, usize), SessionError> {
    let messages: Vec<Message> = stored.iter().map(|s| s.message.clone()).collect();
    let (steps, interrupted) = mend::plan(&messages);
    let kept = steps.into_iter().map(|step| match step {
        mend::Step::Keep(at) => Ok(stored[at].clone()),
        mend::Step::Interrupted { call, of } => Stored::new(stored[of].at.clone(), mend::result(&call)),
    });
    Ok((kept.collect::<Result<_, _>>()?, interrupted))
}

impl Stored {
    pub fn new(at: String, message: Message) -> Result<Self, SessionError> {
        let json = serde_json::to_string(&message).map_err(SessionError::Message)?;
        Ok(Self { at, json, message })
    }
}

fn fresh_id(tx: &Connection, now: Timestamp) -> Result<String, rusqlite::Error> {
    Ok(format!("{}-{}", now.strftime("%Y%m%d"), db::random(tx, 5)?))
}

fn insert(
    tx: &Transaction<'_>,
    id: &str,
    new: &NewSession,
    created: Timestamp,
    parent: Option<&Parent>,
) -> Result<i64, rusqlite::Error> {
    tx.prepare_cached(
        "INSERT INTO sessions (id, title, created, updated, workspace, model, strategy, parent, parent_messages)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        id,
        new.title,
        stamp(created),
        stamp(created),
        new.workspace,
        new.model,
        new.strategy,
        parent.map(|p| &p.id),
        parent.map(|p| p.messages as i64)
    ])?;
    let row = tx.last_insert_rowid();
    index_title(tx, row, new.title.as_deref())?;
    Ok(row)
}

fn index_title(tx: &Transaction<'_>, row: i64, title: Option<&str>) -> Result<(), rusqlite::Error> {
    tx.execute("DELETE FROM session_words WHERE rowid = ?", [-row])?;
    if let Some(title) = title {
        let words = crate::segment::segment(title);
        tx.execute("INSERT INTO session_words (rowid, words, session) VALUES (?, ?, ?)", params![-row, words, row])?;
    }
    Ok(())
}

/// Of one length, so that the order of the text is the order of time.
pub(super) fn stamp(at: Timestamp) -> String {
    format!("{at:.6}")
}

pub(super) fn info(row: &Row<'_>) -> Result<SessionInfo, rusqlite::Error> {
    let time = |at: usize| -> Result<Timestamp, rusqlite::Error> {
        let text: String = row.get(at)?;
        text.parse().map_err(|e| {
            rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, Box::<jiff::Error>::new(e))
        })
    };
    let count = |at: usize| row.get::<_, i64>(at).map(|n| u64::try_from(n).unwrap_or(0));
    let parent: Option<String> = row.get(8)?;
    Ok(SessionInfo {
        id: row.get(0)?,
        title: row.get(1)?,
        opening: row.get(2)?,
        created: time(3)?,
        updated: time(4)?,
        workspace: row.get(5)?,
        model: row.get(6)?,
        strategy: row.get(7)?,
        parent: parent
            .map(|id| {
                Ok::<_, rusqlite::Error>(Parent { id, messages: row.get::<_, Option<i64>>(9)?.unwrap_or(0) as u64 })
            })
            .transpose()?,
        messages: count(10)?,
        usage: Usage {
            input_tokens: count(11)?,
            output_tokens: count(12)?,
            cached_tokens: count(13)?,
            cost_usd: row.get(14)?,
            cache_write_tokens: count(15)?,
            reasoning_tokens: count(16)?,
            estimated: row.get(17)?,
        },
    })
}
