//! `jarvis bench registry`: how fast the registry is at several sizes, in homes made for it; or how well it finds, on a
//! labelled file.

use super::bench_registry_data::{capability, queries};
use crate::cli::{Common, Reach};
use crate::config::Settings;
use crate::error::{Outcome, disk, failed, unreadable, usage};
use crate::home::Home;
use crate::{run, signals, term};
use clap::Args;
use jarvis_agent::{Bootstrap, bootstrap_specs};
use jarvis_dispatch::DenyAll;
use jarvis_model::estimate_tokens;
use jarvis_protocol::{Capability, CreatedBy, ErrorKind};
use jarvis_registry::{Labelled, NewVersion, Quality, Query, Registry, quality};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub const HELP: &str = "\
Examples:
  jarvis bench registry
  jarvis bench registry --entries 1000 --json
  jarvis bench registry --quality tools.json

The file of --quality: {\"capabilities\": [{\"name\", \"description\", \"parameters\"}], \
\"queries\": [{\"query\", \"expect\": [NAME, …]}]}; `expect` is empty where nothing fits. \
Homes are temporary; yours is not touched.";

#[derive(Debug, Args)]
pub struct BenchRegistry {
    /// Capabilities in the registry, one size after the other.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "100,10000,100000",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with = "quality")]
    entries: Vec<u32>,
    /// Measure how well the search finds, on labelled requests.
    #[arg(long, value_name = "FILE")]
    quality: Option<PathBuf>,
    /// With --quality: a line for each request that went wrong.
    #[arg(long, requires = "quality")]
    faults: bool,
}

/// How long each kind of measurement goes on at each size.
const SEARCHING: Duration = Duration::from_secs(3);
const REGISTERING: Duration = Duration::from_secs(5);
/// At least that many of each, however long they take.
const FEWEST: usize = 3;
const REGISTRATIONS: usize = 60;

pub fn run(args: &BenchRegistry, common: &Common) -> Outcome {
    match &args.quality {
        Some(file) => measure_quality(file, args.faults, common.json),
        None => measure_times(&args.entries, common.json),
    }
}

#[derive(Debug, Serialize)]
struct Size {
    entries: u32,
    /// Reading the file, the first time in a process.
    load_ms: f64,
    /// The first search, which builds the index.
    first_search_ms: f64,
    search: Times,
    list: Times,
    /// On disk and committed.
    register: Times,
    /// Of what `list_capabilities` answers a model, the most of any query.
    listing_tokens: u64,
    /// Resident memory that the loaded and searched registry takes.
    memory_mib: f64,
}

#[derive(Debug, Serialize)]
struct Times {
    runs: usize,
    median_ms: f64,
    p99_ms: f64,
}

impl Times {
    fn of(mut samples: Vec<f64>) -> Times {
        samples.sort_by(f64::total_cmp);
        let at = |share: usize| samples.get((samples.len() * share / 100).min(samples.len().saturating_sub(1)));
        Times {
            runs: samples.len(),
            median_ms: at(50).copied().unwrap_or_default(),
            p99_ms: at(99).copied().unwrap_or_default(),
        }
    }
}

fn timed<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(T, f64)> {
    let started = Instant::now();
    let done = work()?;
    Ok((done, started.elapsed().as_secs_f64() * 1000.0))
}

/// Again and again until `budget` is over, at most `most` times.
fn repeat(budget: Duration, most: usize, mut work: impl FnMut(usize) -> Outcome) -> Outcome<Times> {
    let started = Instant::now();
    let mut samples = Vec::new();
    while samples.len() < most && (samples.len() < FEWEST || started.elapsed() < budget) {
        let i = samples.len();
        samples.push(timed(|| work(i))?.1);
    }
    Ok(Times::of(samples))
}

fn measure_times(sizes: &[u32], json: bool) -> Outcome {
    let specs = serde_json::to_string(&bootstrap_specs()).unwrap_or_default();
    let tools_tokens = estimate_tokens(&specs);
    let sizes = run::block(async |signals| {
        let mut rows = Vec::new();
        for entries in sizes {
            if signals.work().is_cancelled() {
                break;
            }
            term::status(format!("{entries} entries"));
            rows.push(one_size(*entries, signals).await?);
        }
        Ok(rows)
    })?;
    if json {
        return term::json(&json!({"sizes": sizes, "tools_tokens": tools_tokens}));
    }
    let table: Vec<Vec<String>> = sizes
        .iter()
        .map(|s| {
            let times = |t: &Times| format!("{:.2} / {:.2}", t.median_ms, t.p99_ms);
            vec![
                s.entries.to_string(),
                format!("{:.1}", s.load_ms),
                format!("{:.1}", s.first_search_ms),
                times(&s.search),
                times(&s.list),
                times(&s.register),
                s.listing_tokens.to_string(),
                format!("{:.0}", s.memory_mib),
            ]
        })
        .collect();
    let header =
        ["entries", "load ms", "first search ms", "search ms", "list ms", "register ms", "listing tokens", "MiB"];
    term::table(&header, &table)?;
    term::status(format!("times: median / p99; the three tools themselves are {tools_tokens} tokens at every size"));
    Ok(())
}

async fn one_size(entries: u32, signals: &signals::Signals) -> Outcome<Size> {
    let scratch = scratch()?;
    let home = Home::at(scratch.path());
    let capabilities: Vec<Capability> = (0..entries).map(capability).collect::<Outcome<_>>()?;
    fill(&home, &capabilities)?;
    drop(capabilities);
    let before = resident_mib();
    let forge = run::forge(&Settings::default(), &Reach::default(), &home)?;
    let registry = forge.dispatch().registry().clone();
    let (_, load_ms) = timed(|| Ok(registry.list().map(drop)?))?;
    let queries = queries();
    let search = |i: usize| Ok(registry.search(&queries[i % queries.len()], 8).map(drop)?);
    let (_, first_search_ms) = timed(|| search(0))?;
    let search = repeat(SEARCHING, queries.len() * 20, search)?;
    let memory_mib = resident_mib() - before;
    let list = repeat(SEARCHING / 2, 50, |_| Ok(registry.list().map(drop)?))?;
    let listing_tokens = listing(Bootstrap::new(forge, None, "bench"), &queries, signals).await?;
    let register = repeat(REGISTERING, REGISTRATIONS, |i| register(&registry, entries + i as u32))?;
    Ok(Size { entries, load_ms, first_search_ms, search, list, register, listing_tokens, memory_mib })
}

/// Tokens of the longest answer that a model gets.
async fn listing(tools: Bootstrap, queries: &[String], signals: &signals::Signals) -> Outcome<u64> {
    let mut most = 0;
    for query in queries {
        let args = json!({"query": query});
        let answer = tools
            .call("list_capabilities", &args, &mut |_| {}, &mut DenyAll, &signals.work())
            .await
            .map_err(|e| failed(ErrorKind::Internal, format!("list_capabilities failed: {e}")))?;
        most = most.max(estimate_tokens(&answer.0.to_string()));
    }
    Ok(most)
}

/// As if they had always been there: one by one through git would take hours.
fn fill(home: &Home, capabilities: &[Capability]) -> Outcome {
    let root = home.capabilities();
    let index = root.join("index.json");
    let text = json!({"version": "1.0.0", "capabilities": capabilities}).to_string();
    std::fs::create_dir_all(&root).and_then(|()| std::fs::write(&index, text)).map_err(|e| disk(&index, &e))
}

fn register(registry: &Registry, number: u32) -> Outcome {
    let new = NewVersion {
        capability: capability(number)?,
        code: format!("export default (args: object) => ({{ ...args, number: {number} }})\n"),
        change: "first version".to_owned(),
        created_by: CreatedBy::Human,
        model: None,
        now: jiff::Timestamp::now().to_string(),
    };
    Ok(registry.register(new).map(drop)?)
}

fn scratch() -> Outcome<tempfile::TempDir> {
    tempfile::tempdir().map_err(|e| failed(ErrorKind::Disk, format!("no temporary folder: {e}")))
}

/// Of this process, where the system tells.
fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.unwrap_or(0.0) / 1024.0
}

