//! Settings in layers: defaults < config.toml < environment < flags.

mod edit;
mod file;
mod keys;

pub use edit::{edit, put, set};
pub use file::{Provider, Settings, Tools, WireName};
pub use keys::{KEYS, value_of};

use crate::error::{Failure, Outcome, config};
use crate::home::Home;
use std::path::Path;

/// The file and the environment, merged and checked. Flags are laid over it by whoever has them.
pub fn load(home: &Home) -> Outcome<Settings> {
    let text = read(&home.config())?;
    parse(&text, &home.config())?;
    let mut table: toml::Table = toml::from_str(&text).map_err(|e| not_toml(&home.config(), &e))?;
    let mut from_environment = Vec::new();
    for key in KEYS {
        if let Some(raw) = std::env::var(key.env).ok().filter(|raw| !raw.is_empty()) {
            keys::insert(&mut table, key.path, value_of(&raw));
            from_environment.push(key.env);
        }
    }
    let settings: Settings = table.try_into().map_err(|e: toml::de::Error| {
        // The file alone was right, so it is the environment.
        config(format!("{}: {}", from_environment.join(", "), e.message()), "correct or unset the variable")
    })?;
    settings.check().map_err(|problem| config(problem, "see `jarvis config --help`"))?;
    Ok(settings)
}

/// A missing file is an empty one.
fn read(path: &Path) -> Outcome<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(e) => Err(config(format!("{} cannot be read: {e}", path.display()), "it must be a readable UTF-8 file")),
    }
}

fn parse(text: &str, path: &Path) -> Outcome<Settings> {
    let settings: Settings = toml::from_str(text).map_err(|e| not_toml(path, &e))?;
    settings
        .check()
        .map_err(|problem| config(format!("{}: {problem}", path.display()), "correct it with `jarvis config edit`"))?;
    Ok(settings)
}

/// The parser's own message shows the line and points at the place.
fn not_toml(path: &Path, error: &toml::de::Error) -> Failure {
    let said = error.to_string();
    config(
        format!("{} is not right:\n{}", path.display(), said.trim_end()),
        "correct that line (`jarvis config edit`); nothing was changed",
    )
}
