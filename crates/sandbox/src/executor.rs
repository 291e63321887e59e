//! Runs permitted plans: a worker for each, watched from outside.

use crate::broker::{Access, Broker, Desk, MOST_DEPTH, Nesting};
use crate::check::{Checked, check};
use crate::control::Exit;
use crate::converse::{End, Talk, converse};
use crate::deno::Deno;
use crate::error::SandboxError;
use crate::frame::{self, Fault};
use crate::jail::{Jail, JailConfig};
use crate::pool::{Idle, Zygote, isolated, lock};
use crate::python::packages::{DependencyError, Packages};
use crate::python::{Python, PythonServer, Runtimes, Served};
use jarvis_policy::{Permit, ProcessPermit};
use jarvis_protocol::{ExecPlan, Execution, ExitClass, Runtime, ScriptError};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;

/// How long a worker may take to say that it is isolated.
const READY: Duration = Duration::from_secs(10);

/// How long the kernel's report on a worker that is gone is waited for.
const REPORT: Duration = Duration::from_millis(500);

/// Checked versions of code that are kept; the check costs more than a small run.
const KEPT: usize = 128;

#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// A binary whose main function calls [`crate::worker_main`] when it is started as `jarvis-worker`.
    pub worker_exe: PathBuf,
    /// Workers kept warm.
    pub pool: usize,
    /// Jobs at the same time; more wait in turn. It holds for each depth of calls on its own: a job that waits for what
    /// it called keeps its worker, and could wait for its own turn otherwise.
    pub max_workers: usize,
}

/// Runs permitted plans. Cheap to clone; starts nothing before its first job or [`Executor::warm`]. The
/// workers end with the last clone.
#[derive(Clone)]
pub struct Executor(Arc<Shared>);

struct Shared {
    config: SandboxConfig,
    /// One for each depth of calls.
    turns: [Semaphore; MOST_DEPTH + 1],
    zygote: tokio::sync::Mutex<Option<Arc<Zygote>>>,
    checked: Mutex<HashMap<(Runtime, String), Arc<Checked>>>,
    broker: Broker,
    python: Python,
    deno: Deno,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(zygote) = self.zygote.get_mut() {
            zygote.close();
        }
    }
}

/// A worker that is isolated and waits for its job. It is killed when this is dropped before it ended.
struct Worker {
    zygote: Arc<Zygote>,
    id: u64,
    stream: UnixStream,
    layers: Vec<String>,
    ended: Option<oneshot::Receiver<std::io::Result<Exit>>>,
    alive: bool,
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.alive {
            self.zygote.kill(self.id);
        }
    }
}

impl Executor {
    /// `access` is what permits can grant beside the public internet.
    pub fn new(config: SandboxConfig, access: Access) -> Executor {
        Self::with_runtimes(config, access, Runtimes::default())
    }

    /// As [`Executor::new`], with the interpreters that this machine has.
    pub fn with_runtimes(config: SandboxConfig, access: Access, runtimes: Runtimes) -> Executor {
        let jail = Jail::new(JailConfig { helper_exe: config.worker_exe.clone(), without_namespaces: false });
        let turns = std::array::from_fn(|_| Semaphore::new(config.max_workers.max(1)));
        Executor(Arc::new(Shared {
            config,
            turns,
            zygote: tokio::sync::Mutex::new(None),
            checked: Mutex::default(),
            broker: Broker::new(access),
            deno: Deno::new(runtimes.deno.clone(), jail.clone()),
            python: Python::new(runtimes, jail),
        }))
    }

    pub(crate) fn broker(&self) -> &Broker {
        &self.0.broker
    }

    /// The hosts that a secret may be sent to; `None`: there is no such secret.
    pub fn secret_hosts(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        self.0.broker.secret_hosts(name)
    }

    /// The interpreter that Python capabilities run in; the error says why there is none.
    pub async fn python_program(&self) -> Result<PathBuf, SandboxError> {
        self.0.python.program().await
    }

    /// What a jail must show for that interpreter to run in it, wherever the person keeps it.
    pub async fn python_needs(&self) -> Result<Vec<PathBuf>, SandboxError> {
        self.0.python.needs().await
    }

