//! The built-in tools: files of the workspace, a shell in the jail, HTTP. Decide → audit(intent) → do → audit(outcome),
//! as for everything that is called.

mod edited;
mod effects;
mod files;
mod http;
pub(crate) mod make;
mod shell;
mod specs;

use crate::{ApprovalRequest, Approver, CallError, Dispatch};
pub use effects::{Content, FileState};
use jarvis_audit::Kind;
use jarvis_policy::{Approval, Deny, Reach, ToolPermit, ToolVerdict, may_be_private, review_tool_ruled};
use jarvis_protocol::{ErrorBody, ErrorKind};
use jarvis_sandbox::{EgressDenied, EgressPolicy, ToolDone, ToolError, ToolWork, workspace_problem};
pub use make::{Checker, CheckerSaid, MADE_IN, MakePermit, Making, Tried};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
pub use shell::{exit_code, view as command_view};
pub use specs::{builtin_specs, changes_something};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use url::Url;

/// How long a file or a host may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Where nobody but the system's own programs writes, whatever was approved.
const SYSTEM: [&str; 14] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/private/etc",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var/lib",
];

/// One call with whom it talks to.
pub(crate) struct Call<'a> {
    dispatch: &'a Dispatch,
    tool: &'a str,
    approver: &'a mut dyn Approver,
    cancel: &'a CancellationToken,
}

