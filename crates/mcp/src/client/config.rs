//! `[mcp.servers.NAME]`: a server as a person set it up, and what it may touch. Closed by default.

use jarvis_dispatch::ToolRule;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// By name.
pub type ServerConfigs = BTreeMap<String, ServerConfig>;

/// Seconds of one call without a sign of progress.
pub(super) const TIMEOUT_S: u64 = 60;
const MOST_TIMEOUT_S: u64 = 3600;
const MEMORY_MB: u64 = 1024;
const MOST_NAME: usize = 32;

/// A program (`command`), which runs in the jail, or an address (`url`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// A name on PATH, or a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Values may name secrets: `${secret:NAME}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The workspace where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Values may name secrets: `Bearer ${secret:NAME}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "is_true")]
    pub enabled: bool,
    #[serde(skip_serializing_if = "is_usual")]
    pub timeout_s: u64,
    #[serde(skip_serializing_if = "ServerSandbox::is_closed")]
    pub sandbox: ServerSandbox,
    /// By the name of a tool; `*` is every other one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolRule>,
    /// Another program named it, for one session.
    #[serde(skip)]
    pub brought: bool,
}

/// What a program may touch beside reading the system and the workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSandbox {
    /// Host patterns; none: no network at all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// Folders and files, absolute or from the workspace on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathBuf>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathBuf>,
    #[serde(skip_serializing_if = "is_usual_memory")]
    pub memory_mb: u64,
}

fn is_true(value: &bool) -> bool {
    *value
}

fn is_usual(seconds: &u64) -> bool {
    *seconds == TIMEOUT_S
}

fn is_usual_memory(mb: &u64) -> bool {
    *mb == MEMORY_MB
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            url: None,
            headers: BTreeMap::new(),
            enabled: true,
            timeout_s: TIMEOUT_S,
            sandbox: ServerSandbox::default(),
            tools: BTreeMap::new(),
            brought: false,
        }
    }
}

impl Default for ServerSandbox {
    fn default() -> Self {
        Self { network: Vec::new(), read: Vec::new(), write: Vec::new(), memory_mb: MEMORY_MB }
    }
}

impl ServerSandbox {
    fn is_closed(&self) -> bool {
        *self == Self::default()
    }
}

/// What is wrong with a server as it is set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("mcp.servers.{name}: {problem}")]
pub struct ConfigError {
    pub name: String,
    pub problem: String,
}

