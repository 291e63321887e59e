//! `jarvis cap`: what jarvis has learned to do.

mod change;
mod diff;
mod export;
mod fetch;
mod import;
mod look;
mod register;

use crate::cli::{Common, unused_model};
use crate::error::{Failure, Outcome};
use crate::home::Home;
use crate::{run, term};
pub use change::arguments;
use clap::Subcommand;
use jarvis_protocol::{Capability, CapabilityName, ErrorBody, ErrorKind, Status};
use jarvis_registry::Registry;
use serde_json::Value;

#[derive(Debug, Subcommand)]
#[command(
    arg = unused_model(),
    after_help = "Examples:\n  jarvis cap list\n  jarvis cap show fibonacci --code\n  jarvis cap run fibonacci --args '{\"n\": 90}'"
)]
pub enum Cap {
    /// Everything registered.
    #[command(after_help = "Example:\n  jarvis cap list --json")]
    List,
    /// What fits a request, best first; English and Chinese.
    #[command(after_help = "Example:\n  jarvis cap search greatest common divisor")]
    Search {
        #[arg(required = true)]
        query: Vec<String>,
    },
    /// One capability: definition, statistics and, if asked, its code.
    #[command(after_help = "Example:\n  jarvis cap show fibonacci --code")]
    Show {
        name: String,
        #[arg(long)]
        code: bool,
    },
    /// Runs a capability in the sandbox and prints its result.
    #[command(
        after_help = "Examples:\n  jarvis cap run fibonacci --args '{\"n\": 90}'\n  jarvis cap run fibonacci --args @args.json"
    )]
    Run(change::Run),
    /// Registers a definition and its code, after the same checks and verification as anything a model writes.
    #[command(after_help = register::HELP)]
    Register(register::Register),
    /// The versions of a capability.
    #[command(after_help = "Example:\n  jarvis cap history fibonacci")]
    History { name: String },
    /// What changed from one version to another: what it may reach, its definition, its code.
    #[command(after_help = diff::HELP)]
    Diff(diff::Diff),
    /// Takes over capabilities from elsewhere, quarantined until they are checked.
    #[command(after_help = import::HELP)]
    Import(import::Import),
    /// Writes capabilities as a package that another home can import.
    #[command(after_help = export::HELP)]
    Export(export::Export),
    /// Puts an earlier version back, as a new one, after the same checks; without VERSION the one before the current.
    #[command(after_help = "Examples:\n  jarvis cap rollback fibonacci\n  jarvis cap rollback fibonacci 1.0.0")]
    Rollback(change::Rollback),
    /// Lets a capability be found and run (again).
    #[command(after_help = "Example:\n  jarvis cap enable fibonacci")]
    Enable { name: String },
    /// Keeps a capability from being found and run.
    #[command(after_help = "Example:\n  jarvis cap disable fibonacci")]
    Disable { name: String },
    /// Removes a capability; its history stays in git.
    #[command(after_help = "Example:\n  jarvis cap rm fibonacci")]
    Rm { name: String },
}

pub fn run(args: Cap, common: &Common) -> Outcome {
    let home = Home::find()?;
    let json = common.json;
    match args {
        Cap::List => look::list(&run::registry(&home)?, json),
        Cap::Search { query } => look::search(&run::registry(&home)?, &query.join(" "), json),
        Cap::Show { name, code } => look::show(&run::registry(&home)?, &name, code, json),
        Cap::History { name } => look::history(&run::registry(&home)?, &name, json),
        Cap::Diff(args) => diff::diff(&run::registry(&home)?, &args, json),
        Cap::Import(args) => import::import(&home, &args, json),
        Cap::Export(args) => export::export(&home, &args, json),
        Cap::Enable { name } => change::set_status(&home, &name, Status::Active, json),
        Cap::Disable { name } => change::set_status(&home, &name, Status::Disabled, json),
        Cap::Rm { name } => change::remove(&home, &name, json),
        Cap::Run(args) => change::execute(&home, &args, json),
        Cap::Register(args) => register::register(&home, &args, json),
        Cap::Rollback(args) => change::roll_back(&home, &args, json),
    }
}

fn existing(registry: &Registry, name: &str) -> Outcome<Capability> {
    let unknown = || {
        let body = ErrorBody::new(ErrorKind::NotFound, format!("no capability is called `{name}`"));
        Failure::from(body.hint("`jarvis cap list` shows what there is"))
    };
    let valid = CapabilityName::new(name).map_err(|_| unknown())?;
    registry.get(&valid)?.ok_or_else(unknown)
}

fn done(json: bool, shown: &Value, words: String) -> Outcome {
    if json {
        return term::json(shown);
    }
    term::status(words);
    Ok(())
}
