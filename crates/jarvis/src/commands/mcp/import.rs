//! `jarvis mcp import`: servers out of the settings of other programs.

use crate::cli::Common;
use crate::error::{Outcome, usage};
use crate::home::Home;
use crate::{config, files, secrets, term};
use clap::Args;
use jarvis_mcp::client::{ServerConfig, ServerConfigs};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  jarvis mcp import                     what the usual places hold; asks before anything is added\n  \
jarvis mcp import .vscode/mcp.json --yes\n  jarvis mcp import --secret-host GITHUB_TOKEN=api.github.com --yes\n\n\
What is imported runs in the jail, without network and without other folders: `jarvis mcp add --replace` gives it more. Values that \
look like keys are not written into config.toml; they become secrets where --secret-host says which host each is for (on a terminal \
it is asked for), else their names alone are taken over."
)]
pub struct Import {
    /// Files to read; without one, the usual places of Claude Desktop, Claude Code, Cursor and VS Code.
    files: Vec<PathBuf>,
    /// Add them without asking.
    #[arg(long)]
    yes: bool,
    /// Show what would be added, and add nothing.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Keep this variable's value as a secret that may be sent to this host; may be given more than once.
    #[arg(long, value_name = "VARIABLE=HOST", value_parser = super::pair)]
    secret_host: Vec<(String, String)>,
}

/// In the folder of the project, and in the person's home.
const IN_PROJECT: [&str; 3] = [".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json"];
const IN_HOME: [&str; 6] = [
    ".claude.json",
    ".cursor/mcp.json",
    ".config/Claude/claude_desktop_config.json",
    "Library/Application Support/Claude/claude_desktop_config.json",
    ".config/Code/User/mcp.json",
    "Library/Application Support/Code/User/mcp.json",
];

/// The largest file that is read: Claude Code keeps all its history with its settings.
const MOST: u64 = 64 << 20;

/// A value that is not written in the clear.
struct Key {
    server: String,
    variable: String,
    secret: String,
    value: String,
    /// Where it may be sent; none: only its name is taken over.
    host: Option<String>,
}

pub fn run(args: &Import, common: &Common) -> Outcome {
    let home = Home::find()?;
    let known = config::load(&home)?.mcp.servers;
    let (mut servers, mut left) = (ServerConfigs::new(), Vec::new());
    for file in places(args) {
        let found = jarvis_mcp::client::import(&files::text_of(&file, MOST)?);
        let found = match found {
            Ok(found) => found,
            // One of the usual places need not hold any.
            Err(jarvis_mcp::client::ImportError::NoServers) if args.files.is_empty() => continue,
            Err(error) => return Err(usage(format!("{}: {error}", file.display()), "name a file with MCP servers")),
        };
        left.extend(found.left.into_iter().map(|(name, why)| json!({"name": name, "file": file, "why": why})));
        for (name, server) in found.servers {
            let why = match (known.contains_key(&name), servers.contains_key(&name)) {
                (true, _) => "there is a server of this name already",
                (_, true) => "another file has one of this name",
                _ if super::shows_key(&server) => {
                    "its arguments or its address hold what looks like a key: add it by hand, with the key in env"
                }
                _ => {
                    servers.insert(name, server);
                    continue;
                }
            };
            left.push(json!({"name": name, "file": file, "why": why}));
        }
    }
    let taken = secrets::list(&home)?.into_iter().map(|(name, _)| name).collect();
    let mut keys = take_keys(&mut servers, &args.secret_host, taken)?;
    let ask = !common.json && !args.yes && !args.dry_run && term::person_is_there();
    if !common.json {
        tell(&servers, &left, &keys);
    }
    let add = !servers.is_empty() && !args.dry_run && (args.yes || (ask && yes("add them?")));
    if add {
        if ask {
            keys.iter_mut().filter(|key| key.host.is_none()).try_for_each(ask_host)?;
        }
        for key in keys.iter().filter(|key| key.host.is_some()) {
            secrets::set(&home, &key.secret, key.value.clone(), key.host.iter().cloned().collect())?;
        }
        config::put_all(&home, &["mcp", "servers"], &servers)?;
    }
    if common.json {
        let servers: Vec<Value> = servers.iter().map(|(name, server)| super::list::shown(name, server)).collect();
        let keys: Vec<Value> = keys.iter().map(shown).collect();
        return term::json(&json!({"added": add, "servers": servers, "left": left, "secrets": keys}));
    }
    let open = keys.iter().filter(|key| add && key.host.is_none());
    open.for_each(|key| {
        term::note(format!("`{}` needs its key: jarvis secret set {} --host HOST", key.server, key.secret))
    });
    match (add, servers.is_empty()) {
        (true, _) => term::status(format!("{} added; `jarvis mcp test NAME` tries one", servers.len())),
        (false, true) => term::status(
            "nothing to add: no server was found that is not here already; name a file: jarvis mcp import FILE",
        ),
        (false, false) => term::status("nothing was added; --yes adds them"),
    }
    Ok(())
}

