//! Changing config.toml: comments and order stay, and a result that is not right is never written.

use super::{parse, read};
use crate::error::{Outcome, config, disk, failed, usage};
use crate::files::replace;
use crate::home::Home;
use jarvis_protocol::ErrorKind;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use toml_edit::{DocumentMut, Item, Table, Value};

/// Held while the file is read, changed and replaced: of two processes that change it neither loses what the other wrote.
fn lock(home: &Home) -> Outcome<std::fs::File> {
    let path = home.root().join("config.lock");
    let wrong = |e: std::io::Error| disk(&path, &e);
    std::fs::create_dir_all(home.root()).map_err(wrong)?;
    let file = std::fs::File::options().create(true).truncate(false).write(true).open(&path).map_err(wrong)?;
    file.lock().map_err(wrong)?;
    Ok(file)
}

/// Sets one key (a dotted path) and returns the value as it was written, in TOML.
pub fn set(home: &Home, path: &str, raw: &str) -> Outcome<String> {
    let _held = lock(home)?;
    let file = home.config();
    let text = read(&file)?;
    parse(&text, &file)?;
    let mut document: DocumentMut =
        text.parse().map_err(|e: toml_edit::TomlError| config(e.to_string(), "correct config.toml first"))?;
    let value = raw.parse::<Value>().unwrap_or_else(|_| Value::from(raw));
    let shown = value.to_string().trim().to_owned();
    place(document.as_table_mut(), path, value)?;
    let changed = document.to_string();
    if parse(&changed, &file).is_err() {
        // A number where text belongs (a model called `7`): text is what was meant if that is right.
        let mut again: DocumentMut =
            text.parse().map_err(|e: toml_edit::TomlError| config(e.to_string(), "correct config.toml first"))?;
        place(again.as_table_mut(), path, Value::from(raw))?;
        let as_text = again.to_string();
        if let Err(problem) = parse(&as_text, &file) {
            return Err(refused(path, raw, &changed, &file, problem));
        }
        replace(&file, &as_text)?;
        return Ok(Value::from(raw).to_string());
    }
    replace(&file, &changed)?;
    Ok(shown)
}

/// Puts a table at `path`, in place of what stands there; with nothing, takes it away. True where something stood there.
pub fn put(home: &Home, path: &[&str], value: Option<&impl Serialize>) -> Outcome<bool> {
    let Some((name, above)) = path.split_last() else { return Ok(false) };
    change(home, above, |table| {
        Ok(match value {
            None => table.remove(name),
            Some(value) => table.insert(name, made(value)?),
        }
        .is_some())
    })
}

/// Puts all of them below `path`, by name, in one change.
pub fn put_all<T: Serialize>(home: &Home, path: &[&str], values: &BTreeMap<String, T>) -> Outcome {
    change(home, path, |table| {
        for (name, value) in values {
            table.insert(name, made(value)?);
        }
        Ok(())
    })
}

fn made(value: &impl Serialize) -> Outcome<Item> {
    let wrong = |e: String| failed(ErrorKind::Internal, e);
    let text = toml::to_string(value).map_err(|e| wrong(e.to_string()))?;
    let made: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| wrong(e.to_string()))?;
    Ok(Item::Table(made.as_table().clone()))
}

fn change<T>(home: &Home, path: &[&str], work: impl FnOnce(&mut Table) -> Outcome<T>) -> Outcome<T> {
    let _held = lock(home)?;
    let file = home.config();
    let text = read(&file)?;
    parse(&text, &file)?;
    let mut document: DocumentMut =
        text.parse().map_err(|e: toml_edit::TomlError| config(e.to_string(), "correct config.toml first"))?;
    let mut table = document.as_table_mut();
    for part in path {
        let inner = table.entry(part).or_insert_with(|| {
            let mut made = Table::new();
            made.set_implicit(true);
            Item::Table(made)
        });
        if let Some(inline) = inner.as_inline_table().cloned() {
            *inner = Item::Table(inline.into_table());
        }
        table = inner
            .as_table_mut()
            .ok_or_else(|| config(format!("`{part}` in config.toml is no table"), "correct config.toml first"))?;
    }
    let done = work(table)?;
    let changed = document.to_string();
    parse(&changed, &file)?;
    replace(&file, &changed)?;
    Ok(done)
}

