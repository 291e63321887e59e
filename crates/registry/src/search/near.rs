//! Search by words and by meaning together: the two rankings are fused by their ranks, for their scores cannot be compared.

use super::FITS;
use super::rank::{Found, search, suppression};
use crate::snapshot::Snapshot;
use crate::types::{Near, Statuses};
use crate::vectors::{Known, TextDigest};
use jarvis_protocol::Capability;
use std::collections::HashMap;

/// The usual constant of reciprocal rank fusion: how little the first ranks stand out.
const RANKS: f64 = 60.0;
/// How far down either ranking counts.
const DEEP: usize = 64;
/// Words rank it this high and meaning first: then it fits, though its words alone would not say so.
const AGREED: usize = 3;

/// What is embedded of a capability.
pub(crate) fn text(capability: &Capability) -> String {
    let name = capability.name.as_str().replace('_', " ");
    let mut text = format!("{name}: {}", capability.capability);
    for trigger in &capability.triggers {
        text.push('\n');
        text.push_str(trigger);
    }
    text
}

pub(crate) fn digest(text: &str) -> TextDigest {
    *blake3::hash(text.as_bytes()).as_bytes()
}

pub(crate) fn search_near(
    snapshot: &Snapshot,
    query: &str,
    near: &Near,
    known: &Known,
    limit: usize,
    which: Statuses,
) -> Vec<Found> {
    let words = search(snapshot, query, DEEP.max(limit), which);
    let mut meaning: Vec<(usize, f32)> = snapshot
        .entries
        .iter()
        .enumerate()
        .filter_map(|(position, entry)| {
            let capability = entry.parsed.as_ref().ok().filter(|cap| which.include(cap.status))?;
            let vector = known.get(&digest(&text(capability))).filter(|v| v.len() == near.vector.len())?;
            Some((position, vector.iter().zip(&near.vector).map(|(a, b)| a * b).sum::<f32>()))
        })
        .collect();
    meaning.sort_by(|a, b| b.1.total_cmp(&a.1));
    meaning.truncate(DEEP);

    let mut fused: HashMap<usize, f64> = HashMap::new();
    let by_words = words.iter().map(|found| found.position);
    for ranking in [by_words.collect::<Vec<_>>(), meaning.iter().map(|(position, _)| *position).collect()] {
        for (rank, position) in ranking.into_iter().enumerate() {
            *fused.entry(position).or_default() += 1.0 / (RANKS + rank as f64 + 1.0);
        }
    }
    let nearest = meaning.first().map(|(position, _)| *position);
    let agreed = words.iter().take(AGREED).find(|found| Some(found.position) == nearest).map(|found| found.position);
    let mut words: HashMap<usize, Found> = words.into_iter().map(|found| (found.position, found)).collect();
    let mut found: Vec<(f64, Found)> = fused
        .into_iter()
        .map(|(position, share)| {
            let mut found = words.remove(&position).unwrap_or_else(|| Found {
                position,
                score: 0.0,
                suppressed_by: suppression(snapshot, query, position, which),
            });
            if agreed == Some(position) {
                found.score = found.score.max(FITS);
            }
            // A name that was written out stays first.
            (if found.score >= 1.0 { 1.0 } else { share }, found)
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.position.cmp(&b.1.position)));
    found.truncate(limit);
    found.into_iter().map(|(_, found)| found).collect()
}
