//! `jarvis mcp remove`.

use super::add::no_server;
use crate::cli::Common;
use crate::error::Outcome;
use crate::home::Home;
use crate::{config, term};
use clap::Args;
use serde_json::json;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  jarvis mcp remove files")]
pub struct Remove {
    name: String,
}

pub fn run(args: &Remove, common: &Common) -> Outcome {
    let home = Home::find()?;
    let name = &args.name;
    if !config::load(&home)?.mcp.servers.contains_key(name) {
        return Err(no_server(name));
    }
    config::put(&home, &["mcp", "servers", name], None::<&()>)?;
    super::store(&home).forget(name);
    if common.json {
        return term::json(&json!({"name": name, "removed": true}));
    }
    term::status(format!("{name} is removed"));
    Ok(())
}
