//! Whether one capability takes the calls of another: the same arguments up to their names and order, with optional
//! ones of its own beside them.

use crate::bump::takes_no_less;
use jarvis_protocol::{Capability, Parameter};
use std::collections::BTreeMap;

/// The other's argument name → the name it has here; only those that differ.
pub type Renamed = BTreeMap<String, String>;

/// How the other's calls reach this capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fit {
    /// One way only.
    Plain(Renamed),
    /// Several ways by kind of value; which one is meant shows in what both do, or a person says it.
    Open(Vec<Renamed>),
}

/// Differing names beyond this are not tried out: there would be too many ways.
const MOST_RENAMED: usize = 4;

/// How calls of `other` reach `keep`, or why they do not. `told` says of some arguments which is which.
pub fn fit(keep: &Capability, other: &Capability, told: &Renamed) -> Result<Fit, String> {
    let (mine, theirs) = (keep.takes(), other.takes());
    let mut pairs: Vec<(Parameter<'_>, Parameter<'_>)> = Vec::new();
    for (from, to) in told {
        let pair = (named(&theirs, from, other)?, named(&mine, to, keep)?);
        if pairs.iter().any(|(_, known)| known.name == pair.1.name) {
            return Err(format!("two arguments cannot both be `{to}` of `{}`", keep.name));
        }
        compatible(pair.0, pair.1, keep, other)?;
        pairs.push(pair);
    }
    for their in theirs.iter().filter(|their| !told.contains_key(their.name)) {
        let same = mine.iter().find(|my| my.name == their.name && !pairs.iter().any(|(_, to)| to.name == my.name));
        if let Some(my) = same {
            compatible(*their, *my, keep, other)?;
            pairs.push((*their, *my));
        }
    }
    let left: Vec<Parameter<'_>> =
        theirs.iter().filter(|p| !pairs.iter().any(|(from, _)| from.name == p.name)).copied().collect();
    let free: Vec<Parameter<'_>> =
        mine.iter().filter(|p| !pairs.iter().any(|(_, to)| to.name == p.name)).copied().collect();
    if left.len() > MOST_RENAMED {
        return Err(format!("{} arguments of `{}` have other names in `{}`", left.len(), other.name, keep.name));
    }
    let base: Renamed = pairs
        .iter()
        .filter(|(from, to)| from.name != to.name)
        .map(|(from, to)| (from.name.to_owned(), to.name.to_owned()))
        .collect();
    let mut ways = Vec::new();
    assign(&left, &free, &base, &mut ways);
    match ways.len() {
        0 => Err(no_way(&left, &free, keep, other)),
        1 => Ok(Fit::Plain(ways.remove(0))),
        _ => Ok(Fit::Open(ways)),
    }
}

fn named<'a>(list: &[Parameter<'a>], name: &str, of: &Capability) -> Result<Parameter<'a>, String> {
    list.iter().find(|p| p.name == name).copied().ok_or_else(|| format!("`{}` takes no `{name}`", of.name))
}

/// Every way to give each of `left` its own of `free` so that nothing required is missing.
fn assign(left: &[Parameter<'_>], free: &[Parameter<'_>], so_far: &Renamed, ways: &mut Vec<Renamed>) {
    let Some((first, rest)) = left.split_first() else {
        if free.iter().all(|p| !p.required) {
            ways.push(so_far.clone());
        }
        return;
    };
    for (at, candidate) in free.iter().enumerate() {
        if accepts(*first, *candidate) {
            let mut others = free.to_vec();
            others.remove(at);
            let mut next = so_far.clone();
            next.insert(first.name.to_owned(), candidate.name.to_owned());
            assign(rest, &others, &next, ways);
        }
    }
}

/// Does `to` take all that `from` takes, also that it is left out?
fn accepts(from: Parameter<'_>, to: Parameter<'_>) -> bool {
    (from.required || !to.required) && takes_no_less(to.schema, from.schema)
}

