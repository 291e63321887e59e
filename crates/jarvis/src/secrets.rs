//! The store of secrets: `secrets.json` in jarvis's home, which nobody but its owner may read.

use crate::error::{Outcome, config, disk, failed, usage};
use crate::files::replace;
use crate::home::Home;
use jarvis_protocol::ErrorKind;
use jarvis_sandbox::{EgressPolicy, SHORTEST_SECRET, Secret, Secrets};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest value; more does not fit the headers that servers take.
const LONGEST: usize = 8192;

/// The largest store that is read, bytes.
const MOST: u64 = 8 << 20;

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    value: String,
    pub hosts: Vec<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Store {
    /// Of the form of this file.
    version: u32,
    secrets: BTreeMap<String, Entry>,
}

const VERSION: u32 = 1;

fn place(home: &Home) -> PathBuf {
    home.root().join("secrets.json")
}

/// Finds secrets for the sandbox. Read anew each time, so that what was set or removed meanwhile counts.
pub fn finder(home: &Home) -> Secrets {
    let file = place(home);
    Arc::new(move |name| {
        let store = read(&file).map_err(|failure| failure.message())?;
        Ok(store.secrets.get(name).map(|entry| Secret { value: entry.value.clone(), hosts: entry.hosts.clone() }))
    })
}

/// Names, and where each may be sent.
pub fn list(home: &Home) -> Outcome<Vec<(String, Vec<String>)>> {
    Ok(read(&place(home))?.secrets.into_iter().map(|(name, entry)| (name, entry.hosts)).collect())
}

/// Sets or replaces one. True when it replaced another.
pub fn set(home: &Home, name: &str, value: String, hosts: Vec<String>) -> Outcome<bool> {
    check_name(name)?;
    check_hosts(name, &hosts)?;
    check_value(name, &value)?;
    change(home, |store| store.secrets.insert(name.to_owned(), Entry { value, hosts }).is_some())
}

/// False when there was none.
pub fn remove(home: &Home, name: &str) -> Outcome<bool> {
    change(home, |store| store.secrets.remove(name).is_some())
}

pub fn check_name(name: &str) -> Outcome {
    let head = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let tail = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if head && tail && name.len() <= 64 {
        return Ok(());
    }
    Err(usage(
        format!("`{name}` is not a name of a secret: up to 64 letters, digits and underscores, a letter first"),
        "jarvis secret set GITHUB_TOKEN --host api.github.com",
    ))
}

pub fn check_hosts(name: &str, hosts: &[String]) -> Outcome {
    let example = format!("jarvis secret set {name} --host api.example.com");
    if hosts.is_empty() {
        return Err(usage("a secret is bound to the hosts that it may be sent to, and none is given", example));
    }
    let policy = EgressPolicy::parse(hosts).map_err(|e| usage(e.to_string(), example.clone()))?;
    match policy.open_pattern() {
        Some(open) => Err(usage(
            format!("anybody can have a host that `{open}` covers, so a secret cannot be bound to it"),
            example,
        )),
        None => Ok(()),
    }
}

fn check_value(name: &str, value: &str) -> Outcome {
    let hint = format!("give the value on stdin: printf %s \"$VALUE\" | jarvis secret set {name} --host HOST");
    // The value is never repeated, not even in part.
    let wrong = |what: String| Err(usage(format!("the value of `{name}` {what}"), hint.clone()));
    if value.len() < SHORTEST_SECRET {
        return wrong(format!("has fewer than {SHORTEST_SECRET} bytes: it could not be told from ordinary text"));
    }
    if value.len() > LONGEST {
        return wrong(format!("has more than {LONGEST} bytes"));
    }
    if value.chars().any(char::is_control) {
        return wrong("holds a line break or another control character, which no header or URL can carry".to_owned());
    }
    if value.trim() != value {
        return wrong("begins or ends with a space, which no header keeps".to_owned());
    }
    Ok(())
}

fn change<T>(home: &Home, work: impl FnOnce(&mut Store) -> T) -> Outcome<T> {
    let file = place(home);
    let _turn = turn(&file)?;
    let mut store = read(&file)?;
    let outcome = work(&mut store);
    store.version = VERSION;
    write(&file, &store)?;
    Ok(outcome)
}

/// Two that change the store at once go one after the other.
fn turn(file: &Path) -> Outcome<File> {
    let lock = file.with_extension("lock");
    let opened = OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(&lock);
    let opened = opened.map_err(|e| disk(&lock, &e))?;
    rustix::fs::flock(&opened, rustix::fs::FlockOperation::LockExclusive).map_err(|e| disk(&lock, &e.into()))?;
    Ok(opened)
}

fn read(file: &Path) -> Outcome<Store> {
    // A link could lead to a file that another user has prepared; a pipe would wait.
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(file);
    let opened = match opened {
        Ok(opened) => opened,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Store { version: VERSION, ..Store::default() });
        }
        Err(e) => return Err(disk(file, &e)),
    };
    let about = opened.metadata().map_err(|e| disk(file, &e))?;
    let shown = file.display();
    if !about.is_file() {
        return Err(config(format!("{shown} is not a file"), "move it away, and set the secrets again"));
    }
    let own = about.uid() == rustix::process::geteuid().as_raw() || about.uid() == 0;
    if about.permissions().mode() & 0o077 != 0 || !own {
        return Err(config(
            format!("other users can read or change {shown}, so its secrets are not used"),
            format!("chmod 600 {shown}; if others may have read it, set new values"),
        ));
    }
    let mut text = String::new();
    opened.take(MOST).read_to_string(&mut text).map_err(|e| disk(file, &e))?;
    // The parser's message could repeat a part of a value: its place is enough.
    let store: Store = serde_json::from_str(&text).map_err(|e| {
        config(
            format!("{shown} is damaged at line {}, column {}", e.line(), e.column()),
            "mend it, or move it away and set the secrets again with `jarvis secret set`",
        )
    })?;
    if store.version > VERSION {
        return Err(config(format!("{shown} is of a newer jarvis"), "use that one, or set the secrets again"));
    }
    Ok(store)
}

fn write(file: &Path, store: &Store) -> Outcome {
    let text = serde_json::to_string_pretty(store).map_err(|e| failed(ErrorKind::Internal, e.to_string()))?;
    replace(file, &text)
}
