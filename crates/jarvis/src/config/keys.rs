//! The catalogue of settings: help, environment and checks all come from here.

use toml::{Table, Value};

pub struct Key {
    pub path: &'static str,
    pub env: &'static str,
    pub about: &'static str,
}

const fn key(path: &'static str, env: &'static str, about: &'static str) -> Key {
    Key { path, env, about }
}

pub const KEYS: &[Key] = &[
    key(
        "model",
        "JARVIS_MODEL",
        "provider/model that answers, e.g. \"anthropic/claude-sonnet-4-5\" or \"local//path/to.gguf\"",
    ),
    key("mode", "JARVIS_MODE", "auto, native (the model drives tools) or staged (jarvis leads step by step)"),
    key(
        "approve",
        "JARVIS_APPROVE",
        "what to do where a yes is due (grants of a new version, many new capabilities): ask, auto or deny",
    ),
    key("hub", "HF_ENDPOINT", "base address of the model hub"),
    key(
        "sandbox.network",
        "JARVIS_SANDBOX_NETWORK",
        "what a new version may ask for: ask (a person decides) or closed (no network at all)",
    ),
    key("sandbox.python", "JARVIS_PYTHON", "python3 that runs Python capabilities; a name on PATH, or a file"),
    key("sandbox.deno", "JARVIS_DENO", "deno that runs capabilities of that runtime; a name on PATH, or a file"),
    key("sandbox.pool", "JARVIS_SANDBOX_POOL", "sandbox workers kept warm"),
    key("limits.max_turns", "JARVIS_MAX_TURNS", "model replies with tool calls in one turn"),
    key("limits.max_tokens", "JARVIS_MAX_TOKENS", "tokens in and out in one turn"),
    key("limits.max_cost_usd", "JARVIS_MAX_COST", "US dollars in one turn; needs a [prices] entry"),
    key("limits.max_time_s", "JARVIS_MAX_TIME", "seconds of one turn"),
    key(
        "context",
        "JARVIS_CONTEXT",
        "how a long conversation is kept below what the model reads: window, summary, memory or hybrid",
    ),
    key(
        "tools",
        "JARVIS_TOOLS",
        "all (files of the workspace, a shell in the sandbox, HTTP) or capabilities (those alone)",
    ),
    key(
        "titles",
        "JARVIS_TITLES",
        "true: a conversation gets a short title, by one more request to its model; or false",
    ),
    key(
        "embeddings.model",
        "JARVIS_EMBEDDINGS",
        "provider/model for searching by meaning as well as by words, e.g. \"ollama/nomic-embed-text\" or \"local//path/to.gguf\"",
    ),
    key(
        "memory.url_env",
        "JARVIS_MEMORY_URL_ENV",
        "variable that holds postgres://USER:PASSWORD@HOST/DATABASE, where a team shares its notes; the server needs pgvector",
    ),
    key("memory.space", "JARVIS_MEMORY_SPACE", "whose notes those are; spaces of a server do not see each other"),
    key("serve.listen", "JARVIS_LISTEN", "address and port of `jarvis serve`; only loopback without a token"),
    key("serve.token_env", "JARVIS_TOKEN_ENV", "name of the variable that holds the token of `jarvis serve`"),
    key("serve.hosts", "JARVIS_SERVE_HOSTS", "names by which `jarvis serve` may be called, e.g. [\"jarvis.lan\"]"),
    key("serve.rate", "JARVIS_SERVE_RATE", "requests a second that `jarvis serve` takes from one address"),
    key("serve.max_sessions", "JARVIS_SERVE_SESSIONS", "sessions that `jarvis serve` has open at the same time"),
    key("serve.max_connections", "JARVIS_SERVE_CONNECTIONS", "connections that `jarvis serve` has at the same time"),
    key("serve.grace_s", "JARVIS_SERVE_GRACE", "seconds for turns to end once `jarvis serve` is told to stop"),
    key("mcp.idle_s", "JARVIS_MCP_IDLE", "seconds until `jarvis mcp serve --http` ends a session that nobody uses"),
    key("telemetry.otlp_endpoint", "JARVIS_OTLP_ENDPOINT", "OpenTelemetry collector (OTLP over HTTP) for traces"),
    key("telemetry.content", "JARVIS_TELEMETRY_CONTENT", "true: traces hold what is said, called with and answered"),
    key("local.context_tokens", "JARVIS_LOCAL_CONTEXT", "context of the embedded model, in tokens"),
    key("local.threads", "JARVIS_LOCAL_THREADS", "threads of the embedded model"),
    key("local.gpu_layers", "JARVIS_LOCAL_GPU_LAYERS", "layers on the GPU, where one is compiled in"),
];

/// What a person types: a number, true, an array or a quoted string as TOML has it; anything else is a plain string.
pub fn value_of(raw: &str) -> Value {
    match toml::from_str::<Table>(&format!("value = {raw}")) {
        Ok(mut table) if table.len() == 1 => table.remove("value").unwrap_or_else(|| Value::String(raw.to_owned())),
        _ => Value::String(raw.to_owned()),
    }
}

/// Puts `value` at a dotted path. A part that is no table is replaced: the check that follows tells what is wrong.
pub fn insert(table: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            table.insert(path.to_owned(), value);
        }
        Some((head, rest)) => {
            let inner = table.entry(head).or_insert_with(|| Value::Table(Table::new()));
            if !inner.is_table() {
                *inner = Value::Table(Table::new());
            }
            if let Value::Table(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}
