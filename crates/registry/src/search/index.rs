//! The inverted index over one snapshot, built at its first search.

use crate::snapshot::Entry;
use crate::types::Statuses;
use std::collections::HashMap;
use std::sync::Arc;

/// As many imagined capabilities more, so that in a small registry no word looks common.
const PRIOR: f32 = 100.0;

pub(crate) struct Index {
    /// Term → (position of the entry, how much of the term's weight it earns: 0 to 1).
    postings: HashMap<u64, Vec<(u32, f32)>>,
    documents: usize,
}

impl Index {
    pub fn build(entries: &[Arc<Entry>], which: Statuses) -> Index {
        let active: Vec<(u32, &[(u64, f32)])> = entries
            .iter()
            .enumerate()
            .filter_map(|(i, entry)| match &entry.parsed {
                Ok(cap) if which.include(cap.status) => Some((i as u32, entry.terms(cap).bag.as_slice())),
                _ => None,
            })
            .collect();
        let length = |bag: &[(u64, f32)]| bag.iter().map(|(_, weight)| weight).sum::<f32>();
        let mean = active.iter().map(|(_, bag)| length(bag)).sum::<f32>() / active.len().max(1) as f32;
        let mut postings: HashMap<u64, Vec<(u32, f32)>> = HashMap::new();
        for (position, bag) in &active {
            let relative = length(bag) / mean.max(f32::MIN_POSITIVE);
            for (term, frequency) in *bag {
                // BM25's saturation, with one mention in the sentence already earning most of the weight.
                let frequency = frequency / (0.7 + 0.3 * relative);
                postings.entry(*term).or_default().push((*position, frequency / (frequency + 0.3)));
            }
        }
        Index { postings, documents: active.len() }
    }

    pub fn postings(&self, term: u64) -> &[(u32, f32)] {
        self.postings.get(&term).map_or(&[], Vec::as_slice)
    }

    /// How much a term tells: 1 for one in a single capability (or in none), towards 0 for one in all.
    pub fn weight(&self, term: u64) -> f32 {
        let total = self.documents as f32 + PRIOR;
        let rarity = |df: f32| (1.0 + (total - df + 0.5) / (df + 0.5)).ln();
        rarity((self.postings(term).len() as f32).max(1.0)) / rarity(1.0)
    }
}
