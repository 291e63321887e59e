//! The tool `create_rule`: one rule of permissions as a file in `.jarvis/rules`. It decides its own examples, and then the
//! rules as they are on disk, before success is said.

use super::{Maker, name, one_line, usage};
use jarvis_dispatch::{
    CallError, Making, Placed, RuleAction, RuleCondition, RuleEffect, RuleEntry, RuleExample, RuleFile, RuleReason,
};
use jarvis_protocol::{ErrorBody, ErrorKind, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) const TOOL: &str = "create_rule";

const DESCRIPTION_CHARS: usize = 500;
const PRIORITY: u8 = 50;

#[derive(Deserialize)]
pub(super) struct Args {
    name: String,
    description: String,
    effect: RuleEffect,
    condition: RuleCondition,
    examples: Vec<RuleExample>,
    priority: Option<u8>,
    #[serde(default)]
    update: bool,
}

pub(super) fn spec() -> ToolSpec {
    let patterns = |what: &str| json!({"type": "array", "items": {"type": "string"}, "description": what});
    ToolSpec {
        name: TOOL.to_owned(),
        description:
            "Make a rule for what agents may do in this workspace: deny, ask (a person, each time) or allow. A \
                      person is asked. Deny wins over ask, ask over allow; allow never opens what is closed by config."
                .to_owned(),
        parameters: json!({"type": "object", "required": ["name", "description", "effect", "condition", "examples"],
            "additionalProperties": false, "properties": {
                "name": {"type": "string", "description": "a-z, 0-9 and `-`"},
                "description": {"type": "string", "description": "why; it is told with every refusal"},
                "effect": {"enum": ["allow", "ask", "deny"]},
                "condition": {"type": "object", "additionalProperties": false, "minProperties": 1,
                    "description": "all that is given must fit; of one list, any; * stands for anything",
                    "properties": {"tools": patterns("names of tools or capabilities, such as file_*"),
                        "paths": patterns("of the workspace, such as secret/**"), "hosts": patterns("such as *.example.com"),
                        "commands": patterns("simple commands of shell_exec, such as git push*")}},
                "examples": {"type": "array", "minItems": 2, "maxItems": 20, "description": "calls that decide whether the rule is right: at least \
                    one that the condition fits and one that it does not",
                    "items": {"type": "object", "required": ["given", "expect"], "additionalProperties": false, "properties": {
                        "given": {"type": "object", "required": ["tool"], "additionalProperties": false, "properties": {
                            "tool": {"type": "string"}, "path": {"type": "string"}, "host": {"type": "string"}, "command": {"type": "string"}}},
                        "expect": {"type": "boolean"}}}},
                "priority": {"type": "integer", "minimum": 1, "maximum": 100, "description": "50 where it is left out"},
                "update": {"type": "boolean", "description": "replace the rule of this name"}}}),
    }
}

pub(super) async fn make(maker: &mut Maker<'_>, args: Args) -> Result<Value, CallError> {
    name::check(&args.name).map_err(usage)?;
    let description = one_line("the description", &args.description, DESCRIPTION_CHARS)?;
    let place = format!("rules/{}.yaml", args.name);
    let replaces = maker.free(&place, args.update)?;
    let reason = description.clone();
    let action = RuleAction::Reasoned(match args.effect {
        RuleEffect::Allow => RuleReason::Allow(reason),
        RuleEffect::Ask => RuleReason::Ask(reason),
        RuleEffect::Deny => RuleReason::Deny(reason),
    });
    let rule = RuleEntry {
        id: args.name.clone(),
        description,
        when: jarvis_dispatch::RULES_ASKED_AT.to_owned(),
        condition: args.condition,
        action,
        priority: args.priority.unwrap_or(PRIORITY),
        examples: args.examples,
    };
    let file = RuleFile { domain: jarvis_dispatch::RULES_OF_PERMISSIONS.to_owned(), rules: vec![rule] };
    let text = serde_saphyr::to_string(&file).map_err(|e| usage(format!("the rule cannot be written as YAML: {e}")))?;
    let dispatch = maker.bootstrap.dispatch();
    // What will be read is checked, not what was meant.
    let read =
        dispatch.check_rules(text.as_bytes()).map_err(|problem| usage(format!("nothing was made: {problem}")))?;
    if read != file {
        return Err(usage("nothing was made: the rule reads otherwise than it was said"));
    }
    if let Some(path) = dispatch.rules().book().path_of(&args.name).filter(|path| !path.ends_with(&place)) {
        return Err(usage(format!("[RULE_CONFLICT] rule-id {} is in {} already", args.name, path.display())));
    }
    let says = format!("{} {}", effect_word(args.effect), condition_words(&file.rules[0].condition));
    let making = Making { tool: TOOL, kind: "rule", place: &place, replaces, note: Some(&says) };
    let permit = dispatch.may_make(&making, maker.approver, maker.cancel).await?;
    let by_person = permit.by_person();
    dispatch.make(TOOL, permit, Placed::File(text.clone().into_bytes()), maker.cancel).await?;
    let widens = args.effect == RuleEffect::Allow;
    if widens && by_person {
        let kept = dispatch.rules().allow(text.as_bytes());
        kept.map_err(|e| {
            CallError::Fatal(ErrorBody::new(ErrorKind::Disk, format!("the person's yes is not kept: {e}")))
        })?;
    }
    let book = dispatch.rules().book();
    let in_force = book.files.iter().find(|kept| kept.path.ends_with(&place));
    let Some(kept) = in_force else {
        let why = book
            .broken
            .iter()
            .find(|broken| broken.path.ends_with(&place))
            .map_or("it is not there", |b| b.problem.as_str());
        let message = format!(".jarvis/{place} was written but is not in force: {why}");
        return Err(CallError::RespondToModel(ErrorBody::new(ErrorKind::Damaged, message)));
    };
    let next = match (widens, kept.may_allow) {
        (true, false) => "it allows nothing yet: that needs the yes of a person who is asked, which nobody was here",
        _ => "it decides from the next call on",
    };
    Ok(json!({"made": format!(".jarvis/{place}"), "replaced": replaces, "rule": says, "next": next}))
}

fn effect_word(effect: RuleEffect) -> &'static str {
    match effect {
        RuleEffect::Allow => "allow",
        RuleEffect::Ask => "ask for",
        RuleEffect::Deny => "deny",
    }
}

/// For the question to a person.
fn condition_words(condition: &RuleCondition) -> String {
    let RuleCondition { tools, paths, hosts, commands } = condition;
    let parts = [("tools", tools), ("paths", paths), ("hosts", hosts), ("commands", commands)];
    let told = parts.iter().filter(|(_, patterns)| !patterns.is_empty());
    told.map(|(what, patterns)| format!("{what} {}", patterns.join(", "))).collect::<Vec<_>>().join("; ")
}