    /// The deno that capabilities of that runtime run in; the error says why there is none.
    pub fn deno_program(&self) -> Result<PathBuf, SandboxError> {
        self.0.deno.program()
    }

    /// Starts the workers now, so that the first job does not wait for them.
    pub async fn warm(&self) -> Result<(), SandboxError> {
        self.zygote().await?.refill(self.0.config.pool)
    }

    /// Runs the plan that was permitted, once. What the code does wrong is in the [`Execution`]; only isolation that
    /// cannot be set up, or a worker that cannot be started, is an error.
    pub async fn run(&self, permit: Permit, cancel: &CancellationToken) -> Result<Execution, SandboxError> {
        self.run_among(permit, None, cancel).await
    }

    /// As [`Executor::run`]; with a nesting the code can call capabilities.
    pub async fn run_among(
        &self,
        permit: Permit,
        nesting: Option<Nesting<'_>>,
        cancel: &CancellationToken,
    ) -> Result<Execution, SandboxError> {
        let started = Instant::now();
        let plan = permit.into_plan();
        let depth = nesting.map_or(0, |nesting| nesting.depth);
        let desk = match self.0.broker.desk(&plan) {
            Ok(desk) => desk.among(nesting),
            Err(error) => {
                let error = ScriptError::new("PermissionError", format!("grants.network: {error}"));
                return Ok(without_worker(ExitClass::Rejected, Some(error), started));
            }
        };
        if plan.runtime != Runtime::Typescript {
            return self.run_jailed(&plan, &desk, depth, cancel, started).await;
        }
        let checked = match self.checked(&plan).await? {
            Ok(checked) => checked,
            Err(error) => return Ok(without_worker(ExitClass::Rejected, Some(error), started)),
        };
        let _turn = tokio::select! {
            turn = self.turn(depth) => turn,
            () = cancel.cancelled() => return Ok(without_worker(ExitClass::Cancelled, None, started)),
        };
        let mut worker = self.worker().await?;
        let mut talk = Talk::default();
        let end = converse(&mut worker.stream, &mut talk, &plan, &checked, &desk, cancel).await;
        Ok(report(worker, talk, end, &plan, &checked, &desk, started).await)
    }

