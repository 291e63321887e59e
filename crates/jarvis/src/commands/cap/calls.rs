//! Who calls whom, for `jarvis cap show` and before a capability goes away.

use crate::error::Outcome;
use crate::{run, term};
use jarvis_dispatch::{Dispatch, Related};
use jarvis_protocol::{Capability, CapabilityName};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub fn related(dispatch: &Dispatch, capability: &Capability) -> Outcome<Related> {
    run::block(async |_| Ok(dispatch.related(capability).await?))
}

/// Says which capabilities call one that is about to stop answering. The names, for `--json`.
pub fn warn(dispatch: &Dispatch, capability: &Capability, becomes: &str) -> Outcome<BTreeSet<CapabilityName>> {
    let callers = related(dispatch, capability)?.called_by;
    if !callers.is_empty() {
        term::note(format!(
            "warning: called by {}; once `{}` is {becomes}, those calls fail",
            names(&callers),
            capability.name
        ));
    }
    Ok(callers)
}

pub fn names(names: &BTreeSet<CapabilityName>) -> String {
    names.iter().map(CapabilityName::as_str).collect::<Vec<_>>().join(", ")
}

pub fn shown(related: &Related) -> Value {
    let edges: Vec<Value> = related
        .edges
        .iter()
        .map(|e| json!({"caller": e.caller, "callee": e.callee, "runs": e.runs, "failures": e.failures}))
        .collect();
    json!({"calls": related.calls, "called_by": related.called_by, "edges": edges})
}
