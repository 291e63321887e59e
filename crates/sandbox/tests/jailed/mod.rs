//! A sandbox with the interpreters of this machine, for the tests of Python and Deno.
#![allow(dead_code, reason = "each test file uses a part of this")]

use jarvis_policy::{Approved, Decision, Permit, Policy, decide};
use jarvis_protocol::{CapabilityName, ExecPlan, Execution, ExitClass, Grants, Limits, Runtime, Subject};
use jarvis_sandbox::{Access, Executor, Runtimes, SandboxConfig};
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// The first `name` on the path.
pub fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

pub fn runtimes() -> Runtimes {
    Runtimes {
        python: found("python3"),
        deno: std::env::var_os("JARVIS_TEST_DENO").map(PathBuf::from),
        env: std::env::vars_os().collect(),
        ..Runtimes::default()
    }
}

pub fn config(pool: usize) -> SandboxConfig {
    // A copy, where the tests run again as somebody who cannot read the original.
    let copied = std::env::var_os("JAIL_TEST_HELPER").map(PathBuf::from);
    let worker_exe = copied.unwrap_or_else(|| env!("CARGO_BIN_EXE_jarvis-worker-test").into());
    SandboxConfig { worker_exe, pool, max_workers: 16 }
}

pub fn sandbox() -> Executor {
    Executor::with_runtimes(config(0), Access::default(), runtimes())
}

pub fn plan(runtime: Runtime, code: &str, args: Value) -> ExecPlan {
    ExecPlan {
        subject: Subject::Candidate { name: CapabilityName::new("probe").unwrap(), digest: String::new() },
        runtime,
        code: code.to_owned(),
        args,
        grants: Grants::default(),
        limits: Limits { timeout_ms: 10_000, ..Limits::STANDARD },
        dependencies: Vec::new(),
        fixed: None,
    }
}

pub fn permit(plan: ExecPlan) -> Permit {
    // As if a person had approved a version with these grants.
    let version = json!({"name": "probe", "capability": "Probes.", "grants": plan.grants});
    let approved = Approved::with_version(&serde_json::from_value(version).unwrap());
    match decide(&Policy::closed(), plan, &approved) {
        Decision::Permit(permit) => permit,
        other => panic!("{other:?}"),
    }
}

pub async fn run_plan(sandbox: &Executor, plan: ExecPlan) -> Execution {
    sandbox.run(permit(plan), &CancellationToken::new()).await.unwrap()
}

pub async fn python(sandbox: &Executor, code: &str, args: Value) -> Execution {
    run_plan(sandbox, plan(Runtime::Python, code, args)).await
}

/// The body of `def run(args, ctx)`, one statement a line.
pub async fn body(sandbox: &Executor, body: &str) -> Execution {
    python(sandbox, &format!("def run(args, ctx):\n{}", indented(body)), json!({})).await
}

pub fn indented(body: &str) -> String {
    body.lines().map(|line| format!("    {line}\n")).collect()
}

pub fn words(done: &Execution) -> String {
    done.error.as_ref().map(ToString::to_string).unwrap_or_default()
}

#[track_caller]
pub fn gives(done: &Execution, result: Value, code: &str) {
    assert_eq!((done.exit, done.result.as_ref()), (ExitClass::Ok, Some(&result)), "{code}: {}", words(done));
}
