//! A sandbox with this crate's own worker, and a shortcut past the decision: pure code needs nobody.
#![allow(dead_code, reason = "each test file uses a part of this")]

use jarvis_policy::{Approved, Decision, Permit, Policy, decide};
use jarvis_protocol::{CapabilityName, ExecPlan, Execution, Grants, Limits, Runtime, Subject};
use jarvis_sandbox::{Access, Executor, SandboxConfig};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub fn sandbox() -> Executor {
    let worker_exe = env!("CARGO_BIN_EXE_jarvis-worker-test").into();
    Executor::new(SandboxConfig { worker_exe, pool: 2, max_workers: 16 }, Access::default())
}

pub fn plan(code: &str, args: Value) -> ExecPlan {
    ExecPlan {
        subject: Subject::Candidate { name: CapabilityName::new("probe").unwrap(), digest: String::new() },
        runtime: Runtime::Typescript,
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

pub async fn run(sandbox: &Executor, code: &str, args: Value) -> Execution {
    run_plan(sandbox, plan(code, args)).await
}

pub async fn run_plan(sandbox: &Executor, plan: ExecPlan) -> Execution {
    sandbox.run(permit(plan), &CancellationToken::new()).await.unwrap()
}

/// The result of an expression.
pub async fn value(sandbox: &Executor, expression: &str) -> Execution {
    run(sandbox, &format!("export default async function run() {{ return ({expression}) }}"), json!({})).await
}
