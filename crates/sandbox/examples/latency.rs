//! Where the time of a run goes, as medians: `cargo run --release -p jarvis-sandbox --example latency`. With `probe`:
//! which layers of isolation hold here.
#![allow(clippy::print_stdout, reason = "an example prints")]

use jarvis_policy::{Approved, Decision, Permit, Policy, decide};
use jarvis_protocol::{CapabilityName, ExecPlan, Grants, Limits, Runtime, Subject};
use jarvis_sandbox::{Access, Executor, SandboxConfig};
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const CODE: &str = "export default function run({ n }: { n: number }): number { return n * 2 }";

fn permit(n: usize) -> Result<Permit, String> {
    let plan = ExecPlan {
        subject: Subject::Candidate {
            name: CapabilityName::new("latency").map_err(|e| e.to_string())?,
            digest: String::new(),
        },
        runtime: Runtime::Typescript,
        code: CODE.to_owned(),
        args: json!({ "n": n }),
        grants: Grants::default(),
        limits: Limits::STANDARD,
        dependencies: Vec::new(),
        fixed: None,
    };
    match decide(&Policy::closed(), plan, &Approved::nothing()) {
        Decision::Permit(permit) => Ok(permit),
        other => Err(format!("{other:?}")),
    }
}

fn start() -> Result<Vec<(String, f64)>, String> {
    let mut parts: Vec<(String, Vec<f64>)> = Vec::new();
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(40));
        let times = jarvis_sandbox::start_times("/proc/self/exe".as_ref()).map_err(|e| e.to_string())?;
        for (at, (name, micros)) in times.into_iter().enumerate() {
            if parts.len() <= at {
                parts.push((name, Vec::new()));
            }
            parts[at].1.push(micros as f64 / 1e3);
        }
    }
    Ok(parts.into_iter().map(|(name, times)| (name, median(times))).collect())
}

fn executor() -> Executor {
    Executor::new(
        SandboxConfig { worker_exe: PathBuf::from("/proc/self/exe"), pool: 2, max_workers: 64 },
        Access::default(),
    )
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn measure() -> Result<(), Box<dyn std::error::Error>> {
    let cancel = CancellationToken::new();
    let mut cold = Vec::new();
    for n in 0..30 {
        // The kernel takes the namespaces of the one before apart meanwhile.
        tokio::time::sleep(Duration::from_millis(40)).await;
        let executor = executor();
        let started = Instant::now();
        executor.run(permit(n)?, &cancel).await?;
        cold.push(started.elapsed().as_secs_f64() * 1e3);
    }
    let executor = executor();
    let (mut warm, mut cpu, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..500 {
        let started = Instant::now();
        let done = executor.run(permit(n)?, &cancel).await?;
        warm.push(started.elapsed().as_secs_f64() * 1e3);
        cpu.push(done.cpu_us as f64 / 1e3);
        memory.push(done.peak_memory_kb as f64 / 1024.0);
        // Time for the pool to fill again.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut check = Vec::new();
    for _ in 0..50 {
        let started = Instant::now();
        jarvis_sandbox::check(CODE, Runtime::Typescript).map_err(|e| e.to_string())?;
        check.push(started.elapsed().as_secs_f64() * 1e3);
    }
    let total = 4000;
    let started = Instant::now();
    let mut jobs = tokio::task::JoinSet::new();
    for n in 0..total {
        let (executor, cancel, permit) = (executor.clone(), cancel.clone(), permit(n)?);
        jobs.spawn(async move { executor.run(permit, &cancel).await });
    }
    while let Some(job) = jobs.join_next().await {
        job??;
    }
    let rate = total as f64 / started.elapsed().as_secs_f64();
    println!("cold run     {:8.2} ms, of which", median(cold));
    for (name, time) in start()? {
        println!("  {time:8.2} ms {name}");
    }
    println!("warm run     {:8.2} ms", median(warm));
    println!("worker cpu   {:8.2} ms", median(cpu));
    println!("worker peak  {:8.2} MiB", median(memory));
    println!("check        {:8.2} ms", median(check));
    println!("64 at a time {rate:8.0} runs/s");
    Ok(())
}

fn main() -> Result<std::process::ExitCode, Box<dyn std::error::Error>> {
    let name = std::env::args_os().next().unwrap_or_default();
    if std::path::Path::new(&name).file_name() == Some("jarvis-worker".as_ref()) {
        return Ok(jarvis_sandbox::worker_main());
    }
    if std::env::args().nth(1).as_deref() == Some("probe") {
        for layer in jarvis_sandbox::probe() {
            println!("{:32} {:5} {}", layer.name, layer.in_force, layer.detail);
        }
        return Ok(std::process::ExitCode::SUCCESS);
    }
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure())?;
    Ok(std::process::ExitCode::SUCCESS)
}
