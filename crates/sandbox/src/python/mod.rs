//! Python capabilities: the person's own interpreter in the jail, one process for each run.
//!
//! `def run(args, ctx)` is called as in TypeScript: with all arguments and the context, or by the names of its
//! parameters where the arguments have these names; `async def run` awaits the calls of `ctx`. Results have the form of
//! JSON (see `py/result.py`): whole numbers beyond ±(2^53−1) and `Decimal`, `Fraction`, `UUID` become text, dates their
//! ISO form, tuples lists, enums their values, dataclasses dicts; NaN, cycles, sets, bytes and functions are errors.
//!
//! With `fixed`, `random` is seeded, and `time.time`, `datetime.now`, `date.today` and what else shows the date stand
//! still; `os.urandom`, `secrets`, `uuid4` and clocks that only measure (`perf_counter`, `monotonic`) do not.

mod host;
mod interpreter;
pub mod packages;
mod server;

pub(crate) use host::Host;
pub use server::{PythonServer, Served};

use crate::broker::{Broker, Desk};
use crate::check::{Checked, MAX_CODE_BYTES, Use, UseKind};
use crate::error::SandboxError;
use crate::executor::without_worker;
use crate::frame::Fault;
use crate::jail::{Jail, JailLimits, JailNetwork, JailSpec, Preset, Seccomp, Stdin, View};
use crate::pool::lock;
use interpreter::Interpreter;
use jarvis_protocol::{CapabilityName, ExecPlan, Execution, ExitClass, Grants, Limits, Runtime, ScriptError, Subject};
use packages::{DependencyError, Packages, Store};
use serde::Deserialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

const CHECK: [&str; 2] = [include_str!("py/entry.py"), include_str!("py/check.py")];
const UNPACK: &str = include_str!("py/unpack.py");

/// What the interpreter itself takes beside the values of the code, MiB.
const BESIDE_VALUES_MB: u64 = 32;

/// Of the interpreter that reads code: far more than any code of the largest size needs.
const CHECK_LIMITS: Limits = Limits { timeout_ms: 10_000, memory_mb: 256, output_bytes: 4 << 20 };

const UNPACK_LIMITS: JailLimits = JailLimits {
    wall_ms: 600_000,
    cpu_ms: 600_000,
    memory_mb: 2048,
    pids: 16,
    file_mb: 4096,
    disk_mb: 64,
    open_files: 256,
    output_bytes: 64 << 10,
};

/// The most that a jail takes as its limits.
const DAY_MS: u64 = 86_400_000;
const MOST_MEMORY_MB: u64 = 1 << 22;
const MOST_OUTPUT: u64 = 1 << 32;

/// The interpreters of this machine, as whoever starts jarvis has found them.
#[derive(Debug, Clone, Default)]
pub struct Runtimes {
    pub python: Option<PathBuf>,
    pub deno: Option<PathBuf>,
    /// Installed packages are kept here. Absolute.
    pub cache: Option<PathBuf>,
    /// The person's environment, for the interpreter to find itself and for pip. Code never sees it.
    pub env: Vec<(OsString, OsString)>,
    /// Options of pip that name the index, where its own configuration does not.
    pub index: Vec<String>,
}

/// What is not there, and how to get it.
#[derive(Debug, Clone)]
pub(crate) struct Missing {
    pub what: String,
    pub fix: String,
}

impl From<Missing> for SandboxError {
    fn from(missing: Missing) -> Self {
        SandboxError::Spec { what: missing.what, fix: missing.fix }
    }
}

pub(crate) struct Python {
    runtimes: Runtimes,
    jail: Jail,
    interpreter: OnceCell<Result<Arc<Interpreter>, Missing>>,
    store: Option<Store>,
    /// One interpreter that is up and waits, and what it was started for.
    waiting: Arc<Mutex<Option<(Start, Host)>>>,
}

/// Time limits are alike for workers that wait up to the next multiple of this.
const TIME_STEP_MS: u64 = 5_000;

/// All in which two workers differ before they have a job.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Start {
    packages: Option<PathBuf>,
    limits: Limits,
    /// Fixes the order of sets.
    hash_seed: Option<u32>,
}

