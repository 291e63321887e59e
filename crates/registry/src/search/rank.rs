//! Scores: how likely a capability is what a request asks for, from what the two have in common and what they do not.

use super::concepts::Kind;
use super::document::Document;
use super::request::{Request, requests};
use super::units::Unit;
use super::{FITS, Index};
use crate::snapshot::Snapshot;
use crate::types::Statuses;
use jarvis_protocol::Capability;
use std::collections::{HashMap, HashSet};

pub(super) use super::request::GENERIC;

/// Candidates that are looked at closely.
const CLOSE: usize = 64;
/// A clause that fits is a little less than a request that fits.
const CLAUSE: f64 = 0.97;

pub(crate) struct Found {
    pub position: usize,
    pub score: f64,
    pub suppressed_by: Option<String>,
}

pub(crate) fn search(snapshot: &Snapshot, query: &str, limit: usize, which: Statuses) -> Vec<Found> {
    let index = snapshot.index(which);
    let requests = requests(index, query);
    let named = named_in(snapshot, index, query, which);
    let mut found: Vec<Found> = Vec::new();
    let mut add = |position: u32, score: f64, request: &Request| {
        if let Some(known) = found.iter_mut().find(|f| f.position == position as usize) {
            known.score = known.score.max(score);
            return;
        }
        let Some(capability) = snapshot.capability(position as usize) else { return };
        let own = snapshot.entries[position as usize].document(capability);
        let suppressed_by = suppressed(index, request, own, capability);
        found.push(Found { position: position as usize, score, suppressed_by });
    };
    for (i, request) in requests.iter().enumerate() {
        for position in candidates(snapshot, index, request, CLOSE.max(limit)) {
            let Some(capability) = snapshot.capability(position as usize) else { continue };
            let own = snapshot.entries[position as usize].document(capability);
            let score = likelihood(&features(index, request, position, own));
            add(position, if i == 0 { score } else { score * CLAUSE }.min(0.99), &requests[0]);
        }
    }
    for position in named {
        add(position, 1.0, &requests[0]);
    }
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.position.cmp(&b.position)));
    found.truncate(limit);
    found
}

/// The suppression of the capability at `position` that fits the query better than its triggers do.
pub(super) fn suppression(snapshot: &Snapshot, query: &str, position: usize, which: Statuses) -> Option<String> {
    let index = snapshot.index(which);
    let capability = snapshot.capability(position)?;
    let own = snapshot.entries[position].document(capability);
    suppressed(index, requests(index, query).first()?, own, capability)
}

/// The `most` that cover most of the request.
fn candidates(snapshot: &Snapshot, index: &Index, request: &Request, most: usize) -> Vec<u32> {
    let mut covered = vec![0f32; snapshot.entries.len()];
    let mut best = vec![0f32; snapshot.entries.len()];
    let mut touched: Vec<u32> = Vec::new();
    let mut of_unit: Vec<u32> = Vec::new();
    for unit in &request.units {
        for (term, strength) in &unit.unit.terms {
            let worth = unit.weight * strength * index.weight(*term) / unit.rarity;
            for (position, share) in index.postings(*term) {
                let slot = &mut best[*position as usize];
                if *slot == 0.0 {
                    of_unit.push(*position);
                }
                *slot = slot.max(worth * share);
            }
        }
        for position in of_unit.drain(..) {
            let slot = &mut covered[position as usize];
            if *slot == 0.0 {
                touched.push(position);
            }
            *slot += std::mem::take(&mut best[position as usize]);
        }
    }
    if touched.len() > most {
        touched.select_nth_unstable_by(most, |a, b| covered[*b as usize].total_cmp(&covered[*a as usize]));
        touched.truncate(most);
    }
    touched
}

pub(super) const FEATURES: usize = 11;

