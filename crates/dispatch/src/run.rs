//! Resolve → decide → audit(intent) → execute → audit(outcome).

use crate::compose::Frame;
use crate::{CallError, Editor, Rules, alias, check_arguments};
use jarvis_audit::{AuditError, AuditLog, Kind, Record, redact};
use jarvis_policy::{Approved, Decision, Deny, Policy, decide};
use jarvis_protocol::{
    Capability, CapabilityName, ErrorBody, ErrorKind, Event, ExecPlan, Execution, ExitClass, Fixed, Runtime,
    ScriptError, Status, Subject,
};
use jarvis_registry::Registry;
use jarvis_sandbox::{Checked, DependencyError, Executor, Processes, SandboxError};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

pub struct Parts {
    pub registry: Registry,
    pub audit: AuditLog,
    pub executor: Executor,
    pub processes: Processes,
    pub policy: Policy,
    /// Who acts; `cli` from the command line.
    pub actor: String,
    /// Absolute; relative paths of grants are meant from here.
    pub workspace: PathBuf,
    /// bash, or a shell like it; none: no shell_exec.
    pub shell: Option<PathBuf>,
    /// The person's home folder.
    pub home: Option<PathBuf>,
    /// What a person lets agents do here.
    pub rules: Rules,
}

pub struct Dispatch {
    pub(crate) parts: Parts,
    pub(crate) editor: Option<Arc<dyn Editor>>,
    pub(crate) view: Option<View>,
}

/// What is read in place of one file that nobody else reads: jarvis's own settings, without what is secret in them.
pub(crate) struct View {
    pub path: PathBuf,
    pub shown: Box<dyn Fn() -> Result<String, ErrorBody> + Send + Sync>,
}

/// A registered capability that ran and gave a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    pub value: Value,
    pub execution: Execution,
}

impl Dispatch {
    pub fn new(parts: Parts) -> Self {
        Self { parts, view: None, editor: None }
    }

    /// Who reads the file at `path` (absolute) by `file_read` is told what `shown` gives; the file itself stays closed.
    #[must_use]
    pub fn with_view(
        self,
        path: PathBuf,
        shown: impl Fn() -> Result<String, ErrorBody> + Send + Sync + 'static,
    ) -> Self {
        Self { view: Some(View { path, shown: Box::new(shown) }), ..self }
    }

    /// Who acts, on the audit; what the parts say of it is the command line's.
    pub fn acting_as(mut self, actor: &str) -> Self {
        actor.clone_into(&mut self.parts.actor);
        self
    }

    /// The built-in tools read and change files of the workspace by way of an editor.
    pub fn with_editor(self, editor: Option<Arc<dyn Editor>>) -> Self {
        Self { editor, ..self }
    }

    pub fn registry(&self) -> &Registry {
        &self.parts.registry
    }

    pub fn policy(&self) -> &Policy {
        &self.parts.policy
    }

    pub fn workspace(&self) -> &Path {
        &self.parts.workspace
    }