impl Python {
    pub(crate) fn new(runtimes: Runtimes, jail: Jail) -> Python {
        let store = runtimes.cache.clone().map(Store::new);
        Python { runtimes, jail, interpreter: OnceCell::new(), store, waiting: Arc::default() }
    }

    pub(crate) async fn run(
        &self,
        plan: &ExecPlan,
        desk: &Desk<'_>,
        cancel: &CancellationToken,
        keep_warm: bool,
    ) -> Result<Execution, SandboxError> {
        let started = Instant::now();
        let rejected = |error| Ok(without_worker(ExitClass::Rejected, Some(error), started));
        if let Some(error) = too_long(&plan.code) {
            return rejected(error);
        }
        let interpreter = self.interpreter().await?;
        let packages = match self.packages(&interpreter, &plan.dependencies).await {
            Ok(packages) => packages.map(|packages| packages.folder),
            Err(DependencyError::Sandbox(error)) => return Err(error),
            Err(error) => return rejected(in_words(&error)),
        };
        let hash_seed = plan.fixed.map(|fixed| fixed.random_seed as u32);
        // The parent keeps the time to the millisecond; so one that waits serves a call with a little less of it, too.
        let timeout_ms = plan.limits.timeout_ms.next_multiple_of(TIME_STEP_MS);
        let start = Start { packages, limits: Limits { timeout_ms, ..plan.limits }, hash_seed };
        let host = self.host(&interpreter, &start).await?;
        let checked = Checked::foreign(&plan.code, Vec::new(), Vec::new());
        let done = host.run(plan, &checked, desk, cancel, started, place).await;
        if keep_warm && start.hash_seed.is_none() {
            self.warm(&interpreter, start);
        }
        Ok(done)
    }

    /// Reads the code without running it: what it takes, what it reaches for, whether its imports are there.
    pub(crate) async fn check(
        &self,
        code: &str,
        dependencies: &[String],
    ) -> Result<Result<Checked, ScriptError>, SandboxError> {
        if let Some(error) = too_long(code) {
            return Ok(Err(error));
        }
        let name = CapabilityName::new("check").map_err(|e| SandboxError::io("check")(std::io::Error::other(e)))?;
        let plan = ExecPlan {
            subject: Subject::Candidate { name, digest: String::new() },
            runtime: Runtime::Python,
            code: CHECK.concat(),
            args: serde_json::json!({ "source": code }),
            grants: Grants::default(),
            limits: CHECK_LIMITS,
            dependencies: dependencies.to_vec(),
            fixed: None,
        };
        let broker = Broker::default();
        let desk = broker.desk(&plan).map_err(|e| SandboxError::io("check of the code")(std::io::Error::other(e)))?;
        let done = self.run(&plan, &desk, &CancellationToken::new(), false).await?;
        let read = done.result.map(serde_json::from_value::<Read>);
        Ok(match (read, done.error) {
            (Some(Ok(Read::Error { error })), _) => Err(error),
            (Some(Ok(Read::Fine { params, positional, uses, literals })), _) => {
                let mut checked = Checked::foreign(code, params, positional);
                checked.uses = uses.into_iter().map(Found::into_use).collect();
                checked.literals = literals;
                Ok(checked)
            }
            (Some(Err(e)), _) => Err(ScriptError::new("InternalError", format!("the check's own answer: {e}"))),
            // Of the interpreter that died or ran out of something, it is the code that made it.
            (None, Some(error)) if done.exit == ExitClass::Rejected => Err(error),
            (None, error) => {
                let why = error.map(|error| error.to_string()).unwrap_or_default();
                Err(ScriptError::new(
                    "SyntaxError",
                    format!("python failed to read this code; write it more simply ({why})"),
                ))
            }
        })
    }

    /// Installs the packages: the one step that uses the network. No code of theirs runs in it.
    pub(crate) async fn install(
        &self,
        dependencies: &[String],
        cancel: &CancellationToken,
    ) -> Result<Packages, DependencyError> {
        let (interpreter, store) = (self.interpreter().await?, self.store()?);
        let python = self.runtimes.python.as_deref().unwrap_or(&interpreter.program);
        let unpack = InJail { jail: &self.jail, interpreter: &interpreter };
        store.install(&self.runtimes, python, &interpreter.tag, dependencies, &unpack, cancel).await
    }