fn shown(key: &Key) -> Value {
    json!({"server": key.server, "variable": key.variable, "secret": key.secret, "host": key.host})
}

fn places(args: &Import) -> Vec<PathBuf> {
    if !args.files.is_empty() {
        return args.files.clone();
    }
    let person = std::env::var_os("HOME").map(PathBuf::from);
    let in_home = person.iter().flat_map(|home| IN_HOME.iter().map(|name| home.join(name)));
    let mut all: Vec<PathBuf> = IN_PROJECT.iter().map(PathBuf::from).chain(in_home).collect();
    all.retain(|path| path.is_file());
    // The same file under two names, where the project is the home.
    let real = |path: &Path| path.canonicalize().ok();
    let mut seen = Vec::new();
    all.retain(|path| {
        let new = !seen.contains(&real(path));
        seen.push(real(path));
        new
    });
    all
}

/// Puts the name of a secret in the place of each value that looks like a key.
/// Neither a secret that is `taken` nor another key loses its place by that.
fn take_keys(servers: &mut ServerConfigs, hosts: &[(String, String)], taken: BTreeSet<String>) -> Outcome<Vec<Key>> {
    let mut keys: Vec<Key> = Vec::new();
    for (name, server) in servers.iter_mut() {
        let ServerConfig { env, headers, .. } = server;
        for (variable, value) in env.iter_mut().chain(headers.iter_mut()) {
            if !super::looks_secret(variable, value) {
                continue;
            }
            let (before, key) = match value.strip_prefix("Bearer ") {
                Some(key) => ("Bearer ", key.to_owned()),
                None => ("", value.clone()),
            };
            let is_free = |secret: &String| {
                !taken.contains(secret) && !keys.iter().any(|other| other.secret == *secret && other.value != key)
            };
            let own = super::secret_name(&format!("{name}_{variable}"));
            let numbered = (2..).map(|number| super::secret_name(&format!("{name}_{variable}_{number}")));
            let mut names = [super::secret_name(variable), own].into_iter().chain(numbered);
            let Some(secret) = names.find(is_free) else { continue };
            let host = hosts.iter().find(|(wanted, _)| wanted == variable).map(|(_, host)| host.clone());
            if let Some(host) = &host {
                secrets::check_hosts(&secret, std::slice::from_ref(host))?;
            }
            *value = format!("{before}${{secret:{secret}}}");
            keys.push(Key { server: name.clone(), variable: variable.clone(), secret, value: key, host });
        }
    }
    if let Some((name, _)) = hosts.iter().find(|(name, _)| !keys.iter().any(|key| key.variable == *name)) {
        return Err(usage(
            format!("no server has a key in a variable `{name}`"),
            "jarvis mcp import --dry-run shows them",
        ));
    }
    Ok(keys)
}

fn tell(servers: &ServerConfigs, left: &[Value], keys: &[Key]) {
    for (name, server) in servers {
        term::note(format!("{name}: {}", term::flat(&jarvis_dispatch::redact(&server.place()))));
    }
    for key in keys {
        let what = key.host.as_ref().map_or_else(
            || format!("is left out; its place is the secret {}", key.secret),
            |host| format!("becomes the secret {}, for {host}", key.secret),
        );
        term::note(format!("  the value of {} of {} {what}", term::flat(&key.variable), key.server));
    }
    for one in left {
        let text = |name: &str| term::flat(one[name].as_str().unwrap_or_default());
        term::note(format!("not {}: {} ({})", text("name"), text("why"), text("file")));
    }
}

fn ask_host(key: &mut Key) -> Outcome {
    term::ask(format!("{} of {}: the host it may be sent to (empty: leave it out): ", key.variable, key.server));
    let host = line();
    if !host.is_empty() {
        secrets::check_hosts(&key.secret, std::slice::from_ref(&host))?;
        key.host = Some(host);
    }
    Ok(())
}

fn yes(question: &str) -> bool {
    term::ask(format!("{question} [y/N] "));
    matches!(line().as_str(), "y" | "Y" | "yes" | "是" | "好")
}

fn line() -> String {
    let mut line = String::new();
    // No answer is an empty one.
    let _ = std::io::stdin().read_line(&mut line);
    line.trim().to_owned()
}
