//! The tool `create_mcp`: a project with an MCP server in Python, on the official SDK. It is started in the jail and its
//! tools are compared with those that were asked for before it is kept.

mod project;
mod schema;

use super::{Maker, Workshop, name, one_line, usage};
use jarvis_dispatch::{CallError, Checker, Dispatch, MADE_IN, Making, Placed, PythonServer, quoted};
use jarvis_protocol::{ErrorBody, ErrorKind, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use tokio::io::AsyncReadExt;

pub(super) const TOOL: &str = "create_mcp";

/// The official SDK, at the version that the projects are written for.
const SDK: &str = "mcp==2.3.0";

/// Characters of a server's name in the config.
const SERVER_NAME: usize = 32;
/// Where its packages are for jarvis, beside it.
const PACKAGES: &str = "packages";
const MOST_TOOLS: usize = 30;
const MOST_CODE: usize = 64 << 10;
const DESCRIPTION_CHARS: usize = 1000;
/// Bytes that a server may say while it is tried.
const MOST_SAID: u64 = 4 << 20;
/// Characters of its standard error that the model gets.
const STDERR_CHARS: usize = 3000;

#[derive(Deserialize)]
pub(super) struct Args {
    name: String,
    description: String,
    tools: Vec<Tool>,
    #[serde(default)]
    dependencies: Vec<String>,
    #[serde(default)]
    update: bool,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    description: String,
    #[serde(default)]
    parameters: Value,
    code: String,
}

/// A tool's code as the reader in the jail gives it back.
#[derive(Debug, Deserialize)]
struct Body {
    /// Indented; what stands inside of texts of several lines is as it was.
    text: String,
    awaits: bool,
}

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: TOOL.to_owned(),
        description:
            "Make an MCP server in Python that other programs can use too. A person is asked. It is started in the \
                      sandbox and its tools are listed before it is kept. What only this agent needs is a capability."
                .to_owned(),
        parameters: json!({"type": "object", "required": ["name", "description", "tools"], "additionalProperties": false, "properties": {
            "name": {"type": "string", "description": "a-z, 0-9 and `-`"},
            "description": {"type": "string"},
            "tools": {"type": "array", "minItems": 1, "maxItems": MOST_TOOLS, "items": {"type": "object",
                "required": ["name", "description", "code"], "additionalProperties": false, "properties": {
                    "name": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_-]{0,63}$"},
                    "description": {"type": "string"},
                    "parameters": {"type": "object", "description": "JSON Schema of the arguments, type object"},
                    "code": {"type": "string", "description": "Python: the body of the function, with the parameters as variables; \
                        imports first, ends with return. It may await"}}}},
            "dependencies": {"type": "array", "items": {"type": "string"}, "description": "further packages, name==version each"},
            "update": {"type": "boolean", "description": "replace the server of this name"}}}),
    }
}

pub(super) async fn make(maker: &mut Maker<'_>, workshop: &Workshop, args: Args) -> Result<Value, CallError> {
    name::check_ascii(&args.name).map_err(usage)?;
    let Some(probe) = workshop.probe.clone() else { return Err(usage("no MCP server can be tried here")) };
    let description = one_line("the description", &args.description, DESCRIPTION_CHARS)?;
    let wanted = args.tools.iter().map(project::Wanted::of).collect::<Result<Vec<_>, _>>().map_err(usage)?;
    project::check_names(&wanted).map_err(usage)?;
    let place = format!("mcp/{}", args.name);
    let replaces = maker.free(&place, args.update)?;
    let dependencies = dependencies(&args.dependencies)?;
    let bodies = read(maker, &args.tools, &wanted).await?;
    let files = project::files(&args.name, &description, &dependencies, &wanted, &bodies);
    let note =
        format!("{} tools; it installs {} with what they need, to try it", wanted.len(), dependencies.join(", "));
    let making = Making { tool: TOOL, kind: "MCP server", place: &place, replaces, note: Some(&note) };
    let permit = maker.bootstrap.dispatch().may_make(&making, maker.approver, maker.cancel).await?;
    maker.status(&format!("installing {}", dependencies.join(", ")));
    maker.bootstrap.dispatch().install_for(TOOL, &permit, &dependencies, maker.cancel).await?;
    maker.status("starting the server");
    let server =
        PythonServer { files: files.clone(), entry: project::ENTRY.to_owned(), dependencies: dependencies.clone() };
    let talk = |stdout: tokio::net::unix::pipe::Receiver, stdin| {
        probe.tools(Box::new(stdout.take(MOST_SAID)), Box::new(stdin))
    };
    let tried = maker.bootstrap.dispatch().try_server(TOOL, &server, maker.approver, maker.cancel, talk).await?;
    let listed = tried.told.map_err(|problem| failed(&problem, &tried.stderr))?;
    project::compare(&wanted, &listed).map_err(|problem| failed(&problem, &tried.stderr))?;
    maker.bootstrap.dispatch().make(TOOL, permit, Placed::Folder(files), maker.cancel).await?;
    let names: Vec<&str> = listed.iter().map(|tool| tool.name.as_str()).collect();
    let here = adding(maker.bootstrap.dispatch(), &args.name, &place, replaces, &dependencies).await;
    Ok(json!({
        "made": format!(".jarvis/{place}"), "replaced": replaces, "tools": names,
        "next": format!("other programs start it by `uv run .jarvis/{place}/server.py`, or by python3 where {SDK} is installed"),
        "for_this_agent": here,
    }))
}

