//! The measures of library health that the field has names for. What each is taken from, its formula and its source are
//! in `docs/health.md`; whoever changes one changes it there.

use super::duplicates::Duplicate;
use super::{Subject, calls};
use jarvis_protocol::CapabilityName;
use std::collections::{BTreeMap, BTreeSet};

/// Recorded examples of active capabilities, run now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Examples {
    pub ran: u64,
    pub passed: u64,
    /// Of capabilities that reach outside, or whose code is not what was checked.
    pub not_run: u64,
    pub failing: Vec<CapabilityName>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// Active capabilities: the library.
    pub active: u64,
    pub reuse: Reuse,
    /// Pairs that could be one, of all pairs.
    pub redundancy: Option<f64>,
    /// Capabilities that could go, of all.
    pub redundant_share: Option<f64>,
    /// Recorded examples that still pass, of those that ran; none where they were not run.
    pub regression_stability: Option<f64>,
    pub examples: Option<Examples>,
    pub composition: Composition,
    pub safety: Safety,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Reuse {
    /// Runs, of whatever is registered now.
    pub runs: u64,
    /// Runs after each capability's first, of all runs.
    pub rate: Option<f64>,
    /// Successful runs, of all runs.
    pub precision: Option<f64>,
    /// Active capabilities that ran at least once, of all active ones.
    pub used: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Composition {
    /// Active capabilities whose code calls another one.
    pub composed: u64,
    /// Of all active ones.
    pub share: Option<f64>,
    /// Successful runs of those, of all their runs.
    pub success: Option<f64>,
    /// The longest chain of calls: 0 where nothing calls anything, 1 where one calls another.
    pub depth: u64,
    /// Chains that lead back to themselves, by one capability on each.
    pub cycles: Vec<CapabilityName>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Safety {
    /// Active capabilities with none of the three below, of all.
    pub score: Option<f64>,
    /// The code is not what was checked.
    pub unchecked: Vec<CapabilityName>,
    /// The code reaches for what no grant names.
    pub undeclared: Vec<CapabilityName>,
    /// It was refused a host that it tried to reach.
    pub refused: Vec<CapabilityName>,
    /// Active capabilities that reach for nothing outside, of all.
    pub pure: Option<f64>,
}

/// `duplicates` are the pairs of [`duplicates`](super::duplicates()); `examples` is what running them showed, if they ran.
pub fn health(subjects: &[Subject], duplicates: &[Duplicate], examples: Option<Examples>) -> Health {
    let active: Vec<&Subject> = subjects.iter().filter(|s| s.is_active()).collect();
    let count = active.len() as u64;
    let clusters = clusters(duplicates);
    let pairs: u64 = clusters.iter().map(|size| size * (size - 1) / 2).sum();
    let spare: u64 = clusters.iter().map(|size| size - 1).sum();
    Health {
        active: count,
        reuse: reuse(subjects, &active),
        redundancy: share(pairs, count * count.saturating_sub(1) / 2),
        redundant_share: share(spare, count),
        regression_stability: examples.as_ref().and_then(|e| share(e.passed, e.ran)),
        examples,
        composition: composition(subjects, &active),
        safety: safety(&active),
    }
}

/// None of nothing.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn reuse(subjects: &[Subject], active: &[&Subject]) -> Reuse {
    let runs: u64 = subjects.iter().map(|s| s.stats.runs).sum();
    let again: u64 = subjects.iter().map(|s| s.stats.runs.saturating_sub(1)).sum();
    let successes: u64 = subjects.iter().map(Subject::successes).sum();
    let used = active.iter().filter(|s| s.stats.runs > 0).count() as u64;
    Reuse { runs, rate: share(again, runs), precision: share(successes, runs), used: share(used, active.len() as u64) }
}

/// Sizes of the sets of capabilities that hang together by pairs.
fn clusters(duplicates: &[Duplicate]) -> Vec<u64> {
    let mut sets: Vec<BTreeSet<&CapabilityName>> = Vec::new();
    for duplicate in duplicates {
        let pair = [&duplicate.keep, &duplicate.other];
        let (touched, apart): (Vec<_>, Vec<_>) = sets.into_iter().partition(|set| pair.iter().any(|n| set.contains(n)));
        sets = apart;
        sets.push(touched.into_iter().flatten().chain(pair).collect());
    }
    sets.iter().map(|set| set.len() as u64).collect()
}

fn composition(subjects: &[Subject], active: &[&Subject]) -> Composition {
    let mut edges: BTreeMap<CapabilityName, Vec<String>> = BTreeMap::new();
    for call in calls(subjects) {
        edges.entry(call.caller).or_default().push(call.callee);
    }
    let composed: Vec<&&Subject> = active.iter().filter(|s| edges.contains_key(&s.capability.name)).collect();
    let runs: u64 = composed.iter().map(|s| s.stats.runs).sum();
    let successes: u64 = composed.iter().map(|s| s.successes()).sum();
    let (mut depths, mut cycles) = (BTreeMap::new(), BTreeSet::new());
    for caller in edges.keys() {
        depth(caller, &edges, &mut Vec::new(), &mut depths, &mut cycles);
    }
    Composition {
        composed: composed.len() as u64,
        share: share(composed.len() as u64, active.len() as u64),
        success: share(successes, runs),
        depth: depths.values().copied().max().unwrap_or(0),
        cycles: cycles.into_iter().collect(),
    }
}

fn depth(
    of: &CapabilityName,
    edges: &BTreeMap<CapabilityName, Vec<String>>,
    path: &mut Vec<CapabilityName>,
    known: &mut BTreeMap<CapabilityName, u64>,
    cycles: &mut BTreeSet<CapabilityName>,
) -> u64 {
    if path.contains(of) {
        cycles.insert(of.clone());
        return 0;
    }
    if let Some(known) = known.get(of) {
        return *known;
    }
    path.push(of.clone());
    let below = edges.get(of).into_iter().flatten().map(|callee| {
        1 + CapabilityName::new(callee.as_str()).map_or(0, |callee| depth(&callee, edges, path, known, cycles))
    });
    let deepest = below.max().unwrap_or(0);
    path.pop();
    known.insert(of.clone(), deepest);
    deepest
}

fn safety(active: &[&Subject]) -> Safety {
    let names = |which: &dyn Fn(&Subject) -> bool| -> Vec<CapabilityName> {
        active.iter().filter(|s| which(s)).map(|s| s.capability.name.clone()).collect()
    };
    let unchecked = names(&|s| s.sound().is_none());
    let undeclared = names(&|s| s.sound().is_some_and(|source| !source.undeclared.is_empty()));
    let refused = names(&|s| s.stats.egress.iter().any(|egress| egress.denied > 0));
    let unsafe_ones: BTreeSet<&CapabilityName> = [&unchecked, &undeclared, &refused].into_iter().flatten().collect();
    let count = active.len() as u64;
    let pure = active.iter().filter(|s| {
        s.capability.grants.is_empty() && s.capability.dependencies.is_empty() && s.sound().is_some_and(|c| c.pure)
    });
    Safety {
        score: share(count - unsafe_ones.len() as u64, count),
        pure: share(pure.count() as u64, count),
        unchecked,
        undeclared,
        refused,
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{subject, with_runs};
    use super::super::{CodeState, Source, duplicates};
    use super::*;
    use jarvis_protocol::Egress;

    fn plain(of: &str) -> Subject {
        subject(of, &format!("Does the thing called {of}."), &[], &format!("code of {of}"), &[])
    }

    fn calling(of: &str, callees: &[&str]) -> Subject {
        let mut caller = plain(of);
        let calls = callees.iter().map(|c| (*c).to_owned()).collect();
        caller.code = CodeState::Sound(Source { calls, text: of.to_owned(), ..Source::default() });
        caller
    }

    #[test]
    fn the_figures_are_those_worked_out_by_hand() {
        let gcd = |of: &str, runs, failures| {
            let subject = subject(of, "Greatest common divisor of two numbers.", &[("a", "number")], of, &[]);
            with_runs(subject, runs, failures)
        };
        let library =
            [gcd("gcd", 5, 1), gcd("gcd_two", 1, 0), gcd("gcd_three", 0, 0), with_runs(plain("word_count"), 4, 0)];
        let pairs = duplicates(&library, &|_| Vec::new());
        let examples = Examples { ran: 8, passed: 6, not_run: 1, failing: Vec::new() };
        let health = health(&library, &pairs, Some(examples));
        // 10 runs, of which 4 + 0 + 3 came after a first; 9 went well; 3 of 4 capabilities ran.
        assert_eq!((health.reuse.rate, health.reuse.precision, health.reuse.used), (Some(0.7), Some(0.9), Some(0.75)));
        // 3 of 6 pairs; 2 of 4 could go.
        assert_eq!((health.redundancy, health.redundant_share), (Some(0.5), Some(0.5)));
        assert_eq!(health.regression_stability, Some(0.75));
        assert_eq!((health.safety.score, health.safety.pure), (Some(1.0), Some(1.0)));
    }

    #[test]
    fn an_empty_library_has_no_figures_instead_of_good_ones() {
        let health = health(&[], &[], None);
        assert_eq!((health.reuse.rate, health.redundancy, health.regression_stability), (None, None, None));
        assert_eq!((health.safety.score, health.composition.share, health.composition.depth), (None, None, 0));
    }

    #[test]
    fn composition_knows_depth_and_cycles() {
        let chain = [with_runs(calling("top", &["middle", "leaf"]), 4, 1), calling("middle", &["leaf"]), plain("leaf")];
        let health = health(&chain, &[], None);
        assert_eq!((health.composition.composed, health.composition.depth), (2, 2));
        assert_eq!(health.composition.success, Some(0.75));
        assert!(health.composition.cycles.is_empty());
        let round = [calling("one_way", &["back_again"]), calling("back_again", &["one_way"])];
        assert_eq!(super::health(&round, &[], None).composition.cycles.len(), 1);
    }

    #[test]
    fn what_is_unchecked_undeclared_or_was_refused_is_not_safe() {
        let mut edited = plain("edited");
        edited.code = CodeState::Edited(Source::default());
        let mut reaching = plain("reaching");
        reaching.code = CodeState::Sound(Source { undeclared: vec!["fetch".to_owned()], ..Source::default() });
        let mut refused = plain("refused");
        refused.stats.egress = vec![Egress { host: "x.example".to_owned(), denied: 2, ..Egress::default() }];
        let health = health(&[edited, reaching, refused, plain("fine")], &[], None);
        assert_eq!(health.safety.score, Some(0.25));
        assert_eq!(
            (health.safety.unchecked.len(), health.safety.undeclared.len(), health.safety.refused.len()),
            (1, 1, 1)
        );
    }
}