    async fn packages(
        &self,
        interpreter: &Interpreter,
        dependencies: &[String],
    ) -> Result<Option<Packages>, DependencyError> {
        if dependencies.is_empty() {
            return Ok(None);
        }
        self.store()?.find(&interpreter.tag, dependencies).await.map(Some)
    }

    fn store(&self) -> Result<&Store, DependencyError> {
        self.store.as_ref().ok_or_else(|| DependencyError::Missing {
            what: "there is no folder to keep packages in".to_owned(),
            fix: "set a cache folder in the configuration".to_owned(),
        })
    }

    async fn interpreter(&self) -> Result<Arc<Interpreter>, SandboxError> {
        let ask = async || {
            let python = self.runtimes.python.as_deref().ok_or_else(|| Missing {
                what: "there is no python3 on this machine".to_owned(),
                fix: interpreter::INSTALL.to_owned(),
            })?;
            Interpreter::ask(python, &self.runtimes.env).await.map(Arc::new)
        };
        self.interpreter.get_or_init(ask).await.clone().map_err(Into::into)
    }

    pub(crate) async fn program(&self) -> Result<PathBuf, SandboxError> {
        Ok(self.interpreter().await?.program.clone())
    }

    /// What a jail must show for the interpreter to run in it, beside the program itself.
    pub(crate) async fn needs(&self) -> Result<Vec<PathBuf>, SandboxError> {
        Ok(self.interpreter().await?.needs.clone())
    }

    async fn host(&self, interpreter: &Interpreter, start: &Start) -> Result<Host, SandboxError> {
        let waiting = lock(&self.waiting).take();
        if let Some((its, mut host)) = waiting
            && its == *start
            && host.is_waiting()
        {
            return Ok(host);
        }
        Host::start(&self.jail, spec(interpreter, start), &interpreter.worker).await
    }

    /// Starts the next worker; not while one works, whose processors and launcher it would take.
    fn warm(&self, interpreter: &Arc<Interpreter>, start: Start) {
        let (jail, interpreter, waiting) = (self.jail.clone(), Arc::clone(interpreter), Arc::clone(&self.waiting));
        tokio::spawn(async move {
            // Without it the next run starts its own, and tells what is wrong.
            if let Ok(host) = Host::start(&jail, spec(&interpreter, &start), &interpreter.worker).await {
                *lock(&waiting) = Some((start, host));
            }
        });
    }
}

fn spec(interpreter: &Interpreter, start: &Start) -> JailSpec {
    let mut spec = bare(&interpreter.program, limits_of(&start.limits, BESIDE_VALUES_MB, 32));
    spec.read_only.extend(interpreter.needs.iter().cloned());
    spec.hidden = interpreter.others.clone();
    spec.seccomp = Seccomp::Strict;
    // Isolated; but Python reads the seed of its hashes from the environment alone, which is ours.
    let isolated: &[&str] = if start.hash_seed.is_some() { &["-s"] } else { &["-I"] };
    spec.args = isolated.iter().chain(&["-S", "-B", "-X", "utf8", "-c"]).map(OsString::from).collect();
    spec.args.push(interpreter.loader().into());
    if let Some(seed) = start.hash_seed {
        spec.env.push(("PYTHONHASHSEED".into(), seed.to_string().into()));
    }
    if let Some(folder) = &start.packages {
        spec.args.push(folder.clone().into());
        spec.read_only.push(folder.clone());
    }
    let zones = Path::new("/usr/share/zoneinfo");
    if zones.is_dir() {
        spec.read_only.push(zones.to_owned());
    }
    spec
}

/// A jail that shows the program and nothing of the person's.
pub(crate) fn bare(program: &Path, limits: JailLimits) -> JailSpec {
    let mut spec = JailSpec::new(program, "");
    spec.dir = "/tmp".into();
    spec.env = [("LANG", "C.UTF-8"), ("TZ", "UTC0"), ("HOME", "/tmp"), ("TMPDIR", "/tmp")]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec();
    (spec.preset, spec.view, spec.network, spec.stdin) =
        (Preset::ReadOnly, View::Bare, JailNetwork::None, Stdin::Closed);
    spec.limits = limits;
    spec
}

