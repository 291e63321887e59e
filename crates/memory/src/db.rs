//! SQLite as this crate uses it: one file that other parts share, several processes at once, nothing deleted that can
//! still be read in the file.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// Another process may be copying a long session.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// The steps from one version of a part's tables to the next. Only ever added to.
pub(crate) type Steps = &'static [&'static str];

#[derive(Debug, thiserror::Error)]
pub(crate) enum DbError {
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("{part} has version {found} there; this jarvis knows up to {known}")]
    Newer { part: &'static str, found: usize, known: usize },
}

/// What was committed is safe from the end of a process; a power cut may take the last commits, never the file.
pub(crate) fn open(path: &Path, part: &'static str, steps: Steps) -> Result<Connection, DbError> {
    if let Some(folder) = path.parent() {
        // If this fails, opening the file says so.
        let _ = std::fs::create_dir_all(folder);
    }
    // What was said and learned is its owner's alone; SQLite gives its other files the same mode. If this fails, opening
    // the file says so.
    let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut db = Connection::open(path)?;
    db.busy_timeout(LONGEST_WAIT)?;
    patiently(|| db.pragma_update(None, "journal_mode", "WAL"))?;
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "secure_delete", "ON")?;
    db.set_prepared_statement_cache_capacity(64);
    // Else a statement with parameters is planned anew for each of their values.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    migrate(&mut db, part, steps)?;
    Ok(db)
}

/// What looking at a file found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    /// Rows of its main table.
    pub entries: u64,
    /// What SQLite says is damaged; empty for a file in order.
    pub problems: Vec<String>,
}

/// Damage that is told, at most.
const MOST_PROBLEMS: usize = 5;

/// Looks at all of a file, by SQLite's own check, and changes nothing. None where there is no file.
pub(crate) fn examine(path: &Path, part: &'static str, steps: Steps, table: &str) -> Result<Option<Examined>, DbError> {
    if !path.exists() {
        return Ok(None);
    }
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(LONGEST_WAIT)?;
    let found = version(&db, part)?;
    if found > steps.len() {
        return Err(DbError::Newer { part, found, known: steps.len() });
    }
    let told: Vec<String> = db
        .prepare(&format!("PRAGMA integrity_check({MOST_PROBLEMS})"))?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut problems: Vec<String> = told.into_iter().filter(|line| line != "ok").collect();
    let entries = if found == 0 {
        Ok(0)
    } else {
        db.query_row(&format!("SELECT count(*) FROM {table}"), [], |r| r.get::<_, i64>(0))
    };
    if let Err(error) = &entries {
        problems.push(error.to_string());
    }
    Ok(Some(Examined { entries: entries.map_or(0, |n| u64::try_from(n).unwrap_or(0)), problems }))
}

/// Going over to WAL asks for the whole file and does not wait for it.
fn patiently(mut work: impl FnMut() -> Result<(), rusqlite::Error>) -> Result<(), rusqlite::Error> {
    for _ in 0..200 {
        match work() {
            Err(e) if matches!(e.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)) => {
                std::thread::sleep(Duration::from_millis(25));
            }
            other => return other,
        }
    }
    work()
}

fn version(db: &Connection, part: &str) -> Result<usize, rusqlite::Error> {
    let known: bool =
        db.query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'schema_versions'", [], |row| row.get(0))?;
    if !known {
        return Ok(0);
    }
    let found: Option<i64> =
        db.query_row("SELECT max(version) FROM schema_versions WHERE part = ?", [part], |row| row.get(0))?;
    Ok(found.and_then(|v| usize::try_from(v).ok()).unwrap_or(0))
}

/// The file's own `user_version` belongs to nobody: several parts share the file, each with its own version.
fn migrate(db: &mut Connection, part: &'static str, steps: Steps) -> Result<(), DbError> {
    let check = |found: usize| {
        if found > steps.len() { Err(DbError::Newer { part, found, known: steps.len() }) } else { Ok(found) }
    };
    if check(version(db, part)?)? == steps.len() {
        return Ok(());
    }
    let tx = write(db)?;
    // Another process may have been faster.
    let found = check(version(&tx, part)?)?;
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS schema_versions (part TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID",
    )?;
    for step in &steps[found..] {
        tx.execute_batch(step)?;
    }
    tx.execute("INSERT OR REPLACE INTO schema_versions VALUES (?, ?)", (part, steps.len() as i64))?;
    Ok(tx.commit()?)
}

/// A transaction that writes from its start, so that it never fails half-way for another's sake.
pub(crate) fn write(db: &mut Connection) -> Result<Transaction<'_>, rusqlite::Error> {
    db.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// What was deleted leaves the write-ahead log as well. Waits for readers, but not for ever: `false` when one of them
/// kept it.
pub(crate) fn empty_wal(db: &Connection) -> Result<bool, rusqlite::Error> {
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)).map(|busy| busy == 0)
}

/// Random, in hexadecimal digits, two a byte.
pub(crate) fn random(db: &Connection, bytes: u8) -> Result<String, rusqlite::Error> {
    db.query_row("SELECT lower(hex(randomblob(?)))", [bytes], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_a_file_and_a_newer_one_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE strange (a); PRAGMA user_version = 7").unwrap();
        const ONE: Steps = &["CREATE TABLE a (x)"];
        const TWO: Steps = &["CREATE TABLE a (x)", "ALTER TABLE a ADD COLUMN y"];
        drop(open(&path, "a", ONE).unwrap());
        open(&path, "b", &["CREATE TABLE b (x)"]).unwrap();
        let db = open(&path, "a", TWO).unwrap();
        db.execute_batch("INSERT INTO a (x, y) VALUES (1, 2); SELECT * FROM strange; SELECT * FROM b").unwrap();
        assert!(matches!(open(&path, "a", ONE), Err(DbError::Newer { found: 2, known: 1, .. })));
        assert_eq!(db.query_row("PRAGMA user_version", [], |r| r.get::<_, i64>(0)).unwrap(), 7);
    }
}
