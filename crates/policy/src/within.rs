//! What a capability may reach when another one calls it: no more than either was approved for.

use crate::hosts::Pattern;
use jarvis_protocol::Grants;
use std::path::{Component, Path, PathBuf};

/// What both grant. Relative paths are meant from `workspace`; those of the result are absolute. Where a part of it
/// cannot be written as a grant it is left out: less is allowed then, never more.
pub fn within(caller: &Grants, callee: &Grants, workspace: &Path) -> Grants {
    Grants {
        network: hosts(&caller.network, &callee.network),
        read: paths(&caller.read, &callee.read, workspace),
        write: paths(&caller.write, &callee.write, workspace),
        secrets: callee.secrets.iter().filter(|name| caller.secrets.contains(name)).cloned().collect(),
    }
}

fn hosts(caller: &[String], callee: &[String]) -> Vec<String> {
    let parse = |list: &[String]| list.iter().filter_map(|grant| Pattern::parse(grant).ok()).collect::<Vec<_>>();
    let (caller, callee) = (parse(caller), parse(callee));
    distinct(callee.iter().flat_map(|one| caller.iter().filter_map(|other| one.meet(other))).map(|met| met.to_string()))
}

fn paths(caller: &[String], callee: &[String], workspace: &Path) -> Vec<String> {
    let full = |list: &[String]| list.iter().filter_map(|path| absolute(workspace, path)).collect::<Vec<_>>();
    let (caller, callee) = (full(caller), full(callee));
    let deeper = |one: &PathBuf, other: &PathBuf| match () {
        () if one.starts_with(other) => Some(one.clone()),
        () if other.starts_with(one) => Some(other.clone()),
        () => None,
    };
    let met = callee.iter().flat_map(|one| caller.iter().filter_map(move |other| deeper(one, other)));
    // A path that is no text has no form as a grant.
    distinct(met.filter_map(|path| path.into_os_string().into_string().ok()))
}

/// Without `.`; `None` with `..`, which no grant covers.
fn absolute(workspace: &Path, path: &str) -> Option<PathBuf> {
    let joined = workspace.join(path);
    let climbs = joined.components().any(|part| part == Component::ParentDir);
    (joined.is_absolute() && !climbs).then(|| joined.components().filter(|part| *part != Component::CurDir).collect())
}

fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for text in texts {
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    seen
}

#[cfg(test)]
#[path = "within_tests.rs"]
mod tests;