/// What the likelihood is worked out from.
pub(super) fn features(index: &Index, request: &Request, position: u32, own: &Document) -> [f32; FEATURES] {
    let (mut covered, mut missed, mut subject) = (0f32, 0f32, 0f32);
    let (mut missed_thing, mut missed_head, mut missed_operation, mut missed_talk) = (0f32, 0f32, 0f32, 0f32);
    let mut met: Met = HashMap::new();
    for (i, unit) in request.units.iter().enumerate() {
        let mut share = 0f32;
        for (term, strength) in &unit.unit.terms {
            let of_term = index.share(*term, position);
            if of_term > 0.0 {
                let met = met.entry(*term).or_default();
                *met = met.max(*strength);
                share = share.max(of_term * strength * index.weight(*term) / unit.rarity);
            }
        }
        covered += unit.weight * share;
        let missing = unit.missed * (1.0 - share);
        missed += missing;
        match unit.unit.kind {
            // What an order begins with is what is wanted; a later one may be in what is to be sent or remembered.
            Some(Kind::Operation) if i == 0 || unit.unit.chinese => missed_head = missed_head.max(missing),
            Some(Kind::Operation) => missed_operation = missed_operation.max(missing),
            Some(Kind::Talk) => missed_talk = missed_talk.max(missing),
            Some(Kind::Thing) => missed_thing = missed_thing.max(missing),
            Some(Kind::Asking | Kind::Everyday) | None => {}
        }
        if !matches!(unit.unit.kind, Some(Kind::Asking | Kind::Everyday)) {
            subject = subject.max(unit.weight * share);
        }
    }
    let mut orders = request.units.iter().enumerate().filter(|(i, u)| *i == 0 || u.unit.chinese).map(|(_, u)| u);
    let first = orders.find(|u| !u.unit.actions.is_empty());
    let does = |action: &u64| own.actions.contains(action) || index.share(*action, position) > 0.0;
    let agree = first.is_some_and(|u| u.unit.actions.iter().any(does));
    let conflict = first.is_some_and(|u| u.unit.changes) && !agree && !own.actions.is_empty();
    let yes = |is: bool| f32::from(u8::from(is));
    [
        covered / (covered + missed).max(f32::MIN_POSITIVE),
        covered.min(2.0),
        about(index, &met, own),
        of_units(index, &met, &own.name),
        subject.min(1.0),
        missed_thing.min(1.5),
        missed_head,
        missed_operation.min(1.5),
        missed_talk,
        yes(agree),
        yes(conflict),
    ]
}

/// Terms of a request that a capability has, and how well they meet what the request says.
type Met = HashMap<u64, f32>;

/// Fitted on `tests/retrieval/tuned.json` by `fit.rs`.
pub(super) const WEIGHTS: [f64; FEATURES] = [2.06, 3.53, 4.98, 3.83, 2.93, -2.4, -1.35, 0.0, 0.0, 0.0, -2.52];
pub(super) const BIAS: f64 = -7.77;

pub(super) fn likelihood(features: &[f32; FEATURES]) -> f64 {
    let sum: f64 = features.iter().zip(WEIGHTS).map(|(x, w)| f64::from(*x) * w).sum();
    1.0 / (1.0 + (-(sum + BIAS)).exp())
}

/// Capabilities whose whole name, or another name of theirs, stands in the query.
fn named_in(snapshot: &Snapshot, index: &Index, query: &str, which: Statuses) -> Vec<u32> {
    let whole = query.trim();
    query
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.contains('_') || *word == whole)
        .filter_map(|word| jarvis_protocol::CapabilityName::new(word).ok())
        .filter_map(|name| match snapshot.position(&name) {
            Some(position) => Some(position as u32),
            None => index.aliases.get(&name).copied(),
        })
        .filter(|p| snapshot.capability(*p as usize).is_some_and(|cap| which.include(cap.status)))
        .collect()
}

/// How much of the sentence, or of the trigger that fits best, is met.
fn about(index: &Index, met: &Met, own: &Document) -> f32 {
    own.sentences.iter().map(|sentence| of_units(index, met, sentence)).fold(0.0, f32::max)
}

fn of_units(index: &Index, met: &Met, units: &[Unit]) -> f32 {
    let (mut both, mut all) = (0f32, 0f32);
    for unit in units {
        let rarity = unit.terms.iter().map(|(term, _)| index.weight(*term)).fold(0.0, f32::max);
        let everyday = unit.generic || matches!(unit.kind, Some(Kind::Asking | Kind::Everyday));
        let weight = rarity * if everyday { GENERIC } else { 1.0 };
        all += weight;
        let strength = unit.terms.iter().filter_map(|(t, s)| Some(met.get(t)?.min(*s))).fold(0.0, f32::max);
        both += weight * strength;
    }
    if all > 0.0 { both / all } else { 0.0 }
}

fn suppressed(index: &Index, request: &Request, own: &Document, capability: &Capability) -> Option<String> {
    let terms: Met = request.units.iter().flat_map(|u| u.unit.terms.iter().copied()).collect();
    let about = own.sentences.iter().map(|s| likeness(index, request, &terms, s)).fold(0.0, f32::max);
    own.suppression
        .iter()
        .zip(&capability.suppression)
        .map(|(units, text)| (likeness(index, request, &terms, units), text))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(fit, _)| *fit > 0.25 && *fit > about)
        .map(|(_, text)| text.clone())
}

/// The cosine of a request and a sentence, by the weights of their units.
fn likeness(index: &Index, request: &Request, terms: &Met, sentence: &[Unit]) -> f32 {
    let theirs = of_units(index, terms, sentence);
    let spoken: HashSet<u64> = sentence.iter().flat_map(|u| u.terms.iter().map(|(term, _)| *term)).collect();
    let met = |u: &&super::request::Weighed| u.unit.terms.iter().any(|(term, _)| spoken.contains(term));
    let ours: f32 = request.units.iter().filter(met).map(|u| u.weight).sum();
    let total: f32 = request.units.iter().map(|u| u.weight).sum();
    (theirs * ours / total.max(f32::MIN_POSITIVE)).sqrt()
}

const _: () = assert!(FITS == 0.5, "the likelihood is fitted so that half is the border");
