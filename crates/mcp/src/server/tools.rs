//! The tools a host sees: the three that lead to capabilities and, if wanted, each capability.

use jarvis_agent::bootstrap_specs;
use jarvis_dispatch::Dispatch;
use jarvis_protocol::{Capability, CapabilityName, Status};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const LIST: &str = "list_capabilities";
pub(crate) const REGISTER: &str = "register_capability";
pub(crate) const EXECUTE: &str = "execute_capability";

pub(crate) fn bootstrap() -> Vec<Tool> {
    let specs = bootstrap_specs().iter().map(|spec| (**spec).clone());
    specs
        .map(|spec| {
            let (title, annotations, output) = about(&spec.name);
            let mut tool = Tool::new(spec.name, spec.description, object(spec.parameters))
                .with_title(title)
                .with_annotations(annotations);
            tool.output_schema = output.map(object);
            tool
        })
        .collect()
}

fn about(name: &str) -> (&'static str, ToolAnnotations, Option<Value>) {
    let hints = ToolAnnotations::new();
    match name {
        LIST => (
            "Search capabilities",
            hints.read_only(true).idempotent(true).open_world(false),
            Some(json!({"type": "object", "required": ["capabilities"], "properties": {
                "capabilities": {"type": "array", "items": {"type": "object",
                    "required": ["name", "capability", "signature"], "properties": {
                        "name": {"type": "string"}, "capability": {"type": "string"}, "signature": {"type": "string"}}}},
                "note": {"type": "string"}}})),
        ),
        // Earlier versions stay, and what it does to the world is checked and asked for.
        REGISTER => (
            "Register a capability",
            hints.read_only(false).destructive(false).idempotent(false).open_world(false),
            Some(json!({"type": "object", "required": ["registered", "version"], "properties": {
                "registered": {"type": "string"}, "version": {"type": "string"}, "verified": {"type": "object"},
                "next": {"type": "string"}}})),
        ),
        // What it does is what the capability has grants for, which is not known here.
        _ => (
            "Run a capability",
            hints.read_only(false).destructive(true).idempotent(false).open_world(true),
            Some(json!({"type": "object", "required": ["result"], "properties": {"result": {}}})),
        ),
    }
}

/// Each capability that can be run, as a tool of its own name.
pub(crate) fn capabilities(dispatch: &Dispatch) -> Result<Vec<Tool>, jarvis_dispatch::CallError> {
    let listing = dispatch.registry().list()?;
    let active = listing.capabilities.iter().filter(|capability| runnable(capability));
    Ok(active.map(tool).collect())
}

/// The capability that a tool of this name is.
pub(crate) fn named(dispatch: &Dispatch, name: &str) -> Result<Option<Capability>, jarvis_dispatch::CallError> {
    let Ok(name) = CapabilityName::new(name) else { return Ok(None) };
    Ok(dispatch.registry().get(&name)?.filter(runnable))
}

fn runnable(capability: &Capability) -> bool {
    capability.status == Status::Active && ![LIST, REGISTER, EXECUTE].contains(&capability.name.as_str())
}

fn tool(capability: &Capability) -> Tool {
    let mut description = capability.capability.clone();
    let mut add = |what: &str, list: &[String]| {
        if !list.is_empty() {
            description.push_str(&format!("\n{what}: {}", list.join("; ")));
        }
    };
    add("Use it for", &capability.triggers);
    add("Not for", &capability.suppression);
    if !capability.grants.is_empty() {
        description.push_str(&format!("\nIt may reach: {}", capability.grants));
    }
    let grants = &capability.grants;
    let pure = grants.is_empty();
    let hints = ToolAnnotations::new()
        .read_only(pure)
        .destructive(!grants.write.is_empty() || !grants.network.is_empty())
        .idempotent(pure)
        .open_world(!grants.network.is_empty());
    let output = json!({"type": "object", "required": ["result"], "properties": {"result": capability.returns}});
    Tool::new(capability.name.to_string(), description, object(capability.parameters.clone()))
        .with_annotations(hints)
        .with_raw_output_schema(object(output))
}

fn object(schema: Value) -> Arc<JsonObject> {
    Arc::new(match schema {
        Value::Object(object) => object,
        _ => JsonObject::from_iter([("type".to_owned(), json!("object"))]),
    })
}