fn measure_quality(file: &Path, faults: bool, json: bool) -> Outcome {
    let text = std::fs::read_to_string(file).map_err(|e| unreadable(file, &e))?;
    let labelled: Labelled = serde_json::from_str(&text).map_err(|e| {
        let wanted = "it holds {\"capabilities\": [{name, description, parameters}], \"queries\": [{query, expect}]}";
        usage(format!("{}: {e}", file.display()), wanted)
    })?;
    let capabilities: Vec<Capability> = labelled.capabilities.into_iter().map(Capability::from).collect();
    let unknown =
        labelled.queries.iter().flat_map(|q| &q.expect).find(|name| capabilities.iter().all(|c| c.name != **name));
    if let Some(name) = unknown {
        let hint = "every name in `expect` is that of one of the capabilities";
        return Err(usage(format!("{}: a query expects `{name}`, which is not there", file.display()), hint));
    }
    let scratch = scratch()?;
    let home = Home::at(scratch.path());
    fill(&home, &capabilities)?;
    let registry = run::registry(&home)?;
    let chinese = |query: &Query| query.query.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c));
    let all = quality(&registry, &labelled.queries, |_| true)?;
    let parts = [
        ("English", quality(&registry, &labelled.queries, |q| !chinese(q))?),
        ("Chinese", quality(&registry, &labelled.queries, chinese)?),
    ];
    if json {
        let mut shown: Value = json!({"capabilities": capabilities.len(), "all": all});
        for (language, found) in &parts {
            shown[language.to_lowercase()] = json!(found);
        }
        return term::json(&shown);
    }
    let row = |what: &str, q: &Quality| -> Vec<String> {
        let share = |share: f64, of: usize| if of == 0 { "–".to_owned() } else { format!("{share:.3}") };
        vec![
            what.to_owned(),
            (q.matching + q.without_match).to_string(),
            share(q.recall_at_1, q.matching),
            share(q.recall_at_5, q.matching),
            share(q.mrr, q.matching),
            share(q.fitting_at_5, q.matching),
            share(q.no_match_accuracy, q.without_match),
        ]
    };
    let mut rows = vec![row("all", &all)];
    rows.extend(parts.iter().map(|(language, found)| row(language, found)));
    let header = ["requests", "number", "recall@1", "recall@5", "MRR", "said to fit@5", "nothing fits"];
    term::table(&header, &rows)?;
    if faults {
        all.faults.iter().for_each(term::status);
    }
    Ok(())
}
