//! `jarvis bench serve`: what a server of sessions takes: its memory, turns of many sessions, clients that come and go.

use super::bench_serve_world::{Client, Model, Server, Turned};
use crate::cli::Common;
use crate::error::{Failure, Outcome, failed};
use crate::{run, term};
use clap::Args;
use jarvis_protocol::ErrorKind;
use serde::Serialize;
use serde_json::json;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

pub const HELP: &str = "\
Examples:
  jarvis bench serve
  jarvis bench serve --sessions 50 --connects 200 --json

Starts `jarvis serve` in a home of its own, with a scripted model in this process. Each turn calls one
capability: question, call, result, answer. `own` is what the server says the turn took, less the
model's replies and the call; the call stands beside it, and what the client waited for the whole.
All at once, a turn waits for those before it: the last one cannot be done before the work of all of
them, on every core, is. That floor, the processor time that was used, is shown. In the other row the
model takes its time, as models do, and sessions begin one after the other over that time.";

#[derive(Debug, Args)]
pub struct BenchServe {
    /// Sessions at the same time, each with a stream of events.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=500))]
    sessions: u64,
    /// Turns of each session where the model takes its time.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    turns: u64,
    /// Milliseconds that a reply of the model takes there; a turn has two.
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    model_ms: u64,
    /// Clients that come and go.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    connects: u64,
}

/// Turns before the first that is measured, and those measured one by one.
const WARM: u64 = 3;
const ALONE: u64 = 50;
/// Clients that come and go at the same time.
const TOGETHER: u64 = 20;
/// What is left is looked at until it is what was there before, or so long.
const SETTLED: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize)]
struct Row {
    what: &'static str,
    sessions: u64,
    turns: usize,
    /// Turns that did not end, or not with the right result.
    lost: usize,
    own_ms: Times,
    tool_ms: Times,
    wall_ms: Times,
    turns_per_second: f64,
    /// Of the server and its workers, for each turn.
    cpu_ms: f64,
    /// All of that on all cores: before it no order of work has the last turn done.
    floor_ms: f64,
}

#[derive(Debug, Serialize)]
struct Times {
    median: f64,
    p99: f64,
    most: f64,
}

impl Times {
    fn of(turns: &[Turned], time: impl Fn(&Turned) -> f64) -> Times {
        let mut times: Vec<f64> = turns.iter().map(time).collect();
        times.sort_by(f64::total_cmp);
        let at = |percent: usize| times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
        let at = |percent| at(percent).map_or(0.0, |ms| tenth(*ms));
        Times { median: at(50), p99: at(99), most: at(100) }
    }
}

/// What there is of a server.
#[derive(Debug, Clone, Copy, Serialize)]
struct Held {
    /// All pages that are in memory, and those of no file.
    resident_mib: f64,
    own_mib: f64,
    descriptors: usize,
    /// With its workers.
    processes: usize,
    sessions: usize,
}

fn tenth(of: f64) -> f64 {
    (of * 10.0).round() / 10.0
}

pub fn run(args: &BenchServe, common: &Common) -> Outcome {
    let (idle, rows, after) = run::block(async |signals| {
        let cancel = signals.work();
        let work = measure(args);
        cancel.run_until_cancelled(work).await.ok_or_else(|| failed(ErrorKind::Cancelled, "cancelled"))?
    })?;
    let left = after.map(|(before, after)| json!({"connects": args.connects, "before": before, "after": after}));
    if common.json {
        term::json(&json!({"idle": idle, "rows": rows, "come_and_gone": left, "cores": cores()}))?;
    } else {
        show(&idle, &rows)?;
        if let Some((before, after)) = &after {
            term::status(format!(
                "{} clients came and went: sessions {} → {}, processes {} → {}, descriptors {} → {}, MiB {} → {}",
                args.connects,
                before.sessions,
                after.sessions,
                before.processes,
                after.processes,
                before.descriptors,
                after.descriptors,
                before.resident_mib,
                after.resident_mib
            ));
        }
    }
    // The figures are told first; that something is missing, or left, is no figure.
    let lost: usize = rows.iter().map(|row| row.lost).sum();
    let left = after.is_some_and(|(before, after)| is_left(&before, &after));
    if lost > 0 || left { Err(Failure::Told(1)) } else { Ok(()) }
}

type Measured = (Held, Vec<Row>, Option<(Held, Held)>);

async fn measure(args: &BenchServe) -> Outcome<Measured> {
    let model = Model::start().await?;
    let server = Server::start(&model).await?;
    let client = server.client();
    client.sessions().await?;
    // What only the start needed is given back by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let idle = held(&server, &client).await?;
    term::status("idle: measured");
    talk(&client, &model, 0..WARM).await?;
    let mut rows = Vec::new();
    let mut next = WARM;
    let mut numbers = |count: u64| {
        let from = next;
        next += count;
        from..next
    };
    let started = (Instant::now(), server.cpu()?);
    let turned = talk(&client, &model, numbers(ALONE)).await?;
    rows.push(row("one after the other", 1, ALONE, &turned, started, server.cpu()?));
    term::status("one after the other: measured");
    let each = (0..args.sessions).map(|_| (numbers(1), Duration::ZERO)).collect();
    rows.push(crowd("all at once", &server, &model, each).await?);
    term::status("all at once: measured");
    model.takes(Duration::from_millis(args.model_ms));
    let turn = Duration::from_millis(args.model_ms * 2);
    let after = |n: u64| turn.mul_f64(n as f64 / args.sessions as f64);
    let each = (0..args.sessions).map(|n| (numbers(args.turns), after(n))).collect();
    rows.push(crowd("with a model that takes its time", &server, &model, each).await?);
    term::status("with a model that takes its time: measured");
    let left = if args.connects > 0 { Some(come_and_go(&server, args.connects).await?) } else { None };
    Ok((idle, rows, left))
}

