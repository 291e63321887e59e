//! `jarvis mcp serve`: jarvis as a server for the agents that people use already.

use crate::cli::{Common, Reach};
use crate::config::Settings;
use crate::error::{Outcome, config, failed, usage};
use crate::home::Home;
use crate::{config as settings, model, run, term, workshop};
use clap::Args;
use jarvis_agent::Bootstrap;
use jarvis_audit::AuditLog;
use jarvis_dispatch::quoted;
use jarvis_forge::Forge;
use jarvis_mcp::server::{HttpOptions, PATH, Setup, serve_http, serve_stdio};
use jarvis_protocol::ErrorKind;
use serde_json::json;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub const HELP: &str = "\
Examples:
  jarvis mcp serve                          over stdio, as a host starts it
  claude mcp add jarvis -- jarvis mcp serve
  jarvis mcp serve --http                   http://127.0.0.1:7424/mcp, for this machine only
  MY_TOKEN=… jarvis mcp serve --http 0.0.0.0:7424 --token-env MY_TOKEN --host box.example

The host's model searches, writes and runs capabilities; no model of jarvis's own is \
needed. Grants are asked for in the host where it can ask, and refused elsewhere
with the command that would allow them.
Resources: jarvis://audit/tail, jarvis://statistics, jarvis://capabilities/{name}, \
jarvis://code/{name}. Prompts: the skills in .jarvis/skills and in the home.";

/// Where no address is given.
const ADDRESS: &str = "127.0.0.1:7424";
/// A shorter token can be guessed.
const TOKEN_CHARS: usize = 16;

#[derive(Debug, Args)]
pub struct Serve {
    /// Over HTTP instead of stdio, at 127.0.0.1:7424 or another address. Other addresses than this machine's own need a token.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = ADDRESS, value_parser = address)]
    http: Option<SocketAddr>,
    /// The environment variable with the token that every request must carry (Authorization: Bearer …).
    #[arg(long, value_name = "VAR", requires = "http")]
    token_env: Option<String>,
    /// A name that the server is reached by, beside those of this machine. May be given more than once.
    #[arg(long, value_name = "NAME", requires = "http")]
    host: Vec<String>,
    /// Offer each active capability as a tool of its own, too.
    #[arg(long)]
    capabilities_as_tools: bool,
    #[command(flatten)]
    reach: Reach,
}

fn address(raw: &str) -> Result<SocketAddr, String> {
    let port_alone = raw.strip_prefix(':').unwrap_or(raw).parse::<u16>();
    match port_alone {
        Ok(port) => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => raw.parse().map_err(|_| format!("an address like {ADDRESS}, or a port\n hint: names are for --host")),
    }
}

pub fn run(args: &Serve, common: &Common) -> Outcome {
    let home = Home::find()?;
    let loaded = settings::load(&home)?;
    let token = args.token_env.as_deref().map(token).transpose()?;
    if let Some(addr) = args.http.filter(|addr| token.is_none() && !addr.ip().is_loopback()) {
        return Err(config(
            format!("{addr} can be reached from other machines, and no token is set"),
            "set one: MY_TOKEN=$(openssl rand -hex 24) jarvis mcp serve --http … --token-env MY_TOKEN; or serve 127.0.0.1",
        ));
    }
    run::enter(&args.reach.place)?;
    let setup = setup(args, &loaded, &home)?;
    let idle = Duration::from_secs(loaded.mcp.idle_s);
    run::block(async |signals| {
        let stop = signals.work();
        match args.http {
            Some(addr) => over_http(setup, addr, Door { token, idle }, args, common, stop).await,
            None => over_stdio(setup, stop).await,
        }
    })
}

fn setup(args: &Serve, settings: &Settings, home: &Home) -> Outcome<Setup> {
    let embedder = model::embedder(settings, home)?;
    let forge = Forge::new(Arc::new(run::dispatch(settings, &args.reach, home)?.acting_as("mcp")));
    Ok(Setup {
        bootstrap: Box::new(move |writer| Bootstrap::new(forge.clone(), None, writer).with_embedder(embedder.clone())),
        audit: AuditLog::open(home.audit()),
        skills: workshop::skills(home, &run::workspace()?),
        capabilities_as_tools: args.capabilities_as_tools,
        started_as: command(args),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// This server's command line without what it says of approval, which a refusal adds anew.
fn command(args: &Serve) -> String {
    let mut words = vec!["jarvis mcp serve".to_owned()];
    if let Some(addr) = args.http {
        words.push(format!("--http {addr}"));
    }
    words.extend(args.token_env.iter().map(|name| format!("--token-env {}", quoted(name))));
    words.extend(args.host.iter().map(|host| format!("--host {}", quoted(host))));
    if args.capabilities_as_tools {
        words.push("--capabilities-as-tools".to_owned());
    }
    let folder = args.reach.place.workspace.as_ref();
    words.extend(folder.map(|folder| format!("--workspace {}", quoted(&folder.to_string_lossy()))));
    words.extend(args.reach.allow_net.iter().map(|host| format!("--allow-net {}", quoted(host))));
    words.join(" ")
}

fn token(variable: &str) -> Outcome<String> {
    let value = std::env::var(variable).unwrap_or_default();
    let value = value.trim();
    if value.chars().count() < TOKEN_CHARS {
        let what = if value.is_empty() { "is not set" } else { "is too short" };
        return Err(config(
            format!("--token-env {variable}: the variable {what}; a token has at least {TOKEN_CHARS} characters"),
            format!("{variable}=$(openssl rand -hex 24) jarvis mcp serve --http --token-env {variable}"),
        ));
    }
    Ok(value.to_owned())
}

/// Who may come in, and how long one may stay that does nothing.
struct Door {
    token: Option<String>,
    idle: Duration,
}

async fn over_stdio(setup: Setup, stop: CancellationToken) -> Outcome {
    if std::io::stdin().is_terminal() {
        term::status("this speaks MCP, a JSON message a line: a host starts it (see --help); Ctrl-D ends it");
    }
    let served = serve_stdio(setup, tokio::io::stdin(), tokio::io::stdout(), stop).await;
    served.map_err(|e| failed(ErrorKind::Protocol, e.to_string()))
}

async fn over_http(
    setup: Setup,
    addr: SocketAddr,
    door: Door,
    args: &Serve,
    common: &Common,
    stop: CancellationToken,
) -> Outcome {
    let Door { token, idle } = door;
    let taken = |e: std::io::Error| usage(format!("{addr} cannot be listened on: {e}"), "choose another: --http ADDR");
    let listener = crate::listen::listen(addr).map_err(taken)?;
    let addr = listener.local_addr().map_err(taken)?;
    let url = format!("http://{addr}{PATH}");
    if common.json {
        term::json(&json!({"url": url, "token": token.is_some()}))?;
    } else {
        term::line(&url)?;
    }
    if token.is_none() {
        term::status("every program on this machine can use it; --token-env VAR asks for a token. Ctrl-C ends it");
    }
    let mut hosts = args.host.clone();
    if !addr.ip().is_unspecified() {
        hosts.push(addr.ip().to_string());
    }
    let options = HttpOptions { token, hosts, port: addr.port(), idle };
    serve_http(setup, listener, options, stop).await.map_err(|e| failed(ErrorKind::Network, e.to_string()))
}
