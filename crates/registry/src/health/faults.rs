//! What is not used, what fails, what does not run, and what calls something that is not there.

use super::{CodeState, Subject};
use jarvis_protocol::{CapabilityName, Status, Version};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Runs from which on a success rate says something.
const TELLING_RUNS: u64 = 5;
/// Below this share of successes a capability fails.
const LOW: f64 = 0.6;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unused {
    pub name: CapabilityName,
    pub created: String,
    /// Whole days since then; none where the date cannot be read.
    pub days: Option<i64>,
}

/// Active ones that never ran and are at least `days` old. What has no readable date counts as old.
pub fn unused(subjects: &[Subject], now: Timestamp, days: i64) -> Vec<Unused> {
    let old = |subject: &&Subject| subject.is_active() && subject.stats.runs == 0;
    subjects
        .iter()
        .filter(old)
        .map(|subject| {
            let created = subject.capability.created.clone();
            Unused { name: subject.capability.name.clone(), days: age(&created, now), created }
        })
        .filter(|unused| unused.days.is_none_or(|age| age >= days))
        .collect()
}

fn age(created: &str, now: Timestamp) -> Option<i64> {
    let at = created.parse::<Timestamp>().ok().or_else(|| {
        let date: jiff::civil::Date = created.get(..10)?.parse().ok()?;
        Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    })?;
    Some(now.duration_since(at).as_secs() / 86_400)
}

#[derive(Debug, Clone, PartialEq)]
pub struct Failing {
    pub name: CapabilityName,
    pub status: Status,
    pub version: Version,
    /// Of that version, where it was counted by version.
    pub runs: u64,
    pub failures: u64,
    /// Of all versions, by class.
    pub errors: BTreeMap<String, u64>,
    /// A version before this one that did better in use.
    pub better: Option<Version>,
}

/// Quarantined, or active with few successes in enough runs.
pub fn failing(subjects: &[Subject]) -> Vec<Failing> {
    subjects.iter().filter_map(fails).collect()
}

fn fails(subject: &Subject) -> Option<Failing> {
    let capability = &subject.capability;
    let now = subject.versions.iter().find(|v| v.version == capability.version);
    let (runs, failures) = now.map_or((subject.stats.runs, subject.stats.failures), |v| (v.runs, v.failures));
    let rate = success(runs, failures);
    let low = subject.is_active() && runs >= TELLING_RUNS && rate < LOW;
    (low || capability.status == Status::Quarantined).then(|| Failing {
        name: capability.name.clone(),
        status: capability.status,
        version: capability.version.clone(),
        runs,
        failures,
        errors: subject.stats.errors.clone(),
        better: subject
            .versions
            .iter()
            .rev()
            .find(|v| v.version < capability.version && v.runs > 0 && success(v.runs, v.failures) > rate)
            .map(|v| v.version.clone()),
    })
}

fn success(runs: u64, failures: u64) -> f64 {
    if runs == 0 { 0.0 } else { runs.saturating_sub(failures) as f64 / runs as f64 }
}

/// Code that does not run as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub name: CapabilityName,
    /// Changed by hand; else it cannot be read at all.
    pub edited: bool,
    pub problem: String,
}

pub fn broken(subjects: &[Subject]) -> Vec<Broken> {
    subjects
        .iter()
        .filter(|s| s.capability.status != Status::Retired)
        .filter_map(|subject| {
            let (edited, problem) = match &subject.code {
                CodeState::Sound(_) => return None,
                CodeState::Edited(_) => (true, "changed by hand since it was checked, so it does not run".to_owned()),
                CodeState::Unusable(problem) => (false, problem.clone()),
            };
            Some(Broken { name: subject.capability.name.clone(), edited, problem })
        })
        .collect()
}

/// One capability calling another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub caller: CapabilityName,
    pub callee: String,
    /// Why the call would fail now.
    pub problem: Option<String>,
}

