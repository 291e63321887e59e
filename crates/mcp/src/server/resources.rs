//! What a host may read: the latest records of the audit, statistics, and a capability's definition and code.

use crate::server::Shared;
use jarvis_audit::Filter;
use jarvis_dispatch::{CallError, Dispatch};
use jarvis_protocol::{CapabilityName, ErrorKind};
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};

pub(crate) const AUDIT: &str = "jarvis://audit/tail";
pub(crate) const STATISTICS: &str = "jarvis://statistics";
const CAPABILITY: &str = "jarvis://capabilities/";
const CODE: &str = "jarvis://code/";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// The variable in the templates.
pub(crate) const NAME: &str = "name";
/// Address, name, kind, and what it is.
pub(crate) const TEMPLATES: [(&str, &str, &str, &str); 2] = [
    ("jarvis://capabilities/{name}", "capability", JSON, "One capability: definition and statistics"),
    ("jarvis://code/{name}", "code", TEXT, "The code of one capability"),
];

/// Records in the tail.
const RECORDS: usize = 50;

pub(crate) fn list() -> Vec<Resource> {
    vec![
        Resource::new(AUDIT, "audit")
            .with_title("Audit")
            .with_description(format!("The last {RECORDS} records of what was meant to be done and what came of it"))
            .with_mime_type(JSON),
        Resource::new(STATISTICS, "statistics")
            .with_title("Statistics")
            .with_description("Runs, failures and times of every capability")
            .with_mime_type(JSON),
    ]
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let template = |(uri, name, kind, about): (&str, &str, &str, &str)| {
        ResourceTemplate::new(uri, name).with_description(about).with_mime_type(kind)
    };
    TEMPLATES.into_iter().map(template).collect()
}

/// None where there is no such resource.
pub(crate) fn read(shared: &Shared, dispatch: &Dispatch, uri: &str) -> Result<Option<ResourceContents>, CallError> {
    let as_json = |value: Value| Some(ResourceContents::text(format!("{value:#}"), uri).with_mime_type(JSON));
    match uri {
        AUDIT => Ok(as_json(audit(shared)?)),
        STATISTICS => Ok(as_json(statistics(dispatch)?)),
        _ => match (uri.strip_prefix(CAPABILITY), uri.strip_prefix(CODE)) {
            (Some(name), _) => Ok(capability(dispatch, name)?.and_then(as_json)),
            (_, Some(name)) => {
                let code = code(dispatch, name)?;
                Ok(code.map(|code| ResourceContents::text(code, uri).with_mime_type(TEXT)))
            }
            _ => Ok(None),
        },
    }
}

/// Whether it can be subscribed to: it is cheap to notice that it changed.
pub(crate) fn is_watched(uri: &str) -> bool {
    // Every run is on the audit, so the statistics change with it.
    [AUDIT, STATISTICS].contains(&uri)
}

fn audit(shared: &Shared) -> Result<Value, CallError> {
    let tail = shared.setup.audit.tail(RECORDS, &Filter::default()).map_err(|e| CallError::Fatal(e.body()))?;
    Ok(json!({"records": tail.entries, "unreadable": tail.unreadable}))
}

fn statistics(dispatch: &Dispatch) -> Result<Value, CallError> {
    let listing = dispatch.registry().list()?;
    let mut all = Vec::with_capacity(listing.capabilities.len());
    for capability in &listing.capabilities {
        let mut shown = stats(dispatch, &capability.name)?;
        shown["name"] = json!(capability.name);
        shown["version"] = json!(capability.version);
        shown["status"] = json!(capability.status);
        all.push(shown);
    }
    Ok(json!({"capabilities": all}))
}

fn stats(dispatch: &Dispatch, name: &CapabilityName) -> Result<Value, CallError> {
    let stats = dispatch.registry().stats(name)?;
    Ok(json!({"runs": stats.runs, "failures": stats.failures, "mean_ms": stats.mean_ms,
        "last_used": stats.last_used, "errors": stats.errors}))
}

fn capability(dispatch: &Dispatch, name: &str) -> Result<Option<Value>, CallError> {
    let Ok(name) = CapabilityName::new(name) else { return Ok(None) };
    let Some(capability) = dispatch.registry().get(&name)? else { return Ok(None) };
    Ok(Some(json!({"statistics": stats(dispatch, &name)?, "capability": capability})))
}

/// As it was verified: what a hand has changed since is no capability's code.
fn code(dispatch: &Dispatch, name: &str) -> Result<Option<String>, CallError> {
    let Ok(name) = CapabilityName::new(name) else { return Ok(None) };
    let Some(capability) = dispatch.registry().get(&name)? else { return Ok(None) };
    let code = dispatch.registry().code(&capability)?;
    if !code.matches_digest {
        let told = format!("the code of `{name}` was changed by hand since it was verified");
        return Err(CallError::respond(ErrorKind::Damaged, told));
    }
    Ok(Some(code.text))
}
