//! `jarvis command`: requests that are made again and again, each by its name.

use super::ask::Said;
use crate::cli::{Common, Place, Turn, unused_model};
use crate::error::{Outcome, usage};
use crate::home::Home;
use crate::{run, term, workshop};
use clap::Subcommand;
use jarvis_agent::{CommandCatalogue, PromptCommand};

const PLACES: &str = "\
A command is a file NAME.json in .jarvis/commands of the workspace, or in commands of jarvis's home; the nearest of a name \
counts. It holds name, description, prompt (with {{argument}} where one goes), parameters (JSON Schema) and examples. In a \
conversation it is /NAME ARGUMENTS.";

#[derive(Debug, Subcommand)]
#[command(
    after_help = format!("Examples:\n  jarvis command list\n  jarvis command run review src/main.rs focus=speed\n\n{PLACES}")
)]
pub enum Commands {
    /// All of them, and what is broken.
    #[command(arg = unused_model(), after_help = "Example:\n  jarvis command list --json")]
    List {
        #[command(flatten)]
        place: Place,
    },
    /// One of them, with its prompt.
    #[command(arg = unused_model(), after_help = "Example:\n  jarvis command show review")]
    Show {
        name: String,
        #[command(flatten)]
        place: Place,
    },
    /// Asks what it says, with these arguments: values, or name=value.
    #[command(after_help = "Example:\n  jarvis command run review src/main.rs focus=speed")]
    Run {
        name: String,
        arguments: Vec<String>,
        #[command(flatten)]
        turn: Box<Turn>,
    },
}

pub fn run(args: Commands, common: &Common) -> Outcome {
    let place = match &args {
        Commands::List { place } | Commands::Show { place, .. } => place,
        Commands::Run { turn, .. } => &turn.reach.place,
    };
    let home = Home::find()?;
    run::enter(place)?;
    let catalogue = workshop::commands(&home, &run::workspace()?).load();
    match args {
        Commands::List { .. } => list(&catalogue, common.json),
        Commands::Show { name, .. } => show(find(&catalogue, &name)?, common.json),
        Commands::Run { name, arguments, mut turn } => {
            let text = expand(find(&catalogue, &name)?, &arguments.join(" "))?;
            // It was entered already, and a relative one would be looked for inside of itself.
            turn.reach.place.workspace = Some(run::workspace()?);
            super::ask::run(Said { words: vec![text], meant: None, images: Vec::new() }, common, *turn, false)
        }
    }
}

/// What a person asks by it.
pub fn expand(command: &PromptCommand, arguments: &str) -> Outcome<String> {
    let definition = &command.definition;
    let read = definition.read_arguments(arguments).and_then(|args| definition.expand(&args));
    read.map_err(|problem| {
        let names: Vec<String> = definition.arguments().map(|name| format!("{name}=…")).collect();
        usage(format!("{}: {problem}", definition.name), format!("{} {}", definition.name, names.join(" ")))
    })
}

fn list(catalogue: &CommandCatalogue, json: bool) -> Outcome {
    if json {
        return term::json(catalogue);
    }
    for command in &catalogue.commands {
        term::line(format_args!("{}  ({})", term::flat(&command.definition.name), command.origin.as_str()))?;
        term::line(format_args!("  {}", term::flat(&command.definition.description)))?;
    }
    if catalogue.commands.is_empty() {
        term::status("there are no commands yet");
    }
    workshop::tell("command", &catalogue.broken);
    Ok(())
}

fn find<'a>(catalogue: &'a CommandCatalogue, name: &str) -> Outcome<&'a PromptCommand> {
    catalogue.get(name).ok_or_else(|| workshop::missing("command", "command", name, &catalogue.broken))
}

fn show(command: &PromptCommand, json: bool) -> Outcome {
    if json {
        return term::json(command);
    }
    let definition = &command.definition;
    term::line(format_args!("{}: {}", term::flat(&definition.name), term::flat(&definition.description)))?;
    term::line(format_args!("from: {}", term::flat(&command.path.display().to_string())))?;
    term::line(format_args!("arguments: {}", definition.parameters))?;
    term::line(format_args!("\n{}", definition.prompt))
}