/// Who calls whom by what is written in the code, with what would fail. Names that code makes up while it runs are not
/// seen.
pub fn calls(subjects: &[Subject]) -> Vec<Call> {
    let mut by_name: BTreeMap<&str, &Subject> = subjects.iter().map(|s| (s.capability.name.as_str(), s)).collect();
    for subject in subjects.iter().filter(|s| s.capability.status != Status::Retired) {
        for alias in &subject.capability.aliases {
            let free = by_name.get(alias.as_str()).is_none_or(|s| s.capability.status == Status::Retired);
            if free {
                by_name.insert(alias.as_str(), subject);
            }
        }
    }
    let mut found = Vec::new();
    for subject in subjects.iter().filter(|s| s.is_active()) {
        let Some(source) = subject.sound() else { continue };
        for callee in source.calls.iter().collect::<BTreeSet<_>>() {
            let problem = match by_name.get(callee.as_str()) {
                None => Some(format!("no capability is called `{callee}`")),
                Some(callee) if !callee.is_active() => {
                    Some(format!("`{}` is {}", callee.capability.name, callee.capability.status.as_str()))
                }
                Some(callee) if callee.sound().is_none() => Some(format!("`{}` does not run", callee.capability.name)),
                Some(_) => None,
            };
            found.push(Call { caller: subject.capability.name.clone(), callee: callee.clone(), problem });
        }
    }
    let edge = |call: &Call| {
        let callee = by_name.get(call.callee.as_str()).filter(|_| call.problem.is_none())?;
        let caller = by_name.get(call.caller.as_str())?;
        // Only as written: what hands on the calls of others may have led back once, and need not.
        caller.sound().filter(|source| source.literals.contains(&call.callee))?;
        Some((caller.capability.name.as_str(), callee.capability.name.as_str()))
    };
    let edges: Vec<(&str, &str)> = found.iter().filter_map(edge).collect();
    for call in &mut found {
        if let Some((caller, callee)) = edge(call) {
            call.problem = circle(caller, callee, &edges);
        }
    }
    found
}

