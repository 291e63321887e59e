//! `jarvis agents`: the subagents that a model can give tasks to.

use crate::cli::{Common, Place, unused_model};
use crate::error::Outcome;
use crate::home::Home;
use crate::{run, term, workshop};
use clap::Subcommand;
use jarvis_agent::{Agent, Catalogue};
use serde_json::json;

const PLACES: &str = "\
A subagent is a file NAME.md in .jarvis/agents of the workspace, or in agents of jarvis's home; the nearest of a name counts. \
Its head, between two lines of ---, holds: description, tools (a list; nothing else can be used), max_iterations (1 to 100), \
context (window, summary, memory or hybrid). Below it stands the prompt.";

#[derive(Debug, Subcommand)]
#[command(
    arg = unused_model(),
    after_help = format!("Examples:\n  jarvis agents list\n  jarvis agents show coder\n\n{PLACES}")
)]
pub enum Agents {
    /// All of them, with what each may use.
    #[command(after_help = "Example:\n  jarvis agents list --json")]
    List {
        #[command(flatten)]
        place: Place,
    },
    /// One of them, with its prompt.
    #[command(after_help = "Example:\n  jarvis agents show coder")]
    Show {
        name: String,
        #[command(flatten)]
        place: Place,
    },
}

pub fn run(args: Agents, common: &Common) -> Outcome {
    let (place, name) = match args {
        Agents::List { place } => (place, None),
        Agents::Show { name, place } => (place, Some(name)),
    };
    let home = Home::find()?;
    run::enter(&place)?;
    let catalogue = run::agents(&home)?.load();
    match name {
        None => list(&catalogue, common.json),
        Some(name) => show(&catalogue, &name, common.json),
    }
}

pub fn list(catalogue: &Catalogue, json: bool) -> Outcome {
    if json {
        let agents: Vec<_> = catalogue.agents.iter().map(about).collect();
        return term::json(&json!({"agents": agents, "broken": catalogue.broken}));
    }
    for agent in &catalogue.agents {
        term::line(format_args!("{}  ({})", term::flat(&agent.name), agent.origin.as_str()))?;
        term::line(format_args!("  {}", term::flat(&agent.description)))?;
        term::line(format_args!("  {}", agent.tools.join(", ")))?;
    }
    workshop::tell("agent", &catalogue.broken);
    Ok(())
}

/// Without the prompt.
fn about(agent: &Agent) -> serde_json::Value {
    let mut shown = json!(agent);
    if let Some(object) = shown.as_object_mut() {
        object.remove("prompt");
    }
    shown
}

fn show(catalogue: &Catalogue, name: &str, json: bool) -> Outcome {
    let missing = || workshop::missing("agents", "agent", name, &catalogue.broken);
    let agent = catalogue.get(name).ok_or_else(missing)?;
    if json {
        return term::json(agent);
    }
    term::line(format_args!("{}: {}", term::flat(&agent.name), term::flat(&agent.description)))?;
    let origin =
        agent.path.as_ref().map_or_else(|| agent.origin.as_str().to_owned(), |path| path.display().to_string());
    term::line(format_args!("from: {}", term::flat(&origin)))?;
    term::line(format_args!("tools: {}", agent.tools.join(", ")))?;
    term::line(format_args!("rounds: {}", agent.max_iterations))?;
    let context = agent.context.map_or("as in the session", jarvis_agent::Strategy::as_str);
    term::line(format_args!("context: {context}"))?;
    term::line(format_args!("\n{}", agent.prompt))
}
