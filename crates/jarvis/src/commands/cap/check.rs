//! `jarvis cap check`: are capabilities what was verified, and do they still pass?

use super::existing;
use super::told::Told;
use crate::cli::Reach;
use crate::error::{Failure, Outcome, clean, usage};
use crate::home::Home;
use crate::{config, run, term};
use clap::Args;
use jarvis_forge::{Forge, ForgeError, Rechecked};
use jarvis_protocol::{CapabilityName, Example, Origin};
use jarvis_registry::Registry;
use serde_json::{Value, json};

pub const HELP: &str = "Examples:\n  jarvis cap check fibonacci\n  jarvis cap check --all --json\n  \
jarvis cap check fibonacci --example '{\"args\": {\"n\": 10}, \"returns\": 55}'\n\n\
Definition, code and digest are read, and every example runs in the sandbox. What is disabled or retired is passed over\n\
by --all. The exit code is 1 where one does not pass.";

/// Which ones.
#[derive(Debug, Args)]
pub struct Which {
    /// Their names.
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "NAME")]
    pub names: Vec<String>,
    /// Every one that is active or quarantined.
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    which: Which,
    /// Adds an example, as in a definition; it makes a new version. For one NAME.
    #[arg(long = "example", value_name = "JSON", conflicts_with = "all")]
    examples: Vec<String>,
    #[command(flatten)]
    reach: Reach,
}

/// An entry that cannot be read, and what is wrong with it.
pub type Damage = (String, String);

/// The names, each of something that is there; and what is wrong with entries that cannot be read.
pub fn chosen(registry: &Registry, which: &Which) -> Outcome<(Vec<CapabilityName>, Vec<Damage>)> {
    if !which.all {
        let found = which.names.iter().map(|name| existing(registry, name).map(|found| found.name));
        return Ok((found.collect::<Outcome<_>>()?, Vec::new()));
    }
    use jarvis_protocol::Status::{Active, Quarantined};
    let listing = registry.list()?;
    let used = listing.capabilities.into_iter().filter(|c| matches!(c.status, Active | Quarantined));
    let damaged = listing.damaged.into_iter().map(|d| (d.entry, d.problem)).collect();
    Ok((used.map(|c| c.name).collect(), damaged))
}

/// What `--example` says, by a person.
pub fn examples(raw: &[String]) -> Outcome<Vec<Example>> {
    let hint = "for example --example '{\"args\": {\"n\": 10}, \"returns\": 55}'";
    let read = |text: &String| {
        let value: Value =
            serde_json::from_str(text).map_err(|e| usage(format!("--example is not JSON: {e}"), hint))?;
        let keys = ["args", "returns", "matches", "held_out"];
        let other = value.as_object().and_then(|object| object.keys().find(|key| !keys.contains(&key.as_str())));
        if let Some(key) = other {
            return Err(usage(format!("--example has no key `{key}` (known: {})", keys.join(", ")), hint));
        }
        let example: Example =
            serde_json::from_value(value).map_err(|e| usage(format!("--example is no example: {e}"), hint))?;
        Ok(Example { origin: Origin::Person, ..example })
    };
    raw.iter().map(read).collect()
}

pub fn check(home: &Home, args: &Check, json: bool) -> Outcome {
    let given = examples(&args.examples)?;
    if !given.is_empty() && args.which.names.len() != 1 {
        return Err(usage("--example belongs to one capability", "name one: jarvis cap check NAME --example JSON"));
    }
    run::enter(&args.reach.place)?;
    let forge = run::forge(&config::load(home)?, &args.reach, home)?;
    let (names, damaged) = chosen(forge.dispatch().registry(), &args.which)?;
    let mut told = Told::new();
    let mut shown: Vec<Value> = Vec::new();
    let mut failed = 0;
    for (entry, problem) in damaged {
        failed += 1;
        term::note(format!("{}: damaged: {problem}", term::flat(&entry)));
        shown.push(json!({"name": entry, "ok": false, "error": {"kind": "damaged", "message": problem}}));
    }
    run::block(async |signals| {
        let cancel = signals.work();
        let mut approver = run::approver(json, &cancel);
        for name in &names {
            let mut emit = |event| told.event(event);
            let checked = forge.check(name, given.clone(), &mut emit, approver.as_mut(), &cancel).await;
            if cancel.is_cancelled() {
                return Err(Failure::Told(130));
            }
            failed += usize::from(checked.is_err());
            let (words, value) = outcome(&forge, name, &checked)?;
            if !json {
                term::line(words)?;
            }
            shown.push(value);
        }
        Ok(())
    })?;
    if json {
        term::json(&json!({"capabilities": shown, "failed": failed, "events": told.events}))?;
    }
    if failed > 0 { Err(Failure::Told(1)) } else { Ok(()) }
}

fn outcome(forge: &Forge, name: &CapabilityName, checked: &Result<Rechecked, ForgeError>) -> Outcome<(String, Value)> {
    let style = term::stdout_style();
    let error = match checked {
        Ok(checked) => {
            let now = existing(forge.dispatch().registry(), name.as_str())?;
            let (version, status) = (&now.version, now.status);
            let (became, words) = match checked {
                Rechecked::Passed(_) => ("passed", format!("{version} passes")),
                Rechecked::Activated(_) => ("activated", format!("{version} passes and is active again")),
                Rechecked::Registered(_) => ("registered", format!("passes as it now is, as version {version}")),
            };
            let value = json!({"name": name, "ok": true, "became": became, "version": version, "status": status});
            return Ok((format!("{} {name}: {words}", style.green("✓")), value));
        }
        Err(error) => error,
    };
    let body = clean(&error.body());
    let hint = body.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    let words = format!("{} {name}: {}{}", style.red("✗"), term::flat(&body.message), term::flat(&hint));
    Ok((words, json!({"name": name, "ok": false, "error": body})))
}