/// The shortest way by which a call comes back to its caller.
fn circle<'a>(caller: &'a str, first: &'a str, edges: &[(&'a str, &'a str)]) -> Option<String> {
    let mut ways: Vec<Vec<&str>> = vec![vec![caller, first]];
    let mut seen = BTreeSet::from([first]);
    let mut at = 0;
    while let Some(way) = ways.get(at).cloned() {
        at += 1;
        let last = way.last().copied().unwrap_or_default();
        if last == caller {
            return Some(format!("calls go round in a circle ({})", way.join(" → ")));
        }
        for (_, to) in edges.iter().filter(|(from, _)| *from == last) {
            if seen.insert(to) {
                ways.push(way.iter().copied().chain([*to]).collect());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::made::{name, subject, with_runs};
    use super::super::{Source, VersionStats};
    use super::*;

    fn plain(of: &str) -> Subject {
        subject(of, "Does something.", &[], of, &[])
    }

    fn calling(of: &str, callees: &[&str]) -> Subject {
        let mut caller = plain(of);
        let calls: Vec<String> = callees.iter().map(|c| (*c).to_owned()).collect();
        caller.code = CodeState::Sound(Source { literals: calls.clone(), calls, ..Source::default() });
        caller
    }

    #[test]
    fn what_never_ran_is_unused_once_it_is_old_enough() {
        let now: Timestamp = "2026-01-20T10:00:00Z".parse().unwrap();
        let mut dated = plain("dated");
        dated.capability.created = "2026-01-01".to_owned();
        let mut undated = plain("undated");
        undated.capability.created = String::new();
        let library = [plain("fresh"), dated, undated, with_runs(plain("used"), 1, 1)];
        let names =
            |days| unused(&library, now, days).into_iter().map(|u| (u.name.to_string(), u.days)).collect::<Vec<_>>();
        assert_eq!(names(0), [("fresh".into(), Some(10)), ("dated".into(), Some(19)), ("undated".into(), None)]);
        assert_eq!(names(14), [("dated".into(), Some(19)), ("undated".into(), None)]);
    }

    #[test]
    fn few_successes_in_enough_runs_are_failing_and_a_better_version_is_named() {
        let mut worse = with_runs(plain("worse"), 20, 8);
        let version = |v: &str, runs, failures| VersionStats {
            version: v.parse().unwrap(),
            runs,
            failures,
            mean_ms: 1.0,
            last_used: String::new(),
        };
        worse.versions = vec![version("1.0.0", 12, 1), version("1.0.1", 8, 7)];
        worse.capability.version = "1.0.1".parse().unwrap();
        let mut held = plain("held");
        held.capability.status = Status::Quarantined;
        let library = [
            worse,
            held,
            with_runs(plain("few"), 4, 4),
            with_runs(plain("fine"), 10, 4),
            with_runs(plain("bad"), 5, 3),
        ];
        let found: Vec<_> =
            failing(&library).into_iter().map(|f| (f.name.to_string(), f.runs, f.failures, f.better)).collect();
        assert_eq!(
            found,
            [
                ("worse".to_owned(), 8, 7, Some("1.0.0".parse().unwrap())),
                ("held".to_owned(), 0, 0, None),
                ("bad".to_owned(), 5, 3, None)
            ]
        );
    }

    #[test]
    fn calls_that_come_back_to_their_caller_are_told_with_the_way() {
        let mut three = calling("three", &["leaf", "one"]);
        three.capability.aliases = vec![name("third")];
        let mut hands_on = calling("hands_on", &["hands_on"]);
        if let CodeState::Sound(source) = &mut hands_on.code {
            source.literals.clear();
        }
        let library = [
            calling("one", &["two"]),
            calling("two", &["third"]),
            three,
            plain("leaf"),
            calling("out", &["one"]),
            calling("self_call", &["self_call"]),
            hands_on,
        ];
        let problems: Vec<(String, String, Option<String>)> =
            calls(&library).into_iter().map(|c| (c.caller.to_string(), c.callee, c.problem)).collect();
        let told =
            |caller: &str, callee: &str| problems.iter().find(|p| p.0 == caller && p.1 == callee).unwrap().2.clone();
        assert_eq!(told("one", "two").unwrap(), "calls go round in a circle (one → two → three → one)");
        assert_eq!(told("two", "third").unwrap(), "calls go round in a circle (two → three → one → two)");
        assert_eq!(told("self_call", "self_call").unwrap(), "calls go round in a circle (self_call → self_call)");
        assert_eq!((told("three", "leaf"), told("out", "one"), told("hands_on", "hands_on")), (None, None, None));
    }

    #[test]
    fn calls_of_what_is_not_there_off_or_broken_are_told_and_aliases_are_known() {
        let mut off = plain("off");
        off.capability.status = Status::Disabled;
        let mut edited = plain("edited");
        edited.code = CodeState::Edited(Source::default());
        let mut keep = plain("keep");
        keep.capability.aliases = vec![name("old_name")];
        let mut old = plain("old_name");
        old.capability.status = Status::Retired;
        let library = [calling("caller", &["keep", "old_name", "off", "edited", "nobody"]), keep, old, off, edited];
        let found = calls(&library);
        let problem = |callee: &str| found.iter().find(|c| c.callee == callee).unwrap().problem.clone();
        assert_eq!((problem("keep"), problem("old_name")), (None, None));
        assert_eq!(problem("off").unwrap(), "`off` is disabled");
        assert_eq!(problem("edited").unwrap(), "`edited` does not run");
        assert_eq!(problem("nobody").unwrap(), "no capability is called `nobody`");
        let broken = broken(&library);
        assert_eq!((broken.len(), broken[0].edited), (1, true));
    }
}