/// The jail's limits above those of the plan, which the parent keeps more exactly.
pub(crate) fn limits_of(limits: &Limits, beside_mb: u64, pids: u32) -> JailLimits {
    JailLimits {
        // A waiting worker has no job yet; the parent's clock runs from the job on.
        wall_ms: DAY_MS,
        cpu_ms: limits.timeout_ms.saturating_add(2000).min(DAY_MS),
        memory_mb: limits.memory_mb.saturating_add(beside_mb).min(MOST_MEMORY_MB),
        pids,
        file_mb: 64,
        disk_mb: 64,
        open_files: 256,
        output_bytes: limits.output_bytes.clamp(1, MOST_OUTPUT),
    }
}

struct InJail<'a> {
    jail: &'a Jail,
    interpreter: &'a Interpreter,
}

impl packages::Unpack for InJail<'_> {
    async fn unpack(&self, wheels: &[PathBuf], into: &Path, cancel: &CancellationToken) -> Result<(), DependencyError> {
        let mut spec = bare(&self.interpreter.program, UNPACK_LIMITS);
        spec.preset = Preset::WorkspaceWrite;
        spec.workspace = into.to_owned();
        spec.dir = into.to_owned();
        spec.read_only.extend(self.interpreter.needs.iter().chain(wheels).cloned());
        spec.hidden = self.interpreter.others.clone();
        spec.seccomp = Seccomp::Strict;
        let words = ["-I", "-S", "-B", "-X", "utf8", "-c", UNPACK].map(OsString::from);
        spec = spec.args(words).args([into]).args(wheels);
        let outcome = self.jail.run(spec, cancel, |_, _| {}).await?;
        if outcome.exit.code == Some(0) {
            return Ok(());
        }
        if cancel.is_cancelled() {
            return Err(DependencyError::Cancelled);
        }
        let words = String::from_utf8_lossy(&outcome.stderr);
        let last = words.trim().lines().last().unwrap_or("the process died");
        Err(DependencyError::Wheel { why: last.chars().take(1000).collect() })
    }
}

/// The check's answer.
#[derive(Deserialize)]
#[serde(untagged)]
enum Read {
    Error { error: ScriptError },
    Fine { params: Vec<String>, positional: Vec<String>, uses: Vec<Found>, literals: Vec<String> },
}

#[derive(Deserialize)]
struct Found {
    kind: String,
    target: Option<String>,
    line: u32,
}

impl Found {
    fn into_use(self) -> Use {
        let kind = match self.kind.as_str() {
            "fetch" => UseKind::Fetch,
            "read" => UseKind::Read,
            "write" => UseKind::Write,
            "list" => UseKind::List,
            "secret" => UseKind::Secret,
            _ => UseKind::Call,
        };
        let target = match kind {
            UseKind::Fetch => self.target.as_deref().and_then(host_of),
            _ => self.target,
        };
        Use { kind, target, line: self.line }
    }
}

fn host_of(text: &str) -> Option<String> {
    let url = url::Url::parse(text).ok()?;
    let host = url.host_str()?;
    Some(url.port().map_or(host.to_owned(), |port| format!("{host}:{port}")))
}

fn too_long(code: &str) -> Option<ScriptError> {
    let message = || format!("the code is {} bytes long; the most is {MAX_CODE_BYTES}", code.len());
    (code.len() > MAX_CODE_BYTES).then(|| ScriptError::new("ValueError", message()))
}

fn in_words(error: &DependencyError) -> ScriptError {
    let hint = error.hint().map(|hint| format!(": {hint}")).unwrap_or_default();
    ScriptError::new("DependencyError", format!("{error}{hint}"))
}

/// The worker says `line:column` of the person's own source.
fn place(fault: &Fault) -> Option<(u32, u32)> {
    let (line, column) = fault.stack.split_once(':')?;
    Some((line.parse().ok()?, column.parse().ok()?))
}
