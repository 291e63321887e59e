//! `jarvis mcp add`.

use crate::cli::Common;
use crate::error::{Failure, Outcome, usage};
use crate::home::Home;
use crate::{config, programs, term};
use clap::{ArgGroup, Args};
use jarvis_mcp::client::{ServerConfig, ServerSandbox};
use jarvis_protocol::{ErrorBody, ErrorKind};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("what").required(true).args(["command", "url"]),
    after_help = "Examples:\n  jarvis mcp add files --write notes -- npx -y @modelcontextprotocol/server-filesystem notes\n  \
jarvis mcp add web --url https://mcp.example.com/mcp --header 'Authorization=Bearer ${secret:WEB_KEY}'\n  \
jarvis mcp add gh --network api.github.com --env 'TOKEN=${secret:GITHUB}' -- ./github-server\n\n\
A value of --env or --header may name a secret, ${secret:NAME}, which `jarvis secret set` keeps. A program gets one only where each \
host it may reach is one that the secret may be sent to."
)]
pub struct Add {
    /// How it is called; its tools are NAME__TOOL.
    name: String,
    /// The address of a server over HTTP.
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "env", "cwd", "network", "read", "write", "memory"])]
    url: Option<String>,
    /// A header of each request; may be given more than once.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = super::pair, requires = "url")]
    headers: Vec<(String, String)>,
    /// A variable of the program's environment, which has no others of yours; may be given more than once.
    #[arg(long, value_name = "NAME=VALUE", value_parser = super::pair)]
    env: Vec<(String, String)>,
    /// Where the program starts; the workspace by default.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// A host that the program may reach; may be given more than once.
    #[arg(long, value_name = "HOST")]
    network: Vec<String>,
    /// A folder or file that it may read; from the workspace on, or absolute.
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// A folder that it may change.
    #[arg(long, value_name = "DIR")]
    write: Vec<PathBuf>,
    /// Memory of the program with all it starts, MiB.
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,
    /// Seconds of one call without a sign of progress.
    #[arg(long, value_name = "S")]
    timeout: Option<u64>,
    /// Set it up, and leave it off.
    #[arg(long)]
    disabled: bool,
    /// Take the place of the server of that name.
    #[arg(long)]
    replace: bool,
    /// The program and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(args: Add, common: &Common) -> Outcome {
    let home = Home::find()?;
    let known = config::load(&home)?.mcp.servers;
    let (name, replace) = (args.name.clone(), args.replace);
    let server = server(args);
    server.check(&name).map_err(|e| usage(e.to_string(), "see jarvis mcp add --help"))?;
    if known.contains_key(&name) && !replace {
        let message = format!("there is a server `{name}` already: {}", known[&name].place());
        return Err(usage(message, "choose another name, or give --replace"));
    }
    if let Some(command) = server.command.as_deref().filter(|command| programs::find(command).is_none()) {
        let message = format!("`{command}` is no program on this machine");
        return Err(usage(message, "install it, or name the file; nothing was changed"));
    }
    let replaced = config::put(&home, &["mcp", "servers", &name], Some(&server))?;
    for (variable, _) in
        server.env.iter().chain(&server.headers).filter(|(name, value)| super::looks_secret(name, value))
    {
        let how = format!("printf %s \"$VALUE\" | jarvis secret set {} --host HOST", super::secret_name(variable));
        term::status(format!("{variable} looks like a key, and config.toml is plain text; better: {how}"));
    }
    if super::shows_key(&server) {
        term::status(
            "its arguments or its address hold what looks like a key, and config.toml is plain text; better: --env or --header, and `jarvis secret set`",
        );
    }
    if common.json {
        return term::json(&json!({"server": super::list::shown(&name, &server), "replaced": replaced}));
    }
    let what = if replaced { "is replaced" } else { "is set up" };
    term::status(format!("{name} {what}; `jarvis mcp test {name}` tries it"));
    Ok(())
}

fn server(args: Add) -> ServerConfig {
    let usual = ServerConfig::default();
    let mut words = args.command.into_iter();
    ServerConfig {
        command: words.next(),
        args: words.collect(),
        env: args.env.into_iter().collect(),
        cwd: args.cwd,
        url: args.url,
        headers: args.headers.into_iter().collect(),
        enabled: !args.disabled,
        timeout_s: args.timeout.unwrap_or(usual.timeout_s),
        sandbox: ServerSandbox {
            network: args.network,
            read: args.read,
            write: args.write,
            memory_mb: args.memory.unwrap_or(usual.sandbox.memory_mb),
        },
        tools: BTreeMap::new(),
        brought: false,
    }
}

pub fn no_server(name: &str) -> Failure {
    let body = ErrorBody::new(ErrorKind::NotFound, format!("no MCP server is called `{name}`"));
    body.hint("`jarvis mcp list` shows what there is").into()
}
