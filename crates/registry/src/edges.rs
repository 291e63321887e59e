//! Which capability called which, and how often: the edges of composition, beside the counts in `stats`.

use crate::stats::has_table;
use jarvis_protocol::CapabilityName;
use rusqlite::{Connection, Transaction, params};

pub(crate) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS capability_calls (
        caller TEXT NOT NULL, callee TEXT NOT NULL, runs INTEGER NOT NULL, failures INTEGER NOT NULL,
        PRIMARY KEY (caller, callee)) WITHOUT ROWID;";

/// How often one capability ran another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallEdge {
    pub caller: CapabilityName,
    pub callee: CapabilityName,
    pub runs: u64,
    pub failures: u64,
}

pub(crate) fn add(tx: &Transaction<'_>, edge: &CallEdge) -> Result<(), rusqlite::Error> {
    tx.prepare_cached(
        "INSERT INTO capability_calls VALUES (?1, ?2, ?3, ?4) ON CONFLICT (caller, callee) DO UPDATE SET
         runs = runs + ?3, failures = failures + ?4",
    )?
    .execute(params![edge.caller.as_str(), edge.callee.as_str(), edge.runs as i64, edge.failures as i64])?;
    Ok(())
}

/// The most travelled first. A name that is none (somebody wrote into the file) is left out.
pub(crate) fn all(db: &Connection) -> Result<Vec<CallEdge>, rusqlite::Error> {
    // A file of an earlier version has no such table before its next write.
    if !has_table(db, "capability_calls")? {
        return Ok(Vec::new());
    }
    let rows: Vec<(String, String, i64, i64)> = db
        .prepare_cached(
            "SELECT caller, callee, runs, failures FROM capability_calls ORDER BY runs DESC, caller, callee",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
        .collect::<Result<_, _>>()?;
    let edge = |(caller, callee, runs, failures): (String, String, i64, i64)| {
        let (caller, callee) = (CapabilityName::new(caller).ok()?, CapabilityName::new(callee).ok()?);
        Some(CallEdge { caller, callee, runs: runs as u64, failures: failures as u64 })
    };
    Ok(rows.into_iter().filter_map(edge).collect())
}

pub(crate) fn forget(tx: &Transaction<'_>, name: &CapabilityName) -> Result<(), rusqlite::Error> {
    tx.execute("DELETE FROM capability_calls WHERE caller = ?1 OR callee = ?1", [name.as_str()])?;
    Ok(())
}
