//! `runtime: "deno"`: the same capability in the person's own Deno, in the jail and without any permission of Deno's.

use crate::broker::Desk;
use crate::check::Checked;
use crate::error::SandboxError;
use crate::frame::Fault;
use crate::jail::{Jail, JailSpec, Stdin};
use crate::python::{Host, bare, limits_of};
use jarvis_protocol::{ExecPlan, Execution, Limits};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

const WORKER: &str = include_str!("deno.js");
/// Arguments, results, console and ctx are the embedded engine's own.
const CORE: &str = include_str!("worker/js/core.js");
const CTX: &str = include_str!("worker/js/ctx.js");

/// What Deno takes beside the heap of the code, MiB.
const BESIDE_HEAP_MB: u64 = 384;

/// Its threads count, too.
const MOST_TASKS: u32 = 64;

/// Anything that could read more than the one module: configuration, lock files, packages, the network, questions.
const FLAGS: [&str; 9] = [
    "run",
    "--quiet",
    "--no-prompt",
    "--no-config",
    "--no-lock",
    "--no-npm",
    "--no-remote",
    "--cached-only",
    "--no-code-cache",
];

pub(crate) struct Deno {
    program: Option<PathBuf>,
    jail: Jail,
}

impl Deno {
    pub(crate) fn new(program: Option<PathBuf>, jail: Jail) -> Deno {
        Deno { program, jail }
    }

    pub(crate) fn program(&self) -> Result<PathBuf, SandboxError> {
        let program = self.program.as_deref().ok_or_else(|| SandboxError::Spec {
            what: "this capability runs in Deno, and there is no deno on this machine".to_owned(),
            fix: "install it (npm install -g deno, or deno.com) or set runtime: \"typescript\"".to_owned(),
        })?;
        program.canonicalize().map_err(|e| SandboxError::Spec {
            what: format!("`{}` cannot be used as Deno: {e}", program.display()),
            fix: "name the deno binary in the configuration".to_owned(),
        })
    }

    pub(crate) async fn run(
        &self,
        plan: &ExecPlan,
        checked: &Checked,
        desk: &Desk<'_>,
        cancel: &CancellationToken,
    ) -> Result<Execution, SandboxError> {
        let started = Instant::now();
        let program = self.program()?;
        let host = Host::start_on_stdio(&self.jail, spec(&program, &plan.limits)).await?;
        let place = |fault: &Fault| place(fault, checked);
        Ok(host.run(plan, checked, desk, cancel, started, place).await)
    }
}

fn spec(program: &Path, limits: &Limits) -> JailSpec {
    let mut spec = bare(program, limits_of(limits, BESIDE_HEAP_MB, MOST_TASKS));
    spec.stdin = Stdin::Piped;
    spec.read_only.push(program.to_owned());
    for (name, value) in [("DENO_DIR", "/tmp/deno"), ("DENO_NO_UPDATE_CHECK", "1"), ("NO_COLOR", "1")] {
        spec.env.push((name.into(), value.into()));
    }
    let worker = WORKER.replacen("(CORE)", CORE, 1).replacen("(CTX)", CTX, 1);
    let heap = format!("--v8-flags=--max-old-space-size={}", limits.memory_mb.max(1));
    let module = format!("data:text/javascript,{}", escaped(&worker));
    spec.args(FLAGS).args([heap, module])
}

/// For a data URL.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 5 / 4);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'(' | b')' | b'=' | b';' | b',' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The person's own line and column. The frames of an error class's own constructor say nothing about the throw.
fn place(fault: &Fault, checked: &Checked) -> Option<(u32, u32)> {
    let own = format!("at new {} (", fault.name);
    fault.stack.lines().filter(|frame| !frame.trim_start().starts_with(&own)).find_map(|frame| {
        let (_, rest) = frame.split_once(crate::MODULE_NAME)?;
        let mut numbers = rest.strip_prefix(':')?.split(|c: char| !c.is_ascii_digit());
        let line = numbers.next()?.parse().ok()?;
        let column = numbers.next().and_then(|n| n.parse().ok()).unwrap_or(1);
        checked.original(line, column)
    })
}
