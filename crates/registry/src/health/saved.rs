//! What reuse saved: what building took, times the requests for which nothing had to be built. Measured or not said.

use super::Build;
use crate::Stats;
use jarvis_protocol::CapabilityName;

/// What one capability did, and what building it took.
#[derive(Debug, Clone, Copy)]
pub struct Spent<'a> {
    pub name: &'a CapabilityName,
    pub stats: &'a Stats,
    pub builds: &'a [Build],
}

impl Spent<'_> {
    /// Successful runs after the first one: each answered a request for which nothing had to be written.
    pub fn reuses(&self) -> u64 {
        self.stats.runs.saturating_sub(self.stats.failures).saturating_sub(1)
    }
}

/// An estimate out of measured figures: that building anew would each time have taken what it took.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Saved {
    /// Successful runs after each capability's first.
    pub reuses: u64,
    /// Those of capabilities of which it is recorded how long building took.
    pub reuses_timed: u64,
    /// None where nothing of it is recorded.
    pub seconds: Option<f64>,
    /// Those of capabilities of which the tokens that building took are recorded.
    pub reuses_counted: u64,
    /// In and out.
    pub tokens: Option<u64>,
    /// US dollars; none where no price was known.
    pub cost_usd: Option<f64>,
    /// Used again, with no record of what building took.
    pub not_recorded: Vec<CapabilityName>,
}

pub fn saved<'a>(all_spent: impl IntoIterator<Item = Spent<'a>>) -> Saved {
    let mut all = Saved::default();
    for spent in all_spent {
        let (reuses, builds) = (spent.reuses(), spent.builds);
        if reuses == 0 {
            continue;
        }
        all.reuses += reuses;
        if builds.is_empty() {
            all.not_recorded.push(spent.name.clone());
            continue;
        }
        let seconds = builds.iter().map(|b| b.wall_ms as f64 / 1000.0).sum::<f64>() / builds.len() as f64;
        all.reuses_timed += reuses;
        *all.seconds.get_or_insert(0.0) += seconds * reuses as f64;
        let priced: Vec<(u64, u64, f64)> = builds.iter().filter_map(|b| b.usage).collect();
        if priced.is_empty() {
            all.not_recorded.push(spent.name.clone());
            continue;
        }
        let count = priced.len() as f64;
        let tokens = priced.iter().map(|(input, output, _)| input + output).sum::<u64>() as f64 / count;
        let cost = priced.iter().map(|(_, _, cost)| cost).sum::<f64>() / count;
        all.reuses_counted += reuses;
        *all.tokens.get_or_insert(0) += (tokens * reuses as f64).round() as u64;
        if cost > 0.0 {
            *all.cost_usd.get_or_insert(0.0) += cost * reuses as f64;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::Subject;
    use super::super::made::{subject, with_runs};
    use super::*;

    /// Milliseconds; tokens in and out, and US dollars.
    type Took = (u64, Option<(u64, u64, f64)>);

    fn built(of: &str, runs: u64, failures: u64, builds: &[Took]) -> Subject {
        let mut subject = with_runs(subject(of, "Does something.", &[], of, &[]), runs, failures);
        subject.builds = builds
            .iter()
            .map(|(wall_ms, usage)| Build {
                version: "1.0.0".parse().unwrap(),
                at: "2026-01-10T09:00:00Z".to_owned(),
                wall_ms: *wall_ms,
                usage: *usage,
            })
            .collect();
        subject
    }

    #[test]
    fn building_times_reuses_is_saved_and_what_is_not_recorded_is_not_made_up() {
        let library = [
            // 3 successes, 2 of them reuses, at 2 s and 200 tokens on average.
            built("grown", 4, 1, &[(1000, Some((90, 10, 0.0))), (3000, Some((280, 20, 0.0)))]),
            built("timed", 2, 0, &[(5000, None)]),
            built("person", 6, 0, &[]),
            built("once", 1, 0, &[(9000, Some((900, 100, 0.5)))]),
            built("never", 0, 0, &[(9000, Some((900, 100, 0.5)))]),
        ];
        let saved = saved(library.iter().map(Subject::spent));
        assert_eq!((saved.reuses, saved.reuses_timed, saved.reuses_counted), (8, 3, 2));
        assert_eq!((saved.seconds, saved.tokens, saved.cost_usd), (Some(9.0), Some(400), None));
        let names: Vec<&str> = saved.not_recorded.iter().map(CapabilityName::as_str).collect();
        assert_eq!(names, ["timed", "person"]);
    }

    #[test]
    fn with_no_record_there_is_no_figure() {
        let saved = saved([built("person", 6, 0, &[]).spent()]);
        assert_eq!((saved.reuses, saved.seconds, saved.tokens, saved.cost_usd), (5, None, None, None));
        assert_eq!(super::saved([]), Saved::default());
    }
}
