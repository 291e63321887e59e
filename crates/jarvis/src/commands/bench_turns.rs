//! `jarvis bench turns`: what jarvis itself takes of a turn, with a model that answers at once; one conversation after the
//! other, and many at the same time. The home is temporary.

use super::bench_turns_meter::{Meter, Spent};
use super::bench_turns_world::{Kind, World};
use crate::cli::Common;
use crate::error::{Failure, Outcome};
use crate::{run, term};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub const HELP: &str = "\
Examples:
  jarvis bench turns
  jarvis bench turns --sessions 50 --json

The model is scripted and takes no time. A turn with a tool is: question, call, result, answer; all \
of it goes through agent, dispatch, audit and the kept session, as in any conversation. `own` is the \
turn's wall-clock time less what the sandbox took, which stands beside it. Your home is not touched.";

#[derive(Debug, Args)]
pub struct Turns {
    /// Conversations at the same time.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=2000))]
    sessions: u32,
    /// Turns of each of them.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    turns: u32,
    /// Turns of each row where one conversation runs at a time.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    runs: u32,
}

/// Turns of one conversation, where one follows the other: as long as many are.
const CONVERSATION: u32 = 10;

/// One turn that was measured.
pub(super) struct Sample {
    pub wall: Duration,
    pub spent: Spent,
}

#[derive(Debug, Serialize)]
struct Row {
    what: String,
    sessions: u32,
    turns: usize,
    /// Conversations that are not whole on disk afterwards: a message, an answer, a call on the audit is missing.
    lost: u32,
    own_ms: Times,
    sandbox_ms: Times,
    wall_ms: Times,
    turns_per_second: f64,
    /// Of `own_ms`, the mean of what each part took.
    parts_ms: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Serialize)]
struct Times {
    median: f64,
    p99: f64,
    most: f64,
}

impl Times {
    fn of(samples: &[Sample], time: impl Fn(&Sample) -> Duration) -> Times {
        let mut times: Vec<f64> = samples.iter().map(|sample| ms(time(sample))).collect();
        times.sort_by(f64::total_cmp);
        let at = |percent: usize| times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
        let at = |percent| at(percent).copied().map_or(0.0, rounded);
        Times { median: at(50), p99: at(99), most: at(100) }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// To a microsecond.
fn rounded(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

pub fn run(args: &Turns, common: &Common) -> Outcome {
    let meter = Meter::install()?;
    let world = World::new(meter)?;
    let rows = run::block(async |signals| {
        let cancel = signals.work();
        world.prepare(&cancel).await?;
        let mut rows = Vec::new();
        for kind in Kind::ALL {
            rows.push(one_by_one(&world, kind, args.runs, &cancel).await?);
            term::status(format!("{}: measured", kind.name()));
        }
        rows.push(at_once(&world, args.sessions, args.turns, &cancel).await?);
        Ok(rows)
    })?;
    show(&rows, common.json)?;
    // The figures are told first; that something is missing is no figure.
    let lost: u32 = rows.iter().map(|row| row.lost).sum();
    if lost > 0 { Err(Failure::Told(1)) } else { Ok(()) }
}

async fn one_by_one(world: &World, kind: Kind, runs: u32, cancel: &CancellationToken) -> Outcome<Row> {
    let mut samples = Vec::new();
    let (mut left, mut sessions, mut lost) = (runs, 0, 0);
    // Twice without measuring: files are made, code is checked, workers are warm.
    world.talk(kind, sessions, 2, cancel).await?;
    let before = world.calls_on_audit()?;
    let started = Instant::now();
    while left > 0 {
        let turns = left.min(CONVERSATION);
        let talk = world.talk(kind, sessions, turns, cancel).await?;
        left -= turns;
        sessions += 1;
        lost += u32::from(!world.is_whole(&talk, kind)?);
        samples.extend(talk.samples);
    }
    let took = started.elapsed();
    let expected = before + if kind.calls() { u64::from(runs) } else { 0 };
    lost += u32::from(world.calls_on_audit()? != expected);
    Ok(row(format!("{}, one after the other", kind.name()), sessions, lost, &samples, took))
}

/// All begin in the same moment, and each goes on as soon as it is answered.
async fn at_once(world: &World, sessions: u32, turns: u32, cancel: &CancellationToken) -> Outcome<Row> {
    let before = world.calls_on_audit()?;
    let started = Instant::now();
    let mut talks = JoinSet::new();
    for number in 0..sessions {
        let (world, cancel) = (world.clone(), cancel.clone());
        talks.spawn(async move { world.talk(Kind::Capability, number, turns, &cancel).await });
    }
    let talks = talks.join_all().await;
    let took = started.elapsed();
    let (mut samples, mut lost) = (Vec::new(), 0);
    for talk in talks {
        let talk = talk?;
        lost += u32::from(!world.is_whole(&talk, Kind::Capability)?);
        samples.extend(talk.samples);
    }
    let missing = (before + u64::from(sessions) * u64::from(turns)).saturating_sub(world.calls_on_audit()?);
    lost += u32::try_from(missing).unwrap_or(u32::MAX);
    Ok(row(format!("{}, {sessions} conversations at once", Kind::Capability.name()), sessions, lost, &samples, took))
}

fn row(what: String, sessions: u32, lost: u32, samples: &[Sample], took: Duration) -> Row {
    let sandbox = |sample: &Sample| sample.spent.of("sandbox");
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    let count = samples.len().max(1) as f64;
    let mut parts_ms = serde_json::Map::new();
    for part in samples.iter().flat_map(|sample| sample.spent.parts()).filter(|part| *part != "sandbox") {
        if !parts_ms.contains_key(part) {
            let sum: f64 = samples.iter().map(|sample| ms(sample.spent.of(part))).sum();
            parts_ms.insert(part.to_owned(), json!(rounded(sum / count)));
        }
    }
    Row {
        what,
        sessions,
        turns: samples.len(),
        lost,
        own_ms: Times::of(samples, |sample| sample.wall.saturating_sub(sandbox(sample))),
        sandbox_ms: Times::of(samples, sandbox),
        wall_ms: Times::of(samples, |sample| sample.wall),
        turns_per_second: rounded(count / took.as_secs_f64()),
        parts_ms,
    }
}

fn show(rows: &[Row], json: bool) -> Outcome {
    if json {
        return term::json(&json!({"rows": rows}));
    }
    let times = |times: &Times| format!("{:.2} / {:.2}", times.median, times.p99);
    let table: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.what.clone(),
                row.turns.to_string(),
                row.lost.to_string(),
                times(&row.own_ms),
                times(&row.sandbox_ms),
                format!("{:.0}", row.turns_per_second),
            ]
        })
        .collect();
    term::table(&["what", "turns", "lost", "own ms", "sandbox ms", "turns/s"], &table)?;
    for row in rows {
        let parts: Vec<String> = row.parts_ms.iter().map(|(part, ms)| format!("{part} {ms}")).collect();
        term::status(format!("{}: of its own time, ms: {}", row.what, parts.join(", ")));
    }
    term::status("times: median / p99 of a turn");
    Ok(())
}