fn compatible(from: Parameter<'_>, to: Parameter<'_>, keep: &Capability, other: &Capability) -> Result<(), String> {
    if accepts(from, to) {
        return Ok(());
    }
    Err(if takes_no_less(to.schema, from.schema) {
        format!("`{}` must be given to `{}`, and may be left out of calls of `{}`", to.name, keep.name, other.name)
    } else {
        format!("`{}` of `{}` does not take all that `{}` of `{}` takes", to.name, keep.name, from.name, other.name)
    })
}

fn no_way(left: &[Parameter<'_>], free: &[Parameter<'_>], keep: &Capability, other: &Capability) -> String {
    let lonely = left.iter().find(|from| !free.iter().any(|to| accepts(**from, *to)));
    match (lonely, free.iter().find(|p| p.required)) {
        (Some(p), _) => format!("`{}` of `{}` has no counterpart in `{}`", p.name, other.name, keep.name),
        (None, Some(p)) => format!("`{}` needs `{}`, which calls of `{}` do not give", keep.name, p.name, other.name),
        (None, None) => format!("`{}` takes more arguments than `{}`", other.name, keep.name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::capability;
    use super::*;
    use serde_json::json;

    fn renamed(pairs: &[(&str, &str)]) -> Renamed {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    fn fitted(keep: &[(&str, &str)], other: &[(&str, &str)]) -> Result<Fit, String> {
        fit(&capability("keep", "", keep), &capability("other", "", other), &Renamed::new())
    }

    #[test]
    fn order_does_not_matter_and_names_follow_from_the_kinds_where_that_is_plain() {
        let text_and_count = [("text", "string"), ("n", "integer")];
        assert_eq!(fitted(&text_and_count, &[("n", "integer"), ("text", "string")]), Ok(Fit::Plain(Renamed::new())));
        let other = [("times", "integer"), ("words", "string")];
        assert_eq!(fitted(&text_and_count, &other), Ok(Fit::Plain(renamed(&[("times", "n"), ("words", "text")]))));
        assert_eq!(fitted(&[("文字", "string")], &[("text", "string")]), Ok(Fit::Plain(renamed(&[("text", "文字")]))));
    }

    #[test]
    fn two_of_a_kind_with_other_names_are_not_guessed() {
        let Ok(Fit::Open(ways)) = fitted(&[("a", "number"), ("b", "number")], &[("x", "number"), ("y", "number")])
        else {
            panic!("several ways")
        };
        assert_eq!(ways.len(), 2);
        let keep = capability("keep", "", &[("a", "number"), ("b", "number")]);
        let other = capability("other", "", &[("x", "number"), ("y", "number")]);
        let told = renamed(&[("x", "b")]);
        assert_eq!(fit(&keep, &other, &told), Ok(Fit::Plain(renamed(&[("x", "b"), ("y", "a")]))));
        assert!(fit(&keep, &other, &renamed(&[("z", "a")])).unwrap_err().contains("`other` takes no `z`"));
        assert!(fit(&keep, &other, &renamed(&[("x", "a"), ("y", "a")])).unwrap_err().contains("both"));
    }

    #[test]
    fn what_would_break_a_call_is_named() {
        let says = |keep: &[(&str, &str)], other: &[(&str, &str)]| fitted(keep, other).unwrap_err();
        assert!(says(&[("n", "integer")], &[("n", "number")]).contains("does not take all"));
        assert!(says(&[("n", "number")], &[("n", "number"), ("unit", "string")]).contains("`unit` of `other`"));
        assert!(says(&[("n", "number"), ("unit", "string")], &[("n", "number")]).contains("needs `unit`"));
        let mut keep = capability("keep", "", &[("n", "number"), ("unit", "string")]);
        keep.parameters["required"] = json!(["n"]);
        let other = capability("other", "", &[("n", "integer")]);
        assert_eq!(fit(&keep, &other, &Renamed::new()), Ok(Fit::Plain(Renamed::new())), "an optional one of its own");
        let mut lenient = capability("other", "", &[("n", "number")]);
        lenient.parameters["required"] = json!([]);
        let keep = capability("keep", "", &[("n", "number")]);
        assert!(fit(&keep, &lenient, &Renamed::new()).unwrap_err().contains("may be left out"));
    }
}