fn refused(path: &str, raw: &str, changed: &str, file: &Path, as_text: crate::error::Failure) -> crate::error::Failure {
    let why = match parse(changed, file).err().unwrap_or(as_text) {
        crate::error::Failure::Body(body) => body.message,
        crate::error::Failure::BrokenPipe | crate::error::Failure::Told(_) => String::new(),
    };
    // The parser shows its excerpt of a file that was never written; its last line is the reason.
    let why = why.lines().last().unwrap_or_default().trim().to_owned();
    config(
        format!("`{path} = {raw}` is not right: {why}"),
        "nothing was changed; `jarvis config get` lists the keys and `jarvis config --help` explains them",
    )
}

fn place(table: &mut Table, path: &str, value: Value) -> Outcome {
    let Some((head, rest)) = split(path)? else {
        match table.get_mut(path.trim_matches('"')).and_then(Item::as_value_mut) {
            // The comment behind the old value stays.
            Some(old) => {
                let decor = old.decor().clone();
                *old = value;
                *old.decor_mut() = decor;
            }
            None => {
                table.insert(path.trim_matches('"'), Item::Value(value));
            }
        }
        return Ok(());
    };
    let inner = table.entry(&head).or_insert_with(|| {
        let mut made = Table::new();
        made.set_implicit(true);
        Item::Table(made)
    });
    match inner.as_table_mut() {
        Some(inner) => place(inner, &rest, value),
        None => {
            Err(usage(format!("`{head}` in `{path}` is a value, not a table"), "name a key such as sandbox.network"))
        }
    }
}

/// `providers.mine.model` → (`providers`, `mine.model`); a part in quotes may hold dots: `prices."openai/gpt-4.1".input`.
fn split(path: &str) -> Outcome<Option<(String, String)>> {
    let end = match path.strip_prefix('"') {
        Some(quoted) => quoted.find('"').map(|i| i + 2),
        None => Some(path.find('.').unwrap_or(path.len())),
    };
    match end {
        Some(end) if end == path.len() && path.trim_matches('"').is_empty() => {
            Err(usage("the key is empty", "jarvis config set model openai/gpt-4.1-mini"))
        }
        Some(end) if end == path.len() => Ok(None),
        Some(end) if path[end..].starts_with('.') && end > 0 => {
            Ok(Some((path[..end].trim_matches('"').to_owned(), path[end + 1..].to_owned())))
        }
        _ => Err(usage(format!("`{path}` is not a key"), "jarvis config set model openai/gpt-4.1-mini")),
    }
}

/// Opens `editor` on a copy; the file is replaced only by a copy that is right. Returns false where nothing changed.
// The person's own editor, started for the person.
#[allow(clippy::disallowed_methods)]
pub fn edit(home: &Home, editor: &str) -> Outcome<bool> {
    let file = home.config();
    let text = read(&file)?;
    let copy =
        tempfile::Builder::new().prefix("jarvis-config-").suffix(".toml").tempfile().map_err(|e| disk(&file, &e))?;
    std::fs::write(copy.path(), &text).map_err(|e| disk(copy.path(), &e))?;
    // $EDITOR may hold arguments ("code --wait").
    let mut words = editor.split_whitespace();
    let program = words.next().ok_or_else(|| usage("no editor is set", "set EDITOR, for example EDITOR=nano"))?;
    let status = std::process::Command::new(program).args(words).arg(copy.path()).status().map_err(|e| {
        usage(format!("the editor `{program}` cannot be started: {e}"), "set EDITOR, for example EDITOR=nano")
    })?;
    if !status.success() {
        return Err(failed(ErrorKind::Cancelled, format!("the editor ended with {status}; nothing was changed")));
    }
    let changed = std::fs::read_to_string(copy.path()).map_err(|e| disk(copy.path(), &e))?;
    if changed == text {
        return Ok(false);
    }
    if let Err(problem) = parse(&changed, &file) {
        let kept = copy.keep().map(|(_, path)| path).map_err(|e| disk(&file, &e.error))?;
        crate::term::note(format!("what you wrote is kept in {}", kept.display()));
        return Err(problem);
    }
    replace(&file, &changed)?;
    Ok(true)
}
