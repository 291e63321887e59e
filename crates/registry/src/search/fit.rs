//! Fits the weights of the likelihood: `cargo test -p jarvis-registry --release --lib fit -- --ignored --nocapture`.

use super::rank::{BIAS, FEATURES, WEIGHTS, features};
use super::request::requests;
use super::{Index, Labelled};
use crate::index::entry;
use crate::snapshot::Entry;
use crate::types::Statuses;
use std::sync::Arc;

const ROUNDS: usize = 4000;
const RATE: f64 = 0.5;
/// Towards small weights, so that no feature is trusted for a handful of requests.
const RIDGE: f64 = 0.002;

const SPEAKS_FOR: [bool; FEATURES] = [true, true, true, true, true, false, false, false, false, true, false];

/// Each request with each capability that has something in common with it, and whether it is expected.
fn examples(labelled: &Labelled) -> Vec<([f32; FEATURES], bool, f64)> {
    let entries: Vec<Arc<Entry>> = labelled
        .capabilities
        .iter()
        .enumerate()
        .map(|(i, described)| Arc::new(Entry::read(&entry(&described.clone().into()).unwrap(), i)))
        .collect();
    let index = Index::build(&entries, Statuses::Active);
    let mut out = Vec::new();
    for query in &labelled.queries {
        for request in requests(&index, &query.query).into_iter().take(if query.expect.len() > 1 { 0 } else { 1 }) {
            for (position, entry) in entries.iter().enumerate() {
                let capability = entry.parsed.as_ref().unwrap();
                let x = features(&index, &request, position as u32, entry.document(capability));
                if x[6] > 0.5 && query.expect.contains(&capability.name) {
                    println!("HEAD {} {}", query.query, capability.name);
                }
                if x[10] > 0.5 && query.expect.contains(&capability.name) {
                    println!("CONFLICT {} {}", query.query, capability.name);
                }
                if x[5] > 0.9 && query.expect.contains(&capability.name) {
                    println!("THING {} {}", query.query, capability.name);
                }
                if x[1] > 0.0 {
                    out.push((x, query.expect.contains(&capability.name), 1.0));
                }
            }
        }
    }
    // As much weight for those that fit as for those that do not.
    let (yes, no) = (out.iter().filter(|e| e.1).count() as f64, out.iter().filter(|e| !e.1).count() as f64);
    let share = (no / yes).powf(std::env::var("POW").map_or(0.5, |p| p.parse().unwrap()));
    for example in &mut out {
        example.2 = if example.1 { share } else { 1.0 };
    }
    out
}

#[test]
#[ignore = "prints weights; run by hand when the features change"]
fn fit() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/retrieval/tuned.json");
    let labelled: Labelled = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let examples = examples(&labelled);
    let total: f64 = examples.iter().map(|e| e.2).sum();
    let (mut weights, mut bias) = (WEIGHTS, BIAS);
    for _ in 0..ROUNDS {
        let mut slope = [0f64; FEATURES];
        let mut level = 0f64;
        for (x, expected, importance) in &examples {
            let sum: f64 = x.iter().zip(weights).map(|(x, w)| f64::from(*x) * w).sum::<f64>() + bias;
            let error = (1.0 / (1.0 + (-sum).exp()) - f64::from(u8::from(*expected))) * importance / total;
            level += error;
            for (slope, x) in slope.iter_mut().zip(x) {
                *slope += error * f64::from(*x);
            }
        }
        bias -= RATE * level;
        for (weight, slope) in weights.iter_mut().zip(slope) {
            *weight -= RATE * (slope + RIDGE * *weight / FEATURES as f64);
        }
        // What is met never speaks against a capability, nor what is missed for it.
        for (weight, speaks_for) in weights.iter_mut().zip(SPEAKS_FOR) {
            *weight = if speaks_for { weight.max(0.0) } else { weight.min(0.0) };
        }
    }
    let rounded: Vec<f64> = weights.iter().map(|w| (w * 100.0).round() / 100.0).collect();
    println!("{} examples\nWEIGHTS {rounded:?}\nBIAS {bias:.2}", examples.len());
}

#[test]
#[ignore = "looks at one query"]
fn look() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/retrieval/tuned.json");
    let labelled: Labelled = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let entries: Vec<Arc<Entry>> = labelled
        .capabilities
        .iter()
        .enumerate()
        .map(|(i, described)| Arc::new(Entry::read(&entry(&described.clone().into()).unwrap(), i)))
        .collect();
    let index = Index::build(&entries, Statuses::Active);
    let name = |t: u64| super::concepts::VOCABULARY.concepts.iter().position(|c| c.term == t);
    for line in std::env::var("LOOK").unwrap().split('|') {
        let (query, cap) = line.split_once('@').unwrap();
        let i = labelled.capabilities.iter().position(|c| c.name.as_str() == cap).unwrap();
        let own = entries[i].document(entries[i].parsed.as_ref().unwrap());
        for r in requests(&index, query) {
            println!(
                "{query} / {cap}: {:?} {:.2}",
                features(&index, &r, i as u32, own),
                super::rank::likelihood(&features(&index, &r, i as u32, own))
            );
            for u in &r.units {
                println!(
                    "   at {} w {:.2} {:?} hint {} concepts {:?} shares {:?}",
                    u.unit.at,
                    u.weight,
                    u.unit.kind,
                    u.unit.hint,
                    u.unit.terms.iter().filter_map(|(t, _)| name(*t)).collect::<Vec<_>>(),
                    u.unit
                        .terms
                        .iter()
                        .map(|(t, _)| (index.share(*t, i as u32) * 100.0).round() / 100.0)
                        .collect::<Vec<_>>()
                );
            }
        }
    }
}
