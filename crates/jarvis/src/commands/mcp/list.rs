//! `jarvis mcp list`.

use crate::cli::Common;
use crate::error::Outcome;
use crate::home::Home;
use crate::{config, term};
use clap::Args;
use jarvis_mcp::client::ServerConfig;
use serde_json::{Value, json};

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  jarvis mcp list --json")]
pub struct List {}

pub fn run(_: &List, common: &Common) -> Outcome {
    let home = Home::find()?;
    let servers = config::load(&home)?.mcp.servers;
    if common.json {
        let all: Vec<Value> = servers.iter().map(|(name, server)| shown(name, server)).collect();
        return term::json(&json!({"servers": all}));
    }
    if servers.is_empty() {
        term::status("no servers; `jarvis mcp add NAME -- COMMAND` sets one up, `jarvis mcp import` takes over others");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = servers
        .iter()
        .map(|(name, server)| {
            let state = if server.enabled { "on" } else { "off" };
            vec![name.clone(), state.to_owned(), reach(server), jarvis_dispatch::redact(&server.place())]
        })
        .collect();
    term::table(&["NAME", "STATE", "MAY", "SERVER"], &rows)
}

/// Without the values that may be keys: names of variables and headers alone.
pub fn shown(name: &str, server: &ServerConfig) -> Value {
    let mut shown = json!(server);
    for field in ["env", "headers"] {
        if let Some(values) = shown.get(field).and_then(Value::as_object) {
            shown[field] = json!(values.keys().collect::<Vec<_>>());
        }
    }
    // Of what looks like a key in its command line or its address nothing is shown either.
    let mut shown = jarvis_audit::redact_value(&shown);
    shown["name"] = json!(name);
    shown["enabled"] = json!(server.enabled);
    shown
}

/// Beside reading the system and the workspace.
fn reach(server: &ServerConfig) -> String {
    if server.url.is_some() {
        return "be sent requests".to_owned();
    }
    let sandbox = &server.sandbox;
    let paths = |paths: &[std::path::PathBuf]| {
        paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    };
    let parts =
        [("reach", sandbox.network.join(", ")), ("read", paths(&sandbox.read)), ("write", paths(&sandbox.write))];
    let told: Vec<String> =
        parts.into_iter().filter(|(_, list)| !list.is_empty()).map(|(what, list)| format!("{what} {list}")).collect();
    if told.is_empty() { "read the workspace".to_owned() } else { told.join("; ") }
}
