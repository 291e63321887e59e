//! Scores. What is divided by what is the point: a score is the share of the request's meaning that a capability
//! covers, so the same threshold tells "fits" from "nothing fits" in small and large registries.

use super::Index;
use super::terms::{Kind, Terms, Token, about, tokens};
use crate::snapshot::Snapshot;
use crate::types::Statuses;
use jarvis_protocol::{Capability, Status};
use serde_json::Value;
use std::collections::HashSet;

/// From this score on a capability likely fits the request.
pub const FITS: f64 = 0.5;
/// From this score on two definitions with compatible signatures mean the same.
pub const SIMILAR: f64 = 0.6;

/// Weight of a word that is in most requests, of one in the request's data, of one that no capability knows.
const GENERIC: f32 = 0.35;
const PAYLOAD: f32 = 0.25;
const UNKNOWN: f32 = 0.5;
/// Candidates that are looked at closely.
const CLOSE: usize = 64;

pub(crate) struct Found {
    pub position: usize,
    pub score: f64,
    pub suppressed_by: Option<String>,
}

pub(crate) fn search(snapshot: &Snapshot, query: &str, limit: usize, which: Statuses) -> Vec<Found> {
    let index = snapshot.index(which);
    let terms = query_terms(index, query);
    let total: f32 = terms.iter().map(|t| t.weight).sum();
    let mut covered = vec![0f32; snapshot.entries.len()];
    let mut touched: Vec<u32> = Vec::new();
    for term in &terms {
        for (position, share) in index.postings(term.term) {
            let slot = &mut covered[*position as usize];
            if *slot == 0.0 {
                touched.push(*position);
            }
            *slot += term.weight * share;
        }
    }
    let score = |position: u32| {
        let covered = covered[position as usize];
        // A match in words alone that every request has is no evidence.
        covered / total.max(f32::MIN_POSITIVE) * (covered / 0.6).min(1.0)
    };
    let named = named_in(snapshot, query, which);
    let mut best: Vec<(u32, f32)> = touched.iter().map(|p| (*p, score(*p))).collect();
    let close = CLOSE.max(limit);
    if best.len() > close {
        best.select_nth_unstable_by(close, |a, b| b.1.total_cmp(&a.1));
        best.truncate(close);
    }
    for position in &named {
        if !best.iter().any(|(p, _)| p == position) {
            best.push((*position, 0.0));
        }
    }
    let mut found: Vec<Found> = best
        .into_iter()
        .filter_map(|(position, coverage)| {
            let capability = snapshot.capability(position as usize)?;
            let own = snapshot.entries[position as usize].terms(capability);
            let about = own.about.iter().map(|s| likeness(index, &terms, s)).fold(0.0, f32::max);
            let score = match named.contains(&position) {
                true => 1.0,
                // Between two that cover as much, the one that says little else.
                false => (coverage * (0.85 + 0.15 * about)).min(0.99),
            };
            let suppressed_by = suppressed(index, &terms, own, about, capability);
            Some(Found { position: position as usize, score: f64::from(score), suppressed_by })
        })
        .collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.position.cmp(&b.position)));
    found.truncate(limit);
    found
}

struct QueryTerm {
    term: u64,
    weight: f32,
}

fn query_terms(index: &Index, query: &str) -> Vec<QueryTerm> {
    let payload = payload(query);
    let all = tokens(query, false);
    // Pairs that no capability has, between pairs that some have, are the seam of two words.
    let known: HashSet<(usize, usize)> = all
        .iter()
        .filter(|t| !index.postings(t.term).is_empty())
        .filter_map(|t| match t.kind {
            Kind::Pair { run, at } => Some([(run, at), (run, at + 1)]),
            Kind::Word | Kind::Single => None,
        })
        .flatten()
        .collect();
    let mut terms: Vec<QueryTerm> = Vec::new();
    for token in all {
        let unknown = index.postings(token.term).is_empty();
        let seam = match token.kind {
            Kind::Pair { run, at } => known.contains(&(run, at)) && known.contains(&(run, at + 1)),
            Kind::Word | Kind::Single => false,
        };
        // A number is a value, and so is a word like `90th` that no capability speaks of (`base64` is another matter).
        if token.number || unknown && (token.has_digit || seam || token.kind == Kind::Single) {
            continue;
        }
        let mut weight = index.weight(token.term);
        if token.generic {
            weight *= GENERIC;
        }
        if unknown {
            weight *= UNKNOWN;
        }
        if payload.iter().any(|part| part.contains(&token.at)) {
            weight *= PAYLOAD;
        }
        match terms.iter_mut().find(|t| t.term == token.term) {
            Some(known) => known.weight = known.weight.max(weight),
            None => terms.push(QueryTerm { term: token.term, weight }),
        }
    }
    terms
}

/// The parts of a request that are data: what is in quotes, and what follows a colon.
fn payload(query: &str) -> Vec<std::ops::Range<usize>> {
    let mut parts = Vec::new();
    let mut open: Option<(usize, char)> = None;
    let mut before = ' ';
    for (i, c) in query.char_indices() {
        match open {
            Some((start, close)) if c == close => {
                parts.push(start..i);
                open = None;
            }
            Some(_) => {}
            None => {
                let close = match c {
                    '"' | '`' => Some(c),
                    '“' => Some('”'),
                    '「' => Some('」'),
                    '\'' if !before.is_alphanumeric() => Some('\''),
                    _ => None,
                };
                open = close.map(|close| (i, close));
            }
        }
        before = c;
    }
    let colon = query.char_indices().find(|(i, c)| {
        matches!(c, ':' | '：')
            && query[i + c.len_utf8()..].chars().next().is_some_and(|next| next.is_whitespace() || *c == '：')
    });
    if let Some((i, _)) = colon
        && tokens(&query[..i], false).len() >= 2
    {
        parts.push(i..query.len());
    }
    parts
}

/// Capabilities whose whole name stands in the query.
fn named_in(snapshot: &Snapshot, query: &str, which: Statuses) -> Vec<u32> {
    let whole = query.trim();
    query
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.contains('_') || *word == whole)
        .filter_map(|word| jarvis_protocol::CapabilityName::new(word).ok())
        .filter_map(|name| snapshot.position(&name))
        .filter(|p| snapshot.capability(*p).is_some_and(|cap| which.include(cap.status)))
        .map(|p| p as u32)
        .collect()
}

/// The cosine of two sets of terms, by their weights.
fn likeness(index: &Index, query: &[QueryTerm], sentence: &[Token]) -> f32 {
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

fn suppressed(index: &Index, query: &[QueryTerm], own: &Terms, about: f32, capability: &Capability) -> Option<String> {
    own.suppression
        .iter()
        .zip(&capability.suppression)
        .map(|(tokens, text)| (likeness(index, query, tokens), text))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(fit, _)| *fit > 0.25 && *fit > about)
        .map(|(_, text)| text.clone())
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
    whole: Vec<QueryTerm>,
    sentence: Vec<QueryTerm>,
}

impl Meaning {
    fn of(index: &Index, about: &[Vec<Token>]) -> Meaning {
        let weighed = |tokens: &mut dyn Iterator<Item = &Token>| -> Vec<QueryTerm> {
            let mut seen = HashSet::new();
            tokens
                .filter(|t| seen.insert(t.term))
                .map(|t| QueryTerm {
                    term: t.term,
                    weight: index.weight(t.term) * if t.generic { GENERIC } else { 1.0 },
                })
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
    let mine = Meaning::of(index, &Terms::of(candidate).about);
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
                mine.likeness(index, &entry.terms(other).about).min(0.99)
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