/// A session for each of `each`: its turns, and when it begins.
async fn crowd(
    what: &'static str,
    server: &Server,
    model: &Arc<Model>,
    each: Vec<(Range<u64>, Duration)>,
) -> Outcome<Row> {
    let client = server.client();
    let (sessions, turns) = (each.len() as u64, each.iter().map(|(numbers, _)| numbers.end - numbers.start).sum());
    let mut ready = Vec::new();
    for (numbers, after) in each {
        let session = client.open().await?;
        let events = client.follow(&session).await?;
        ready.push((session, events, numbers, after));
    }
    let started = (Instant::now(), server.cpu()?);
    let mut talks = JoinSet::new();
    for (session, mut events, numbers, after) in ready {
        let (client, model) = (client.clone(), Arc::clone(model));
        talks.spawn(async move {
            tokio::time::sleep(after).await;
            let mut turned = Vec::new();
            for number in numbers {
                let Ok(one) = client.turn(&session, &mut events, &model, number).await else { break };
                turned.push(one);
            }
            let _ = client.close(&session).await;
            turned
        });
    }
    let turned: Vec<Turned> = talks.join_all().await.into_iter().flatten().collect();
    Ok(row(what, sessions, turns, &turned, started, server.cpu()?))
}

/// One session alone.
async fn talk(client: &Client, model: &Model, numbers: Range<u64>) -> Outcome<Vec<Turned>> {
    let session = client.open().await?;
    let mut events = client.follow(&session).await?;
    let mut turned = Vec::new();
    for number in numbers {
        turned.push(client.turn(&session, &mut events, model, number).await?);
    }
    client.close(&session).await?;
    Ok(turned)
}

fn row(
    what: &'static str,
    sessions: u64,
    turns: u64,
    turned: &[Turned],
    (started, before): (Instant, Duration),
    cpu: Duration,
) -> Row {
    let cpu = cpu.saturating_sub(before).as_secs_f64() * 1e3;
    let count = turned.len().max(1) as f64;
    Row {
        what,
        sessions,
        turns: turned.len(),
        lost: usize::try_from(turns).unwrap_or(usize::MAX).saturating_sub(turned.len()),
        own_ms: Times::of(turned, |one| (one.server_ms - one.model_ms - one.tool_ms).max(0.0)),
        tool_ms: Times::of(turned, |one| one.tool_ms),
        wall_ms: Times::of(turned, |one| one.wall_ms),
        turns_per_second: tenth(count / started.elapsed().as_secs_f64()),
        cpu_ms: (cpu / count * 1e2).round() / 1e2,
        floor_ms: tenth(cpu / cores() as f64),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

async fn held(server: &Server, client: &Client) -> Outcome<Held> {
    let (resident, own) = server.memory()?;
    let sessions = client.sessions().await?;
    let (descriptors, processes) = (server.descriptors()?, server.processes()?);
    Ok(Held { resident_mib: tenth(resident), own_mib: tenth(own), descriptors, processes, sessions })
}

/// A worker more may wait for the next call than before, with what it holds.
fn is_left(before: &Held, after: &Held) -> bool {
    after.sessions > before.sessions
        || after.processes > before.processes + 4
        || after.descriptors > before.descriptors + 8
}

/// Clients that leave: out of nothing, out of the middle of a head, out of a stream of events, out of an answer that was
/// not there yet.
async fn come_and_go(server: &Server, connects: u64) -> Outcome<(Held, Held)> {
    let client = server.client();
    let session = client.open().await?;
    let before = held(server, &client).await?;
    let mut left = connects;
    while left > 0 {
        let mut round = JoinSet::new();
        for number in 0..left.min(TOGETHER) {
            let (client, session) = (client.clone(), session.clone());
            round.spawn(async move { client.leave(&session, number % 4).await });
        }
        for gone in round.join_all().await {
            gone?;
        }
        left -= left.min(TOGETHER);
    }
    let until = Instant::now() + SETTLED;
    let after = loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let after = held(server, &client).await?;
        if !is_left(&before, &after) || Instant::now() > until {
            break after;
        }
    };
    client.close(&session).await?;
    Ok((before, after))
}

fn show(idle: &Held, rows: &[Row]) -> Outcome {
    let times = |times: &Times| format!("{:.1} / {:.1}", times.median, times.p99);
    let table: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.what.to_owned(),
                row.turns.to_string(),
                row.lost.to_string(),
                times(&row.own_ms),
                times(&row.tool_ms),
                times(&row.wall_ms),
                format!("{:.0}", row.turns_per_second),
                format!("{:.2}", row.cpu_ms),
                format!("{:.0}", row.floor_ms),
            ]
        })
        .collect();
    let header =
        ["what", "turns", "lost", "own ms", "call ms", "client ms", "turns/s", "cpu ms/turn", "floor ms (all turns)"];
    term::table(&header, &table)?;
    term::status(format!(
        "times: median / p99 of a turn; floor: processor time of all turns on {} cores; idle: {} MiB resident, {} of them \
         its own, {} descriptors",
        cores(),
        idle.resident_mib,
        idle.own_mib,
        idle.descriptors
    ));
    Ok(())
}
