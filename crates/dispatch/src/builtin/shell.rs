//! shell_exec: a command line, classified by its parse tree, in the jail.

use super::{Call, capped};
use crate::process::ProcessRequest;
use crate::{CallError, CommandView};
use jarvis_policy::{Effect, Ruling};
use jarvis_protocol::{ErrorBody, ErrorKind, Preset, ProcessLimits, ProcessPlan};
use jarvis_sandbox::{JailClass, JailStream, Stdin, check_host};
use jarvis_shell::{Context, Verdict, classify};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use url::Url;

const STDOUT_CHARS: usize = 50_000;
const STDERR_CHARS: usize = 10_000;
const SECONDS: u64 = 30;
/// How the text of a command that ended by itself begins.
const EXIT_CODE: &str = "exit code ";

/// The exit code that a text of shell_exec tells; none where the command was ended or did not begin.
pub fn exit_code(text: &str) -> Option<i32> {
    text.lines().next()?.strip_prefix(EXIT_CODE)?.parse().ok()
}

/// Text of bytes that come in parts: a character that is cut waits for its rest.
#[derive(Default)]
struct Parts(Vec<u8>);

impl Parts {
    fn text(&mut self, part: &[u8]) -> String {
        self.0.extend_from_slice(part);
        let whole = match std::str::from_utf8(&self.0) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.0.len(),
        };
        String::from_utf8_lossy(&self.0.drain(..whole).collect::<Vec<u8>>()).into_owned()
    }
}

#[derive(Deserialize)]
pub(super) struct Exec {
    command: String,
    workdir: Option<String>,
    timeout_s: Option<u64>,
    #[serde(default)]
    network: Vec<String>,
}

/// What the classification says, for the decision about the process.
pub fn view(line: &str, workspace: &Path, home: &Path) -> CommandView {
    let judgement = classify(line, &Context { workspace, home });
    match judgement.verdict {
        Verdict::Allow => CommandView::Harmless,
        Verdict::Ask => CommandView::Questionable(judgement.reason),
        Verdict::Deny => CommandView::Forbidden(format!("危险命令被拦截 (dangerous command): {}", judgement.reason)),
    }
}

/// What is forbidden stays so, whatever a rule allows.
fn ruled(view: CommandView, ruling: Option<Ruling>) -> CommandView {
    match (view, ruling) {
        (view @ CommandView::Forbidden(_), _) | (view, None) => view,
        (_, Some(Ruling { effect: Effect::Deny, reason, .. })) => CommandView::Forbidden(reason),
        (CommandView::Questionable(why), Some(Ruling { effect: Effect::Ask, reason, .. })) => {
            CommandView::Questionable(format!("{reason}; {why}"))
        }
        (CommandView::Harmless, Some(Ruling { effect: Effect::Ask, reason, .. })) => CommandView::Questionable(reason),
        (_, Some(Ruling { effect: Effect::Allow, .. })) => CommandView::Harmless,
    }
}

pub(super) async fn exec(
    call: &mut Call<'_>,
    args: Exec,
    on_output: &mut (dyn FnMut(&str) + Send),
) -> Result<Value, CallError> {
    let refuse = |kind, message: String| CallError::respond(kind, message);
    let parts = &call.dispatch.parts;
    let Some(shell) = parts.shell.clone() else {
        let body = ErrorBody::new(ErrorKind::Sandbox, "there is no bash or sh on this machine");
        return Err(CallError::RespondToModel(body));
    };
    for host in &args.network {
        check_host(host).map_err(|problem| refuse(ErrorKind::Usage, problem.to_string()))?;
        // Of `METHOD scheme://host:port/path` the place alone. A pattern with a `*` is no address; where it leads is checked
        // when a name is looked up.
        let place = host.rsplit_once(' ').map_or(host.as_str(), |(_, place)| place);
        let place = place.rsplit_once("://").map_or(place, |(_, place)| place);
        if let Ok(url) = Url::parse(&format!("http://{place}")) {
            call.seen(host, ("GET", &url), call.dispatch.policy().allowed_hosts.contains(host))?;
        }
    }
    let (dir, inside) = call.place(args.workdir.as_deref().unwrap_or("."))?;
    if !inside {
        return Err(refuse(ErrorKind::Denied, format!("workdir {dir} lies outside the workspace")));
    }
    let real = |path: &Path| path.canonicalize().ok();
    match (real(Path::new(&dir)), real(call.dispatch.workspace())) {
        (Some(dir), Some(workspace)) if dir.starts_with(&workspace) => {}
        (None, _) => return Err(refuse(ErrorKind::NotFound, format!("文件不存在 (no such folder): workdir {dir}"))),
        _ => return Err(refuse(ErrorKind::Denied, format!("workdir {dir} leads outside the workspace"))),
    }
    let seconds = args.timeout_s.unwrap_or(SECONDS);
    let home = parts.home.clone().unwrap_or_else(|| PathBuf::from("/"));
    let ruling = call.dispatch.ruling_of_line(call.tool, (&args.command, Path::new(&dir)), &args.network);
    let command = ruled(view(&args.command, call.dispatch.workspace(), &home), ruling);
    let word = shell.file_name().map_or_else(|| "sh".to_owned(), |name| name.to_string_lossy().into_owned());
    let plan = ProcessPlan {
        argv: vec![word, "-c".to_owned(), args.command],
        dir: PathBuf::from(dir),
        preset: Preset::WorkspaceWrite,
        read: Vec::new(),
        write: Vec::new(),
        network: args.network,
        limits: ProcessLimits { timeout_ms: seconds * 1000, ..ProcessLimits::STANDARD },
    };
    let request = ProcessRequest { plan, program: shell, command, env: Vec::new(), stdin: Stdin::Closed };
    let (mut out, mut err) = (Parts::default(), Parts::default());
    let ran = call
        .dispatch
        .exec(request, &mut *call.approver, call.cancel, |stream, part| {
            let parts = if stream == JailStream::Stdout { &mut out } else { &mut err };
            on_output(&parts.text(part));
        })
        .await;
    let done = match ran {
        // That this command cannot be isolated here ends no conversation.
        Err(CallError::Fatal(body)) if body.kind == ErrorKind::Sandbox => return Err(CallError::RespondToModel(body)),
        other => other?,
    };
    let (stdout, stderr) = (done.outcome.stdout_text(), done.outcome.stderr_text());
    let exit = &done.outcome.exit;
    let mut text = match exit.class {
        JailClass::Ok | JailClass::Failed => format!("{EXIT_CODE}{}", exit.code.unwrap_or_default()),
        JailClass::Timeout => {
            format!("超时 (timeout): ended after {seconds} s with all it had started; what it printed until then:")
        }
        other => format!("ended by the sandbox: {}", serde_json::json!(other).as_str().unwrap_or("limit")),
    };
    for (name, part, most) in [("stdout", stdout, STDOUT_CHARS), ("stderr", stderr, STDERR_CHARS)] {
        if !part.trim().is_empty() {
            text.push_str(&format!("\n{name}:\n{}", capped(part.trim_end(), most)));
        }
    }
    if exit.class == JailClass::Ok {
        return Ok(Value::String(text));
    }
    Err(refuse(ErrorKind::Sandbox, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_comes_in_parts_is_cut_between_characters() {
        let mut parts = Parts::default();
        let told: Vec<String> = "a汉字".as_bytes().chunks(2).map(|part| parts.text(part)).collect();
        assert_eq!(told, ["a", "汉", "", "字"].map(str::to_owned));
        assert_eq!(parts.text(b"\xff!"), "\u{fffd}!");
    }
}