    /// What is wrong with granting a secret of this name, if anything.
    pub fn secret_problem(&self, name: &str) -> Option<String> {
        match self.parts.executor.secret_hosts(name) {
            Ok(Some(_)) => None,
            Ok(None) => Some(format!(
                "there is no secret `{name}`; a person makes it with: jarvis secret set {name} --host HOST"
            )),
            Err(problem) => Some(problem),
        }
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// Gets a worker ready while the model thinks. That it cannot is told by the run that needs it.
    pub fn warm(&self) {
        let executor = self.parts.executor.clone();
        tokio::spawn(async move {
            if let Err(error) = executor.warm().await {
                tracing::debug!(%error, "no worker could be warmed");
            }
        });
    }

    /// Runs a registered capability by name. What the caller can mend comes back as `RespondToModel`; what follows from
    /// the run, such as a quarantine, is told by `emit`, however the run ended.
    pub async fn run(
        &self,
        name: &str,
        args: Value,
        emit: &mut (dyn FnMut(Event) + Send),
        cancel: &CancellationToken,
    ) -> Result<Ran, CallError> {
        let resolved = tracing::debug_span!("registry").in_scope(|| self.resolve(name));
        let (capability, code) = resolved?;
        let args = alias::arguments(&capability, name, args);
        check_arguments(&capability.parameters, &args).map_err(|problem| {
            CallError::respond(ErrorKind::Usage, format!("`{}`: {problem}", capability.signature()))
        })?;
        let subject = Subject::Capability {
            name: capability.name.clone(),
            version: capability.version.clone(),
            digest: capability.digest.clone(),
        };
        let plan = plan_of(&capability, subject, code, args.clone(), None);
        let (execution, around) = self.pass(plan, &Approved::with_version(&capability), cancel).await?;
        let execution = not_cancelled(execution)?;
        let value = value_of(&capability, &execution);
        let (events, became) = self.after(&capability, &args, &execution, &value, true);
        around.into_iter().chain(events).for_each(emit);
        match (value, became) {
            (Ok(value), _) => Ok(Ran { value, execution }),
            (Err(CallError::RespondToModel(body)), Some(became)) => {
                Err(CallError::RespondToModel(became.tell(&capability.name, body)))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Runs code that is not registered, for verification: with what `approved` says and nothing else, and with the
    /// clock and chance of `fixed`, so that runs can be compared.
    pub async fn run_candidate(
        &self,
        capability: &Capability,
        code: &str,
        args: Value,
        fixed: Option<Fixed>,
        approved: &Approved,
        cancel: &CancellationToken,
    ) -> Result<Execution, CallError> {
        not_cancelled(self.run_by_hand(capability, code, args, fixed, approved, cancel).await?)
    }

    /// The same, where a person is interested in what it printed until they cancelled it.
    pub async fn run_by_hand(
        &self,
        capability: &Capability,
        code: &str,
        args: Value,
        fixed: Option<Fixed>,
        approved: &Approved,
        cancel: &CancellationToken,
    ) -> Result<Execution, CallError> {
        let digest = jarvis_registry::digest(capability, code);
        let subject = Subject::Candidate { name: capability.name.clone(), digest };
        let plan = plan_of(capability, subject, code.to_owned(), args, fixed);
        Ok(self.pass(plan, approved, cancel).await?.0)
    }

    /// Reads code of any runtime without running it. The inner error is the code's, in its writer's own lines.
    pub async fn check_code(
        &self,
        code: &str,
        runtime: Runtime,
        dependencies: &[String],
    ) -> Result<Result<Checked, ScriptError>, CallError> {
        let checked = self.parts.executor.check(code, runtime, dependencies).await;
        checked.map_err(|e| CallError::Fatal(sandbox_error(&e)))
    }

    /// Installs the packages of a version whose review allowed it; none of their code runs by that.
    pub async fn install(
        &self,
        name: &CapabilityName,
        dependencies: &[String],
        cancel: &CancellationToken,
    ) -> Result<(), CallError> {
        self.install_packages(name.as_str(), dependencies, cancel).await
    }

    pub(crate) async fn install_packages(
        &self,
        name: &str,
        dependencies: &[String],
        cancel: &CancellationToken,
    ) -> Result<(), CallError> {
        if dependencies.is_empty() {
            return Ok(());
        }
        self.record(Kind::Intent, name, json!({"install": dependencies}))?;
        let installed = self.parts.executor.install(dependencies, cancel).await;
        let outcome = match &installed {
            Ok(packages) => json!({"install": dependencies, "packages": packages.digest}),
            Err(error) => json!({"install": dependencies, "error": error.to_string()}),
        };
        self.record(Kind::Outcome, name, outcome)?;
        match installed {
            Ok(_) => Ok(()),
            Err(DependencyError::Sandbox(error)) => Err(CallError::Fatal(sandbox_error(&error))),
            Err(_) if cancel.is_cancelled() => Err(CallError::Fatal(ErrorBody::new(ErrorKind::Cancelled, "cancelled"))),
            Err(error) => Err(CallError::respond(ErrorKind::Forge, format!("dependencies: {error}"))),
        }
    }

    /// Turns a capability on or off.
    pub fn set_status(&self, name: &CapabilityName, status: Status) -> Result<(), CallError> {
        self.record(Kind::Registry, name.as_str(), json!({"change": "status", "status": status}))?;
        self.parts.registry.set_status(name, status)?;
        if status == Status::Active {
            // Somebody has looked at it; what it did before is no reason to take it out again at its next failure.
            if let Err(error) = self.parts.registry.start_over(name) {
                tracing::warn!(%error, "the earlier runs of `{name}` still count");
            }
        }
        Ok(())
    }

    /// That a capability is about to give its name to another one, on the audit before it does.
    pub fn record_replaced(&self, name: &CapabilityName, by: &CapabilityName) -> Result<(), CallError> {
        let detail = json!({"change": "status", "status": Status::Retired, "replaced_by": by});
        self.record(Kind::Registry, name.as_str(), detail)
    }

    /// Takes a capability out of the index; its history stays.
    pub fn remove(&self, name: &CapabilityName) -> Result<(), CallError> {
        self.record(Kind::Registry, name.as_str(), json!({"change": "remove"}))?;
        self.parts.registry.remove(name).map(|_| ()).map_err(|e| CallError::Fatal(e.body()))
    }

    /// What a person answered to a question, on the audit before it has any effect.
    pub fn record_decision(&self, name: &str, decision: &str, reason: &str) -> Result<(), CallError> {
        self.record(Kind::Decision, name, json!({"decision": decision, "reason": reason}))
    }

    /// One transition of forge, on the audit.
    pub fn record_forge(&self, name: &str, detail: Value) -> Result<(), CallError> {
        self.record(Kind::Forge, name, detail)
    }

    pub(crate) fn resolve(&self, name: &str) -> Result<(Capability, String), CallError> {
        let unknown = || {
            let message = format!("no capability is called `{name}`; list_capabilities finds what there is");
            CallError::respond(ErrorKind::NotFound, message)
        };
        let name = CapabilityName::new(name).map_err(|_| unknown())?;
        let found = self.parts.registry.resolve(&name).map_err(|e| CallError::Fatal(e.body()))?;
        let capability = found.ok_or_else(unknown)?;
        let name = &capability.name;
        if capability.status != Status::Active {
            let body = ErrorBody::new(ErrorKind::Denied, format!("`{name}` is {}", capability.status.as_str()));
            let hint = match capability.status {
                Status::Quarantined => self.way_back(&capability)?,
                _ => format!("jarvis cap show {name} --code, then jarvis cap enable {name}"),
            };
            return Err(CallError::RespondToModel(body.hint(hint)));
        }
        let code = self.parts.registry.code(&capability).map_err(|e| CallError::Fatal(e.body()))?;
        if !code.matches_digest {
            return Err(CallError::RespondToModel(crate::trust::changed_by_hand(&capability)));
        }
        if !self.is_approved(&capability)? {
            return Err(CallError::RespondToModel(crate::trust::unapproved(&capability)));
        }
        self.gate_capability(capability.name.as_str(), &capability.grants)?;
        Ok((capability, code.text))
    }

    /// One run, with what it calls in its `frame`.
    pub(crate) async fn pass_one(
        &self,
        plan: ExecPlan,
        approved: &Approved,
        frame: &Frame<'_>,
        cancel: &CancellationToken,
    ) -> Result<Execution, CallError> {
        let subject = plan.subject.clone();
        let name = subject.name().to_string();
        let permit = match decide(&self.parts.policy, plan, approved) {
            Decision::Permit(permit) => permit,
            Decision::Deny(deny) => return Err(self.refused(&name, deny)?),
        };
        let plan = permit.plan();
        let intent = json!({
            "subject": subject, "args_digest": digest(plan.args.to_string().as_bytes()),
            "grants": plan.grants, "limits": plan.limits, "why": permit.why(),
        });
        // From here on: the intent gets to the audit even if nobody waits for it any more.
        let mut begun = Begun { dispatch: self, subject: &subject, frame, ended: false };
        if let Err(error) = self.record_aside(Kind::Intent, &name, frame.mark(intent)).await {
            begun.ended = true;
            return Err(error);
        }
        let running = self.parts.executor.run_among(permit, Some(frame.nesting()), cancel);
        let executed = running.instrument(tracing::debug_span!("sandbox")).await;
        // What is appended from here on gets there, also if nobody waits for it.
        begun.ended = true;
        match executed {
            Ok(mut execution) => {
                // What is printed and said in errors goes to a model, a terminal and a log. A value stays as it is: to be
                // told a text that looks like a key may be what was asked for.
                execution.printed = redact(&execution.printed);
                if let Some(error) = &mut execution.error {
                    error.message = redact(&error.message);
                }
                let outcome = frame.mark(outcome(&subject, &execution));
                self.record_aside(Kind::Outcome, &name, outcome).await.map(|()| execution)
            }
            Err(error) => {
                let body = sandbox_error(&error);
                let outcome = frame.mark(json!({"subject": subject, "error": body.message}));
                self.record_aside(Kind::Outcome, &name, outcome).await.and(Err(CallError::Fatal(body)))
            }
        }
    }

    pub(crate) fn refused(&self, subject: &str, deny: Deny) -> Result<CallError, CallError> {
        self.record(Kind::Decision, subject, json!({"decision": "deny", "reason": deny.reason}))?;
        let message = format!("refused: {}", deny.reason);
        Ok(CallError::RespondToModel(ErrorBody { kind: ErrorKind::Denied, message, hint: deny.hint }))
    }

    pub(crate) fn record(&self, kind: Kind, subject: &str, detail: Value) -> Result<(), CallError> {
        let _span = tracing::debug_span!("audit").entered();
        let record = self.about(kind, subject, detail);
        self.parts.audit.append(record).map(|_| ()).map_err(|e| CallError::Fatal(e.body()))
    }

    /// As [`Dispatch::record`], for the calls of a turn: other conversations of this process go on while it waits for the
    /// disk, and those that wait together wait once.
    pub(crate) async fn record_aside(&self, kind: Kind, subject: &str, detail: Value) -> Result<(), CallError> {
        let fatal = |e: AuditError| CallError::Fatal(e.body());
        let appended = async {
            let (tell, told) = tokio::sync::oneshot::channel();
            // Whoever asked may be gone.
            let tell = move |appended| drop(tell.send(appended));
            let duty = self.parts.audit.submit(self.about(kind, subject, detail), tell).map_err(fatal)?;
            // One thread for all that wait.
            if let Some(duty) = duty {
                tokio::task::spawn_blocking(move || drop(duty));
            }
            told.await
                .map_err(|_| CallError::Fatal(ErrorBody::new(ErrorKind::Internal, "the audit gave no answer")))?
                .map_err(fatal)
        };
        appended.instrument(tracing::debug_span!("audit")).await.map(|_| ())
    }

    fn about(&self, kind: Kind, subject: &str, detail: Value) -> Record {
        Record {
            at: self.now().to_string(),
            actor: self.parts.actor.clone(),
            kind,
            subject: subject.to_owned(),
            detail,
        }
    }
}

/// A run between its intent and its outcome. One that is given up there, as when its caller ends first, has its outcome
/// on the audit, too.
struct Begun<'a> {
    dispatch: &'a Dispatch,
    subject: &'a Subject,
    frame: &'a Frame<'a>,
    ended: bool,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let record =
            self.frame.mark(json!({"subject": self.subject, "error": "given up: whoever asked for it is gone"}));
        if let Err(error) = self.dispatch.record(Kind::Outcome, self.subject.name().as_str(), record) {
            tracing::error!(%error, "the outcome of a run that was given up is not on the audit");
        }
    }
}

pub(crate) fn sandbox_error(error: &SandboxError) -> ErrorBody {
    let hint = error.hint().map(str::to_owned);
    ErrorBody { kind: ErrorKind::Sandbox, message: error.to_string(), hint }
}

/// Sizes, times and digests; the values themselves stay out of the audit.
fn outcome(subject: &Subject, execution: &Execution) -> Value {
    json!({
        "subject": subject,
        "exit": execution.exit,
        "error": execution.error.as_ref().map(|e| e.name.clone()),
        "result_digest": execution.result.as_ref().map(|r| digest(r.to_string().as_bytes())),
        "wall_us": execution.wall_us,
        "cpu_us": execution.cpu_us,
        "peak_memory_kb": execution.peak_memory_kb,
        "isolation": execution.isolation,
        "egress": execution.egress,
    })
}

/// Characters of printed text that an error brings along.
const PRINTED_CHARS: usize = 2000;

fn not_cancelled(execution: Execution) -> Result<Execution, CallError> {
    match execution.exit {
        ExitClass::Cancelled => Err(CallError::Fatal(ErrorBody::new(ErrorKind::Cancelled, "cancelled"))),
        _ => Ok(execution),
    }
}

/// The value, once it also fits what the definition promises.
pub(crate) fn value_of(capability: &Capability, execution: &Execution) -> Result<Value, CallError> {
    let name = &capability.name;
    if let (Some(value), ExitClass::Ok) = (&execution.result, execution.exit) {
        return crate::check_value(&capability.returns, value).map(|()| value.clone()).map_err(|problem| {
            CallError::respond(ErrorKind::Sandbox, format!("`{name}` returned what it does not promise: {problem}"))
        });
    }
    let mut message = format!("`{name}` failed: {}", execution.failure());
    let printed: String = execution.printed.trim().chars().take(PRINTED_CHARS).collect();
    if !printed.is_empty() {
        message.push_str(&format!("; it printed: {printed}"));
    }
    Err(CallError::respond(ErrorKind::Sandbox, message))
}

pub(crate) fn plan_of(
    capability: &Capability,
    subject: Subject,
    code: String,
    args: Value,
    fixed: Option<Fixed>,
) -> ExecPlan {
    ExecPlan {
        subject,
        runtime: capability.runtime,
        code,
        args,
        grants: capability.grants.clone(),
        limits: capability.limits,
        dependencies: capability.dependencies.clone(),
        fixed,
    }
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}
