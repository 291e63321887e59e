//! Writing one session. Each call is one transaction: all of it is in the file when it returns, or nothing.

use super::{
    SessionError, SessionStore,
    lease::Lease,
    store::{Stored, stamp},
};
use crate::{db, segment::segment};
use jarvis_protocol::{Message, Role, Usage};
use jiff::Timestamp;
use rusqlite::{Transaction, params};

/// Characters of a message that can be searched for. What is longer is a pasted file.
const SEARCHED: usize = 20_000;
const OPENING: usize = 80;

/// The right to write a session; no other place has it until this is dropped, or its process is gone.
#[derive(Debug)]
pub struct SessionWriter {
    store: SessionStore,
    id: String,
    at: Appended,
    // Given back last.
    _lease: Lease,
}

impl SessionWriter {
    pub(super) fn new(store: SessionStore, lease: Lease, id: String, row: i64, next: i64) -> Self {
        Self { store, id, at: Appended { row, next }, _lease: lease }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Messages written so far.
    pub fn len(&self) -> usize {
        usize::try_from(self.at.next).unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One step of the conversation: what was said, and what it took. Safe from a power cut after
    /// [`SessionStore::sync`].
    pub fn append(&mut self, messages: &[Message], usage: Usage) -> Result<(), SessionError> {
        let now = Timestamp::now();
        let stored: Vec<Stored> =
            messages.iter().map(|m| Stored::new(stamp(now), m.clone())).collect::<Result<_, _>>()?;
        let at = self.at;
        self.at = self.store.with(|db| {
            let tx = db::write(db)?;
            let next = at.write(&tx, &stored, usage, now)?;
            tx.commit()?;
            Ok(next)
        })?;
        self.store.sync_if_due()
    }

    /// Takes back what came after the first `len` messages: a turn that failed leaves nothing. What it took stays
    /// counted.
    pub fn truncate(&mut self, len: usize) -> Result<(), SessionError> {
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        if len >= self.at.next {
            return Ok(());
        }
        let row = self.at.row;
        self.store.durably(|db| {
            let tx = db::write(db)?;
            cut(&tx, row, len)?;
            tx.execute("DELETE FROM session_checkpoints WHERE session = ? AND at >= ?", [row, len])?;
            touch(&tx, row, len, Usage::default(), Timestamp::now())?;
            tx.commit()
        })?;
        self.at.next = len;
        Ok(())
    }

    /// All messages anew.
    pub(super) fn replace(&mut self, messages: &[Stored]) -> Result<(), SessionError> {
        let row = self.at.row;
        self.at = self.store.durably(|db| {
            let tx = db::write(db)?;
            cut(&tx, row, 0)?;
            let next = Appended { row, next: 0 }.write(&tx, messages, Usage::default(), Timestamp::now())?;
            tx.commit()?;
            Ok(next)
        })?;
        Ok(())
    }

    /// What the turn that begins at message `at` changed; it goes with that message.
    pub fn set_checkpoint(&mut self, at: usize, record: &str) -> Result<(), SessionError> {
        let (row, at) = (self.at.row, i64::try_from(at).unwrap_or(i64::MAX));
        self.store.with(|db| {
            db.prepare_cached("INSERT OR REPLACE INTO session_checkpoints (session, at, record) VALUES (?, ?, ?)")?
                .execute(params![row, at, record])
                .map(|_| ())
        })
    }

    /// From now on it is answered by this model.
    pub fn set_model(&mut self, model: &str) -> Result<(), SessionError> {
        self.set("UPDATE sessions SET model = ?2 WHERE row = ?1", model)
    }

    pub fn set_strategy(&mut self, strategy: &str) -> Result<(), SessionError> {
        self.set("UPDATE sessions SET strategy = ?2 WHERE row = ?1", strategy)
    }

    /// What the conversation keeps beside its messages, such as a summary of them.
    pub fn set_state(&mut self, state: &str) -> Result<(), SessionError> {
        self.set("UPDATE sessions SET state = ?2 WHERE row = ?1", state)
    }

    fn set(&mut self, statement: &str, value: &str) -> Result<(), SessionError> {
        let row = self.at.row;
        self.store.with(|db| db.execute(statement, params![row, value]).map(|_| ()))
    }
}

/// Where the next message of a session goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Appended {
    pub row: i64,
    pub next: i64,
}

impl Appended {
    pub fn write(
        self,
        tx: &Transaction<'_>,
        messages: &[Stored],
        usage: Usage,
        now: Timestamp,
    ) -> Result<Appended, rusqlite::Error> {
        let mut next = self.next;
        for stored in messages {
            tx.prepare_cached("INSERT INTO session_messages (session, seq, at, message) VALUES (?, ?, ?, ?)")?
                .execute(params![self.row, next, stored.at, stored.json])?;
            // What tools answered would bury what was talked about.
            if matches!(stored.message.role, Role::User | Role::Assistant) {
                let text: String = stored.message.text.chars().take(SEARCHED).collect();
                let words = segment(&text);
                if !words.is_empty() {
                    let row = tx.last_insert_rowid();
                    tx.prepare_cached("INSERT INTO session_words (rowid, words, session) VALUES (?, ?, ?)")?
                        .execute(params![row, words, self.row])?;
                }
            }
            next += 1;
        }
        if let Some(first) = messages.iter().find(|m| m.message.role == Role::User) {
            let line = first.message.text.split_whitespace().collect::<Vec<_>>().join(" ");
            let opening: String = line.chars().take(OPENING).collect();
            tx.prepare_cached("UPDATE sessions SET opening = coalesce(opening, ?2) WHERE row = ?1")?
                .execute(params![self.row, Some(opening).filter(|o| !o.is_empty())])?;
        }
        touch(tx, self.row, next, usage, now)?;
        Ok(Appended { row: self.row, next })
    }
}

fn touch(tx: &Transaction<'_>, row: i64, messages: i64, usage: Usage, now: Timestamp) -> Result<(), rusqlite::Error> {
    tx.prepare_cached(
        "UPDATE sessions SET updated = max(updated, ?2), messages = ?3, input_tokens = input_tokens + ?4,
         output_tokens = output_tokens + ?5, cached_tokens = cached_tokens + ?6, cost_usd = cost_usd + ?7,
         cache_write_tokens = cache_write_tokens + ?8, reasoning_tokens = reasoning_tokens + ?9,
         estimated = max(estimated, ?10) WHERE row = ?1",
    )?
    .execute(params![
        row,
        stamp(now),
        messages,
        usage.input_tokens as i64,
        usage.output_tokens as i64,
        usage.cached_tokens as i64,
        usage.cost_usd,
        usage.cache_write_tokens as i64,
        usage.reasoning_tokens as i64,
        usage.estimated
    ])?;
    Ok(())
}

/// Removes the messages from the place `from` on.
fn cut(tx: &Transaction<'_>, row: i64, from: i64) -> Result<(), rusqlite::Error> {
    tx.execute(
        "DELETE FROM session_words WHERE rowid IN (SELECT row FROM session_messages WHERE session = ? AND seq >= ?)",
        [row, from],
    )?;
    tx.execute("DELETE FROM session_messages WHERE session = ? AND seq >= ?", [row, from])?;
    if from == 0 {
        tx.execute("UPDATE sessions SET opening = NULL WHERE row = ?", [row])?;
    }
    Ok(())
}
