//! `jarvis config`.

use crate::cli::{Common, unused_model};
use crate::config::{self, KEYS};
use crate::error::{Outcome, failed, usage};
use crate::home::Home;
use crate::{model, term};
use clap::Subcommand;
use jarvis_protocol::ErrorKind;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
#[command(arg = unused_model(), after_help = keys_help())]
pub enum Config {
    /// Prints the settings in force (defaults, file, environment), or one of them.
    #[command(after_help = "Examples:\n  jarvis config get\n  jarvis config get limits.max_turns")]
    Get { key: Option<String> },
    /// Sets a key; comments in the file stay, and nothing is written that is not right.
    #[command(
        after_help = "Examples:\n  jarvis config set model ollama/qwen2.5:7b\n  jarvis config set limits.max_turns 10\n\n\
`jarvis config --help` lists all keys."
    )]
    Set { key: String, value: String },
    /// Prints where config.toml is.
    #[command(after_help = "Example:\n  cat \"$(jarvis config path)\"")]
    Path,
    /// Opens config.toml in $VISUAL or $EDITOR; a result that is not right is not taken over.
    #[command(after_help = "Example:\n  EDITOR=nano jarvis config edit")]
    Edit,
}

/// What has a name of its own: no variable goes before it.
const TABLES: [(&str, &str); 7] = [
    ("providers.NAME.base_url", "of a server that speaks one of the two wires"),
    ("providers.NAME.wire", "openai (chat completions; the default) or anthropic (messages)"),
    ("providers.NAME.api_key_env", "the variable that holds the key; \"\" where none is needed"),
    ("providers.NAME.{model, context_tokens, mode, headers, idle_timeout_s, retries, images}", "as their names say"),
    ("providers.NAME.{body, replay_reasoning}", "fields of its own, e.g. thinking; whether it wants reasoning back"),
    ("prices.\"PROVIDER/MODEL\"", "{input, output, cached, cache_write}: US dollars per million tokens"),
    ("models.NAME.{file, bytes, sha256, sources}", "model files of your own for local/NAME"),
];

fn keys_help() -> String {
    let mut help = "Examples:\n  jarvis config set model ollama/qwen2.5:7b\n  jarvis config set sandbox.network closed\n  \
                    jarvis config set providers.mine.base_url http://127.0.0.1:8000/v1\n\nKeys (and the environment variable that \
                    goes before the file):\n"
        .to_owned();
    for key in KEYS {
        help += &format!("  {} ({})\n      {}\n", key.path, key.env, key.about);
    }
    for (path, about) in TABLES {
        help += &format!("  {path}\n      {about}\n");
    }
    help
}

pub fn run(args: Config, common: &Common) -> Outcome {
    let home = Home::find()?;
    match args {
        Config::Path if common.json => term::json(&json!({"path": home.config()})),
        Config::Path => term::line(home.config().display()),
        Config::Get { key } => get(&home, key.as_deref(), common.json),
        Config::Set { key, value } => set(&home, &key, &value, common.json),
        Config::Edit => {
            let editor =
                ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok().filter(|v| !v.trim().is_empty()));
            let editor = editor.ok_or_else(|| usage("no editor is set", "set EDITOR, for example EDITOR=nano"))?;
            let changed = config::edit(&home, &editor)?;
            if common.json {
                return term::json(&json!({"changed": changed}));
            }
            term::status(if changed { "config.toml is changed" } else { "nothing was changed" });
            Ok(())
        }
    }
}

fn set(home: &Home, key: &str, value: &str, json: bool) -> Outcome {
    if key == "model" {
        model::known_provider(&config::load(home)?, value.trim_matches('"'), "config set")?;
    }
    let written = config::set(home, key, value)?;
    if let Some(known) = KEYS.iter().find(|k| k.path == key && std::env::var_os(k.env).is_some_and(|v| !v.is_empty())) {
        term::status(format!("note: {} is set and goes before the file", known.env));
    }
    if json {
        return term::json(&json!({"key": key, "value": config::value_of(&written)}));
    }
    term::status(format!("{key} = {written}"));
    Ok(())
}

fn get(home: &Home, key: Option<&str>, json: bool) -> Outcome {
    let settings = config::load(home)?;
    let whole = serde_json::to_value(&settings).map_err(|e| failed(ErrorKind::Internal, e.to_string()))?;
    let value = match key {
        None => whole,
        Some(key) => lookup(&whole, key).cloned().ok_or_else(|| {
            let known = KEYS.iter().any(|k| k.path == key);
            let what = if known { format!("`{key}` is not set") } else { format!("`{key}` is not a key that is set") };
            usage(what, "`jarvis config get` prints what there is, `jarvis config --help` explains the keys")
        })?,
    };
    if json {
        return term::json(&value);
    }
    match &value {
        Value::Object(_) => {
            let toml = toml::to_string(&value).map_err(|e| failed(ErrorKind::Internal, e.to_string()))?;
            term::text(toml)
        }
        Value::String(text) => term::line(text),
        other => term::line(other),
    }
}

fn lookup<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    let object = value.as_object()?;
    if let Some(found) = object.get(key.trim_matches('"')) {
        return Some(found);
    }
    let (head, rest) = key.split_once('.')?;
    lookup(object.get(head)?, rest)
}