/// The line by which a person has jarvis offer its tools in later conversations: in the jail, with no network. Packages of
/// its own lie beside it: those that it was tried with lie in jarvis's home, which no server may see.
async fn adding(
    dispatch: &Dispatch,
    name: &str,
    place: &str,
    replaces: bool,
    dependencies: &[String],
) -> Option<String> {
    let (python, needs) = dispatch.python().await?;
    let folder = dispatch.workspace().join(MADE_IN).join(place);
    let packages = folder.join(PACKAGES);
    let word = |path: &Path| quoted(&path.to_string_lossy());
    let mut line = format!("{} -m pip install --quiet --target {}", word(&python), word(&packages));
    dependencies.iter().for_each(|package| line.push_str(&format!(" {}", quoted(package))));
    line.push_str(&format!(" && jarvis mcp add {}", name.chars().take(SERVER_NAME).collect::<String>()));
    if replaces {
        line.push_str(" --replace");
    }
    for path in needs.iter().chain([&folder]) {
        line.push_str(&format!(" --read {}", word(path)));
    }
    let variable = format!("PYTHONPATH={}", packages.to_string_lossy());
    line.push_str(&format!(" --env {}", quoted(&variable)));
    line.push_str(&format!(" -- {} {}", word(&python), word(&folder.join(project::ENTRY))));
    Some(line)
}

/// The server's own words are the best there is to mend it by.
fn failed(problem: &str, stderr: &str) -> CallError {
    let mut message = format!("the server was started and {problem}; nothing was kept");
    let stderr = stderr.trim();
    if !stderr.is_empty() {
        let skipped = stderr.chars().count().saturating_sub(STDERR_CHARS);
        let last: String = stderr.chars().skip(skipped).collect();
        message.push_str(&format!(". Its standard error: {last}"));
    }
    CallError::RespondToModel(ErrorBody::new(ErrorKind::Sandbox, message))
}

fn dependencies(more: &[String]) -> Result<Vec<String>, CallError> {
    let name = |text: &str| text.split("==").next().unwrap_or_default().trim().to_ascii_lowercase();
    if let Some(own) = more.iter().find(|text| name(text) == "mcp") {
        return Err(usage(format!("{own}: the SDK is there already, as {SDK}")));
    }
    Ok(std::iter::once(SDK.to_owned()).chain(more.iter().map(|text| text.trim().to_owned())).collect())
}

/// Has Python read the code of all tools; it runs none of it.
async fn read(maker: &mut Maker<'_>, tools: &[Tool], wanted: &[project::Wanted]) -> Result<Vec<Body>, CallError> {
    if let Some(tool) = tools.iter().find(|tool| tool.code.len() > MOST_CODE) {
        return Err(usage(format!("the code of {} is longer than {MOST_CODE} bytes", tool.name)));
    }
    let input: Vec<Value> = (tools.iter().zip(wanted))
        .map(|(tool, wanted)| json!({"name": tool.name, "code": tool.code, "parameters": wanted.parameter_names()}))
        .collect();
    let checker = Checker::Python(include_str!("read.py"));
    let dispatch = maker.bootstrap.dispatch();
    let said = dispatch.read_by(checker, json!(input).to_string().as_bytes(), maker.approver, maker.cancel).await?;
    let Some(said) = said else {
        let body =
            ErrorBody::new(ErrorKind::Sandbox, "there is no Python 3.9 or later on this machine to make it with");
        return Err(CallError::RespondToModel(body.hint("a person installs Python, then try again")));
    };
    if !said.fine {
        let problem: String = said.stderr.trim().chars().take(1000).collect();
        return Err(usage(format!("nothing was made: {problem}")));
    }
    serde_json::from_str(&said.stdout)
        .map_err(|e| CallError::Fatal(ErrorBody::new(ErrorKind::Internal, format!("the reader of Python code: {e}"))))
}
