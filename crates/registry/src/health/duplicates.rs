//! Capabilities that are there twice: the same meaning, or the very same code, with arguments that go together.

use super::Subject;
use super::arguments::{Fit, Renamed, fit};
use super::skeleton::skeleton;
use crate::{SIMILAR, similarity};
use jarvis_protocol::{Capability, CapabilityName};
use std::collections::{BTreeMap, BTreeSet};

/// So many capabilities of one kind of signature are compared each with each; beyond, only what a search finds near.
const ALL_PAIRS: usize = 200;

/// Two that could be one.
#[derive(Debug, Clone, PartialEq)]
pub struct Duplicate {
    /// The one that is used more, has more examples, or is older, where its arguments take the other's calls.
    pub keep: CapabilityName,
    pub other: CapabilityName,
    /// Of what they say of themselves, 0 to 1.
    pub similarity: f64,
    pub same_code: bool,
    pub fit: Fit,
}

/// A capability and those that it could answer for.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub keep: CapabilityName,
    pub others: Vec<Duplicate>,
}

/// Every pair of active capabilities that could be one. `near` names what a search for a capability's own words finds.
pub fn duplicates(subjects: &[Subject], near: &dyn Fn(&Capability) -> Vec<CapabilityName>) -> Vec<Duplicate> {
    let active: Vec<&Subject> = subjects.iter().filter(|s| s.is_active()).collect();
    let mut by_kinds: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
    let mut by_code: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, subject) in active.iter().enumerate() {
        by_kinds.entry(kinds(&subject.capability)).or_default().push(at);
        if let Some(source) = subject.sound() {
            let read = skeleton(&source.text, subject.capability.runtime);
            by_code.entry(format!("{}\u{0}{}", read.form, read.values.join("\u{0}"))).or_default().push(at);
        }
    }
    let mut pairs: BTreeSet<(usize, usize)> = BTreeSet::new();
    let position: BTreeMap<&CapabilityName, usize> =
        active.iter().enumerate().map(|(at, s)| (&s.capability.name, at)).collect();
    for alike in by_kinds.values() {
        if alike.len() <= ALL_PAIRS {
            each_pair(alike, &mut pairs);
            continue;
        }
        for at in alike {
            let found = near(&active[*at].capability);
            let found = found.iter().filter_map(|name| position.get(name)).filter(|other| alike.contains(other));
            pairs.extend(found.filter(|other| *other != at).map(|other| (*at.min(other), *at.max(other))));
        }
    }
    let mut same_code = BTreeSet::new();
    for alike in by_code.values() {
        each_pair(alike, &mut same_code);
    }
    pairs.extend(&same_code);
    let mut found: Vec<Duplicate> =
        pairs.into_iter().filter_map(|(a, b)| pair(active[a], active[b], same_code.contains(&(a, b)))).collect();
    found.sort_by(|a, b| b.similarity.total_cmp(&a.similarity).then_with(|| a.keep.cmp(&b.keep)));
    found
}

fn each_pair(list: &[usize], pairs: &mut BTreeSet<(usize, usize)>) {
    for (index, a) in list.iter().enumerate() {
        pairs.extend(list[index + 1..].iter().map(|b| (*a, *b)));
    }
}

/// The kinds of values that it must be given; a whole number is a number to whoever compares signatures.
fn kinds(capability: &Capability) -> Vec<String> {
    let mut kinds: Vec<String> = capability
        .takes()
        .iter()
        .filter(|p| p.required)
        .map(|p| match p.schema.get("type").and_then(serde_json::Value::as_str) {
            Some("integer") => "number".to_owned(),
            Some(kind) => kind.to_owned(),
            None => "any".to_owned(),
        })
        .collect();
    kinds.sort();
    kinds
}

fn pair(a: &Subject, b: &Subject, same_code: bool) -> Option<Duplicate> {
    let similarity = similarity(&a.capability, &b.capability);
    if similarity < SIMILAR && !same_code {
        return None;
    }
    let (first, second) = if rank(a) >= rank(b) { (a, b) } else { (b, a) };
    [(first, second), (second, first)].into_iter().find_map(|(keep, other)| {
        let fit = fit(&keep.capability, &other.capability, &Renamed::new()).ok()?;
        let (keep, other) = (keep.capability.name.clone(), other.capability.name.clone());
        Some(Duplicate { keep, other, similarity, same_code, fit })
    })
}

/// What speaks for keeping it.
fn rank(subject: &Subject) -> (u64, usize, std::cmp::Reverse<&str>, std::cmp::Reverse<&str>) {
    use std::cmp::Reverse;
    let capability = &subject.capability;
    (
        subject.successes(),
        capability.examples.len(),
        Reverse(capability.created.as_str()),
        Reverse(capability.name.as_str()),
    )
}

