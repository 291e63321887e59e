//! `jarvis mcp`: servers of the Model Context Protocol.

mod add;
mod import;
mod list;
mod remove;
mod serve;
mod test;

use crate::cli::{Common, unused_model};
use crate::error::Outcome;
use crate::home::Home;
use clap::Subcommand;
use jarvis_mcp::client::{ServerConfig, Store};

const ABOUT: &str = "\
A program runs in the jail: it reads the system and the workspace, and nothing else, and has no network, unless --read, --write and \
--network say so. Its tools are offered to models that drive tools. A call of one that is not marked as reading only is asked for, \
once for each definition; mcp.servers.NAME.tools in config.toml says allow, ask or deny beforehand (`*` is every other tool).";

#[derive(Debug, Subcommand)]
#[command(
    arg = unused_model(),
    after_help = format!(
        "Examples:\n  jarvis mcp add files -- npx -y @modelcontextprotocol/server-filesystem .\n  jarvis mcp list\n  claude mcp add jarvis -- jarvis mcp serve\n\n{ABOUT}"
    )
)]
pub enum Mcp {
    /// Sets up a server, or changes one.
    Add(add::Add),
    /// The servers that are set up.
    List(list::List),
    /// Starts a server, and shows its tools and what it says.
    Test(test::Test),
    /// Takes over servers from the settings of other programs.
    Import(import::Import),
    /// Forgets a server, with what was allowed of its tools.
    Remove(remove::Remove),
    /// Serves capabilities to another agent: searched, written, proved and run there as here.
    #[command(after_help = serve::HELP)]
    Serve(serve::Serve),
}

pub fn run(args: Mcp, common: &Common) -> Outcome {
    match args {
        Mcp::Add(args) => add::run(args, common),
        Mcp::List(args) => list::run(&args, common),
        Mcp::Test(args) => test::run(args, common),
        Mcp::Import(args) => import::run(&args, common),
        Mcp::Remove(args) => remove::run(&args, common),
        Mcp::Serve(args) => serve::run(&args, common),
    }
}

/// `NAME=VALUE` on the command line.
fn pair(raw: &str) -> Result<(String, String), String> {
    match raw.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// What is kept of servers between runs.
pub fn store(home: &Home) -> Store {
    Store::new(home.mcp())
}

/// Whether a value belongs into the store of secrets rather than into a file that anybody may be shown.
fn looks_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let named = ["KEY", "TOKEN", "SECRET", "PASSWORD", "AUTHORIZATION"].iter().any(|word| name.contains(word));
    let refers = value.contains("${secret:");
    !refers && !value.is_empty() && (named || jarvis_dispatch::redact(value) != value)
}

/// Whether its command line or its address holds what looks like a key.
fn shows_key(server: &ServerConfig) -> bool {
    let by_name = |text: &str| text.split_once('=').is_some_and(|(name, value)| looks_secret(name, value));
    let args = server.args.iter().map(String::as_str);
    let after = std::iter::once("").chain(args.clone());
    let named = |(flag, arg): (&str, &str)| {
        flag.starts_with('-') && !flag.contains('=') && !arg.starts_with('-') && looks_secret(flag, arg)
    };
    let query = server.url.as_deref().and_then(|url| url.split_once('?')).map_or("", |(_, query)| query);
    args.clone().any(|arg| by_name(arg) || looks_secret("", arg))
        || after.zip(args).any(named)
        || query.split('&').any(by_name)
}

/// The name of a secret for a variable or a header.
fn secret_name(variable: &str) -> String {
    let name: String = variable
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .take(64)
        .collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name
    } else {
        format!("S{name}").chars().take(64).collect()
    }
}
