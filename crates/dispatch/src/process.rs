//! Decide → audit(intent) → run in the jail → audit(outcome), for one process.

use crate::{ApprovalRequest, Approver, CallError, Dispatch};
use jarvis_audit::Kind;
use jarvis_policy::{CommandView, ProcessPermit, ProcessVerdict, review_process};
use jarvis_protocol::{ErrorBody, ErrorKind, Grants, ProcessPlan};
use jarvis_sandbox::{JailClass, JailStream, ProcessDone, Stdin};
use serde_json::json;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

/// One process, as it was asked for.
pub struct ProcessRequest {
    pub plan: ProcessPlan,
    /// The file that the plan's first word names.
    pub program: PathBuf,
    /// What the classification of the command line said; harmless where the program is named by a person.
    pub command: CommandView,
    /// Added to the standard environment; nothing else is inherited.
    pub env: Vec<(String, String)>,
    pub stdin: Stdin,
}

impl Dispatch {
    /// Runs one process in the jail. What it did wrong is in the outcome; an error means that it did not run, or could
    /// not be recorded.
    pub async fn exec(
        &self,
        request: ProcessRequest,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
        on_output: impl FnMut(JailStream, &[u8]) + Send,
    ) -> Result<ProcessDone, CallError> {
        let ProcessRequest { plan, program, command, env, stdin } = request;
        let subject = plan.argv.first().cloned().unwrap_or_default();
        let permit = self.process_permit(plan, &command, approver).await?;
        let plan = permit.plan();
        let intent = json!({
            "subject": {"kind": "process", "argv": plan.argv, "dir": plan.dir},
            "preset": plan.preset, "read": plan.read, "network": plan.network, "limits": plan.limits,
            "env": env.iter().map(|(name, _)| name).collect::<Vec<_>>(), "why": permit.why(),
        });
        self.record_aside(Kind::Intent, &subject, intent).await?;
        let running = self.parts.processes.run(permit, program, env, stdin, cancel, on_output);
        match running.instrument(tracing::debug_span!("sandbox")).await {
            Ok(done) => {
                let exit = &done.outcome.exit;
                let outcome = json!({
                    "subject": {"kind": "process"}, "exit": exit.class, "code": exit.code, "signal": exit.signal,
                    "stdout_bytes": done.outcome.stdout.len(), "stderr_bytes": done.outcome.stderr.len(),
                    "wall_us": exit.wall_us, "cpu_us": exit.cpu_us, "peak_memory_kb": exit.peak_memory_kb,
                    "isolation": done.outcome.layers, "egress": done.egress,
                });
                self.record_aside(Kind::Outcome, &subject, outcome).await?;
                if exit.class == JailClass::Cancelled {
                    return Err(CallError::Fatal(ErrorBody::new(ErrorKind::Cancelled, "cancelled")));
                }
                Ok(done)
            }
            Err(error) => {
                let body = crate::run::sandbox_error(&error);
                let outcome = json!({"subject": {"kind": "process"}, "error": body.message});
                self.record_aside(Kind::Outcome, &subject, outcome).await?;
                Err(CallError::Fatal(body))
            }
        }
    }

    pub(crate) async fn process_permit(
        &self,
        plan: ProcessPlan,
        command: &CommandView,
        approver: &mut dyn Approver,
    ) -> Result<ProcessPermit, CallError> {
        let subject = plan.argv.first().cloned().unwrap_or_default();
        let ask = match review_process(&self.parts.policy, plan, command) {
            ProcessVerdict::Permit(permit) => return Ok(permit),
            ProcessVerdict::Denied(deny) => return Err(self.refused(&subject, deny)?),
            ProcessVerdict::Ask(ask) => ask,
        };
        let question = ApprovalRequest {
            id: format!("process-{}", self.now().as_millisecond()),
            capability: ask.plan().argv.join(" "),
            grants: Grants { network: ask.plan().network.clone(), ..Grants::default() },
            before: None,
            reason: ask.reason.clone(),
            lasting: false,
            call: None,
        };
        let allowed = approver.ask(&question).await;
        let decision = if allowed { "allowed by a person" } else { "nobody allowed it" };
        self.record_decision(&subject, decision, &ask.reason)?;
        if allowed {
            return Ok(ask.allow());
        }
        let body = ErrorBody::new(ErrorKind::Denied, format!("nobody allowed `{subject}`: {}", ask.reason));
        Err(CallError::RespondToModel(body.hint("run it where you can be asked, or with --approve auto")))
    }
}