/// Pairs put together, so that each capability stands in one group only.
pub fn groups(duplicates: &[Duplicate]) -> Vec<Group> {
    let mut weight: BTreeMap<&CapabilityName, usize> = BTreeMap::new();
    for duplicate in duplicates {
        *weight.entry(&duplicate.keep).or_default() += 1;
    }
    let mut keeps: Vec<(&CapabilityName, usize)> = weight.into_iter().collect();
    keeps.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let mut taken: BTreeSet<&CapabilityName> = BTreeSet::new();
    let mut groups = Vec::new();
    for (keep, _) in keeps {
        if taken.contains(keep) {
            continue;
        }
        let others: Vec<Duplicate> =
            duplicates.iter().filter(|d| d.keep == *keep && !taken.contains(&d.other)).cloned().collect();
        if others.is_empty() {
            continue;
        }
        taken.insert(keep);
        taken.extend(duplicates.iter().filter(|d| others.contains(d)).map(|d| &d.other));
        groups.push(Group { keep: keep.clone(), others });
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::super::made::{subject, with_runs};
    use super::*;

    const NUMBERS: [(&str, &str); 2] = [("a", "number"), ("b", "number")];

    fn gcd(of: &str, takes: &[(&str, &str)]) -> Subject {
        subject(of, "Greatest common divisor of two whole numbers.", takes, &format!("code of {of}"), &[])
    }

    fn none(_: &Capability) -> Vec<CapabilityName> {
        Vec::new()
    }

    fn names(found: &[Duplicate]) -> Vec<(&str, &str)> {
        found.iter().map(|d| (d.keep.as_str(), d.other.as_str())).collect()
    }

    #[test]
    fn the_same_meaning_with_arguments_that_go_together_is_a_duplicate_and_the_used_one_is_kept() {
        let library = [
            gcd("gcd", &NUMBERS),
            with_runs(gcd("common_divisor", &NUMBERS), 9, 1),
            subject("word_count", "Counts the words of a text.", &[("text", "string")], "w", &[]),
            subject("lcm", "Turns degrees into radians.", &NUMBERS, "l", &[]),
        ];
        let found = duplicates(&library, &none);
        assert_eq!(names(&found), [("common_divisor", "gcd")]);
        assert!(found[0].similarity >= SIMILAR && !found[0].same_code);
        assert_eq!(found[0].fit, Fit::Plain(Renamed::new()));
    }

    #[test]
    fn another_signature_or_a_capability_that_is_off_is_no_duplicate() {
        let mut off = gcd("common_divisor", &NUMBERS);
        off.capability.status = jarvis_protocol::Status::Retired;
        let other = gcd("gcd_of_text", &[("a", "string"), ("b", "string")]);
        assert_eq!(duplicates(&[gcd("gcd", &NUMBERS), off, other], &none), []);
    }

    #[test]
    fn chinese_definitions_are_compared_too() {
        let zh = |of: &str, says: &str| subject(of, says, &[("text", "string")], of, &[]);
        let found = duplicates(
            &[
                zh("fan_zhuan", "把一段文字反转过来"),
                zh("dao_xu", "把一段文字反转过来输出"),
                zh("da_xie", "计算正文的字数"),
            ],
            &none,
        );
        assert_eq!(names(&found), [("dao_xu", "fan_zhuan")]);
    }

    #[test]
    fn the_very_same_code_is_a_duplicate_whatever_it_says_of_itself() {
        let code = "export default ({ text }) => [...text].reverse().join('')";
        let a = subject("reverse_text", "Reverses a text.", &[("text", "string")], code, &[]);
        let spaced = code.replace(" => ", "  =>\n ");
        let b = subject("mirror", "把文字倒过来。", &[("text", "string")], &spaced, &[]);
        let found = duplicates(&[a, b], &none);
        assert_eq!(found.len(), 1);
        assert!(found[0].same_code && found[0].similarity < SIMILAR);
    }

    #[test]
    fn each_stands_in_one_group_only() {
        let library = [
            with_runs(gcd("gcd", &NUMBERS), 9, 0),
            with_runs(gcd("gcd_two", &NUMBERS), 2, 0),
            gcd("gcd_three", &NUMBERS),
        ];
        let found = duplicates(&library, &none);
        assert_eq!(found.len(), 3);
        let groups = groups(&found);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].keep.as_str(), "gcd");
        let mut others: Vec<&str> = groups[0].others.iter().map(|d| d.other.as_str()).collect();
        others.sort_unstable();
        assert_eq!(others, ["gcd_three", "gcd_two"]);
    }

    #[test]
    fn beyond_a_size_only_what_a_search_finds_is_compared() {
        let library: Vec<Subject> = (0..=ALL_PAIRS).map(|i| gcd(&format!("gcd_{i}"), &NUMBERS)).collect();
        assert_eq!(duplicates(&library, &none), []);
        let near = |of: &Capability| {
            if of.name.as_str() == "gcd_7" { vec![super::super::made::name("gcd_9")] } else { Vec::new() }
        };
        assert_eq!(duplicates(&library, &near).len(), 1);
    }
}
