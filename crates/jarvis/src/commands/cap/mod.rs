//! `jarvis cap`: what jarvis has learned to do.

mod calls;
mod change;
mod check;
mod diff;
mod doctor;
mod export;
mod fetch;
mod import;
mod look;
mod merge;
mod register;
mod repair;
mod search;
mod stats;
mod test;
mod told;
mod unify;

use crate::cli::{Common, unused_model};
use crate::error::{Failure, Outcome};
use crate::home::Home;
use crate::{run, term};
pub use change::arguments;
use clap::Subcommand;
use jarvis_protocol::{Capability, CapabilityName, ErrorBody, ErrorKind, Status, Version};
use jarvis_registry::{Registry, RegistryError, Stats};
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
    #[command(
        after_help = "Example:\n  jarvis cap search greatest common divisor\n\nWhat hardly fits is listed too, as what comes nearest. With --json: \"fits\" of each hit,\nand \"nothing_fits\" where that is the answer."
    )]
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
    /// What is there twice, unused, failing, too specific or broken, each with what settles it; and what reuse saved.
    #[command(after_help = "Examples:\n  jarvis cap doctor\n  jarvis cap doctor --run --json")]
    Doctor(doctor::Doctor),
    /// Makes others one with KEEP: it passes the examples of all and answers to all names, and they are retired.
    #[command(arg = unify::model(), after_help = unify::HELP)]
    Unify(unify::Unify),
    /// Runs, failures and times; of one capability by version and by who ran it. With --health the measures of the library.
    #[command(
        after_help = "Examples:\n  jarvis cap stats\n  jarvis cap stats fibonacci\n  jarvis cap stats --health --run --json"
    )]
    Stats(stats::Stats),
    /// Lets a capability be found and run (again).
    #[command(after_help = "Example:\n  jarvis cap enable fibonacci")]
    Enable(change::Enable),
    /// Keeps a capability from being found and run.
    #[command(after_help = "Example:\n  jarvis cap disable fibonacci")]
    Disable { name: String },
    /// Takes a capability out of use for good, and keeps it; `enable` brings it back.
    #[command(after_help = "Example:\n  jarvis cap retire fibonacci")]
    Retire { name: String },
    /// Looks whether capabilities are what was verified and still pass. One that was changed by hand becomes a new
    /// version, a quarantined one that passes comes back.
    #[command(after_help = check::HELP)]
    Check(check::Check),
    /// Runs the recorded examples and shows what each gave; changes nothing.
    #[command(after_help = test::HELP)]
    Test(test::Test),
    /// Has the model mend a capability that fails in use: the calls that failed must run then.
    #[command(arg = repair::model(), after_help = repair::HELP)]
    Repair(repair::Repair),
    /// Settles a conflict that `git pull` left: which version of a capability stays. The last one ends the merge.
    #[command(after_help = "Example:\n  jarvis cap merge fibonacci --theirs")]
    Merge(merge::Merge),
    /// Removes a capability; its history stays in git.
    #[command(after_help = "Example:\n  jarvis cap rm fibonacci")]
    Rm { name: String },
}

pub fn run(args: Cap, common: &Common) -> Outcome {
    let home = Home::find()?;
    let json = common.json;
    match args {
        Cap::List => look::list(&run::registry(&home)?, json),
        Cap::Search { query } => search::search(&home, &query.join(" "), json),
        Cap::Show { name, code } => look::show(&home, &name, code, json),
        Cap::History { name } => look::history(&run::registry(&home)?, &name, json),
        Cap::Diff(args) => diff::diff(&run::registry(&home)?, &args, json),
        Cap::Import(args) => import::import(&home, &args, json),
        Cap::Export(args) => export::export(&home, &args, json),
        Cap::Enable(args) => change::enable(&home, &args, json),
        Cap::Disable { name } => change::set_status(&home, &name, Status::Disabled, json),
        Cap::Retire { name } => change::set_status(&home, &name, Status::Retired, json),
        Cap::Check(args) => check::check(&home, &args, json),
        Cap::Test(args) => test::test(&home, &args, json),
        Cap::Repair(args) => repair::repair(&home, args, common),
        Cap::Rm { name } => change::remove(&home, &name, json),
        Cap::Merge(args) => merge::settle(&home, &args, json),
        Cap::Run(args) => change::execute(&home, &args, json),
        Cap::Register(args) => register::register(&home, &args, json),
        Cap::Doctor(args) => doctor::doctor(&home, &args, json),
        Cap::Unify(args) => unify::unify(&home, &args, common),
        Cap::Stats(args) => stats::stats(&home, &args, json),
        Cap::Rollback(args) => change::roll_back(&home, &args, json),
    }
}

fn existing(registry: &Registry, name: &str) -> Outcome<Capability> {
    let unknown = || {
        let body = ErrorBody::new(ErrorKind::NotFound, format!("no capability is called `{name}`"));
        Failure::from(body.hint("`jarvis cap list` shows what there is"))
    };
    let valid = CapabilityName::new(name).map_err(|_| unknown())?;
    match (registry.get(&valid)?, registry.resolve(&valid)?) {
        (Some(capability), _) => Ok(capability),
        (None, None) => Err(unknown()),
        // What changes a capability must name it.
        (None, Some(bearer)) => {
            let body = ErrorBody::new(ErrorKind::NotFound, format!("no capability is called `{name}`"));
            Err(body.hint(format!("it is another name of `{}`", bearer.name)).into())
        }
    }
}

/// The same for looking and running, where another name will do.
fn answering(registry: &Registry, name: &str) -> Outcome<Capability> {
    let by_alias = CapabilityName::new(name).ok().map(|name| registry.resolve(&name)).transpose()?.flatten();
    by_alias.map_or_else(|| existing(registry, name), Ok)
}

fn done(json: bool, shown: &Value, words: String) -> Outcome {
    if json {
        return term::json(shown);
    }
    term::status(words);
    Ok(())
}

/// A database that cannot be read hides no capability: it is told, and nothing is counted.
fn counted(registry: &Registry, name: &CapabilityName) -> Outcome<Stats> {
    match registry.stats(name) {
        Err(error @ RegistryError::Statistics { .. }) => {
            term::note(format!("{name}: no statistics: {error} (see jarvis doctor)"));
            Ok(Stats::default())
        }
        other => Ok(other?),
    }
}

fn version(raw: &str) -> Result<Version, String> {
    raw.parse()
        .map_err(|_| "a version is three numbers, such as 1.2.0; `jarvis cap history NAME` lists them".to_owned())
}
