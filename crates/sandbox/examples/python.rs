//! Prints what a Python capability costs above `python3 -I` itself, as medians:
//! `cargo run --release -p jarvis-sandbox --example python [PYTHON]`.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example prints, and starts its peer")]

use jarvis_policy::{Approved, Decision, Policy, decide};
use jarvis_protocol::{CapabilityName, ExecPlan, Grants, Limits, Runtime, Subject};
use jarvis_sandbox::{Access, Executor, Jail, JailConfig, JailSpec, Runtimes, SandboxConfig, View};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 60;
const CODE: &str = "def run(args, ctx):\n    return args['n'] * 2";

fn plan(n: usize) -> Result<ExecPlan, String> {
    let name = CapabilityName::new("latency").map_err(|e| e.to_string())?;
    Ok(ExecPlan {
        subject: Subject::Candidate { name, digest: String::new() },
        runtime: Runtime::Python,
        code: CODE.to_owned(),
        args: json!({ "n": n }),
        grants: Grants::default(),
        limits: Limits::STANDARD,
        dependencies: Vec::new(),
        fixed: None,
    })
}

fn executor(python: &Path, pool: usize) -> Executor {
    let config = SandboxConfig { worker_exe: PathBuf::from("/proc/self/exe"), pool, max_workers: 4 };
    let runtimes =
        Runtimes { python: Some(python.to_owned()), env: std::env::vars_os().collect(), ..Runtimes::default() };
    Executor::with_runtimes(config, Access::default(), runtimes)
}

async fn run(executor: &Executor, n: usize) -> Result<f64, Box<dyn std::error::Error>> {
    let Decision::Permit(permit) = decide(&Policy::closed(), plan(n)?, &Approved::nothing()) else {
        return Err("not permitted".into());
    };
    let started = Instant::now();
    let done = executor.run(permit, &CancellationToken::new()).await?;
    let spent = started.elapsed().as_secs_f64() * 1e3;
    if done.result == Some(json!(n * 2)) { Ok(spent) } else { Err(format!("{done:?}").into()) }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn measure(python: PathBuf) -> Result<(), Box<dyn std::error::Error>> {
    let jail = Jail::new(JailConfig { helper_exe: PathBuf::from("/proc/self/exe"), without_namespaces: false });
    let fresh = executor(&python, 0);
    let started = Instant::now();
    run(&fresh, 0).await?;
    let first = started.elapsed().as_secs_f64() * 1e3;
    let (mut bare, mut jailed, mut whole, mut warm) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let waiting = executor(&python, 1);
    for n in 0..ROUNDS {
        // In turn, so that what else the machine does meets all of them.
        let started = Instant::now();
        tokio::process::Command::new(&python).args(["-I", "-S", "-c", "pass"]).env_clear().output().await?;
        bare.push(started.elapsed().as_secs_f64() * 1e3);
        let mut spec = JailSpec::new(&python, "").args(["-I", "-S", "-c", "pass"]);
        (spec.view, spec.dir) = (View::Bare, "/tmp".into());
        let started = Instant::now();
        jail.run(spec, &CancellationToken::new(), |_, _| {}).await?;
        jailed.push(started.elapsed().as_secs_f64() * 1e3);
        whole.push(run(&fresh, n).await?);
        warm.push(run(&waiting, n).await?);
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    let bare = median(bare);
    println!("{:34} {first:7.2} ms", "first run (asks the interpreter)");
    println!("{:34} {bare:7.2} ms", "python3 -I -S -c pass");
    for (what, values) in [
        ("the same in the jail", jailed),
        ("a capability, fresh interpreter", whole),
        ("a capability, waiting interpreter", warm),
    ] {
        let spent = median(values);
        println!("{what:34} {spent:7.2} ms  ({:+.2})", spent - bare);
    }
    Ok(())
}

fn main() -> Result<std::process::ExitCode, Box<dyn std::error::Error>> {
    let name = std::env::args_os().next().unwrap_or_default();
    match Path::new(&name).file_name().and_then(|name| name.to_str()) {
        Some("jarvis-worker") => return Ok(jarvis_sandbox::worker_main()),
        Some("jarvis-jail") => return Ok(jarvis_sandbox::jail_main()),
        _ => {}
    }
    let python = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("/usr/bin/python3"), PathBuf::from);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure(python))?;
    Ok(std::process::ExitCode::SUCCESS)
}
