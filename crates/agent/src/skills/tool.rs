//! The tool `skill`: gives the instructions of one skill, or one of its files.

use super::catalogue::SkillFolders;
use super::definition::Skill;
use crate::bootstrap::Did;
use jarvis_dispatch::{CallError, Dispatch, Origin, check_arguments, read_text};
use jarvis_model::Tool;
use jarvis_protocol::{ErrorBody, ErrorKind, ToolSpec};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::LazyLock;

pub(crate) const SKILL: &str = "skill";

/// Skills that a prompt names; the description of each is cut to this.
const MOST_NAMED: usize = 50;
const DESCRIPTION_CHARS: usize = 300;

static SPEC: LazyLock<Tool> = LazyLock::new(|| {
    Tool::from(ToolSpec {
        name: SKILL.to_owned(),
        description:
            "Read the instructions of a skill, or with `file` one of the files that belong to it. Before you do \
                      anything that a skill fits."
                .to_owned(),
        parameters: json!({"type": "object", "required": ["name"], "additionalProperties": false, "properties": {
            "name": {"type": "string"}, "file": {"type": "string", "description": "such as scripts/collect.sh"}}}),
    })
});

pub(crate) fn spec() -> Tool {
    SPEC.clone()
}

/// What a model knows of the skills before it reads one. None: there is none.
pub(crate) fn prompt(skills: &[Skill]) -> Option<String> {
    if skills.is_empty() {
        return None;
    }
    let mut text =
        "Skills say how something is done here. When one fits the request, read it with skill first and do as it \
                    says, within these rules. There are:"
            .to_owned();
    for skill in skills.iter().take(MOST_NAMED) {
        let description: String = skill.description.chars().take(DESCRIPTION_CHARS).collect();
        text.push_str(&format!("\n- {}: {description}", skill.name));
    }
    if skills.len() > MOST_NAMED {
        text.push_str(&format!("\n(and {} more, which only their names would find)", skills.len() - MOST_NAMED));
    }
    Some(text)
}

pub(crate) async fn call(folders: &SkillFolders, dispatch: &Dispatch, args: &Value) -> Result<(Value, Did), CallError> {
    check_arguments(&spec().parameters, args)
        .map_err(|problem| CallError::respond(ErrorKind::Usage, format!("{SKILL}: {problem}")))?;
    let name = args["name"].as_str().unwrap_or_default();
    let file = args["file"].as_str();
    let value = dispatch.own_tool(SKILL, args.clone(), async { read(folders, name, file).map(Value::String) }).await?;
    Ok((value, Did::Other))
}

fn read(folders: &SkillFolders, name: &str, file: Option<&str>) -> Result<String, ErrorBody> {
    let catalogue = folders.load();
    let Some(skill) = catalogue.get(name) else {
        let names: Vec<&str> = catalogue.skills.iter().map(|skill| skill.name.as_str()).collect();
        let shown: String = name.chars().take(64).collect();
        let body = ErrorBody::new(ErrorKind::NotFound, format!("no skill is called `{shown}`"));
        return Err(if names.is_empty() { body } else { body.hint(format!("there are {}", names.join(", "))) });
    };
    let Some(file) = file else { return Ok(told(skill)) };
    // Only what the skill names, so a path leads nowhere else.
    if !skill.files.iter().any(|own| own == file) {
        let shown: String = file.chars().take(100).collect();
        let body = ErrorBody::new(ErrorKind::NotFound, format!("`{name}` has no file `{shown}`"));
        return Err(body.hint(format!("it has {}", skill.files.join(", "))));
    }
    read_text(&skill.path.join(Path::new(file)), skill.origin)
        .map_err(|problem| ErrorBody::new(ErrorKind::Damaged, format!("{file}: {problem}")))
}

fn told(skill: &Skill) -> String {
    let mut text = skill.instructions.clone();
    if skill.files.is_empty() {
        return text;
    }
    text.push_str(&format!("\n\n[files of this skill: {}", skill.files.join(", ")));
    text.push_str(&match skill.origin {
        Origin::Workspace => {
            format!("; they lie in .jarvis/skills/{}, and scripts are run with shell_exec]", skill.name)
        }
        Origin::Home | Origin::BuiltIn => {
            "; read one with `file`; a script is run by giving its text to shell_exec]".to_owned()
        }
    });
    text
}
