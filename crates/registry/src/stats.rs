//! Counts of executions, in tables of the home's SQLite file. Reading never creates or changes the file.

use crate::edges::{self, CallEdge};
use crate::health::store;
use crate::types::{FailingCall, InUse, Run, Stats};
use crate::{RegistryError, approvals, in_use};
use jarvis_protocol::{CapabilityName, Egress, Version};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Runs kept one by one for each capability; older ones live on in the totals.
const KEPT: i64 = 50;
const RECENT: i64 = 10;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS capability_totals (
        name TEXT PRIMARY KEY, runs INTEGER NOT NULL, failures INTEGER NOT NULL, wall_us INTEGER NOT NULL,
        last_used TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS capability_errors (
        name TEXT NOT NULL, class TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (name, class)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS capability_runs (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL, ok INTEGER NOT NULL,
        wall_us INTEGER NOT NULL, at TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS capability_egress (
        name TEXT NOT NULL, host TEXT NOT NULL, requests INTEGER NOT NULL, sent INTEGER NOT NULL,
        received INTEGER NOT NULL, denied INTEGER NOT NULL, PRIMARY KEY (name, host)) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS capability_runs_by_name ON capability_runs (name, id);";

pub(crate) struct Statistics {
    path: PathBuf,
    writer: Mutex<Option<Connection>>,
    reader: Mutex<Option<Connection>>,
}

impl Statistics {
    pub fn new(path: PathBuf) -> Self {
        Self { path, writer: Mutex::new(None), reader: Mutex::new(None) }
    }

    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Before the file is put aside; the next use opens what is there then.
    pub fn close(&self) {
        *locked(&self.writer) = None;
        *locked(&self.reader) = None;
    }

    /// Counts a run. `failed` is set where it failed and the call is worth keeping; `telling` is false for a failure that
    /// says nothing about the code, which then stays out of the version's record.
    pub fn record(
        &self,
        name: &CapabilityName,
        run: &Run,
        failed: Option<&FailingCall>,
        telling: bool,
    ) -> Result<InUse, RegistryError> {
        self.write(|tx| {
            tx.prepare_cached(
                "INSERT INTO capability_totals VALUES (?1, 1, ?2, ?3, ?4) ON CONFLICT (name) DO UPDATE SET
                 runs = runs + 1, failures = failures + ?2, wall_us = wall_us + ?3, last_used = max(last_used, ?4)",
            )?
            .execute(params![name.as_str(), !run.ok, run.wall_us as i64, run.at])?;
            if !run.ok {
                let class = run.error_class.as_deref().unwrap_or("unknown");
                tx.prepare_cached(
                    "INSERT INTO capability_errors VALUES (?1, ?2, 1)
                     ON CONFLICT (name, class) DO UPDATE SET count = count + 1",
                )?
                .execute(params![name.as_str(), class])?;
            }
            if telling {
                record_of_version(tx, name, run)?;
            }
            if let Some(call) = failed {
                in_use::keep(tx, name, call)?;
            }
            Self::count_version(tx, name, run)?;
            for egress in &run.egress {
                record_egress(tx, name, egress)?;
            }
            // In the same transaction: of two processes, the later one sees the run of the earlier.
            in_use::of(tx, name, &run.version)
        })
    }

    /// The next runs are judged by themselves: what came before was looked at by somebody.
    pub fn start_over(&self, name: &CapabilityName) -> Result<(), RegistryError> {
        if !self.path.exists() {
            return Ok(());
        }
        self.write(|tx| {
            tx.execute("DELETE FROM capability_runs WHERE name = ?", [name.as_str()])?;
            Ok(())
        })
    }

    /// Counts a call of one capability by another.
    pub fn record_call(&self, edge: &CallEdge) -> Result<(), RegistryError> {
        self.write(|tx| edges::add(tx, edge))
    }

    pub fn calls(&self) -> Result<Vec<CallEdge>, RegistryError> {
        self.read(edges::all)
    }

    pub fn in_use(&self, name: &CapabilityName, version: &Version) -> Result<InUse, RegistryError> {
        self.read(|db| in_use::of(db, name, version))
    }

    pub fn failing_calls(&self, name: &CapabilityName) -> Result<Vec<FailingCall>, RegistryError> {
        self.read(|db| in_use::failing_calls(db, name))
    }

    pub fn forget(&self, name: &CapabilityName) -> Result<(), RegistryError> {
        if !self.path.exists() {
            return Ok(());
        }
        self.write(|tx| {
            let tables = ["capability_totals", "capability_errors", "capability_runs", "capability_egress"];
            for table in tables.into_iter().chain(in_use::TABLES).chain(store::TABLES) {
                tx.execute(&format!("DELETE FROM {table} WHERE name = ?"), [name.as_str()])?;
            }
            edges::forget(tx, name)
        })
    }

    /// `current` chooses the runs shown as recent; without it those of every version.
    pub fn of(&self, name: &CapabilityName, current: Option<&Version>) -> Result<Stats, RegistryError> {
        self.read(|db| read(db, name, current))
    }

    /// What is read where there is no file yet: nothing.
    pub(crate) fn read<T: Default>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, RegistryError> {
        let mut slot = locked(&self.reader);
        if slot.is_none() {
            if !self.path.exists() {
                return Ok(T::default());
            }
            *slot = Some(self.open_to_read().map_err(|e| self.error(&e))?);
        }
        let Some(db) = slot.as_ref() else { return Ok(T::default()) };
        work(db).map_err(|e| self.error(&e))
    }

    fn open_to_read(&self) -> Result<Connection, rusqlite::Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&self.path, flags)?;
        settle(&db)?;
        match db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) {
            Ok(()) => Ok(db),
            // In a directory where nobody can write, WAL has no place for its shared memory; there nobody changes
            // the file either, so it can be read as it is.
            Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::CannotOpen) => {
                let uri = format!("file:{}?immutable=1", escape(&self.path.to_string_lossy()));
                Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
            }
            Err(e) => Err(e),
        }
    }

    pub(crate) fn write<T>(
        &self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<T, RegistryError> {
        let mut slot = locked(&self.writer);
        let result = (|| {
            let db = match slot.as_mut() {
                Some(db) => db,
                None => slot.insert(open_to_write(&self.path)?),
            };
            let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let done = work(&tx)?;
            tx.commit()?;
            Ok(done)
        })();
        result.map_err(|e| self.error(&e))
    }

    fn error(&self, error: &rusqlite::Error) -> RegistryError {
        RegistryError::Statistics { path: self.path.clone(), message: error.to_string() }
    }

    pub fn approve(&self, name: &CapabilityName, digest: &str, at: &str) -> Result<(), RegistryError> {
        self.write(|tx| approvals::keep(tx, name, digest, at))
    }

    pub fn approved(&self, digest: &str) -> Result<bool, RegistryError> {
        self.read(|db| approvals::has(db, digest))
    }
}