    /// A job only ever waits for turns of greater depth, so it comes to an end. The semaphores are never closed.
    async fn turn(&self, depth: usize) -> Option<SemaphorePermit<'_>> {
        self.0.turns[depth.min(MOST_DEPTH)].acquire().await.ok()
    }

    /// Python and Deno: the person's own interpreters, in the jail.
    async fn run_jailed(
        &self,
        plan: &ExecPlan,
        desk: &Desk<'_>,
        depth: usize,
        cancel: &CancellationToken,
        started: Instant,
    ) -> Result<Execution, SandboxError> {
        let _turn = tokio::select! {
            turn = self.turn(depth) => turn,
            () = cancel.cancelled() => return Ok(without_worker(ExitClass::Cancelled, None, started)),
        };
        if plan.runtime == Runtime::Python {
            let keep_warm = self.0.config.pool > 0;
            return self.0.python.run(plan, desk, cancel, keep_warm).await;
        }
        match self.checked(plan).await? {
            Ok(checked) => self.0.deno.run(plan, &checked, desk, cancel).await,
            Err(error) => Ok(without_worker(ExitClass::Rejected, Some(error), started)),
        }
    }

    /// Reads code of any runtime without running it. The inner error is the code's, in the person's own lines.
    pub async fn check(
        &self,
        code: &str,
        runtime: Runtime,
        dependencies: &[String],
    ) -> Result<Result<Checked, ScriptError>, SandboxError> {
        if runtime == Runtime::Python {
            return self.0.python.check(code, dependencies).await;
        }
        if !dependencies.is_empty() {
            let message = "only Python capabilities have dependencies: import nothing, or set runtime: \"python\"";
            return Ok(Err(ScriptError::new("DependencyError", message.to_owned())));
        }
        let code = code.to_owned();
        let outcome = tokio::task::spawn_blocking(move || check(&code, runtime)).await;
        outcome.map_err(|e| SandboxError::io("check of the code")(std::io::Error::other(e)))
    }

    /// Installs Python packages, `name==version` each: the one step that uses the network. None of their code runs.
    /// What is installed already is only looked at.
    pub async fn install(
        &self,
        dependencies: &[String],
        cancel: &CancellationToken,
    ) -> Result<Packages, DependencyError> {
        self.0.python.install(dependencies, cancel).await
    }

    /// Starts a Python program that serves on its standard streams, in the jail, with the given packages, which must be
    /// installed. It is killed with all it started when what this gives is dropped.
    pub async fn serve_python(&self, permit: ProcessPermit, server: &PythonServer) -> Result<Served, DependencyError> {
        self.0.python.serve(permit, server).await
    }

    async fn checked(&self, plan: &ExecPlan) -> Result<Result<Arc<Checked>, ScriptError>, SandboxError> {
        let key = (plan.runtime, plan.code.clone());
        if let Some(known) = lock(&self.0.checked).get(&key) {
            return Ok(Ok(Arc::clone(known)));
        }
        let (runtime, code) = key.clone();
        // The workers start meanwhile. Whether they can is told when one is needed.
        let checking = tokio::task::spawn_blocking(move || check(&code, runtime));
        let (outcome, _) = tokio::join!(checking, self.zygote());
        let outcome = outcome.map_err(|e| SandboxError::io("check of the code")(std::io::Error::other(e)))?;
        Ok(outcome.map(|checked| {
            let checked = Arc::new(checked);
            let mut kept = lock(&self.0.checked);
            if kept.len() >= KEPT {
                kept.clear();
            }
            kept.insert(key, Arc::clone(&checked));
            checked
        }))
    }

    async fn worker(&self) -> Result<Worker, SandboxError> {
        let zygote = self.zygote().await?;
        match self.ready(&zygote).await {
            // Somebody killed the zygote since the last job: a new one, once.
            Err(_) if zygote.gone() => self.ready(&self.zygote().await?).await,
            outcome => outcome,
        }
    }

    async fn zygote(&self) -> Result<Arc<Zygote>, SandboxError> {
        let mut current = self.0.zygote.lock().await;
        if let Some(zygote) = current.as_ref().filter(|zygote| !zygote.gone()) {
            return Ok(Arc::clone(zygote));
        }
        let exe = self.0.config.worker_exe.clone();
        let started = tokio::task::spawn_blocking(move || Zygote::start(&exe)).await;
        let zygote = started.map_err(|e| SandboxError::io("start of the worker")(std::io::Error::other(e)))??;
        *current = Some(Arc::clone(&zygote));
        Ok(zygote)
    }

    async fn ready(&self, zygote: &Arc<Zygote>) -> Result<Worker, SandboxError> {
        let Idle { id, socket, ended } = zygote.take()?;
        let stream = UnixStream::from_std(socket).map_err(SandboxError::io("worker's socket"))?;
        let mut worker =
            Worker { zygote: Arc::clone(zygote), id, stream, layers: Vec::new(), ended: Some(ended), alive: true };
        zygote.refill(self.0.config.pool)?;
        let first = tokio::time::timeout(READY, frame::read(&mut worker.stream, frame::most(0))).await;
        let first = first.ok().and_then(Result::ok).flatten();
        if first.is_none()
            && let Some(ended) = worker.ended.take()
            && let Ok(Ok(Err(no_process))) = tokio::time::timeout(REPORT, ended).await
        {
            return Err(SandboxError::Fork(no_process));
        }
        worker.layers = isolated(first)?;
        Ok(worker)
    }
}

