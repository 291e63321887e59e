//! Tools that are not jarvis's own: decide → audit(intent) → call → audit(outcome). What runs or answers them is started
//! and reached by the same way.

use crate::run::{digest, sandbox_error};
use crate::{ApprovalRequest, Approver, CallError, Dispatch};
use jarvis_audit::Kind;
use jarvis_policy::{
    ExternalCall, ExternalPermit, ExternalVerdict, ProcessVerdict, Reach, ToolVerdict, review_external, review_server,
    review_tool,
};
use jarvis_protocol::{ErrorBody, ErrorKind, Grants, ProcessPlan};
use jarvis_sandbox::{EgressPolicy, Outside, SandboxError, Server};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use url::Url;

/// A server as it is to be started. Values of `env` may name secrets.
pub struct ServerRequest {
    pub name: String,
    pub plan: ProcessPlan,
    pub program: PathBuf,
    pub env: Vec<(String, String)>,
}

impl Dispatch {
    /// May it be called? Asks a person where that is due; `remember` is for the yes of one, once it is on the audit.
    pub async fn external_permit(
        &self,
        call: ExternalCall,
        args: &Value,
        approver: &mut dyn Approver,
        remember: impl FnOnce(),
    ) -> Result<ExternalPermit, CallError> {
        let subject = format!("{}/{}", call.server, call.tool);
        let ask = match review_external(self.policy(), call) {
            ExternalVerdict::Permit(permit) => return Ok(permit),
            ExternalVerdict::Denied(deny) => return Err(self.refused(&subject, deny)?),
            ExternalVerdict::Ask(ask) => ask,
        };
        let question = ApprovalRequest {
            id: format!("{subject}-{}", self.now().as_millisecond()),
            capability: subject.clone(),
            grants: Grants::default(),
            before: None,
            // A key that is cut in two looks like none: cut is what is redacted.
            reason: format!("{}; with {}", ask.reason, first_chars(&crate::redact(&args.to_string()), ARGS_CHARS)),
            lasting: true,
            call: None,
        };
        let allowed = approver.ask(&question).await;
        let decision = if allowed { "allowed by a person" } else { "nobody allowed it" };
        self.record_decision(&subject, decision, &ask.reason)?;
        if allowed {
            remember();
            return Ok(ask.allow());
        }
        let body = ErrorBody::new(ErrorKind::Denied, format!("nobody allowed it: {}", ask.reason));
        Err(CallError::RespondToModel(body.hint("run it where you can be asked, or allow the tool in config")))
    }

    /// One permitted call, on the audit before and after. `work` is polled only once the intent is on disk; a call that
    /// is given up has its outcome, too.
    pub async fn external(
        &self,
        permit: ExternalPermit,
        args: &Value,
        work: impl Future<Output = Result<Value, CallError>> + Send,
    ) -> Result<Value, CallError> {
        let call = permit.call();
        let name = format!("{}/{}", call.server, call.tool);
        let subject =
            json!({"kind": "external", "server": call.server, "tool": call.tool, "definition": call.definition});
        let intent = json!({
            "subject": subject, "args_digest": digest(args.to_string().as_bytes()), "why": permit.why(),
        });
        self.record(Kind::Intent, &name, intent)?;
        let mut begun = Begun { dispatch: self, name: &name, subject: &subject, ended: false };
        let done = work.await;
        begun.ended = true;
        let outcome = match &done {
            Ok(value) => {
                json!({"subject": subject, "exit": "ok", "result_digest": digest(value.to_string().as_bytes())})
            }
            Err(error) => json!({"subject": subject, "exit": "failed", "error": crate::redact(&error.body().message)}),
        };
        self.record(Kind::Outcome, &name, outcome)?;
        done
    }

    /// Starts a server in the jail. Its end is on the audit when it comes.
    pub async fn start_server(self: &Arc<Self>, request: ServerRequest) -> Result<Server, CallError> {
        let ServerRequest { name, plan, program, env } = request;
        let permit = match review_server(self.policy(), plan) {
            ProcessVerdict::Permit(permit) => permit,
            ProcessVerdict::Denied(deny) => return Err(self.refused(&name, deny)?),
            ProcessVerdict::Ask(ask) => {
                let body = ErrorBody::new(ErrorKind::Denied, format!("`{name}` is not started: {}", ask.reason));
                return Err(CallError::RespondToModel(body));
            }
        };
        let plan = permit.plan();
        let intent = json!({
            "subject": {"kind": "server", "argv": plan.argv, "dir": plan.dir}, "preset": plan.preset,
            "read": plan.read, "write": plan.write, "network": plan.network, "limits": plan.limits,
            "env": env.iter().map(|(name, _)| name).collect::<Vec<_>>(), "why": permit.why(),
        });
        self.record(Kind::Intent, &name, redacted(&intent))?;
        match self.parts.processes.serve(permit, program, env).await {
            Ok(server) => {
                let watched = Watched { dispatch: Arc::clone(self), name, ended: false };
                tokio::spawn(watched.until(server.ended()));
                Ok(server)
            }
            Err(error) => {
                let body = server_error(&error);
                let outcome = json!({"subject": {"kind": "server"}, "error": body.message});
                self.record(Kind::Outcome, &name, outcome)?;
                Err(CallError::RespondToModel(body))
            }
        }
    }

