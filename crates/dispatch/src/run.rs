//! Resolve → decide → audit(intent) → execute → audit(outcome).

use crate::{ApprovalRequest, Approver, CallError, check_arguments};
use jarvis_audit::{AuditLog, Kind, Record};
use jarvis_policy::{Decision, Policy, decide};
use jarvis_protocol::{
    Capability, CapabilityName, ErrorBody, ErrorKind, Event, ExecPlan, Execution, ExitClass, Grants, Status, Subject,
};
use jarvis_registry::{Registry, Run};
use jarvis_sandbox::Executor;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

pub struct Parts {
    pub registry: Registry,
    pub audit: AuditLog,
    pub executor: Executor,
    pub policy: Policy,
    /// Who acts: `cli`, `mcp`, …
    pub actor: String,
    /// Absolute; relative paths of grants are meant from here.
    pub workspace: PathBuf,
}

pub struct Dispatch {
    parts: Parts,
}

/// A registered capability that ran and gave a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    pub value: Value,
    pub execution: Execution,
}

impl Dispatch {
    pub fn new(parts: Parts) -> Self {
        Self { parts }
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

    /// Runs a registered capability by name. What the caller can mend comes back as `RespondToModel`.
    pub async fn run(
        &self,
        name: &str,
        args: Value,
        emit: &mut (dyn FnMut(Event) + Send),
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Ran, CallError> {
        let (capability, code) = self.resolve(name)?;
        check_arguments(&capability.parameters, &args)
            .map_err(|problem| CallError::respond(format!("`{}`: {problem}", capability.signature())))?;
        let plan = ExecPlan {
            subject: Subject::Capability {
                name: capability.name.clone(),
                version: capability.version.clone(),
                digest: capability.digest.clone(),
            },
            runtime: capability.runtime,
            code,
            args,
            grants: capability.grants.clone(),
            limits: capability.limits,
            fixed: None,
        };
        // The grants of a registered version were approved when it was registered.
        let execution = self.pass(plan, &capability.grants, emit, approver, cancel).await?;
        self.count(&capability, &execution)?;
        value_of(&capability, execution)
    }

    /// Runs code that is not registered, for verification. Its grants must have been approved before: forge asks.
    pub async fn run_candidate(
        &self,
        capability: &Capability,
        code: &str,
        args: Value,
        cancel: &CancellationToken,
    ) -> Result<Execution, CallError> {
        let plan = ExecPlan {
            subject: Subject::Candidate { name: capability.name.clone(), digest: digest(code.as_bytes()) },
            runtime: capability.runtime,
            code: code.to_owned(),
            args,
            grants: capability.grants.clone(),
            limits: capability.limits,
            fixed: None,
        };
        let approved = capability.grants.clone();
        self.pass(plan, &approved, &mut |_| {}, &mut crate::DenyAll, cancel).await
    }

    /// One transition of forge, on the audit.
    pub fn record_forge(&self, name: &str, detail: Value) -> Result<(), CallError> {
        self.record(Kind::Forge, name, detail)
    }

    fn resolve(&self, name: &str) -> Result<(Capability, String), CallError> {
        let unknown =
            || CallError::respond(format!("no capability is called `{name}`; list_capabilities finds what there is"));
        let name = CapabilityName::new(name).map_err(|_| unknown())?;
        let capability = self.parts.registry.get(&name).map_err(|e| CallError::Fatal(e.body()))?.ok_or_else(unknown)?;
        match capability.status {
            Status::Active => {}
            Status::Disabled => {
                return Err(CallError::respond(format!(
                    "`{name}` is disabled; `jarvis cap enable {name}` turns it on"
                )));
            }
            Status::Quarantined => {
                return Err(CallError::respond(format!(
                    "`{name}` is quarantined; look at it with `jarvis cap show {name} --code`, then `jarvis cap enable {name}`"
                )));
            }
            Status::Retired => return Err(CallError::respond(format!("`{name}` is retired"))),
        }
        let code = self.parts.registry.code(&capability).map_err(|e| CallError::Fatal(e.body()))?;
        if !code.matches_digest {
            return Err(CallError::respond(format!(
                "the code of `{name}` was changed by hand since it was verified, so it does not run; \
                 `jarvis cap register` makes a checked version of it"
            )));
        }
        Ok((capability, code.text))
    }

    async fn pass(
        &self,
        plan: ExecPlan,
        approved: &Grants,
        emit: &mut (dyn FnMut(Event) + Send),
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Execution, CallError> {
        let subject = plan.subject.clone();
        let name = subject.name().to_string();
        let permit = match decide(&self.parts.policy, plan, approved) {
            Decision::Permit(permit) => permit,
            Decision::Deny(deny) => {
                self.record(Kind::Decision, &name, json!({"decision": "deny", "reason": deny.reason}))?;
                let hint = deny.hint.map(|h| format!(" ({h})")).unwrap_or_default();
                return Err(CallError::respond(format!("refused: {}{hint}", deny.reason)));
            }
            Decision::Ask(ask) => {
                let request = ApprovalRequest {
                    id: format!("{name}-{}", self.now().as_millisecond()),
                    capability: name.clone(),
                    grants: ask.grants.clone(),
                    reason: ask.reason.clone(),
                };
                emit(Event::ApprovalRequested {
                    id: request.id.clone(),
                    capability: name.clone(),
                    grants: request.grants.clone(),
                    reason: request.reason.clone(),
                });
                let allowed = approver.ask(&request).await;
                let decision = if allowed { "allowed by a person" } else { "refused by a person" };
                self.record(Kind::Decision, &name, json!({"decision": decision, "reason": request.reason}))?;
                if !allowed {
                    return Err(CallError::respond(format!("not approved: {}", request.reason)));
                }
                ask.allow()
            }
        };
        let plan = permit.plan();
        self.record(
            Kind::Intent,
            &name,
            json!({
                "subject": subject, "args_digest": digest(plan.args.to_string().as_bytes()),
                "grants": plan.grants, "limits": plan.limits, "why": permit.why(),
            }),
        )?;
        let result = self.parts.executor.run(permit, cancel).await;
        match result {
            Ok(execution) => {
                self.record(Kind::Outcome, &name, outcome(&subject, &execution))?;
                if execution.exit == ExitClass::Cancelled {
                    return Err(CallError::Fatal(ErrorBody::new(ErrorKind::Cancelled, "cancelled")));
                }
                Ok(execution)
            }
            Err(error) => {
                let body = ErrorBody {
                    kind: ErrorKind::Sandbox,
                    message: error.to_string(),
                    hint: error.hint().map(str::to_owned),
                };
                self.record(Kind::Outcome, &name, json!({"subject": subject, "error": body.message}))?;
                Err(CallError::Fatal(body))
            }
        }
    }

    fn count(&self, capability: &Capability, execution: &Execution) -> Result<(), CallError> {
        let ok = execution.exit == ExitClass::Ok;
        let class = (!ok).then(|| json!(execution.exit).as_str().unwrap_or("failed").to_owned());
        let run = Run {
            version: capability.version.clone(),
            ok,
            wall_us: execution.wall_us,
            error_class: class,
            at: self.now().to_string(),
        };
        self.parts.registry.record_run(&capability.name, &run).map_err(|e| CallError::Fatal(e.body()))
    }

    fn record(&self, kind: Kind, subject: &str, detail: Value) -> Result<(), CallError> {
        let record = Record {
            at: self.now().to_string(),
            actor: self.parts.actor.clone(),
            kind,
            subject: subject.to_owned(),
            detail,
        };
        self.parts.audit.append(record).map(|_| ()).map_err(|e| CallError::Fatal(e.body()))
    }
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
    })
}

/// The value, once it also fits what the definition promises.
fn value_of(capability: &Capability, execution: Execution) -> Result<Ran, CallError> {
    let name = &capability.name;
    match (&execution.result, execution.exit) {
        (Some(value), ExitClass::Ok) => {
            crate::check_value(&capability.returns, value).map_err(|problem| {
                CallError::respond(format!("`{name}` returned what it does not promise: {problem}"))
            })?;
            Ok(Ran { value: value.clone(), execution })
        }
        (_, exit) => {
            let why = match (&execution.error, exit) {
                (Some(error), _) => error.to_string(),
                (None, ExitClass::Timeout) => format!("it did not end within {} ms", capability.limits.timeout_ms),
                (None, exit) => format!("it ended without a result ({exit:?})"),
            };
            let printed = execution.printed.trim();
            let printed = if printed.is_empty() { String::new() } else { format!("; it printed: {printed}") };
            Err(CallError::respond(format!("`{name}` failed: {why}{printed}")))
        }
    }
}

fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}
