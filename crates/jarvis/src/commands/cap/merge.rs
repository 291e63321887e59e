//! `jarvis cap merge`: choosing between two versions that a pull brought together.

use super::done;
use crate::error::{Failure, Outcome, usage};
use crate::home::Home;
use crate::{run, term};
use clap::Args;
use jarvis_protocol::{CapabilityName, ErrorBody, ErrorKind};
use jarvis_registry::Side;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub struct Merge {
    /// As `jarvis doctor` names it.
    name: String,
    /// The version that was here before the pull.
    #[arg(long, required_unless_present = "theirs")]
    ours: bool,
    /// The version that came with the pull.
    #[arg(long, conflicts_with = "ours")]
    theirs: bool,
}

pub fn settle(home: &Home, args: &Merge, json: bool) -> Outcome {
    let registry = run::registry(home)?;
    let side = if args.ours { Side::Ours } else { Side::Theirs };
    let name = CapabilityName::new(args.name.as_str())
        .map_err(|e| usage(e.to_string(), "`jarvis doctor` names what is in conflict"))?;
    if !registry.conflicts()?.iter().any(|conflict| conflict.name == args.name) {
        let body = ErrorBody::new(ErrorKind::NotFound, format!("`{name}` is not in conflict"));
        return Err(Failure::from(body.hint("`jarvis doctor` names what is in conflict")));
    }
    run::record(home, name.as_str(), json!({"change": "merge", "side": side}))?;
    let merged = registry.settle(&name, side)?;
    let left: Vec<Value> = merged.conflicts.iter().map(|c| json!({"name": c.name, "problem": c.problem})).collect();
    let shown = json!({"name": name, "side": side, "done": merged.done, "conflicts": left, "todo": merged.todo,
                       "commit": merged.commit});
    if !json {
        for line in &merged.done {
            term::status(line);
        }
        for conflict in &merged.conflicts {
            term::status(format!("still in conflict: {}: {}", conflict.name, conflict.problem));
        }
    }
    done(json, &shown, merged.todo.unwrap_or_else(|| "nothing is in conflict any more".to_owned()))
}
