//! `jarvis cap repair`: the model mends a capability that fails in use.

use super::told::Told;
use super::{done, existing};
use crate::cli::{Common, Turn, unused_model};
use crate::error::{Failure, Outcome};
use crate::home::Home;
use crate::{config, model, run};
use clap::{Arg, Args};
use jarvis_protocol::{CapabilityName, ErrorBody, ErrorKind};
use serde_json::json;

pub const HELP: &str = "Examples:\n  jarvis cap repair fibonacci\n  \
jarvis cap repair fibonacci --example '{\"args\": {\"n\": 0}, \"returns\": 0}'\n\n\
The model gets the definition, the code, and the calls that failed with their errors (`jarvis cap show NAME`). What it\n\
writes must run on them, give every recorded answer, and pass all other checks; else nothing changes. Where more than\n\
the code would change, or it reaches outside, you are asked. By hand: mend the file that `jarvis cap show NAME` names,\n\
then `jarvis cap check NAME`.";

#[derive(Debug, Args)]
pub struct Repair {
    name: String,
    /// A call and what it must give, as in a definition; it becomes an example.
    #[arg(long = "example", value_name = "JSON")]
    examples: Vec<String>,
    #[command(flatten)]
    turn: Turn,
}

/// `--model`, which here is used.
pub fn model() -> Arg {
    unused_model().hide(false).help("The model that mends it")
}

pub fn repair(home: &Home, args: Repair, common: &Common) -> Outcome {
    let json = common.json;
    let given = super::check::examples(&args.examples)?;
    let settings = config::load(home)?;
    let registry = run::registry(home)?;
    let name = existing(&registry, &args.name)?.name;
    let choice = model::choose(&settings, common.model.as_deref()).map_err(|failure| by_hand(failure, &name))?;
    run::enter(&args.turn.reach.place)?;
    let forge = run::forge(&settings, &args.turn.reach, home)?;
    // Before any model is loaded for it.
    let repair = forge.repair_of(&name, given)?;
    let previous = repair.capability.version.clone();
    let mut told = Told::new();
    let repaired = run::block(async |signals| {
        let cancel = signals.work();
        let answerer = run::answerer(&choice, &settings, &args.turn, home, &cancel).await;
        let answerer = answerer.map_err(|failure| by_hand(failure, &name))?;
        let mut session = run::unkept(answerer, forge, &settings, &args.turn, model::embedder(&settings, home)?);
        let mut approver = run::approver(json, &cancel);
        Ok(session.repair(repair, &mut |event| told.event(event), approver.as_mut(), &cancel).await)
    })?;
    if let Err(error) = repaired {
        return told.failed(&error, json);
    }
    let now = existing(&registry, name.as_str())?;
    let shown = json!({
        "name": name, "version": now.version, "previous": previous, "status": now.status, "events": told.events,
    });
    done(
        json,
        &shown,
        format!("{name} is repaired, as version {} (was {previous}), and {}", now.version, now.status.as_str()),
    )
}

/// Without a model it is a person's work.
fn by_hand(failure: Failure, name: &CapabilityName) -> Failure {
    match failure {
        Failure::Body(body) if body.kind == ErrorKind::NoModel => {
            let way =
                format!("by hand: mend the file that `jarvis cap show {name}` names, then jarvis cap check {name}");
            let hint = body.hint.as_ref().map(|hint| format!("; or a model: {hint}")).unwrap_or_default();
            Failure::Body(ErrorBody { hint: Some(format!("{way}{hint}")), ..body })
        }
        other => other,
    }
}
