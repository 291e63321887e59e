//! Two more tables of statistics: runs by version, and what building a version took.

use crate::stats::{Statistics, has_table};
use crate::{Registry, RegistryError, Run};
use jarvis_protocol::{CapabilityName, Version};
use rusqlite::{Connection, Transaction, params};

pub(crate) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS capability_versions (
        name TEXT NOT NULL, version TEXT NOT NULL, runs INTEGER NOT NULL, failures INTEGER NOT NULL,
        wall_us INTEGER NOT NULL, last_used TEXT NOT NULL, PRIMARY KEY (name, version)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS capability_builds (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL, at TEXT NOT NULL, wall_ms INTEGER NOT NULL,
        input_tokens INTEGER, output_tokens INTEGER, cost_usd REAL);
    CREATE INDEX IF NOT EXISTS capability_builds_by_name ON capability_builds (name, id);";

pub(crate) const TABLES: [&str; 2] = ["capability_versions", "capability_builds"];

/// What it took to build one version: from the beginning of the turn, or from the registration before it in that turn,
/// to its registration.
#[derive(Debug, Clone, PartialEq)]
pub struct Build {
    pub version: Version,
    /// RFC 3339.
    pub at: String,
    pub wall_ms: u64,
    /// Tokens in and out, and US dollars; none where the model did not say.
    pub usage: Option<(u64, u64, f64)>,
}

impl Build {
    pub fn tokens(&self) -> Option<u64> {
        self.usage.map(|(input, output, _)| input + output)
    }
}

/// The executions of one version.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionStats {
    pub version: Version,
    pub runs: u64,
    pub failures: u64,
    pub mean_ms: f64,
    /// RFC 3339.
    pub last_used: String,
}

/// How long the latest runs took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Runs that were looked at: the latest, at most fifty.
    pub runs: u64,
    /// The time within which 95 of 100 ended (nearest rank).
    pub p95_ms: f64,
}

impl Registry {
    /// Keeps what building a version took.
    pub fn record_build(&self, name: &CapabilityName, build: &Build) -> Result<(), RegistryError> {
        self.inner.stats.write(|tx| {
            let (input, output, cost) = match build.usage {
                Some((input, output, cost)) => (Some(input as i64), Some(output as i64), Some(cost)),
                None => (None, None, None),
            };
            tx.execute(
                "INSERT INTO capability_builds (name, version, at, wall_ms, input_tokens, output_tokens, cost_usd)
                 VALUES (?, ?, ?, ?, ?, ?, ?)",
                params![name.as_str(), build.version.to_string(), build.at, build.wall_ms as i64, input, output, cost],
            )
            .map(|_| ())
        })
    }

    /// The oldest first; empty for what a person registered, and for what was built before this was recorded.
    pub fn builds(&self, name: &CapabilityName) -> Result<Vec<Build>, RegistryError> {
        self.inner.stats.read(|db| if has_table(db, TABLES[1])? { read_builds(db, name) } else { Ok(Vec::new()) })
    }

    /// The oldest version first. Runs from before this was recorded are in [`Stats`](crate::Stats) alone.
    pub fn version_stats(&self, name: &CapabilityName) -> Result<Vec<VersionStats>, RegistryError> {
        self.inner.stats.read(|db| if has_table(db, TABLES[0])? { read_versions(db, name) } else { Ok(Vec::new()) })
    }

    /// None where it never ran.
    pub fn timing(&self, name: &CapabilityName) -> Result<Option<Timing>, RegistryError> {
        self.inner.stats.read(|db| {
            if !has_table(db, "capability_runs")? {
                return Ok(None);
            }
            let times: Vec<i64> = db
                .prepare_cached("SELECT wall_us FROM capability_runs WHERE name = ? ORDER BY wall_us")?
                .query_map([name.as_str()], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            Ok(p95(&times).map(|us| Timing { runs: times.len() as u64, p95_ms: us as f64 / 1000.0 }))
        })
    }
}

/// Nearest rank of sorted values.
fn p95(sorted: &[i64]) -> Option<i64> {
    let rank = (sorted.len() * 95).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

impl Statistics {
    /// The run's part in the totals of its version.
    pub(crate) fn count_version(tx: &Transaction<'_>, name: &CapabilityName, run: &Run) -> Result<(), rusqlite::Error> {
        tx.prepare_cached(
            "INSERT INTO capability_versions VALUES (?1, ?2, 1, ?3, ?4, ?5) ON CONFLICT (name, version) DO UPDATE SET
             runs = runs + 1, failures = failures + ?3, wall_us = wall_us + ?4, last_used = max(last_used, ?5)",
        )?
        .execute(params![name.as_str(), run.version.to_string(), !run.ok, run.wall_us as i64, run.at])
        .map(|_| ())
    }
}

fn read_builds(db: &Connection, name: &CapabilityName) -> Result<Vec<Build>, rusqlite::Error> {
    let rows = db
        .prepare_cached(
            "SELECT version, at, wall_ms, input_tokens, output_tokens, cost_usd FROM capability_builds WHERE name = ?
             ORDER BY id",
        )?
        .query_map([name.as_str()], |row| {
            let usage = match (row.get::<_, Option<i64>>(3)?, row.get::<_, Option<i64>>(4)?) {
                (Some(input), Some(output)) => {
                    Some((input as u64, output as u64, row.get::<_, Option<f64>>(5)?.unwrap_or(0.0)))
                }
                _ => None,
            };
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)? as u64, usage))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    // A version that does not parse was not written by jarvis.
    Ok(rows
        .into_iter()
        .filter_map(|(version, at, wall_ms, usage)| {
            Some(Build { version: Version::parse(&version).ok()?, at, wall_ms, usage })
        })
        .collect())
}

fn read_versions(db: &Connection, name: &CapabilityName) -> Result<Vec<VersionStats>, rusqlite::Error> {
    let rows = db
        .prepare_cached("SELECT version, runs, failures, wall_us, last_used FROM capability_versions WHERE name = ?")?
        .query_map([name.as_str()], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, i64>(3)?,
                row.get::<_, String>(4)?,
            ))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    let mut versions: Vec<VersionStats> = rows
        .into_iter()
        .filter_map(|(version, runs, failures, wall_us, last_used)| {
            Some(VersionStats {
                version: Version::parse(&version).ok()?,
                runs: runs as u64,
                failures: failures as u64,
                mean_ms: wall_us as f64 / (runs.max(1) as f64) / 1000.0,
                last_used,
            })
        })
        .collect();
    versions.sort_by(|a, b| a.version.cmp(&b.version));
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::p95;

    #[test]
    fn the_95th_percentile_is_the_nearest_rank() {
        assert_eq!(p95(&[]), None);
        assert_eq!(p95(&[7]), Some(7));
        let hundred: Vec<i64> = (1..=100).collect();
        assert_eq!(p95(&hundred), Some(95));
        assert_eq!(p95(&hundred[..20]), Some(19));
        assert_eq!(p95(&hundred[..10]), Some(10));
    }
}
