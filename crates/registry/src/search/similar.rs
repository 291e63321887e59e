//! How alike two definitions are in meaning: for near-duplicates.

use super::document::Document;
use super::rank::{Found, GENERIC};
use super::terms::{Token, about};
use super::{Index, SIMILAR};
use crate::snapshot::Snapshot;
use crate::types::Statuses;
use jarvis_protocol::{Capability, Status};
use serde_json::Value;
use std::collections::HashSet;

struct Weighed {
    term: u64,
    weight: f32,
}

/// The cosine of two sets of terms, by their weights.
fn likeness(index: &Index, query: &[Weighed], sentence: &[Token]) -> f32 {
    let (mut both, mut ours, mut seen) = (0f32, 0f32, HashSet::new());
    for token in sentence {
        if seen.insert(token.term) {
            let weight = index.weight(token.term) * if token.generic { GENERIC } else { 1.0 };
            ours += weight;
            both += query.iter().find(|q| q.term == token.term).map_or(0.0, |q| q.weight.min(weight));
        }
    }
    let theirs: f32 = query.iter().map(|q| q.weight).sum();
    if ours > 0.0 && theirs > 0.0 { both / (ours * theirs).sqrt() } else { 0.0 }
}

/// How alike in meaning two definitions are by what they say of themselves, 0 to 1: the measure of
/// [`Registry::find_similar`](crate::Registry::find_similar), with every word as telling as a rare one, for there is no
/// registry to count them in. Below [`SIMILAR`] they are about something else, or in two languages. Signatures play no
/// part, nor does a name that both have: it says nothing of whether they mean the same by it.
pub fn similarity(a: &Capability, b: &Capability) -> f64 {
    let index = Index::build(&[], Statuses::Active);
    let terms = |cap: &Capability| match a.name == b.name {
        true => about(&cap.capability, cap),
        false => about(&format!("{} {}", cap.name, cap.capability), cap),
    };
    Meaning::of(&index, &terms(a)).likeness(&index, &terms(b))
}

/// What a definition is compared by: all that it says of itself, and its sentence alone.
struct Meaning {
    whole: Vec<Weighed>,
    sentence: Vec<Weighed>,
}

impl Meaning {
    fn of(index: &Index, about: &[Vec<Token>]) -> Meaning {
        let weighed = |tokens: &mut dyn Iterator<Item = &Token>| -> Vec<Weighed> {
            let mut seen = HashSet::new();
            tokens
                .filter(|t| seen.insert(t.term))
                .map(|t| Weighed { term: t.term, weight: index.weight(t.term) * if t.generic { GENERIC } else { 1.0 } })
                .collect()
        };
        Meaning {
            whole: weighed(&mut about.iter().flatten()),
            sentence: weighed(&mut about.first().into_iter().flatten()),
        }
    }

    fn likeness(&self, index: &Index, about: &[Vec<Token>]) -> f64 {
        let whole: Vec<Token> = about.iter().flatten().copied().collect();
        let sentences = about.first().map_or(0.0, |s| likeness(index, &self.sentence, s));
        // Rounding can go beyond 1.
        f64::from(likeness(index, &self.whole, &whole).max(sentences).min(1.0))
    }
}

/// Capabilities that `candidate` would repeat, the closest first.
pub(crate) fn similar(snapshot: &Snapshot, candidate: &Capability) -> Vec<Found> {
    let index = snapshot.index(Statuses::Active);
    let mine = Meaning::of(index, &Document::of(candidate).about);
    let mut found: Vec<Found> = snapshot
        .entries
        .iter()
        .enumerate()
        .filter_map(|(position, entry)| {
            let other = entry.parsed.as_ref().ok().filter(|cap| cap.status != Status::Retired)?;
            let score = if other.name == candidate.name {
                1.0
            } else {
                if !same_kinds(&other.parameters, &candidate.parameters) {
                    return None;
                }
                mine.likeness(index, &entry.document(other).about).min(0.99)
            };
            (score >= SIMILAR).then_some(Found { position, score, suppressed_by: None })
        })
        .collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.position.cmp(&b.position)));
    found
}

/// Do two schemas require the same kinds of values, whatever the names?
fn same_kinds(a: &Value, b: &Value) -> bool {
    fn kinds(schema: &Value) -> Vec<String> {
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|r| r.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let mut kinds: Vec<String> = required
            .iter()
            .map(|name| match schema.get("properties").and_then(|p| p.get(name)).and_then(|s| s.get("type")) {
                // A count is a number to whoever compares signatures.
                Some(Value::String(kind)) if kind == "integer" => "number".to_owned(),
                Some(Value::String(kind)) => kind.clone(),
                _ => "any".to_owned(),
            })
            .collect();
        kinds.sort();
        kinds
    }
    kinds(a) == kinds(b)
}
