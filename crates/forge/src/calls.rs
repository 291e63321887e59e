//! What a draft calls by name: whether it is there, and whether a run of the draft can reach anything by it.

use crate::Draft;
use jarvis_dispatch::{CallError, Checked, Dispatch, Use, UseKind};
use jarvis_protocol::{Capability, CapabilityName, Status};

/// Names that are written out in the code, and what is wrong with calling them.
pub(crate) fn problems(dispatch: &Dispatch, draft: &Draft, checked: &Checked) -> Result<Vec<String>, CallError> {
    let mut problems = Vec::new();
    for (call, name) in named(checked) {
        let line = call.line;
        if name == draft.capability.name.as_str() {
            problems.push(format!("the code calls itself by name (line {line}): call the function instead"));
            continue;
        }
        match find(dispatch, name)? {
            None => problems.push(format!(
                "the code calls the capability `{name}` (line {line}), and none is registered under that name"
            )),
            Some(found) if found.status != Status::Active => problems.push(format!(
                "the code calls `{name}` (line {line}), which is {} and does not run",
                found.status.as_str()
            )),
            Some(_) => {}
        }
    }
    Ok(problems)
}

/// Whether runs of the draft reach nothing, so that they can be compared and tried on other arguments. What it calls has
/// at most its own grants; with grants of its own, everything it calls must be known and without any.
pub(crate) fn is_pure(dispatch: &Dispatch, draft: &Draft, checked: &Checked) -> Result<bool, CallError> {
    if checked.uses.iter().any(|used| used.kind != UseKind::Call) {
        return Ok(false);
    }
    if draft.capability.grants.is_empty() {
        return Ok(true);
    }
    if named(checked).count() < checked.uses.len() {
        return Ok(false);
    }
    for (_, name) in named(checked) {
        if !find(dispatch, name)?.is_some_and(|found| found.grants.is_empty()) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn named(checked: &Checked) -> impl Iterator<Item = (&Use, &str)> {
    let calls = checked.uses.iter().filter(|used| used.kind == UseKind::Call);
    calls.filter_map(|used| used.target.as_deref().map(|name| (used, name)))
}

fn find(dispatch: &Dispatch, name: &str) -> Result<Option<Capability>, CallError> {
    let Ok(name) = CapabilityName::new(name) else { return Ok(None) };
    dispatch.registry().get(&name).map_err(|e| CallError::Fatal(e.body()))
}
