//! `jarvis mcp test`.

use super::add::no_server;
use crate::cli::{Common, Place, Reach};
use crate::error::{Failure, Outcome};
use crate::home::Home;
use crate::{config, run, term};
use clap::Args;
use jarvis_mcp::client::{ServerConfigs, Tested};
use serde_json::{Value, json};

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  jarvis mcp test files --json")]
pub struct Test {
    name: String,
    #[command(flatten)]
    place: Place,
}

pub fn run(args: Test, common: &Common) -> Outcome {
    let home = Home::find()?;
    let settings = config::load(&home)?;
    let name = args.name;
    let Some(server) = settings.mcp.servers.get(&name).cloned() else { return Err(no_server(&name)) };
    run::enter(&args.place)?;
    // One that is off is tried, too.
    let servers = ServerConfigs::from([(name.clone(), jarvis_mcp::client::ServerConfig { enabled: true, ..server })]);
    let dispatch = run::dispatch(&settings, &Reach::default(), &home)?;
    let tested = run::block(async |signals| {
        let servers = run::servers(servers, std::sync::Arc::new(dispatch), &home)?;
        term::status(format!("starting {name}"));
        servers.test(&name, &signals.work()).await.map_err(|error| Failure::from(error.body().clone()))
    })?;
    if common.json {
        return term::json(&shown(&name, &tested));
    }
    for_people(&name, &tested)
}

fn shown(name: &str, tested: &Tested) -> Value {
    let tools: Vec<Value> = tested
        .tools
        .iter()
        .map(|tool| {
            json!({"name": tool.name, "description": tool.description, "read_only": tool.read_only, "parameters": tool.parameters})
        })
        .collect();
    json!({"name": name, "server": tested.server, "ready_ms": tested.ready_ms, "tools": tools,
        "left_out": tested.left_out, "isolation": tested.layers, "said": tested.said})
}

fn for_people(name: &str, tested: &Tested) -> Outcome {
    let itself = tested.server.as_ref().map(|itself| format!(" ({itself})")).unwrap_or_default();
    term::status(format!("{name}{itself} is ready after {} ms", tested.ready_ms));
    if !tested.layers.is_empty() {
        term::status(format!("isolation: {}", tested.layers.join(", ")));
    }
    if tested.left_out > 0 {
        term::status(format!("{} tools cannot be offered to a model", tested.left_out));
    }
    tested.said.iter().for_each(|line| term::status(format!("it says: {}", term::flat(line))));
    let rows: Vec<Vec<String>> = tested
        .tools
        .iter()
        .map(|tool| {
            let asks = if tool.read_only { "no" } else { "yes" };
            vec![tool.name.clone(), asks.to_owned(), tool.description.clone()]
        })
        .collect();
    if rows.is_empty() {
        term::status("it has no tools");
        return Ok(());
    }
    term::table(&["TOOL", "ASKS", "WHAT IT SAYS"], &rows)
}