impl Dispatch {
    /// Runs a built-in tool. `on_output` hears what a program prints as it comes. A text is meant to be read as it is.
    pub async fn builtin(
        &self,
        tool: &str,
        args: &Value,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
        on_output: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Value, CallError> {
        let Some(spec) = builtin_specs().iter().find(|spec| spec.name == tool) else {
            return Err(CallError::respond(ErrorKind::NotFound, format!("there is no tool `{tool}`")));
        };
        crate::check_arguments(&spec.parameters, args)
            .map_err(|problem| CallError::respond(ErrorKind::Usage, format!("{tool}: {problem}")))?;
        let mut call = Call { dispatch: self, tool, approver, cancel };
        match tool {
            "file_read" => files::read(&mut call, read_args(args)?).await,
            "file_write" => files::write(&mut call, read_args(args)?).await,
            "file_edit" => files::edit(&mut call, read_args(args)?).await,
            "file_list" => files::list(&mut call, read_args(args)?).await,
            "file_search" => files::search(&mut call, read_args(args)?).await,
            "http_request" => http::request(&mut call, read_args(args)?).await,
            _ => shell::exec(&mut call, read_args(args)?, on_output).await,
        }
    }
}

impl Dispatch {
    /// What the assistant does for itself, such as proposing a note: on the audit before and after. `work` is polled
    /// only once the intent is on disk.
    pub async fn own_tool(
        &self,
        tool: &str,
        args: Value,
        work: impl Future<Output = Result<Value, ErrorBody>> + Send,
    ) -> Result<Value, CallError> {
        self.record_aside(Kind::Intent, tool, json!({"subject": {"kind": "own"}, "args": args})).await?;
        let done = work.await;
        let exit = if done.is_ok() { "ok" } else { "failed" };
        let error = done.as_ref().err().map(|body| body.message.as_str());
        let outcome = json!({"subject": {"kind": "own"}, "exit": exit, "error": error});
        self.record_aside(Kind::Outcome, tool, outcome).await?;
        done.map_err(CallError::RespondToModel)
    }
}

fn read_args<T: DeserializeOwned>(args: &Value) -> Result<T, CallError> {
    serde_json::from_value(args.clone()).map_err(|e| CallError::respond(ErrorKind::Usage, format!("arguments: {e}")))
}

impl Call<'_> {
    /// The absolute path, without `..`, and whether it lies in the workspace. `~` is the person's home folder, as they
    /// type it.
    fn place(&self, path: &str) -> Result<(String, bool), CallError> {
        let workspace = self.dispatch.workspace();
        let given = Path::new(path);
        let (mut full, below) = match (given.strip_prefix("~"), &self.dispatch.parts.home) {
            (Ok(below), Some(home)) => (home.clone(), below),
            _ if given.is_absolute() => (PathBuf::from("/"), given),
            _ => (workspace.to_owned(), given),
        };
        for part in below.components() {
            match part {
                Component::Normal(name) => full.push(name),
                Component::ParentDir => {
                    full.pop();
                }
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        // A folder that is no project's has nothing in it that passes by itself.
        let inside =
            full.starts_with(workspace) && workspace_problem(workspace, self.dispatch.parts.home.as_deref()).is_none();
        match full.into_os_string().into_string() {
            Ok(text) if !text.contains('\0') => Ok((text, inside)),
            _ => Err(CallError::respond(ErrorKind::Usage, format!("`{path}` is no path that can be named"))),
        }
    }

    fn place_to_change(&self, path: &str) -> Result<(String, bool), CallError> {
        let (full, inside) = self.place(path)?;
        if !inside && SYSTEM.iter().any(|place| Path::new(&full).starts_with(place)) {
            let message = format!("安全限制 (protected): {full} belongs to the system and is not changed");
            return Err(CallError::respond(ErrorKind::Denied, message));
        }
        Ok((full, inside))
    }

    /// Where every question is answered by a yes, nobody sees that a host is this machine or its network: those are
    /// allowed by name beforehand, or not reached.
    fn seen(&self, grant: &str, (method, url): (&str, &Url), allowed: bool) -> Result<(), CallError> {
        if allowed || self.dispatch.policy().approval != Approval::Auto {
            return Ok(());
        }
        // Without a port `*` is for the usual one alone.
        let port = url.port_or_known_default().unwrap_or(80);
        let anywhere = EgressPolicy::parse(&[format!("*:{port}")]);
        let reason = match anywhere.map_or(Ok(()), |all| all.check(method, url)) {
            Err(denied @ EgressDenied::NotPublic { .. }) => denied.to_string(),
            _ if may_be_private(grant) => format!("{grant} may be this machine or its network"),
            _ => return Ok(()),
        };
        let host = url.host_str().unwrap_or_default();
        let place = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let deny = Deny { reason, hint: Some(format!("allow it by name: --allow-net {place}")) };
        Err(self.dispatch.refused(self.tool, deny)?)
    }

    async fn permit(&mut self, reach: Reach) -> Result<ToolPermit, CallError> {
        let ruling = self.dispatch.ruling_of(self.tool, &reach);
        let ask = match review_tool_ruled(self.dispatch.policy(), reach, ruling.as_ref()) {
            ToolVerdict::Permit(permit) => return Ok(permit),
            ToolVerdict::Denied(deny) => return Err(self.dispatch.refused(self.tool, deny)?),
            ToolVerdict::Ask(ask) => ask,
        };
        let question = ApprovalRequest {
            id: format!("{}-{}", self.tool, self.dispatch.now().as_millisecond()),
            capability: self.tool.to_owned(),
            grants: ask.reach().grants(),
            before: None,
            reason: ask.reason.clone(),
            lasting: false,
            call: None,
        };
        let allowed = self.approver.ask(&question).await;
        let decision = if allowed { "allowed by a person" } else { "nobody allowed it" };
        self.dispatch.record_decision(self.tool, decision, &ask.reason)?;
        if allowed {
            return Ok(ask.allow());
        }
        let body = ErrorBody::new(ErrorKind::Denied, format!("nobody allowed it: {}", ask.reason));
        Err(CallError::RespondToModel(body.hint("run it where you can be asked, or with --approve auto")))
    }

    async fn intent(&mut self, permit: &ToolPermit) -> Result<(), CallError> {
        let intent = json!({"subject": {"kind": "tool"}, "reach": permit.reach().to_string(), "why": permit.why()});
        self.dispatch.record_aside(Kind::Intent, self.tool, intent).await
    }

    async fn outcome(&mut self, done: Value) -> Result<(), CallError> {
        let mut record = json!({"subject": {"kind": "tool"}});
        if let (Some(record), Value::Object(done)) = (record.as_object_mut(), done) {
            record.extend(done);
        }
        self.dispatch.record_aside(Kind::Outcome, self.tool, record).await
    }

    /// One thing with a file or a host, on the audit before and after.
    async fn work(&mut self, permit: ToolPermit, work: ToolWork) -> Result<Result<ToolDone, ToolError>, CallError> {
        self.intent(&permit).await?;
        let (done, by_editor) = self.perform(permit, work).instrument(tracing::debug_span!("tool")).await;
        let mut outcome = match &done {
            Ok(done) => json!({"exit": "ok", "bytes": done.body.len(), "egress": done.egress}),
            Err(error) => json!({"exit": "failed", "error": error.name}),
        };
        if by_editor {
            outcome["by"] = json!("editor");
        }
        self.outcome(outcome).await?;
        if self.cancel.is_cancelled() {
            return Err(CallError::Fatal(ErrorBody::new(ErrorKind::Cancelled, "cancelled")));
        }
        Ok(done)
    }
}

/// An error of the sandbox as the model reads it.
fn told(error: &ToolError) -> CallError {
    let kind = if error.name == "PermissionError" { ErrorKind::Denied } else { ErrorKind::Sandbox };
    CallError::respond(kind, error.message.clone())
}

/// At most `most` characters, with a note of what is missing.
fn capped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => {
            let all = text.chars().count();
            format!("{}\n[… cut after {most} of {all} characters]", &text[..end])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_between_characters_and_says_so() {
        assert_eq!(capped("汉字", 2), "汉字");
        let cut = capped("汉字很多", 2);
        assert!(cut.starts_with("汉字\n") && cut.contains("2 of 4"), "{cut}");
    }
}
