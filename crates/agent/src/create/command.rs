//! The tool `create_command`: a prompt with places for arguments, in `.jarvis/commands`. It is expanded with its examples,
//! and read from disk, before success is said.

use super::{Maker, Workshop, name, one_line, usage};
use crate::commands::Definition;
use jarvis_dispatch::{CallError, Making, Placed};
use jarvis_protocol::{ErrorBody, ErrorKind, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) const TOOL: &str = "create_command";

const DESCRIPTION_CHARS: usize = 300;
/// Characters of each expansion that the model is shown.
const SHOWN_CHARS: usize = 500;

#[derive(Deserialize)]
pub(super) struct Args {
    name: String,
    description: String,
    prompt: String,
    parameters: Option<Value>,
    examples: Vec<Value>,
    #[serde(default)]
    update: bool,
}

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: TOOL.to_owned(),
        description:
            "Keep a request that a person makes again and again as a command: they type /NAME ARGUMENTS. A person \
                      is asked."
                .to_owned(),
        parameters: json!({"type": "object", "required": ["name", "description", "prompt", "examples"], "additionalProperties": false,
            "properties": {
                "name": {"type": "string", "description": "a-z, 0-9 and `-`"},
                "description": {"type": "string"},
                "prompt": {"type": "string", "description": "what is asked; {{name}} where an argument goes"},
                "parameters": {"type": "object", "description": "JSON Schema of the arguments, type object"},
                "examples": {"type": "array", "minItems": 1, "maxItems": 10, "items": {"type": "object"},
                    "description": "arguments that it is tried with"},
                "update": {"type": "boolean", "description": "replace the command of this name"}}}),
    }
}

pub(super) async fn make(maker: &mut Maker<'_>, workshop: &Workshop, args: Args) -> Result<Value, CallError> {
    name::check(&args.name).map_err(usage)?;
    let description = one_line("the description", &args.description, DESCRIPTION_CHARS)?;
    if workshop.taken.contains(&args.name) {
        return Err(usage(format!("/{} is a command of jarvis's own; choose another name", args.name)));
    }
    let place = format!("commands/{}.json", args.name);
    let replaces = maker.free(&place, args.update)?;
    let mut definition =
        json!({"name": args.name, "description": description, "prompt": args.prompt, "examples": args.examples});
    if let Some(parameters) = args.parameters {
        definition["parameters"] = parameters;
    }
    let text = format!("{definition:#}\n");
    let command = Definition::parse(&text).map_err(|problem| usage(format!("nothing was made: {problem}")))?;
    let expanded = command.examples.iter().map(|example| command.expand(example)).collect::<Result<Vec<_>, _>>();
    let shown: Vec<String> =
        expanded.map_err(usage)?.iter().map(|text| text.chars().take(SHOWN_CHARS).collect()).collect();
    let making = Making { tool: TOOL, kind: "command", place: &place, replaces, note: None };
    let permit = maker.bootstrap.dispatch().may_make(&making, maker.approver, maker.cancel).await?;
    maker.bootstrap.dispatch().make(TOOL, permit, Placed::File(text.into_bytes()), maker.cancel).await?;
    if workshop.commands.load().get(&args.name).is_none_or(|found| found.definition != command) {
        let message = format!(".jarvis/{place} was written but is not read as it was meant");
        return Err(CallError::RespondToModel(ErrorBody::new(ErrorKind::Damaged, message)));
    }
    Ok(json!({"made": format!(".jarvis/{place}"), "replaced": replaces, "expanded": shown,
        "next": format!("a person types /{} in the chat, or runs: jarvis command run {}", args.name, args.name)}))
}
