//! The tool `create_skill`: instructions and scripts as a folder in `.jarvis/skills`. Each script is read by its own
//! interpreter in the jail before anything is written.

use super::{Maker, Workshop, name, one_line, usage};
use crate::skills::{Head, MOST_DESCRIPTION, render};
use jarvis_dispatch::{CallError, Checker, Making, NewFile, Placed};
use jarvis_protocol::{ErrorBody, ErrorKind, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) const TOOL: &str = "create_skill";

const MOST_INSTRUCTIONS: usize = 48 << 10;
const MOST_SCRIPTS: usize = 20;
const MOST_SCRIPT: usize = 256 << 10;

/// Reads a script and runs none of it.
const PYTHON: &str = "import sys\ntry:\n compile(sys.stdin.buffer.read(), 'script', 'exec', dont_inherit=True)\nexcept \
                      (SyntaxError, ValueError) as e:\n sys.exit(f'line {getattr(e, \"lineno\", None)}: {getattr(e, \"msg\", e)}')\n";

#[derive(Deserialize)]
pub(super) struct Args {
    name: String,
    description: String,
    instructions: String,
    #[serde(default)]
    scripts: Vec<Script>,
    #[serde(default)]
    update: bool,
}

#[derive(Deserialize)]
struct Script {
    filename: String,
    content: String,
}

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: TOOL.to_owned(),
        description: "Keep how something is done as a skill, for later conversations in this workspace: instructions, and \
                      scripts that they use. A person is asked. For a procedure that will be wanted again; what computes \
                      is a capability."
            .to_owned(),
        parameters: json!({"type": "object", "required": ["name", "description", "instructions"], "additionalProperties": false,
            "properties": {
                "name": {"type": "string", "description": "a-z, 0-9 and `-`, such as daily-standup"},
                "description": {"type": "string", "description": "what it does and when it is to be used: all that is seen before it is read"},
                "instructions": {"type": "string", "description": "Markdown; scripts are named as .jarvis/skills/NAME/scripts/FILE and run with shell_exec"},
                "scripts": {"type": "array", "maxItems": MOST_SCRIPTS, "items": {"type": "object", "required": ["filename", "content"],
                    "additionalProperties": false, "properties": {"filename": {"type": "string"}, "content": {"type": "string"}}}},
                "update": {"type": "boolean", "description": "replace the skill of this name, with all its scripts"}}}),
    }
}

pub(super) async fn make(maker: &mut Maker<'_>, workshop: &Workshop, args: Args) -> Result<Value, CallError> {
    name::check(&args.name).map_err(usage)?;
    let description = one_line("the description", &args.description, MOST_DESCRIPTION)?;
    let instructions = args.instructions.trim();
    if instructions.is_empty() || instructions.len() > MOST_INSTRUCTIONS || instructions.contains('\0') {
        let bytes = instructions.len();
        return Err(usage(format!("the instructions have {bytes} bytes; they are text of 1 to {MOST_INSTRUCTIONS}")));
    }
    check_files(&args.scripts)?;
    let place = format!("skills/{}", args.name);
    let replaces = maker.free(&place, args.update)?;
    let text =
        render(&Head { name: args.name.clone(), description: description.clone() }, instructions).map_err(usage)?;
    let mut checked = Vec::new();
    for script in &args.scripts {
        checked.push(json!({"file": format!("scripts/{}", script.filename), "checked": check(maker, script).await?}));
    }
    let note = match args.scripts.len() {
        0 => None,
        count => Some(format!("with {count} scripts")),
    };
    let making = Making { tool: TOOL, kind: "skill", place: &place, replaces, note: note.as_deref() };
    let permit = maker.bootstrap.dispatch().may_make(&making, maker.approver, maker.cancel).await?;
    let mut files = vec![NewFile { path: "SKILL.md".into(), bytes: text.into_bytes(), executable: false }];
    files.extend(args.scripts.into_iter().map(|script| NewFile {
        path: format!("scripts/{}", script.filename).into(),
        bytes: script.content.into_bytes(),
        executable: true,
    }));
    maker.bootstrap.dispatch().make(TOOL, permit, Placed::Folder(files), maker.cancel).await?;
    // As the next conversation will find it.
    let catalogue = workshop.skills.load();
    let found = catalogue.get(&args.name).filter(|s| s.instructions == instructions && s.description == description);
    if found.is_none() {
        let why = catalogue.broken.iter().find(|broken| broken.path.ends_with(&place)).map(|b| b.problem.as_str());
        let message =
            format!(".jarvis/{place} was written but is not read as it was meant: {}", why.unwrap_or("it differs"));
        return Err(CallError::RespondToModel(ErrorBody::new(ErrorKind::Damaged, message)));
    }
    Ok(json!({
        "made": format!(".jarvis/{place}/SKILL.md"), "replaced": replaces, "scripts": checked,
        "next": "it is listed from the next turn on, and can be read with skill now",
    }))
}

fn check_files(scripts: &[Script]) -> Result<(), CallError> {
    if scripts.len() > MOST_SCRIPTS {
        return Err(usage(format!("{} scripts; {MOST_SCRIPTS} is the most", scripts.len())));
    }
    let mut seen: Vec<String> = Vec::new();
    for script in scripts {
        name::check_file(&script.filename).map_err(usage)?;
        let folded = script.filename.to_lowercase();
        if seen.contains(&folded) {
            return Err(usage(format!("two scripts are called {}", script.filename)));
        }
        seen.push(folded);
        if script.content.trim().is_empty() || script.content.len() > MOST_SCRIPT || script.content.contains('\0') {
            return Err(usage(format!("{}: a script is text of 1 to {MOST_SCRIPT} bytes", script.filename)));
        }
    }
    Ok(())
}

/// By what it was read; an error of its own goes back with the line.
async fn check(maker: &mut Maker<'_>, script: &Script) -> Result<String, CallError> {
    let first = script.content.lines().next().filter(|line| line.starts_with("#!")).unwrap_or_default();
    let ending = script.filename.rsplit_once('.').map_or("", |(_, ending)| ending);
    let (checker, by) = match ending {
        "sh" | "bash" => (Checker::Shell, "bash -n"),
        "py" => (Checker::Python(PYTHON), "python's compiler"),
        _ if first.ends_with("bash") || first.ends_with("/sh") => (Checker::Shell, "bash -n"),
        _ if first.contains("python") => (Checker::Python(PYTHON), "python's compiler"),
        _ => return Ok("not checked: there is no reader for this kind here".to_owned()),
    };
    let dispatch = maker.bootstrap.dispatch();
    match dispatch.read_by(checker, script.content.as_bytes(), maker.approver, maker.cancel).await? {
        None => Ok(format!("not checked: {by} is not on this machine")),
        Some(said) if said.fine => Ok(by.to_owned()),
        Some(said) => {
            let problem: String = said.stderr.trim().chars().take(1000).collect();
            Err(usage(format!("{} has an error, nothing was made: {problem}", script.filename)))
        }
    }
}
