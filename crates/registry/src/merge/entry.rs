//! One entry, three states: what both sides made of it since their common ancestor.

use super::Side;
use crate::bump::bump;
use crate::index::entry;
use jarvis_protocol::{Capability, Change};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// An entry as one side has it.
#[derive(Clone)]
pub(crate) struct Item {
    pub raw: Box<RawValue>,
    pub value: Value,
    /// The path of its code as git knows it, and the blob there.
    pub path: String,
    pub code: Option<git2::Oid>,
}

impl PartialEq for Item {
    /// The order of keys means nothing.
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value && self.code == other.code
    }
}

pub(crate) enum Outcome {
    /// As this side has it; gone where it has none.
    Take(Side),
    /// Fields of both, with the code of one side.
    Both(Box<RawValue>, Side),
    Conflict(String),
}

/// What was proved together stays together: these and the code come from one side.
const BODY: [&str; 8] =
    ["runtime", "parameters", "returns", "grants", "dependencies", "tool_path", "digest", "examples"];
/// Worked out anew by the merge.
const BOOKS: [&str; 5] = ["version", "changelog", "created", "created_by", "model"];

pub(crate) fn three_way(
    base: Option<&Item>,
    ours: Option<&Item>,
    theirs: Option<&Item>,
    words: &str,
    now: &str,
) -> Outcome {
    if ours == theirs || theirs == base {
        return Outcome::Take(Side::Ours);
    }
    if ours == base {
        return Outcome::Take(Side::Theirs);
    }
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => fields(base, ours, theirs, words, now),
        (None, _) => Outcome::Conflict(format!("removed here, changed in {words}")),
        (_, None) => Outcome::Conflict(format!("changed here, removed in {words}")),
    }
}

fn fields(base: Option<&Item>, ours: &Item, theirs: &Item, words: &str, now: &str) -> Outcome {
    let (Some(here), Some(there)) = (ours.value.as_object(), theirs.value.as_object()) else {
        return Outcome::Conflict(format!("another value here than in {words}"));
    };
    let empty = Map::new();
    let before = base.and_then(|b| b.value.as_object()).unwrap_or(&empty);
    let body = |map: &Map<String, Value>, item: &Item| -> Vec<Option<Value>> {
        let code = item.code.map(|id| Value::String(id.to_string()));
        BODY.iter().map(|key| map.get(*key).cloned()).chain([code]).collect()
    };
    let (our_body, their_body) = (body(here, ours), body(there, theirs));
    let old_body = base.map(|b| body(before, b));
    let mut differ = Vec::new();
    let code_of = match old_body {
        _ if our_body == their_body => Side::Ours,
        Some(old) if old == our_body => Side::Theirs,
        Some(old) if old == their_body => Side::Ours,
        _ => {
            differ.extend(BODY.iter().filter(|key| **key != "digest" && here.get(**key) != there.get(**key)).copied());
            differ.extend((ours.code != theirs.code).then_some("code"));
            Side::Ours
        }
    };
    let mut merged = match code_of {
        Side::Ours => here.clone(),
        Side::Theirs => there.clone(),
    };
    let mut keys: Vec<&String> = here.keys().chain(there.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys.into_iter().filter(|key| !BODY.contains(&key.as_str()) && !BOOKS.contains(&key.as_str())) {
        let (old, ours, theirs) = (before.get(key), here.get(key), there.get(key));
        let chosen = if ours == theirs || theirs == old {
            ours
        } else if ours == old {
            theirs
        } else {
            differ.push(key.as_str());
            ours
        };
        match chosen {
            Some(value) => merged.insert(key.clone(), value.clone()),
            None => merged.remove(key),
        };
    }
    if !differ.is_empty() {
        return Outcome::Conflict(format!("changed here and in {words}: {} differ", differ.join(", ")));
    }
    let read = |map: Map<String, Value>| serde_json::from_value::<Capability>(Value::Object(map));
    match (read(merged), read(here.clone()), read(there.clone())) {
        (Ok(merged), Ok(ours), Ok(theirs)) => match entry(&numbered(merged, &ours, &theirs, words, now)) {
            Ok(raw) => Outcome::Both(raw, code_of),
            Err(e) => Outcome::Conflict(format!("the merged entry cannot be written: {e}")),
        },
        _ => Outcome::Conflict(format!("changed here and in {words}, and one of the two cannot be read")),
    }
}

/// `merged` with a version that neither side gave to something else.
fn numbered(mut merged: Capability, ours: &Capability, theirs: &Capability, words: &str, now: &str) -> Capability {
    let higher = if theirs.version > ours.version { theirs } else { ours };
    let same = |side: &Capability| {
        let mut side = side.clone();
        side.version = merged.version.clone();
        side.changelog = merged.changelog.clone();
        (side.created, side.created_by, side.model) = (merged.created.clone(), merged.created_by, merged.model.clone());
        side == merged
    };
    if same(higher) {
        let (version, changelog) = (higher.version.clone(), united(ours, theirs, true));
        return Capability { version, changelog, ..merged };
    }
    let step = bump(ours, &merged).max(bump(theirs, &merged));
    merged.version = step.apply(&higher.version);
    merged.changelog = united(ours, theirs, false);
    let change = format!("merged with {words}");
    merged.changelog.push(Change { version: merged.version.clone(), date: now.to_owned(), change });
    merged
}

/// One side as a person chose it. A number that the other side gave to something else is passed over.
pub(crate) fn settled(chosen: &Item, other: Option<&Item>, words: &str, now: &str) -> Box<RawValue> {
    let read = |item: &Item| serde_json::from_value::<Capability>(item.value.clone()).ok();
    // What cannot be read has no version to mind.
    let (Some(mut capability), Some(other)) = (read(chosen), other.and_then(read)) else { return chosen.raw.clone() };
    if capability.version > other.version {
        let changelog = united(&other, &capability, false);
        if changelog.len() == capability.changelog.len() {
            return chosen.raw.clone();
        }
        // What the other side registered stays in the history.
        capability.changelog = changelog;
        return entry(&capability).unwrap_or_else(|_| chosen.raw.clone());
    }
    capability.version = bump(&other, &capability).apply(&other.version);
    capability.changelog = united(&other, &capability, false);
    let change = format!("merged: {words} was chosen");
    capability.changelog.push(Change { version: capability.version.clone(), date: now.to_owned(), change });
    entry(&capability).unwrap_or_else(|_| chosen.raw.clone())
}

/// Both changelogs in the order of their versions. Two lines of one version are both told, unless they mean the same.
fn united(ours: &Capability, theirs: &Capability, same_content: bool) -> Vec<Change> {
    let mut all = ours.changelog.clone();
    for change in &theirs.changelog {
        let known = |have: &Change| have == change || (same_content && have.version == change.version);
        if !all.iter().any(known) {
            all.push(change.clone());
        }
    }
    all.sort_by(|a, b| a.version.cmp(&b.version));
    all
}
