//! What config.toml may hold. An unknown key is an error: a misspelt one would be ignored in silence.

use jarvis_agent::{Mode, Price, Strategy, TurnLimits};
use jarvis_mcp::client::{BroughtRules, ServerConfigs};
use jarvis_model::fetch::{ModelFile, known_models};
use jarvis_policy::{Approval, NetworkRule};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// The public model hub; `HF_ENDPOINT` is what its own tools call a mirror of it.
const HUB: &str = "https://huggingface.co";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub mode: Mode,
    pub approve: Approval,
    /// How a long conversation is kept below what the model reads.
    pub context: Strategy,
    pub tools: Tools,
    /// A conversation gets a title from its model.
    pub titles: bool,
    pub hub: String,
    pub sandbox: Sandbox,
    pub limits: Limits,
    pub local: Local,
    pub providers: BTreeMap<String, Provider>,
    /// US dollars per million tokens, by `provider/model`.
    pub prices: BTreeMap<String, Price>,
    pub embeddings: Embeddings,
    pub memory: Memory,
    pub mcp: Mcp,
    /// Model files beside the built-in ones, for `local/NAME`.
    pub models: Models,
    pub serve: Serve,
    pub telemetry: Telemetry,
}

/// `jarvis serve`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Serve {
    pub listen: SocketAddr,
    /// Name of the environment variable that holds the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// Names by which it may be called, beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Requests a second from one address.
    pub rate: u32,
    pub max_sessions: usize,
    pub max_connections: usize,
    /// Seconds for turns to end once it is told to stop.
    pub grace_s: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// Without one, nothing is traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp_endpoint: Option<String>,
    /// What is said and called with goes into the traces too.
    pub content: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Embeddings {
    /// Without one, searches are by words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// Where notes are kept, when not in this home.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// The variable that holds the URL of a Postgres server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_env: Option<String>,
    /// Whose notes; spaces of a server do not see each other.
    pub space: String,
}

impl Default for Memory {
    fn default() -> Self {
        Self { url_env: None, space: "jarvis".to_owned() }
    }
}

/// Servers of the Model Context Protocol, whose tools the model is offered.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mcp {
    #[serde(skip_serializing_if = "ServerConfigs::is_empty")]
    pub servers: ServerConfigs,
    /// What servers that an editor brings along may touch, by their names there.
    #[serde(skip_serializing_if = "BroughtRules::is_empty")]
    pub editor: BroughtRules,
    /// Seconds after which `jarvis mcp serve --http` ends a session that nobody uses or listens to.
    pub idle_s: u64,
}

impl Default for Mcp {
    fn default() -> Self {
        Self { servers: ServerConfigs::new(), editor: BroughtRules::new(), idle_s: 300 }
    }
}

pub type Models = BTreeMap<String, ModelFile>;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sandbox {
    pub network: NetworkRule,
    pub pool: usize,
    /// The interpreters of capabilities; a name is looked up on PATH.
    pub python: String,
    pub deno: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    pub max_turns: u32,
    pub max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    pub max_time_s: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Local {
    pub context_tokens: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_layers: Option<u32>,
}

/// Tools of a model that drives tools, beside capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tools {
    /// Files of the workspace, a shell in the jail, HTTP.
    #[default]
    All,
    /// None.
    Capabilities,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WireName {
    Openai,
    Anthropic,
}

/// `[providers.NAME]`. For a built-in name only what differs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Provider {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Name of the environment variable that holds the key; empty for a server without keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireName>,
    /// Used where only the provider is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Seconds without a byte after which the server counts as hung.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Whether its models look at images; without a word the provider is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    /// Whether its models want their reasoning back with the conversation, where that is not known by the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_reasoning: Option<bool>,
    /// Fields of the request's body that only this provider has, e.g. `thinking`.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub body: serde_json::Map<String, serde_json::Value>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            model: None,
            mode: Mode::Auto,
            approve: Approval::Ask,
            context: Strategy::default(),
            tools: Tools::default(),
            titles: true,
            hub: HUB.to_owned(),
            sandbox: Sandbox::default(),
            limits: Limits::default(),
            local: Local::default(),
            providers: BTreeMap::new(),
            prices: BTreeMap::new(),
            embeddings: Embeddings::default(),
            memory: Memory::default(),
            mcp: Mcp::default(),
            models: Models::new(),
            serve: Serve::default(),
            telemetry: Telemetry::default(),
        }
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Self { network: NetworkRule::Ask, pool: 2, python: "python3".to_owned(), deno: "deno".to_owned() }
    }
}

