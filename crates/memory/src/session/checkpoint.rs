//! What turns changed, kept beside the messages they begin at. What a record says is the assistant's own.

use super::{SessionError, SessionStore};

impl SessionStore {
    /// Of one session, by the message that its turn begins at.
    pub fn checkpoints(&self, id: &str) -> Result<Vec<(usize, String)>, SessionError> {
        self.with(|db| {
            db.prepare_cached(
                "SELECT at, record FROM session_checkpoints
                 WHERE session = (SELECT row FROM sessions WHERE id = ?) ORDER BY at",
            )?
            .query_map([id], |row| Ok((usize::try_from(row.get::<_, i64>(0)?).unwrap_or(0), row.get(1)?)))?
            .collect()
        })
    }

    /// Those of all sessions: what they name is still wanted.
    pub fn all_checkpoints(&self) -> Result<Vec<String>, SessionError> {
        self.with(|db| {
            db.prepare_cached("SELECT record FROM session_checkpoints")?.query_map([], |row| row.get(0))?.collect()
        })
    }
}
