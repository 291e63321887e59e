//! How versions do in use: the record that a version is judged by, and the calls that failed, kept so that they can
//! become examples. In the home's SQLite file, beside the counts of `stats`.

use crate::types::{FailingCall, InUse};
use jarvis_protocol::{CapabilityName, Version};
use rusqlite::{Connection, params};

/// Failing calls kept of each capability.
const KEPT_CALLS: i64 = 10;
/// Runs that a version is judged by.
pub const JUDGED_RUNS: usize = 5;

pub(crate) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS capability_judged (
        name TEXT NOT NULL, version TEXT NOT NULL, runs INTEGER NOT NULL, failures INTEGER NOT NULL,
        PRIMARY KEY (name, version)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS capability_failing_calls (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL, args TEXT NOT NULL, exact INTEGER NOT NULL,
        class TEXT NOT NULL, error TEXT NOT NULL, at TEXT NOT NULL);
    CREATE INDEX IF NOT EXISTS capability_failing_calls_by_name ON capability_failing_calls (name, id);";

/// Tables that hold something of a capability by its name.
pub(crate) const TABLES: [&str; 2] = ["capability_judged", "capability_failing_calls"];

/// One more run in the record of its version.
pub(crate) fn add(db: &Connection, name: &CapabilityName, version: &Version, ok: bool) -> Result<(), rusqlite::Error> {
    db.prepare_cached(
        "INSERT INTO capability_judged VALUES (?1, ?2, 1, ?3)
         ON CONFLICT (name, version) DO UPDATE SET runs = runs + 1, failures = failures + ?3",
    )?
    .execute(params![name.as_str(), version.to_string(), !ok])?;
    Ok(())
}

/// The same call once more moves to the front, so that one that is repeated does not push the others out.
pub(crate) fn keep(db: &Connection, name: &CapabilityName, call: &FailingCall) -> Result<(), rusqlite::Error> {
    let version = call.version.to_string();
    db.prepare_cached("DELETE FROM capability_failing_calls WHERE name = ? AND version = ? AND args = ?")?
        .execute(params![name.as_str(), version, call.args])?;
    db.prepare_cached(
        "INSERT INTO capability_failing_calls (name, version, args, exact, class, error, at)
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![name.as_str(), version, call.args, call.exact, call.class, call.error, call.at])?;
    db.prepare_cached(
        "DELETE FROM capability_failing_calls WHERE name = ?1 AND id <=
         (SELECT id FROM capability_failing_calls WHERE name = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
    )?
    .execute(params![name.as_str(), KEPT_CALLS])?;
    Ok(())
}

pub(crate) fn of(db: &Connection, name: &CapabilityName, version: &Version) -> Result<InUse, rusqlite::Error> {
    if !crate::stats::has_table(db, "capability_judged")? {
        return Ok(InUse::default());
    }
    let version = version.to_string();
    let (runs, failures) = db
        .prepare_cached("SELECT coalesce(sum(runs), 0), coalesce(sum(failures), 0) FROM capability_judged WHERE name = ? AND version = ?")?
        .query_row(params![name.as_str(), version], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    let mut recent: Vec<bool> = db
        .prepare_cached("SELECT ok FROM capability_runs WHERE name = ? AND version = ? ORDER BY id DESC LIMIT ?")?
        .query_map(params![name.as_str(), version, JUDGED_RUNS as i64], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    recent.reverse();
    Ok(InUse { runs: runs as u64, failures: failures as u64, recent })
}

/// The newest first.
pub(crate) fn failing_calls(db: &Connection, name: &CapabilityName) -> Result<Vec<FailingCall>, rusqlite::Error> {
    if !crate::stats::has_table(db, "capability_failing_calls")? {
        return Ok(Vec::new());
    }
    db.prepare_cached(
        "SELECT version, args, exact, class, error, at FROM capability_failing_calls WHERE name = ? ORDER BY id DESC",
    )?
    .query_map([name.as_str()], |row| {
        let version: String = row.get(0)?;
        Ok(FailingCall {
            // Written by `keep`, so it parses; of another origin it belongs to no version that there is.
            version: version.parse().unwrap_or(Version::new(0, 0, 0)),
            args: row.get(1)?,
            exact: row.get(2)?,
            class: row.get(3)?,
            error: row.get(4)?,
            at: row.get(5)?,
        })
    })?
    .collect()
}
