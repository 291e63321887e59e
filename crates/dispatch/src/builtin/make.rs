//! What the assistant makes for later turns, in `.jarvis`: asked for, checked in the jail, put in place whole.

use super::{Call, told};
use crate::process::ProcessRequest;
use crate::{Approver, CallError, CommandView, Dispatch};
use jarvis_audit::Kind;
use jarvis_policy::{Reach, ToolPermit};
use jarvis_protocol::{ErrorBody, ErrorKind, Preset, ProcessLimits, ProcessPlan};
use jarvis_sandbox::{DependencyError, JailClass, Placed, PythonServer, Stdin};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

/// Where they lie, below the workspace.
pub const MADE_IN: &str = ".jarvis";

/// Of a program that only reads what was written.
const CHECK_LIMITS: ProcessLimits =
    ProcessLimits { timeout_ms: 10_000, memory_mb: 512, processes: 16, file_mb: 1, disk_mb: 16, output_bytes: 4 << 20 };

/// Of a server that is started to see whether it does.
const SERVER_LIMITS: ProcessLimits =
    ProcessLimits { timeout_ms: 30_000, memory_mb: 1024, processes: 64, ..CHECK_LIMITS };

/// How long a server may take to say what it has. The jail's own limit is longer, so that this one tells.
const SERVER_PATIENCE: Duration = Duration::from_secs(20);

/// Something that shall be made.
#[derive(Debug, Clone, Copy)]
pub struct Making<'a> {
    /// Whose call it is, such as `create_skill`.
    pub tool: &'a str,
    /// `skill`, …
    pub kind: &'a str,
    /// Below `.jarvis`, such as `skills/daily-standup`.
    pub place: &'a str,
    pub replaces: bool,
    /// What a person should know beside that.
    pub note: Option<&'a str>,
}

/// The yes to it.
pub struct MakePermit {
    permit: ToolPermit,
    by_person: bool,
}

impl MakePermit {
    /// A person said so to this very question; not a flag beforehand.
    pub fn by_person(&self) -> bool {
        self.by_person
    }
}

/// Who reads a text without running what it says.
#[derive(Debug, Clone, Copy)]
pub enum Checker<'a> {
    Shell,
    /// This Python program, which gets the text on standard input.
    Python(&'a str),
}

/// What a checker said. No output: it could not run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckerSaid {
    pub fine: bool,
    pub stdout: String,
    pub stderr: String,
}

/// What came of starting a server.
#[derive(Debug)]
pub struct Tried<T> {
    /// What was asked of it, or why it did not answer.
    pub told: Result<T, String>,
    /// The last it wrote to standard error.
    pub stderr: String,
}

impl Dispatch {
    /// Whether something is at that place below `.jarvis`.
    pub fn is_made(&self, place: &str) -> bool {
        self.workspace().join(MADE_IN).join(place).symlink_metadata().is_ok()
    }

    /// Asks whether it may be made.
    pub async fn may_make(
        &self,
        what: &Making<'_>,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<MakePermit, CallError> {
        let path = self.workspace().join(MADE_IN).join(what.place).to_string_lossy().into_owned();
        let reach = Reach::Make {
            kind: what.kind.to_owned(),
            path,
            replaces: what.replaces,
            note: what.note.map(str::to_owned),
        };
        let mut call = Call { dispatch: self, tool: what.tool, approver, cancel };
        let permit = call.permit(reach).await?;
        Ok(MakePermit { by_person: permit.by_person(), permit })
    }

    /// Puts it in place, on the audit before and after.
    pub async fn make(
        &self,
        tool: &str,
        permit: MakePermit,
        new: Placed,
        cancel: &CancellationToken,
    ) -> Result<(), CallError> {
        let mut nobody = crate::DenyAll;
        let mut call = Call { dispatch: self, tool, approver: &mut nobody, cancel };
        if cancel.is_cancelled() {
            return Err(CallError::Fatal(ErrorBody::new(ErrorKind::Cancelled, "cancelled")));
        }
        let digest = digest_of(&new);
        call.intent(&permit.permit).await?;
        let done = self.parts.executor.place(permit.permit, new).await;
        call.outcome(match &done {
            Ok(()) => json!({"exit": "ok", "digest": digest}),
            Err(error) => json!({"exit": "failed", "error": error.name}),
        })
        .await?;
        done.map_err(|e| told(&e))
    }