impl Default for Serve {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7878)),
            token_env: None,
            hosts: Vec::new(),
            rate: 500,
            max_sessions: 1000,
            max_connections: 1024,
            grace_s: 10,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let standard = TurnLimits::STANDARD;
        Self {
            max_turns: standard.max_rounds,
            max_tokens: standard.max_tokens,
            max_cost_usd: standard.max_cost_usd,
            max_time_s: standard.max_time.as_secs(),
        }
    }
}

impl Default for Local {
    fn default() -> Self {
        Self { context_tokens: 8192, threads: None, gpu_layers: None }
    }
}

impl Limits {
    pub fn turn(&self) -> TurnLimits {
        TurnLimits {
            max_rounds: self.max_turns,
            max_tokens: self.max_tokens,
            max_cost_usd: self.max_cost_usd,
            max_time: Duration::from_secs(self.max_time_s),
        }
    }
}

impl Settings {
    /// What a type cannot say.
    pub fn check(&self) -> Result<(), String> {
        let positive = [
            ("limits.max_turns", u64::from(self.limits.max_turns)),
            ("limits.max_tokens", self.limits.max_tokens),
            ("limits.max_time_s", self.limits.max_time_s),
            ("serve.rate", u64::from(self.serve.rate)),
            ("serve.max_sessions", self.serve.max_sessions as u64),
            ("serve.max_connections", self.serve.max_connections as u64),
            ("mcp.idle_s", self.mcp.idle_s),
        ];
        if let Some((key, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(format!("{key} must be at least 1"));
        }
        if self.limits.max_cost_usd.is_some_and(|cost| !cost.is_finite() || cost <= 0.0) {
            return Err("limits.max_cost_usd must be more than 0".to_owned());
        }
        if self.local.context_tokens < 512 {
            return Err("local.context_tokens must be at least 512".to_owned());
        }
        if self.local.threads == Some(0) {
            return Err("local.threads must be at least 1".to_owned());
        }
        if let Some(endpoint) = self.telemetry.otlp_endpoint.as_ref().filter(|endpoint| !is_http(endpoint)) {
            return Err(format!("telemetry.otlp_endpoint = \"{endpoint}\" is no http(s) address"));
        }
        is_http(&self.hub).then_some(()).ok_or_else(|| format!("hub = \"{}\" is no http(s) address", self.hub))?;
        for (name, provider) in &self.providers {
            if !is_name(name) || name == "local" {
                return Err(format!(
                    "[providers.{name}]: a provider's name is letters, digits, `-`, `_`, `.`, and not `local`"
                ));
            }
            if let Some(url) = provider.base_url.as_ref().filter(|url| !is_http(url)) {
                return Err(format!("providers.{name}.base_url = \"{url}\" is no http(s) address"));
            }
        }
        for (name, server) in &self.mcp.servers {
            server.check(name).map_err(|e| e.to_string())?;
        }
        for (model, price) in &self.prices {
            let rates = [Some(price.input), Some(price.output), price.cached, price.cache_write];
            if rates.into_iter().flatten().any(|rate| !rate.is_finite() || rate < 0.0) {
                return Err(format!("prices.\"{model}\": a price is a number from 0 on"));
            }
        }
        for (name, model) in &self.models {
            let digest_is_hex = model.sha256.len() == 64
                && model.sha256.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            if !is_name(name) || !is_name(&model.file) {
                return Err(format!("[models.{name}]: name and file are plain names without a path"));
            }
            if !digest_is_hex || model.bytes == 0 || model.sources.is_empty() {
                return Err(format!("[models.{name}] needs bytes, a sha256 of 64 lower-case hex digits, and sources"));
            }
        }
        Ok(())
    }

    /// Built-in model files and those of the config, which win under the same name.
    pub fn model_files(&self) -> Vec<ModelFile> {
        let mut files = known_models();
        files.retain(|file| !self.models.contains_key(&file.name));
        files.extend(self.models.iter().map(|(name, file)| ModelFile { name: name.clone(), ..file.clone() }));
        files
    }
}

fn is_http(url: &str) -> bool {
    url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).is_some_and(|rest| !rest.is_empty())
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}