impl ServerConfig {
    /// What the types cannot say.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, name: &str) -> Result<(), ConfigError> {
        self.problem(name).map_or(Ok(()), |problem| Err(ConfigError { name: name.to_owned(), problem }))
    }

    fn problem(&self, name: &str) -> Option<String> {
        if !is_name(name) {
            let rule = "letters, digits, `-` and single `_`, a letter first";
            return Some(format!("a server's name is up to {MOST_NAME} {rule}"));
        }
        match (&self.command, &self.url) {
            (None, None) => return Some("it needs a command or a url".to_owned()),
            (Some(_), Some(_)) => return Some("it has a command and a url; one of them is right".to_owned()),
            (Some(command), None) if command.trim().is_empty() => return Some("the command is empty".to_owned()),
            (Some(_), None) if !self.headers.is_empty() => return Some("headers are for a url".to_owned()),
            (None, Some(url)) if !is_http(url) => return Some(format!("`{url}` is no http(s) address")),
            (None, Some(_)) if !self.args.is_empty() || !self.env.is_empty() || self.cwd.is_some() => {
                return Some("args, env and cwd are for a command".to_owned());
            }
            (None, Some(_)) if !self.sandbox.is_closed() => {
                return Some("sandbox is for a command; a url is the one place that is reached".to_owned());
            }
            _ => {}
        }
        if !(1..=MOST_TIMEOUT_S).contains(&self.timeout_s) {
            return Some(format!("timeout_s is {}; choose 1 to {MOST_TIMEOUT_S}", self.timeout_s));
        }
        if !(64..=65_536).contains(&self.sandbox.memory_mb) {
            return Some(format!("sandbox.memory_mb is {}; choose 64 to 65536", self.sandbox.memory_mb));
        }
        let bad = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
        if let Some(name) = self.env.keys().find(bad) {
            return Some(format!("`{name}` is no name of a variable"));
        }
        let texts = self.args.iter().chain(self.command.as_ref()).chain(self.env.values()).chain(self.headers.values());
        if texts.into_iter().any(|text| text.contains('\0')) {
            return Some("a text holds a zero byte".to_owned());
        }
        if let Some(problem) = self.sandbox.network.iter().find_map(|host| jarvis_dispatch::check_host(host).err()) {
            return Some(format!("sandbox.network: {problem}"));
        }
        None
    }

    /// What a person decides about a tool beforehand.
    pub fn rule(&self, tool: &str) -> Option<ToolRule> {
        self.tools.get(tool).or_else(|| self.tools.get("*")).copied()
    }

    /// The same as long as the same server is run or reached in the same way; BLAKE3, in hex. What a yes was given to
    /// does not stand for another program.
    pub fn digest(&self) -> String {
        let identity = ServerConfig {
            enabled: true,
            timeout_s: TIMEOUT_S,
            tools: BTreeMap::new(),
            brought: false,
            ..self.clone()
        };
        // Cannot fail: a plain structure of texts and numbers.
        let text = serde_json::to_vec(&identity).unwrap_or_default();
        blake3::hash(&text).to_hex().to_string()
    }

    /// Where the config speaks of it.
    pub fn set_up(&self, name: &str) -> String {
        format!("mcp.{}.{name}", if self.brought { "editor" } else { "servers" })
    }

    /// How a person finds out more where it does not start.
    pub(crate) fn tried_by(&self, name: &str) -> String {
        match self.brought {
            false => format!("`jarvis mcp test {name}` shows all that it says"),
            true => format!("{}.sandbox in config.toml says what it may read, change and reach", self.set_up(name)),
        }
    }

    /// What it is, for a list: its command line or its address.
    pub fn place(&self) -> String {
        match (&self.url, &self.command) {
            (Some(url), _) => url.clone(),
            (None, command) => {
                let words = command.iter().chain(&self.args).map(String::as_str);
                words.collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// A path of the config, from the workspace on.
pub(crate) fn full(workspace: &Path, path: &Path) -> PathBuf {
    workspace.join(path).components().collect()
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= MOST_NAME
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        // It stands before `__` in the names of tools.
        && !name.contains("__")
        && !name.ends_with('_')
}

fn is_http(url: &str) -> bool {
    url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).is_some_and(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> ServerConfig {
        ServerConfig { command: Some("node".to_owned()), ..ServerConfig::default() }
    }

    #[test]
    fn what_is_no_server_is_said_to_be_none() {
        assert_eq!(program().check("a-b_c1"), Ok(()));
        let url = ServerConfig { url: Some("https://mcp.example.com/mcp".to_owned()), ..ServerConfig::default() };
        assert_eq!(url.check("web"), Ok(()));
        for (name, config, says) in [
            ("a__b", program(), "name"),
            ("1", program(), "name"),
            ("服务", program(), "name"),
            ("a", ServerConfig::default(), "needs a command or a url"),
            ("a", ServerConfig { url: url.url.clone(), ..program() }, "one of them"),
            ("a", ServerConfig { timeout_s: 0, ..program() }, "timeout_s"),
            ("a", ServerConfig { url: Some("ftp://x".to_owned()), ..ServerConfig::default() }, "no http(s)"),
            ("a", ServerConfig { env: [("A=B".to_owned(), String::new())].into(), ..program() }, "variable"),
            ("a", ServerConfig { args: vec!["x".to_owned()], ..url.clone() }, "for a command"),
        ] {
            let problem = config.check(name).unwrap_err().to_string();
            assert!(problem.contains(says), "{problem}");
        }
        let sandbox = ServerSandbox { network: vec!["http://".to_owned()], ..ServerSandbox::default() };
        assert!(ServerConfig { sandbox, ..program() }.check("a").is_err());
    }

    #[test]
    fn another_program_is_another_server_and_a_rule_is_not() {
        let rules = ServerConfig { tools: [("*".to_owned(), ToolRule::Allow)].into(), timeout_s: 5, ..program() };
        assert_eq!(program().digest(), rules.digest());
        let open = ServerSandbox { write: vec!["/x".into()], ..ServerSandbox::default() };
        assert_ne!(program().digest(), ServerConfig { sandbox: open, ..program() }.digest());
        assert_ne!(program().digest(), ServerConfig { command: Some("sh".to_owned()), ..program() }.digest());
    }
}
