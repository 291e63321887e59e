//! Prints how long appending and reading take: `cargo run --release -p jarvis-audit --example audit_times`.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example prints, and may fail")]

use jarvis_audit::{AuditLog, Filter, Kind, Record};
use serde_json::json;
use std::time::{Duration, Instant};

fn record(i: usize, kind: Kind) -> Record {
    Record {
        at: "2026-01-05T10:00:00Z".into(),
        actor: "cli".into(),
        kind,
        subject: format!("probe_{}", i % 3),
        detail: json!({"exit": "ok", "args_digest": "0".repeat(64), "wall_us": i}),
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Of one line, in milliseconds.
fn row(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let ms = |at: usize| times[at.min(times.len() - 1)].as_secs_f64() * 1000.0;
    let (median, p99) = (ms(times.len() / 2), ms(times.len() * 99 / 100));
    println!("| {what} | {} | {median:.3} | {p99:.3} |", times.len());
}

fn main() {
    let home = tempfile::tempdir().unwrap();
    let log = AuditLog::open(home.path().to_owned());
    let append = |i, kind| timed(|| assert!(log.append(record(i, kind)).unwrap() > 0));
    println!("| what | times | median ms | p99 ms |\n|---|---|---|---|");
    row("append an outcome (not waited for)", (0..19_800).map(|i| append(i, Kind::Outcome)).collect());
    row("append an intent (on disk)", (0..200).map(|i| append(i, Kind::Intent)).collect());
    row(
        "verify 20,000 records",
        (0..5).map(|_| timed(|| assert!(log.verify().unwrap().problems.is_empty()))).collect(),
    );
    let tail = || timed(|| assert_eq!(log.tail(20, &Filter::default()).unwrap().entries.len(), 20));
    row("the last 20 of 20,000", (0..20).map(|_| tail()).collect());
}
