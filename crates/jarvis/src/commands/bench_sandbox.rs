//! `jarvis bench sandbox`: what isolation costs, beside the programs that others use for it, in one run.

use super::bench_calls::{CALLS, Doubles};
use crate::cli::Common;
use crate::error::{Outcome, failed};
use crate::home::Home;
use crate::{config, programs, run, term};
use clap::Args;
use jarvis_policy::{Approved, Decision, Permit, Policy, decide};
use jarvis_protocol::{CapabilityName, ErrorKind, ExecPlan, ExitClass, Grants, Limits, Runtime, Subject};
use jarvis_sandbox::{Executor, Nesting, time_peer};
use serde::Serialize;
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub const HELP: &str = "\
Examples:
  jarvis bench sandbox
  jarvis bench sandbox --deno ./node_modules/.bin/deno --json

Each row is the median of its runs; all rows come from one run on this machine,
so compare the ratios. Peers that are not installed are left out and named.";

#[derive(Debug, Args)]
pub struct Sandbox {
    /// Runs of each row.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    runs: u32,
    /// The deno to measure beside, where it is not on PATH.
    #[arg(long, value_name = "FILE")]
    deno: Option<String>,
}

/// The same small function for every peer.
pub(super) const TYPESCRIPT: &str = "export default function run({ n }: { n: number }): number { return n * 2 }\n";
const DENO: &str = "const args: { n: number } = { n: 21 };\nconsole.log(JSON.stringify(args.n * 2));\n";
const NODE: &str = "const args = { n: 21 };\nconsole.log(JSON.stringify(args.n * 2));\n";
const PYTHON: &str = "def run(args, ctx):\n    return args[\"n\"] * 2\n";

/// Jobs at the same time in the row of sustained load.
const AT_ONCE: usize = 64;

#[derive(Debug, Serialize)]
struct Row {
    what: String,
    runs: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    median_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ms: Option<f64>,
    /// Median, MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_mib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_second: Option<f64>,
}

/// Wall-clock milliseconds and MiB of each run.
type Samples = Vec<(f64, Option<f64>)>;

pub fn run(args: &Sandbox, common: &Common) -> Outcome {
    let home = Home::find()?;
    let settings = config::load(&home)?;
    let scratch = tempfile::tempdir().map_err(|e| failed(ErrorKind::Disk, format!("no temporary folder: {e}")))?;
    let runs = args.runs as usize;
    let (rows, absent) = run::block(async |signals| {
        let cancel = signals.work();
        let mut bench = Bench { rows: Vec::new(), absent: Vec::new(), runs, python_program: None, cancel: &cancel };
        bench.typescript(|| run::executor(&settings, &home)).await?;
        bench.python(&run::executor(&settings, &home)?).await?;
        bench.peers(args.deno.as_deref(), scratch.path())?;
        Ok((bench.rows, bench.absent))
    })?;
    show(&rows, &absent, common.json)
}

struct Bench<'a> {
    rows: Vec<Row>,
    absent: Vec<String>,
    runs: usize,
    /// What is behind the name: a shim of a version manager would be measured instead of python.
    python_program: Option<PathBuf>,
    cancel: &'a CancellationToken,
}