    /// The way to a server over HTTP. The host of `url` was granted by whoever wrote it into the config, `hosts` narrows
    /// or names more.
    pub fn reach_server(
        &self,
        name: &str,
        url: &str,
        headers: &BTreeMap<String, String>,
    ) -> Result<Outside, CallError> {
        let wrong = |problem: String| CallError::respond(ErrorKind::Config, format!("{name}: {problem}"));
        let parsed = Url::parse(url).map_err(|e| wrong(format!("{url}: {e}")))?;
        let host = host_of(&parsed).ok_or_else(|| wrong(format!("{url} names no http(s) host")))?;
        EgressPolicy::parse(std::slice::from_ref(&host)).map_err(|e| wrong(e.to_string()))?;
        let reach = Reach::Fetch { host, method: "POST".to_owned(), allowed: true };
        let permit = match review_tool(self.policy(), reach) {
            ToolVerdict::Permit(permit) => permit,
            ToolVerdict::Denied(deny) => return Err(self.refused(name, deny)?),
            ToolVerdict::Ask(ask) => return Err(wrong(format!("it is not reached: {}", ask.reason))),
        };
        let intent = json!({"subject": {"kind": "server"}, "reach": permit.reach().to_string(), "why": permit.why(),
            "headers": headers.keys().collect::<Vec<_>>()});
        self.record(Kind::Intent, name, intent)?;
        let reached = self.parts.processes.outside(permit, url, headers);
        let error = reached.as_ref().err().map(ToString::to_string);
        let exit = if error.is_none() { "ok" } else { "failed" };
        self.record(Kind::Outcome, name, json!({"subject": {"kind": "server"}, "exit": exit, "error": error}))?;
        reached.map_err(|error| CallError::RespondToModel(server_error(&error)))
    }
}

/// Of the arguments that a person is shown, characters.
const ARGS_CHARS: usize = 400;

fn first_chars(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// As a grant names it: with its port, which alone opens addresses that are not public.
fn host_of(url: &Url) -> Option<String> {
    let host = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https"))?;
    let grant = url.port_or_known_default().map_or(host.to_owned(), |port| format!("{host}:{port}"));
    Some(if url.scheme() == "http" { format!("http://{grant}") } else { grant })
}

/// Arguments of a program may hold keys, though they should not.
fn redacted(value: &Value) -> Value {
    serde_json::from_str(&crate::redact(&value.to_string())).unwrap_or(Value::Null)
}

/// That one server does not start ends no conversation.
fn server_error(error: &SandboxError) -> ErrorBody {
    let body = sandbox_error(error);
    ErrorBody { message: crate::redact(&body.message), ..body }
}

struct Begun<'a> {
    dispatch: &'a Dispatch,
    name: &'a str,
    subject: &'a Value,
    ended: bool,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let outcome = json!({"subject": self.subject, "error": "given up: whoever asked for it is gone"});
        if let Err(error) = self.dispatch.record(Kind::Outcome, self.name, outcome) {
            tracing::error!(%error, "the outcome of a call that was given up is not on the audit");
        }
    }
}

/// A server until its end, which is on the audit even where this process ends first.
struct Watched {
    dispatch: Arc<Dispatch>,
    name: String,
    ended: bool,
}

impl Watched {
    async fn until(mut self, mut ended: tokio::sync::watch::Receiver<Option<jarvis_sandbox::ServerEnd>>) {
        let end = ended.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        let Some(end) = end else { return };
        self.ended = true;
        let outcome = json!({"subject": {"kind": "server"}, "exit": end.exit, "egress": end.egress});
        self.tell(outcome);
    }

    fn tell(&self, outcome: Value) {
        if let Err(error) = self.dispatch.record(Kind::Outcome, &self.name, outcome) {
            tracing::error!(%error, "the end of a server is not on the audit");
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.ended {
            self.tell(json!({"subject": {"kind": "server"}, "error": "ended together with jarvis"}));
        }
    }
}
