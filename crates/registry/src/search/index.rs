//! The inverted index over one snapshot, built at its first search.

use super::Bag;
use crate::snapshot::Entry;
use crate::types::Statuses;
use jarvis_protocol::{Capability, CapabilityName};
use std::collections::HashMap;
use std::sync::Arc;

/// As many imagined capabilities more, so that in a small registry no word looks common.
const PRIOR: f32 = 100.0;
/// BM25's saturation: one mention in the sentence already earns most of a term's weight.
const SATURATION: f32 = 0.4;

/// Threads that read texts, and from how many capabilities on more than one is worth it.
const MOST_THREADS: usize = 8;
const WORTH_A_THREAD: usize = 500;

pub(crate) struct Index {
    /// Term → (position of the entry, how much of the term's weight it earns: 0 to 1).
    postings: HashMap<u64, Vec<(u32, f32)>>,
    documents: usize,
    /// Other names of capabilities, e.g. of those that were merged into them.
    pub aliases: HashMap<CapabilityName, u32>,
}

impl Index {
    pub fn build(entries: &[Arc<Entry>], which: Statuses) -> Index {
        let all: Vec<(u32, &Entry, &Capability)> = entries
            .iter()
            .enumerate()
            .filter_map(|(i, entry)| match &entry.parsed {
                Ok(cap) if which.include(cap.status) => Some((i as u32, &**entry, cap)),
                _ => None,
            })
            .collect();
        // Reading the texts takes most of the time, and each by itself.
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(MOST_THREADS);
        if all.len() > WORTH_A_THREAD {
            std::thread::scope(|scope| {
                for part in all.chunks(all.len().div_ceil(threads)) {
                    scope.spawn(move || {
                        for (_, entry, cap) in part {
                            entry.bag(cap);
                        }
                    });
                }
            });
        }
        let mut aliases = HashMap::new();
        let mut documents: Vec<(u32, &Bag)> = Vec::with_capacity(all.len());
        for (position, entry, cap) in all {
            aliases.extend(cap.aliases.iter().map(|alias| (alias.clone(), position)));
            documents.push((position, entry.bag(cap)));
        }
        let mean = documents.iter().map(|(_, d)| d.length).sum::<f32>() / documents.len().max(1) as f32;
        let mut postings: HashMap<u64, Vec<(u32, f32)>> = HashMap::new();
        for (position, document) in &documents {
            let relative = document.length / mean.max(f32::MIN_POSITIVE);
            for (term, frequency) in &document.terms {
                let frequency = frequency / (0.7 + 0.3 * relative);
                postings.entry(*term).or_default().push((*position, frequency / (frequency + SATURATION)));
            }
        }
        Index { postings, documents: documents.len(), aliases }
    }

    pub fn postings(&self, term: u64) -> &[(u32, f32)] {
        self.postings.get(&term).map_or(&[], Vec::as_slice)
    }

    /// How much of the term's weight the entry at `position` earns.
    pub fn share(&self, term: u64, position: u32) -> f32 {
        let postings = self.postings(term);
        postings.binary_search_by_key(&position, |(p, _)| *p).map_or(0.0, |i| postings[i].1)
    }

    /// How much a term tells: 1 for one in a single capability (or in none), towards 0 for one in all.
    pub fn weight(&self, term: u64) -> f32 {
        let total = self.documents as f32 + PRIOR;
        let rarity = |df: f32| (1.0 + (total - df + 0.5) / (df + 0.5)).ln();
        rarity((self.postings(term).len() as f32).max(1.0)) / rarity(1.0)
    }
}