/// Puts together what really happened.
async fn report(
    mut worker: Worker,
    talk: Talk,
    end: End,
    plan: &ExecPlan,
    checked: &Checked,
    desk: &Desk<'_>,
    started: Instant,
) -> Execution {
    let done = match &end {
        End::Done(done) => Some(done),
        End::Stopped(_) | End::Broken(_) => {
            worker.zygote.kill(worker.id);
            None
        }
        End::Gone => None,
    };
    worker.alive = false;
    // A worker that is done says itself what it took; of one that is gone the kernel does.
    let (cpu_us, peak_memory_kb, signal) = match (done, worker.ended.take()) {
        (None, Some(ended)) => match tokio::time::timeout(REPORT, ended).await {
            Ok(Ok(Ok(exit))) => (exit.cpu_us, exit.peak_memory_kb, exit.signal),
            _ => (0, 0, None),
        },
        (Some(done), _) => (done.cpu_us, done.peak_memory_kb, None),
        (None, None) => (0, 0, None),
    };
    let (exit, error) = match end {
        End::Done(done) => (done.exit, done.fault.map(|fault| in_own_lines(fault, checked))),
        End::Stopped(exit) => (exit, None),
        End::Broken(what) => (
            ExitClass::Crashed,
            Some(ScriptError::new("WorkerError", format!("the worker broke the protocol: {what}"))),
        ),
        End::Gone => died(signal),
    };
    let mut error = error.or_else(|| explain(exit, plan));
    if let Some(error) = &mut error {
        error.message = desk.redact(std::mem::take(&mut error.message));
    }
    let printed = desk.redact(talk.printed(plan.limits.output_bytes));
    let mut result = talk.result.filter(|_| exit == ExitClass::Ok);
    if let Some(result) = &mut result {
        desk.redact_value(result);
    }
    Execution {
        exit,
        result,
        error,
        printed,
        wall_us: micros(started),
        cpu_us,
        peak_memory_kb,
        isolation: std::mem::take(&mut worker.layers),
        egress: desk.egress(),
        calls: Vec::new(),
    }
}

/// Words for the ends that the worker does not explain itself.
pub(crate) fn explain(exit: ExitClass, plan: &ExecPlan) -> Option<ScriptError> {
    let limits = &plan.limits;
    match exit {
        ExitClass::Timeout => {
            Some(ScriptError::new("TimeoutError", format!("not finished after {} ms", limits.timeout_ms)))
        }
        ExitClass::Memory => {
            Some(ScriptError::new("MemoryError", format!("more than {} MiB of memory needed", limits.memory_mb)))
        }
        ExitClass::Output => Some(ScriptError::new(
            "OutputError",
            format!("printed or returned more than {} bytes", limits.output_bytes),
        )),
        ExitClass::Cancelled => Some(ScriptError::new("CancelledError", "cancelled".to_owned())),
        ExitClass::Ok | ExitClass::Rejected | ExitClass::Threw | ExitClass::Crashed => None,
    }
}

fn died(signal: Option<i32>) -> (ExitClass, Option<ScriptError>) {
    let how = match signal {
        Some(libc::SIGXCPU) => return (ExitClass::Timeout, None),
        Some(libc::SIGSYS) => "it made a system call that is not allowed".to_owned(),
        Some(libc::SIGKILL) => "it was killed (the machine may be out of memory)".to_owned(),
        Some(signal) => format!("signal {signal}"),
        None => "without a word".to_owned(),
    };
    (ExitClass::Crashed, Some(ScriptError::new("WorkerError", format!("the worker died: {how}"))))
}

/// The engine names places in the stripped code; people know their own.
fn in_own_lines(fault: Fault, checked: &Checked) -> ScriptError {
    // The frames of an error class's own constructor say nothing about where it was thrown.
    let own = format!("at {} (", fault.name);
    let place = fault.stack.lines().filter(|frame| !frame.trim_start().starts_with(&own)).find_map(|frame| {
        let (_, rest) = frame.split_once(crate::MODULE_NAME)?;
        let mut numbers = rest.strip_prefix(':')?.split(|c: char| !c.is_ascii_digit());
        let line = numbers.next()?.parse().ok()?;
        let column = numbers.next().and_then(|n| n.parse().ok()).unwrap_or(1);
        checked.original(line, column)
    });
    let (line, column) = place.unzip();
    ScriptError { name: fault.name, message: fault.message, line, column }
}

pub(crate) fn without_worker(exit: ExitClass, error: Option<ScriptError>, started: Instant) -> Execution {
    Execution {
        exit,
        result: None,
        error,
        printed: String::new(),
        wall_us: micros(started),
        cpu_us: 0,
        peak_memory_kb: 0,
        isolation: Vec::new(),
        egress: Vec::new(),
        calls: Vec::new(),
    }
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