/// The runs that say something about the code of their version.
fn record_of_version(tx: &rusqlite::Transaction<'_>, name: &CapabilityName, run: &Run) -> Result<(), rusqlite::Error> {
    tx.prepare_cached("INSERT INTO capability_runs (name, version, ok, wall_us, at) VALUES (?, ?, ?, ?, ?)")?
        .execute(params![name.as_str(), run.version.to_string(), run.ok, run.wall_us as i64, run.at])?;
    tx.prepare_cached(
        "DELETE FROM capability_runs WHERE name = ?1 AND id <=
         (SELECT id FROM capability_runs WHERE name = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
    )?
    .execute(params![name.as_str(), KEPT])?;
    in_use::add(tx, name, &run.version, run.ok)
}

/// Hosts counted one by one for each capability; what lies beyond is counted together, under no name.
const HOSTS: i64 = 50;

fn record_egress(
    tx: &rusqlite::Transaction<'_>,
    name: &CapabilityName,
    egress: &Egress,
) -> Result<(), rusqlite::Error> {
    let known: bool = tx
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM capability_egress WHERE name = ?1 AND host = ?2)
             OR (SELECT count(*) FROM capability_egress WHERE name = ?1) < ?3",
        )?
        .query_row(params![name.as_str(), egress.host, HOSTS], |row| row.get(0))?;
    let host = if known { egress.host.as_str() } else { "" };
    tx.prepare_cached(
        "INSERT INTO capability_egress VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (name, host) DO UPDATE SET
         requests = requests + ?3, sent = sent + ?4, received = received + ?5, denied = denied + ?6",
    )?
    .execute(params![
        name.as_str(),
        host,
        egress.requests as i64,
        egress.sent_bytes as i64,
        egress.received_bytes as i64,
        egress.denied as i64
    ])?;
    Ok(())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn settle(db: &Connection) -> Result<(), rusqlite::Error> {
    db.busy_timeout(Duration::from_secs(5))?;
    db.set_prepared_statement_cache_capacity(64);
    // Else a statement with parameters is planned anew for each of their values.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

fn open_to_write(path: &std::path::Path) -> Result<Connection, rusqlite::Error> {
    if let Some(dir) = path.parent() {
        // If this fails, opening the file says so.
        let _ = std::fs::create_dir_all(dir);
    }
    let db = Connection::open(path)?;
    settle(&db)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    // A power cut may lose the last counts, never the file.
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.execute_batch(SCHEMA)?;
    db.execute_batch(edges::SCHEMA)?;
    db.execute_batch(in_use::SCHEMA)?;
    db.execute_batch(store::SCHEMA)?;
    Ok(db)
}

fn read(db: &Connection, name: &CapabilityName, current: Option<&Version>) -> Result<Stats, rusqlite::Error> {
    if !has_table(db, "capability_runs")? {
        return Ok(Stats::default());
    }
    let totals = db
        .prepare_cached("SELECT runs, failures, wall_us, last_used FROM capability_totals WHERE name = ?")?
        .query_row([name.as_str()], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, String>(3)?))
        })
        .optional()?;
    let Some((runs, failures, wall_us, last_used)) = totals else { return Ok(Stats::default()) };
    let mut recent: Vec<bool> = db
        .prepare_cached(
            "SELECT ok FROM capability_runs WHERE name = ?1 AND (?2 IS NULL OR version = ?2)
             ORDER BY id DESC LIMIT ?3",
        )?
        .query_map(params![name.as_str(), current.map(Version::to_string), RECENT], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    recent.reverse();
    let errors = db
        .prepare_cached("SELECT class, count FROM capability_errors WHERE name = ?")?
        .query_map([name.as_str()], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)? as u64)))?
        .collect::<Result<_, _>>()?;
    Ok(Stats {
        runs: runs as u64,
        failures: failures as u64,
        recent,
        mean_ms: if runs > 0 { wall_us as f64 / runs as f64 / 1000.0 } else { 0.0 },
        last_used: Some(last_used),
        errors,
        egress: read_egress(db, name)?,
    })
}

pub(crate) fn has_table(db: &Connection, table: &str) -> Result<bool, rusqlite::Error> {
    db.prepare_cached("SELECT count(*) FROM sqlite_schema WHERE name = ?")?.query_row([table], |row| row.get(0))
}

fn read_egress(db: &Connection, name: &CapabilityName) -> Result<Vec<Egress>, rusqlite::Error> {
    // A file of an earlier version has no such table before its next write.
    if !has_table(db, "capability_egress")? {
        return Ok(Vec::new());
    }
    db.prepare_cached(
        "SELECT host, requests, sent, received, denied FROM capability_egress WHERE name = ? ORDER BY requests DESC",
    )?
    .query_map([name.as_str()], |row| {
        Ok(Egress {
            host: row.get(0)?,
            requests: row.get::<_, i64>(1)? as u64,
            sent_bytes: row.get::<_, i64>(2)? as u64,
            received_bytes: row.get::<_, i64>(3)? as u64,
            denied: row.get::<_, i64>(4)? as u64,
        })
    })?
    .collect()
}

/// Escapes what has a meaning in a `file:` URI.
fn escape(path: &str) -> String {
    path.replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}
