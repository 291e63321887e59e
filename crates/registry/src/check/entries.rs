//! `index.json`, its entries and their code.

use super::{Cure, Level, Trouble, words};
use crate::digest::digest;
use crate::git::{Git, INDEX};
use crate::index::{Document, parse_entry};
use crate::middle::Middle;
use crate::recover::relative;
use crate::registry::{code_path, is_below, staged_code};
use crate::snapshot::{DUPLICATE, Snapshot};
use crate::{Registry, RegistryError};
use jarvis_protocol::Capability;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::Path;

/// Files of nobody that are named; the rest is counted.
const NAMED: usize = 8;

pub(super) fn check(registry: &Registry, found: &mut Vec<Trouble>) {
    let root = &registry.inner.root;
    let snapshot = match registry.look() {
        Ok(snapshot) => snapshot,
        Err(error) => {
            let (problem, todo) = words(&error);
            return found.push(Trouble::new(INDEX, Level::Broken, problem, todo));
        }
    };
    let committed = Committed::read(root);
    index_file(root, &snapshot, found);
    damaged(&snapshot, &committed, found);
    for capability in snapshot.capabilities() {
        found.extend(code(registry, capability, &snapshot, &committed));
    }
    // While the last commit stands in for the index, nobody can say what belongs to whom.
    if snapshot.stale.is_none() {
        foreign(root, &snapshot, &committed, found);
    }
}

/// The entries of the last commit.
struct Committed(HashMap<String, Capability>);

impl Committed {
    fn read(root: &Path) -> Committed {
        let bytes = Git::open(root).ok().flatten().and_then(|git| git.content(None, INDEX).ok().flatten());
        let document = bytes.and_then(|bytes| Document::parse(&bytes).ok());
        let entries = document.map(|d| d.entries).unwrap_or_default();
        let parsed = entries.iter().enumerate().filter_map(|(i, raw)| parse_entry(raw, i).ok());
        Committed(parsed.map(|cap| (cap.name.to_string(), cap)).collect())
    }
}

fn index_file(root: &Path, snapshot: &Snapshot, found: &mut Vec<Trouble>) {
    let path = root.join(INDEX);
    if let Some(stale) = &snapshot.stale {
        let problem = format!("index.json: {}; the last commit is used instead of it", stale.problem);
        let trouble = Trouble::new(INDEX, Level::Broken, problem, "");
        // A merge is finished, not thrown away.
        if let Some(middle) = Middle::of(root) {
            found.push(Trouble { todo: middle.way_out(root), ..trouble });
        } else if stale.denied {
            found.push(trouble.cured(Cure::Permit(path)));
        } else {
            found.push(trouble.cured(Cure::RestoreIndex));
        }
    } else if std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink()) {
        let target = std::fs::read_link(&path).unwrap_or_default();
        let problem = format!(
            "index.json is a link to {}: the next registration puts a file in its place and leaves {} as it is",
            target.display(),
            target.display()
        );
        found.push(Trouble::new(INDEX, Level::Weak, problem, "").cured(Cure::Unlink));
    }
}

fn damaged(snapshot: &Snapshot, committed: &Committed, found: &mut Vec<Trouble>) {
    let mut seen: HashMap<String, Value> = HashMap::new();
    for (i, entry) in snapshot.entries.iter().enumerate() {
        let value = || serde_json::from_str::<Value>(entry.raw.get()).unwrap_or_default();
        let problem = match &entry.parsed {
            Ok(capability) => {
                seen.insert(capability.name.to_string(), value());
                continue;
            }
            Err(problem) => problem,
        };
        let todo = "mend the entry, or delete it from index.json";
        let told = format!("its entry in index.json is damaged: {}", problem.problem);
        let trouble = Trouble::new(&problem.entry, Level::Broken, told, todo);
        found.push(if problem.problem.starts_with("in conflict: ") {
            let (told, todo) = problem.problem.split_once("; settle it: ").unwrap_or((&problem.problem, todo));
            Trouble::new(&problem.entry, Level::Broken, told, todo)
        } else if problem.problem == DUPLICATE {
            match seen.get(&problem.entry) == Some(&value()) {
                true => trouble.cured(Cure::DropDuplicate(i)),
                false => Trouble {
                    todo: "give one of the two another name, or delete it; they differ, so it is not chosen for you"
                        .to_owned(),
                    ..trouble
                },
            }
        } else if committed.0.contains_key(&problem.entry) {
            trouble.cured(Cure::RestoreEntry(problem.entry.clone()))
        } else {
            trouble
        });
    }
    for beside in snapshot.beside().iter().filter(|d| d.entry != INDEX) {
        let (told, todo) = beside.problem.split_once("; settle it: ").unwrap_or((&beside.problem, ""));
        found.push(Trouble::new(&beside.entry, Level::Broken, told, todo));
    }
}

