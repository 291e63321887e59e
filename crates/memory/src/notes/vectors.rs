//! Vectors in memory, compared one by one: exact, and fast enough for 100,000 notes.

use super::Embed;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

/// Characters of a note that its vector speaks for; models read no more.
const EMBEDDED: usize = 6_000;
const BATCH: usize = 32;

/// Vectors of length 1, of one model.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    dimensions: usize,
    data: Vec<f32>,
    /// By the number it is stored under.
    place: HashMap<i64, usize>,
    /// A note and the place of its vector.
    notes: Vec<(i64, usize)>,
}

impl Vectors {
    pub fn has(&self, stored: i64) -> bool {
        self.place.contains_key(&stored)
    }

    /// Those of another length than the rest are left out.
    pub fn add(&mut self, stored: i64, bytes: &[u8]) {
        let vector = from_bytes(bytes);
        if self.data.is_empty() {
            self.dimensions = vector.len();
        }
        if vector.len() == self.dimensions && !vector.is_empty() {
            self.place.insert(stored, self.data.len());
            self.data.extend(vector);
        }
    }

    /// Which notes there are: each with the number its vector is stored under.
    pub fn set_notes(&mut self, notes: &[(i64, i64)]) {
        self.notes = notes.iter().filter_map(|(note, stored)| Some((*note, *self.place.get(stored)?))).collect();
    }

    /// More than half of it is of notes that are gone.
    pub fn wasteful(&self) -> bool {
        self.place.len() > 64 && self.notes.len() * 2 < self.place.len()
    }

    /// The nearest notes of those that `may` be found, best first.
    pub fn nearest(&self, query: &[f32], limit: usize, may: impl Fn(i64) -> bool) -> Vec<(i64, f32)> {
        if query.len() != self.dimensions {
            return Vec::new();
        }
        let mut best: BinaryHeap<Reverse<Near>> = BinaryHeap::with_capacity(limit + 1);
        for (note, at) in &self.notes {
            let cosine = dot(&self.data[*at..at + self.dimensions], query);
            if best.len() == limit && best.peek().is_some_and(|worst| cosine <= worst.0.cosine) {
                continue;
            }
            if may(*note) {
                best.push(Reverse(Near { cosine, note: *note }));
                if best.len() > limit {
                    best.pop();
                }
            }
        }
        best.into_sorted_vec().into_iter().map(|Reverse(near)| (near.note, near.cosine)).collect()
    }
}

#[derive(Debug, PartialEq)]
struct Near {
    cosine: f32,
    note: i64,
}

impl Eq for Near {}

impl Ord for Near {
    fn cmp(&self, other: &Self) -> Ordering {
        self.cosine.total_cmp(&other.cosine).then(other.note.cmp(&self.note))
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// In eight sums at once, which the compiler turns into vector instructions.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (mut sums, mut rest) = ([0.0_f32; 8], 0.0);
    let (left, right) = (a.chunks_exact(8), b.chunks_exact(8));
    for (x, y) in left.remainder().iter().zip(right.remainder()) {
        rest += x * y;
    }
    for (x, y) in left.zip(right) {
        for i in 0..8 {
            sums[i] += x[i] * y[i];
        }
    }
    sums.iter().sum::<f32>() + rest
}

pub(crate) fn to_bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// To length 1; none where it has no direction.
fn normal(vector: Vec<f32>) -> Option<Vec<f32>> {
    let length = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    (length.is_finite() && length > 0.0).then(|| vector.iter().map(|x| (f64::from(*x) / length) as f32).collect())
}

/// The vectors of some texts, in order, each of length 1. Errors are for a person.
pub(crate) async fn embed(embedder: &dyn Embed, texts: &[&str]) -> Result<Vec<Vec<f32>>, String> {
    let mut out = Vec::with_capacity(texts.len());
    for batch in texts.chunks(BATCH) {
        let batch: Vec<String> = batch.iter().map(|t| t.chars().take(EMBEDDED).collect()).collect();
        let vectors = embedder.embed(&batch).await.map_err(|e| e.message)?;
        if vectors.len() != batch.len() {
            return Err(format!("{} texts gave {} vectors", batch.len(), vectors.len()));
        }
        for vector in vectors {
            out.push(normal(vector).ok_or("a vector has no direction")?);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_first_and_only_those_that_may() {
        let mut vectors = Vectors::default();
        for (stored, vector) in [(1, [1.0, 0.0, 0.0]), (2, [0.8, 0.6, 0.0]), (3, [0.0, 1.0, 0.0]), (4, [0.0, 0.0, 1.0])]
        {
            vectors.add(stored, &to_bytes(&vector));
        }
        vectors.add(5, &to_bytes(&[1.0]));
        vectors.set_notes(&[(11, 1), (12, 2), (13, 3), (14, 4), (15, 5)]);
        let ids = |found: Vec<(i64, f32)>| found.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        assert_eq!(ids(vectors.nearest(&[1.0, 0.0, 0.0], 2, |_| true)), [11, 12]);
        assert_eq!(ids(vectors.nearest(&[1.0, 0.1, 0.0], 2, |id| id != 11)), [12, 13]);
        assert!(vectors.nearest(&[1.0], 2, |_| true).is_empty());
        let long: Vec<f32> = (0..21).map(|i| i as f32).collect();
        assert_eq!(dot(&long, &long), (0..21).map(|i| (i * i) as f32).sum::<f32>());
        assert_eq!(normal(vec![0.0, 0.0]), None);
    }
}
