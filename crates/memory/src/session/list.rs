//! Finding a session again.

use super::{
    SessionError, SessionPage, SessionQuery, SessionStore,
    store::{COLUMNS, info},
};
use crate::segment::{fts, query_words};
use rusqlite::params;

impl SessionStore {
    /// A page of sessions, those changed last first.
    pub fn list(&self, query: &SessionQuery) -> Result<SessionPage, SessionError> {
        let words = query.text.as_deref().map(query_words);
        let asked = words.as_deref().and_then(|w| fts(w, " AND "));
        if words.is_some() && asked.is_none() && query.text.as_deref().is_some_and(|t| !t.trim().is_empty()) {
            // Nothing but marks: no text has them as words.
            return Ok(SessionPage { sessions: Vec::new(), total: 0 });
        }
        let mut matching = "(?1 IS NULL OR workspace = ?1)".to_owned();
        if asked.is_some() {
            matching += " AND row IN (SELECT session FROM session_words WHERE session_words MATCH ?2)";
        } else {
            matching += " AND ?2 IS NULL";
        }
        let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
        let offset = i64::try_from(query.offset).unwrap_or(i64::MAX);
        self.with(|db| {
            let tx = db.transaction()?;
            let total: i64 = tx
                .prepare_cached(&format!("SELECT count(*) FROM sessions WHERE {matching}"))?
                .query_row(params![query.workspace, asked], |r| r.get(0))?;
            let sessions = tx
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM sessions WHERE {matching} ORDER BY updated DESC, row DESC LIMIT ?3 OFFSET ?4"
                ))?
                .query_map(params![query.workspace, asked, limit, offset], info)?
                .collect::<Result<_, _>>()?;
            Ok(SessionPage { sessions, total: total as u64 })
        })
    }
}