    /// Has a program of the person read a text in the jail, where it sees nothing of the workspace's that it could change.
    pub async fn read_by(
        &self,
        checker: Checker<'_>,
        text: &[u8],
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Option<CheckerSaid>, CallError> {
        let executor = &self.parts.executor;
        let (program, words, read): (PathBuf, Vec<&str>, Vec<PathBuf>) = match checker {
            Checker::Shell => match self.parts.shell.clone() {
                Some(shell) => (shell, vec!["-n"], Vec::new()),
                None => return Ok(None),
            },
            Checker::Python(code) => match (executor.python_program().await, executor.python_needs().await) {
                (Ok(python), Ok(needs)) => (python, vec!["-I", "-S", "-B", "-X", "utf8", "-c", code], needs),
                _ => return Ok(None),
            },
        };
        let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let plan = ProcessPlan {
            argv: std::iter::once(name.as_str()).chain(words).map(str::to_owned).collect(),
            dir: self.workspace().to_owned(),
            preset: Preset::ReadOnly,
            read,
            write: Vec::new(),
            network: Vec::new(),
            limits: CHECK_LIMITS,
        };
        let request = ProcessRequest {
            plan,
            program,
            command: CommandView::Harmless,
            env: Vec::new(),
            stdin: Stdin::Bytes(text.to_vec()),
        };
        let done = match self.exec(request, approver, cancel, |_, _| {}).await {
            // That it cannot be isolated here ends no conversation.
            Err(CallError::Fatal(body)) if body.kind == ErrorKind::Sandbox => {
                return Err(CallError::RespondToModel(body));
            }
            other => other?,
        };
        let mut stderr = done.outcome.stderr_text();
        if done.outcome.exit.class == JailClass::Timeout {
            stderr.push_str("\nthe check was ended at its time limit");
        }
        Ok(Some(CheckerSaid {
            fine: done.outcome.exit.class == JailClass::Ok,
            stdout: done.outcome.stdout_text(),
            stderr,
        }))
    }

    /// Starts a Python server in the jail and lets `talk` speak with it on its standard streams. Whatever comes of it, it
    /// is ended with all it started.
    pub async fn try_server<T, F>(
        &self,
        tool: &str,
        server: &PythonServer,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
        talk: impl FnOnce(pipe::Receiver, pipe::Sender) -> F + Send,
    ) -> Result<Tried<T>, CallError>
    where
        F: Future<Output = Result<T, String>> + Send,
    {
        let plan = ProcessPlan {
            argv: vec!["python3".to_owned(), server.entry.clone()],
            dir: PathBuf::from("/tmp"),
            preset: Preset::ReadOnly,
            read: Vec::new(),
            write: Vec::new(),
            network: Vec::new(),
            limits: SERVER_LIMITS,
        };
        let permit = self.process_permit(plan, &CommandView::Harmless, approver).await?;
        let intent = json!({"subject": {"kind": "server"}, "argv": permit.plan().argv, "limits": permit.plan().limits,
            "packages": server.dependencies, "why": permit.why()});
        self.record(Kind::Intent, tool, intent)?;
        let mut served = match self.parts.executor.serve_python(permit, server).await {
            Ok(served) => served,
            Err(error) => {
                let outcome = json!({"subject": {"kind": "server"}, "error": error.to_string()});
                self.record(Kind::Outcome, tool, outcome)?;
                return Err(match error {
                    DependencyError::Sandbox(error) => CallError::RespondToModel(crate::run::sandbox_error(&error)),
                    error => CallError::respond(ErrorKind::Sandbox, error.to_string()),
                });
            }
        };
        let told = match (served.stdout.take(), served.stdin.take()) {
            (Some(stdout), Some(stdin)) => tokio::select! {
                biased;
                () = cancel.cancelled() => Err("cancelled".to_owned()),
                told = talk(stdout, stdin) => told,
                () = tokio::time::sleep(SERVER_PATIENCE) => {
                    Err(format!("it did not answer within {} s, and was ended", SERVER_PATIENCE.as_secs()))
                }
            },
            _ => Err("it has no standard streams".to_owned()),
        };
        let (exit, stderr) = served.end().await;
        let outcome = json!({"subject": {"kind": "server"}, "exit": if told.is_ok() { "ok" } else { "failed" },
            "error": told.as_ref().err(), "class": exit.as_ref().map(|exit| exit.class),
            "wall_us": exit.as_ref().map(|exit| exit.wall_us)});
        self.record(Kind::Outcome, tool, outcome)?;
        if cancel.is_cancelled() {
            return Err(CallError::Fatal(ErrorBody::new(ErrorKind::Cancelled, "cancelled")));
        }
        Ok(Tried { told, stderr: jarvis_audit::redact(&stderr) })
    }

    /// Installs the packages of something that a person allowed to be made; none of their code runs by that.
    pub async fn install_for(
        &self,
        tool: &str,
        _allowed: &MakePermit,
        dependencies: &[String],
        cancel: &CancellationToken,
    ) -> Result<(), CallError> {
        self.install_packages(tool, dependencies, cancel).await
    }

    /// The person's own Python, and what a jail must show for it to run.
    pub async fn python(&self) -> Option<(PathBuf, Vec<PathBuf>)> {
        let executor = &self.parts.executor;
        executor.python_program().await.ok().zip(executor.python_needs().await.ok())
    }
}

/// Of all that is put in place, for the audit.
fn digest_of(new: &Placed) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |path: &Path, bytes: &[u8]| {
        hasher.update(path.as_os_str().as_encoded_bytes());
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    match new {
        Placed::File(bytes) => add(Path::new(""), bytes),
        Placed::Folder(files) => files.iter().for_each(|file| add(&file.path, &file.bytes)),
    }
    hasher.finalize().to_hex().to_string()
}
