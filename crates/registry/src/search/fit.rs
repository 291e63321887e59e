//! Fits the weights of the likelihood by logistic regression, and checks that they are what the tuning set gives.

use super::rank::{BIAS, FEATURES, WEIGHTS, features};
use super::request::requests;
use super::{Index, Labelled};
use crate::index::entry;
use crate::snapshot::Entry;
use crate::types::Statuses;
use std::sync::Arc;

const ROUNDS: usize = 12_000;
const RATE: f64 = 0.5;
/// Towards small weights, so that no feature is trusted for a handful of requests.
const RIDGE: f64 = 0.002;

/// Rounding, and no more.
const CLOSE: f64 = 0.02;

/// Whether a feature can only speak for a capability, or only against it.
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
        for request in requests(&index, &query.query).into_iter().take(usize::from(query.expect.len() <= 1)) {
            for (position, entry) in entries.iter().enumerate() {
                let capability = entry.parsed.as_ref().unwrap();
                let x = features(&index, &request, position as u32, entry.document(capability));
                if x[1] > 0.0 {
                    out.push((x, query.expect.contains(&capability.name), 1.0));
                }
            }
        }
    }
    // Those that fit are few. With as much weight as the others together, too much would be said to fit.
    let (yes, no) = (out.iter().filter(|e| e.1).count() as f64, out.iter().filter(|e| !e.1).count() as f64);
    let share = (no / yes).powf(0.25);
    for example in &mut out {
        example.2 = if example.1 { share } else { 1.0 };
    }
    out
}

#[test]
fn the_weights_are_what_the_tuning_set_gives() {
    let path = "tests/retrieval/tuned.json";
    let labelled: Labelled = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let examples = examples(&labelled);
    let total: f64 = examples.iter().map(|e| e.2).sum();
    let (mut weights, mut bias) = ([0f64; FEATURES], 0f64);
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
    let far = weights.iter().zip(WEIGHTS).any(|(a, b)| (a - b).abs() > CLOSE) || (bias - BIAS).abs() > CLOSE;
    let rounded: Vec<f64> = weights.iter().map(|w| (w * 100.0).round() / 100.0).collect();
    assert!(
        !far,
        "features or vocabulary have changed; put these in: WEIGHTS {rounded:?} BIAS {bias:.2} ({} examples)",
        examples.len()
    );
}