impl Bench<'_> {
    async fn typescript(&mut self, new: impl Fn() -> Outcome<Executor>) -> Outcome {
        let mut cold = Vec::new();
        for n in 0..self.runs.min(30) {
            let executor = new()?;
            cold.push(self.one(&executor, Runtime::Typescript, TYPESCRIPT, n).await?);
        }
        self.push("typescript, cold: first run of a process", cold);
        let executor = new()?;
        self.one(&executor, Runtime::Typescript, TYPESCRIPT, 0).await?;
        let mut warm = Vec::new();
        for n in 0..self.runs {
            warm.push(self.one(&executor, Runtime::Typescript, TYPESCRIPT, n).await?);
            // Time for the pool to fill again.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.push("typescript, warm", warm);
        let mut calling = Vec::new();
        for n in 0..self.runs {
            calling.push(self.one(&executor, Runtime::Typescript, CALLS, n).await?);
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
        self.push("typescript, warm, calling another one", calling);
        self.sustained(&executor).await
    }

    async fn sustained(&mut self, executor: &Executor) -> Outcome {
        let total = self.runs * 20;
        let started = Instant::now();
        let mut jobs = JoinSet::new();
        let mut at_once = Vec::new();
        for n in 0..total {
            if jobs.len() == AT_ONCE {
                at_once.extend(jobs.join_next().await);
            }
            let (executor, cancel) = (executor.clone(), self.cancel.clone());
            let permit = permit(Runtime::Typescript, TYPESCRIPT, n)?;
            jobs.spawn(async move {
                let asked = Instant::now();
                executor.run(permit, &cancel).await.map(|done| (done.exit, asked.elapsed()))
            });
        }
        at_once.extend(jobs.join_all().await.into_iter().map(Ok));
        let seconds = started.elapsed().as_secs_f64();
        let mut samples = Samples::new();
        for job in at_once {
            match job {
                Ok(Ok((ExitClass::Ok, waited))) => samples.push((waited.as_secs_f64() * 1e3, None)),
                Ok(Ok((exit, _))) => return Err(failed(ErrorKind::Sandbox, format!("a run ended as {exit:?}"))),
                Ok(Err(error)) => return Err(failed(ErrorKind::Sandbox, error.to_string())),
                Err(error) => return Err(failed(ErrorKind::Internal, error.to_string())),
            }
        }
        let mut row = row(format!("typescript, {AT_ONCE} at a time"), samples);
        #[expect(clippy::cast_precision_loss, reason = "a small count")]
        let rate = total as f64 / seconds;
        row.per_second = Some(rate);
        self.rows.push(row);
        Ok(())
    }

    async fn python(&mut self, executor: &Executor) -> Outcome {
        let Ok(program) = executor.python_program().await else {
            self.absent.push("python3".to_owned());
            return Ok(());
        };
        self.python_program = Some(program);
        self.one(executor, Runtime::Python, PYTHON, 0).await?;
        let mut waiting = Vec::new();
        let mut at_once = Vec::new();
        for n in 0..self.runs {
            // Time for the next interpreter to be ready in its jail.
            tokio::time::sleep(Duration::from_millis(100)).await;
            waiting.push(self.one(executor, Runtime::Python, PYTHON, n).await?);
        }
        for n in 0..self.runs {
            at_once.push(self.one(executor, Runtime::Python, PYTHON, n).await?);
        }
        self.push("python capability, an interpreter waiting", waiting);
        self.push("python capability, one right after the other", at_once);
        Ok(())
    }

    /// Each started bare, as a process of its own.
    fn peers(&mut self, deno: Option<&str>, scratch: &Path) -> Outcome {
        let write = |name: &str, text: &str| -> Outcome<OsString> {
            let path = scratch.join(name);
            std::fs::write(&path, text).map_err(|e| crate::error::disk(&path, &e))?;
            Ok(path.into_os_string())
        };
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let deno_file = write("peer.ts", DENO)?;
        let node_file = write("peer.mjs", NODE)?;
        let python = self.python_program.clone();
        let bwrap = ["--ro-bind", "/", "/", "--unshare-all", "--die-with-parent"];
        let mut in_bwrap = words(&bwrap);
        in_bwrap.extend(python.iter().map(|p| p.clone().into_os_string()));
        in_bwrap.extend(words(&["-I", "-S", "-c", "pass"]));
        self.peer("fork and exec alone", "true", programs::find("true"), &[])?;
        self.peer("bwrap and true", "bwrap", programs::find("bwrap"), &[words(&bwrap), words(&["true"])].concat())?;
        self.peer("python3 -I -S, bare", "python3", python, &words(&["-I", "-S", "-c", "pass"]))?;
        self.peer("python3 -I -S in bwrap", "bwrap", programs::find("bwrap"), &in_bwrap)?;
        self.peer("node", "node", programs::find("node"), &[node_file])?;
        let tendril = [words(&["run", "--no-prompt", "--no-config", "--cached-only"]), vec![deno_file]].concat();
        self.peer("deno run", "deno", programs::find(deno.unwrap_or("deno")), &tendril)
    }

    fn peer(&mut self, what: &str, name: &str, program: Option<PathBuf>, args: &[OsString]) -> Outcome {
        let Some(program) = program else {
            if !self.absent.iter().any(|absent| absent == name) {
                self.absent.push(name.to_owned());
            }
            return Ok(());
        };
        let mut samples = Vec::new();
        for _ in 0..self.runs.min(30) {
            self.stopped()?;
            let peer = time_peer(&program, args)
                .map_err(|e| failed(ErrorKind::Sandbox, format!("{what} ({}): {e}", program.display())))?;
            #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
            let mib = peer.peak_memory_kb.map(|kb| kb as f64 / 1024.0);
            samples.push((peer.wall.as_secs_f64() * 1e3, mib));
        }
        self.push(what, samples);
        Ok(())
    }

    async fn one(&self, executor: &Executor, runtime: Runtime, code: &str, n: usize) -> Outcome<(f64, Option<f64>)> {
        self.stopped()?;
        let permit = permit(runtime, code, n)?;
        let started = Instant::now();
        let caller = Doubles { executor, cancel: self.cancel };
        let nesting = Nesting { caller: &caller, depth: 0 };
        let done = executor.run_among(permit, Some(nesting), self.cancel).await;
        let done = done.map_err(|e| failed(ErrorKind::Sandbox, e.to_string()))?;
        let ms = started.elapsed().as_secs_f64() * 1e3;
        if done.result != Some(json!(n * 2)) {
            return Err(failed(ErrorKind::Sandbox, format!("a run gave no result: {}", done.failure())));
        }
        #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
        let mib = done.peak_memory_kb as f64 / 1024.0;
        Ok((ms, Some(mib)))
    }

    fn stopped(&self) -> Outcome {
        if self.cancel.is_cancelled() { Err(failed(ErrorKind::Cancelled, "cancelled")) } else { Ok(()) }
    }

    fn push(&mut self, what: &str, samples: Samples) {
        term::status(format!("{what}: measured"));
        self.rows.push(row(what.to_owned(), samples));
    }
}

pub(super) fn permit(runtime: Runtime, code: &str, n: usize) -> Outcome<Permit> {
    let name = CapabilityName::new("bench").map_err(|e| failed(ErrorKind::Internal, e.to_string()))?;
    let plan = ExecPlan {
        subject: Subject::Candidate { name, digest: String::new() },
        runtime,
        code: code.to_owned(),
        args: json!({ "n": n }),
        grants: Grants::default(),
        limits: Limits::STANDARD,
        dependencies: Vec::new(),
        fixed: None,
    };
    match decide(&Policy::closed(), plan, &Approved::nothing()) {
        Decision::Permit(permit) => Ok(permit),
        Decision::Deny(deny) => Err(failed(ErrorKind::Denied, deny.reason)),
    }
}

fn row(what: String, samples: Samples) -> Row {
    let mut times: Vec<f64> = samples.iter().map(|(ms, _)| *ms).collect();
    let mut memory: Vec<f64> = samples.iter().filter_map(|(_, mib)| *mib).collect();
    times.sort_by(f64::total_cmp);
    memory.sort_by(f64::total_cmp);
    let at = |values: &[f64], percent: usize| values.get((values.len() * percent / 100).min(values.len() - 1)).copied();
    Row {
        runs: times.len(),
        median_ms: at(&times, 50),
        p99_ms: at(&times, 99),
        memory_mib: at(&memory, 50),
        per_second: None,
        what,
    }
}

fn show(rows: &[Row], absent: &[String], json: bool) -> Outcome {
    if json {
        return term::json(&json!({"rows": rows, "not_installed": absent}));
    }
    let number = |value: Option<f64>, digits: usize| value.map_or("–".to_owned(), |v| format!("{v:.digits$}"));
    let table: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.what.clone(),
                row.runs.to_string(),
                number(row.median_ms, 2),
                number(row.p99_ms, 2),
                number(row.memory_mib, 1),
                number(row.per_second, 0),
            ]
        })
        .collect();
    term::table(&["what", "runs", "median ms", "p99 ms", "MiB", "runs/s"], &table)?;
    if !absent.is_empty() {
        term::status(format!("not installed, so not measured: {}", absent.join(", ")));
    }
    Ok(())
}