fn code(registry: &Registry, capability: &Capability, snapshot: &Snapshot, committed: &Committed) -> Option<Trouble> {
    let root = &registry.inner.root;
    let name = capability.name.as_str();
    // A definition that was imported without code waits for it.
    if capability.tool_path.is_empty() {
        return None;
    }
    let error = match registry.code(capability) {
        Ok(code) if code.matches_digest => {
            let path = code_path(root, capability).ok()?;
            // It runs, but the next registration would go through the link.
            let linked = snapshot.stale.is_none()
                && std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink())
                && !staged_code(root, capability).exists();
            return linked.then(|| {
                let problem = format!("its code {} is a link; a registration would replace it", capability.tool_path);
                let trouble = Trouble::new(name, Level::Weak, problem, "put a file in its place");
                restorable(registry, capability, trouble)
            });
        }
        Ok(code) => return Some(by_hand(root, capability, &code.text, committed)),
        Err(error) => error,
    };
    let (problem, todo) = words(&error);
    let trouble = Trouble::new(name, Level::Broken, problem, todo);
    if !is_below(&capability.tool_path) {
        // It names no file of the workspace, so there is none to restore.
        let before = committed.0.get(name).is_some_and(|old| is_below(&old.tool_path));
        return Some(if before { trouble.cured(Cure::RestoreEntry(name.to_owned())) } else { trouble });
    }
    match &error {
        RegistryError::Io { source, path, .. } if source.kind() == ErrorKind::PermissionDenied => {
            Some(trouble.cured(Cure::Permit(path.clone())))
        }
        _ => Some(restorable(registry, capability, trouble)),
    }
}

fn restorable(registry: &Registry, capability: &Capability, trouble: Trouble) -> Trouble {
    match super::repair::committed_code(registry, capability) {
        Some(_) => trouble.cured(Cure::RestoreCode(capability.name.to_string())),
        None => trouble,
    }
}

/// Code and entry do not fit each other. A person's work is never put back; a digest alone is nobody's work.
fn by_hand(root: &Path, capability: &Capability, text: &str, committed: &Committed) -> Trouble {
    let name = capability.name.as_str();
    let before = committed.0.get(name).filter(|old| !old.digest.is_empty() && digest(old, text) == old.digest);
    if let Some(old) = before {
        let same = Capability { digest: old.digest.clone(), ..capability.clone() } == *old;
        let problem = "its entry in index.json was changed by hand since it was checked, so it does not run";
        let trouble = Trouble::new(name, Level::Broken, problem, to_check(root, capability, INDEX));
        return if same {
            let problem = "its digest in index.json was changed, and nothing else; so it does not run";
            Trouble { problem: problem.to_owned(), ..trouble }.cured(Cure::RestoreEntry(name.to_owned()))
        } else {
            trouble
        };
    }
    let problem = if capability.digest.is_empty() {
        format!("the code of {name} was never checked, so it does not run")
    } else {
        format!("the code of {name} was changed by hand since it was checked, so it does not run")
    };
    Trouble::new(name, Level::Broken, problem, to_check(root, capability, &relative(capability)))
}

/// `changed` is the file that differs from what was registered.
fn to_check(root: &Path, capability: &Capability, changed: &str) -> String {
    format!(
        "to have it checked: jarvis cap check {}; to undo it: git -C {} checkout HEAD -- {changed}",
        capability.name,
        root.display()
    )
}

/// Files in `tools` that no entry names; of one that has just left the index, the next write takes the file away.
fn foreign(root: &Path, snapshot: &Snapshot, committed: &Committed, found: &mut Vec<Trouble>) {
    let leaving = committed.0.values().map(relative);
    let known: HashSet<String> = snapshot
        .entries
        .iter()
        .filter_map(|entry| match &entry.parsed {
            Ok(capability) => Some(relative(capability)),
            Err(_) => {
                let value: Value = serde_json::from_str(entry.raw.get()).ok()?;
                Some(crate::recover::clean(value.get("tool_path")?.as_str()?))
            }
        })
        .chain(leaving)
        .collect();
    let Ok(files) = std::fs::read_dir(root.join("tools")) else { return };
    let mut names: Vec<String> = files
        .flatten()
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .filter(|name| !known.contains(&format!("tools/{name}")) && !name.starts_with('.'))
        .collect();
    names.sort();
    if names.is_empty() {
        return;
    }
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.truncate(NAMED);
    let problem = format!("files in `tools` that no entry names, which never run: {}{more}", names.join(", "));
    found.push(Trouble::new("tools", Level::Note, problem, "register them, or move them away; they are left alone"));
}
