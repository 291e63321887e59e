//! `jarvis skill`: how things are done here, as a model finds it.

use crate::cli::{Common, Place, unused_model};
use crate::error::{Outcome, disk};
use crate::home::Home;
use crate::{run, term, workshop};
use clap::Subcommand;
use jarvis_agent::{Origin, Skill, SkillCatalogue};
use serde_json::json;
use std::path::Path;

const PLACES: &str = "\
A skill is a folder NAME with a file SKILL.md in .jarvis/skills of the workspace, or in skills of jarvis's home; the nearest of \
a name counts. Its head, between two lines of ---, is YAML with name and description; below it stand the instructions. Skills \
made for other agents in this format work as they are.";

#[derive(Debug, Subcommand)]
#[command(
    arg = unused_model(),
    after_help = format!("Examples:\n  jarvis skill list\n  jarvis skill show daily-standup\n\n{PLACES}")
)]
pub enum Skills {
    /// All of them, and what is broken.
    #[command(after_help = "Example:\n  jarvis skill list --json")]
    List {
        #[command(flatten)]
        place: Place,
    },
    /// One of them, with its instructions.
    #[command(after_help = "Example:\n  jarvis skill show daily-standup")]
    Show {
        name: String,
        #[command(flatten)]
        place: Place,
    },
    /// Take one away. It is moved to .jarvis/trash (of the home, where it lies there) and can be moved back.
    #[command(after_help = "Example:\n  jarvis skill rm daily-standup")]
    Rm {
        name: String,
        #[command(flatten)]
        place: Place,
    },
}

pub fn run(args: Skills, common: &Common) -> Outcome {
    let (Skills::List { place } | Skills::Show { place, .. } | Skills::Rm { place, .. }) = &args;
    let home = Home::find()?;
    run::enter(place)?;
    let catalogue = workshop::skills(&home, &run::workspace()?).load();
    match args {
        Skills::List { .. } => list(&catalogue, common.json),
        Skills::Show { name, .. } => show(find(&catalogue, &name)?, common.json),
        Skills::Rm { name, .. } => remove(find(&catalogue, &name)?, &home, common.json),
    }
}

fn list(catalogue: &SkillCatalogue, json: bool) -> Outcome {
    if json {
        let skills: Vec<_> = catalogue.skills.iter().map(about).collect();
        return term::json(&json!({"skills": skills, "broken": catalogue.broken}));
    }
    for skill in &catalogue.skills {
        term::line(format_args!("{}  ({})", term::flat(&skill.name), skill.origin.as_str()))?;
        term::line(format_args!("  {}", term::flat(&skill.description)))?;
    }
    if catalogue.skills.is_empty() {
        term::status("there are no skills yet");
    }
    workshop::tell("skill", &catalogue.broken);
    Ok(())
}

/// Without the instructions.
fn about(skill: &Skill) -> serde_json::Value {
    let mut shown = json!(skill);
    if let Some(object) = shown.as_object_mut() {
        object.remove("instructions");
    }
    shown
}

fn find<'a>(catalogue: &'a SkillCatalogue, name: &str) -> Outcome<&'a Skill> {
    catalogue.get(name).ok_or_else(|| workshop::missing("skill", "skill", name, &catalogue.broken))
}

fn show(skill: &Skill, json: bool) -> Outcome {
    if json {
        return term::json(skill);
    }
    term::line(format_args!("{}: {}", term::flat(&skill.name), term::flat(&skill.description)))?;
    term::line(format_args!("from: {}", term::flat(&skill.path.display().to_string())))?;
    for file in &skill.files {
        term::line(format_args!("file: {}", term::flat(file)))?;
    }
    term::line(format_args!("\n{}", skill.instructions))
}

fn remove(skill: &Skill, home: &Home, json: bool) -> Outcome {
    let above = match skill.origin {
        Origin::Workspace => run::workspace()?.join(".jarvis"),
        Origin::Home | Origin::BuiltIn => home.root().to_owned(),
    };
    run::record(home, &skill.name, json!({"change": "remove", "what": "skill", "from": skill.path}))?;
    let to = above.join("trash").join(format!("{}-{}", skill.name, jiff::Timestamp::now().as_millisecond()));
    moved(&skill.path, &to).map_err(|e| disk(&skill.path, &e))?;
    if json {
        return term::json(&json!({"removed": skill.name, "moved_to": to}));
    }
    term::status(format!("{} is in {} now", skill.name, to.display()));
    Ok(())
}

fn moved(from: &Path, to: &Path) -> std::io::Result<()> {
    if let Some(above) = to.parent() {
        std::fs::create_dir_all(above)?;
    }
    std::fs::rename(from, to)
}
