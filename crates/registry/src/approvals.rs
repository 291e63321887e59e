//! What a person on this machine, or their policy, has allowed: versions by their digest, which covers code and grants.
//! `index.json` cannot say it, for it may have come by a pull. Losing the file means being asked again.

use crate::stats::has_table;
use jarvis_protocol::CapabilityName;
use rusqlite::{Connection, Transaction, params};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS capability_approvals (
        digest TEXT PRIMARY KEY, name TEXT NOT NULL, at TEXT NOT NULL) WITHOUT ROWID;";

pub(crate) fn keep(tx: &Transaction<'_>, name: &CapabilityName, digest: &str, at: &str) -> Result<(), rusqlite::Error> {
    tx.execute_batch(SCHEMA)?;
    tx.execute("INSERT OR IGNORE INTO capability_approvals VALUES (?, ?, ?)", params![digest, name.as_str(), at])?;
    Ok(())
}

pub(crate) fn has(db: &Connection, digest: &str) -> Result<bool, rusqlite::Error> {
    // A file of an earlier version has no such table.
    if !has_table(db, "capability_approvals")? {
        return Ok(false);
    }
    db.prepare_cached("SELECT EXISTS (SELECT 1 FROM capability_approvals WHERE digest = ?)")?
        .query_row([digest], |row| row.get(0))
}
