//! Two ranked lists into one: reciprocal rank fusion, which needs no scores that can be compared.

use super::Why;
use std::collections::HashMap;
use std::hash::Hash;

/// Of Cormack, Clarke and Büttcher (SIGIR 2009): how little the first places differ.
const K: f64 = 60.0;

/// The ids, best first, with why. Equal ones stay in the order of the words' list.
pub(crate) fn fuse<I: Copy + Eq + Hash>(words: &[I], meaning: &[(I, f32)]) -> Vec<(I, Why)> {
    let mut all: Vec<(I, f64, Why)> = Vec::with_capacity(words.len() + meaning.len());
    let mut place: HashMap<I, usize> = HashMap::new();
    let mut add = |id: I, rank: usize, set: &dyn Fn(&mut Why)| {
        let at = *place.entry(id).or_insert_with(|| {
            all.push((id, 0.0, Why::default()));
            all.len() - 1
        });
        all[at].1 += 1.0 / (K + rank as f64);
        set(&mut all[at].2);
    };
    for (rank, id) in (1..).zip(words) {
        add(*id, rank, &|why| why.bm25 = Some(rank));
    }
    for (rank, (id, cosine)) in (1..).zip(meaning) {
        add(*id, rank, &|why| (why.vector, why.cosine) = (Some(rank), Some(*cosine)));
    }
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.into_iter().map(|(id, _, why)| (id, why)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_lists_have_comes_first() {
        let fused = fuse(&[1, 2, 3], &[(4, 0.9), (3, 0.8), (5, 0.1)]);
        let ids: Vec<i32> = fused.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [3, 1, 4, 2, 5]);
        assert_eq!(fused[0].1, Why { bm25: Some(3), vector: Some(2), cosine: Some(0.8) });
    }
}
