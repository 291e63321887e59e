//! A request as the search sees it: its units with their weights, as a whole and clause by clause.

use super::Index;
use super::concepts::Kind;
use super::terms::{pieces, tokens};
use super::units::{Unit, units};
use std::collections::HashSet;
use std::ops::Range;

/// How much a unit weighs by what it speaks of. A word that the vocabulary lacks is data more often than a subject, above all
/// where no capability has it.
const THING: f32 = 1.0;
const OPERATION: f32 = 1.0;
const EVERYDAY: f32 = 0.3;
const TALK: f32 = 1.2;
/// Of a hint that nothing meets: it may be but a detail, as a day is.
const MISSED_HINT: f32 = 0.3;
const WORD: f32 = 0.8;
const UNKNOWN: f32 = 0.3;
const UNKNOWN_PAIR: f32 = 0.12;
/// Factors: a word of most requests, one in the request's data, a name.
pub(super) const GENERIC: f32 = 0.35;
const PAYLOAD: f32 = 0.25;
const CAPITAL: f32 = 0.5;

pub(super) struct Weighed {
    pub unit: Unit,
    pub weight: f32,
    /// Its weight where a capability does not meet it.
    pub missed: f32,
    /// The weight of its most telling term.
    pub rarity: f32,
}

/// A request, or a clause of one.
pub(super) struct Request {
    pub units: Vec<Weighed>,
}

impl Request {
    /// Whether it says enough to be a request of its own.
    fn speaks(&self) -> bool {
        self.units.iter().any(|u| matches!(u.unit.kind, Some(Kind::Thing | Kind::Operation)) && !u.unit.generic)
    }
}

/// Most clauses that are looked at by themselves.
const CLAUSES: usize = 4;

/// The whole first; then, where it has several, its clauses.
pub(super) fn requests(index: &Index, query: &str) -> Vec<Request> {
    let all = weighed(index, query);
    let mut borders = borders(query);
    // `并` ends a clause, but not in `合并`.
    borders.retain(|at| !all.iter().any(|u| (u.unit.at + 1..u.unit.end).contains(&(at - 1))));
    let mut clauses: Vec<Vec<Weighed>> = Vec::new();
    let mut last = None;
    for unit in &all {
        let clause = borders.partition_point(|at| *at <= unit.unit.at);
        if last != Some(clause) {
            clauses.push(Vec::new());
            last = Some(clause);
        }
        if let Some(clause) = clauses.last_mut() {
            clause.push(Weighed { unit: unit.unit.clone(), ..*unit });
        }
    }
    let mut out = vec![Request { units: all }];
    if (2..=CLAUSES).contains(&clauses.len()) {
        out.extend(clauses.into_iter().map(|units| Request { units }).filter(Request::speaks));
    }
    out
}

/// Where a clause may end, in bytes.
fn borders(query: &str) -> Vec<usize> {
    let data = payload(query);
    let mut out: Vec<usize> = [" and ", " then ", ", ", "; ", ". ", "，", "；", "。", "并", "然后", "再"]
        .iter()
        .flat_map(|mark| query.match_indices(mark).map(|(at, mark)| at + mark.len()))
        .filter(|at| !data.iter().any(|part| part.contains(at)))
        .collect();
    out.sort_unstable();
    out
}

fn weighed(index: &Index, query: &str) -> Vec<Weighed> {
    let payload = payload(query);
    let addresses = addresses(query);
    let mut all = units(&pieces(query), Some(&borders(query)));
    all.retain(|unit| !addresses.iter().any(|(part, _)| part.contains(&unit.at)));
    all.extend(by_form(query, &addresses));
    all.sort_by_key(|unit| unit.at);
    let known = |unit: &Unit| unit.terms.iter().any(|(term, _)| !index.postings(*term).is_empty());
    // Pairs that no capability has, between pairs that some have, are the seam of two words.
    let pairs: HashSet<(usize, usize)> = all
        .iter()
        .filter(|unit| known(unit))
        .filter_map(|unit| unit.pair)
        .flat_map(|(run, at)| [(run, at), (run, at + 1)])
        .collect();
    let mut out: Vec<Weighed> = Vec::new();
    for unit in all {
        let unknown = !known(&unit);
        let seam = unit.pair.is_some_and(|(run, at)| pairs.contains(&(run, at)) && pairs.contains(&(run, at + 1)));
        // A number is a value, and so is a word like `90th` that no capability speaks of (`base64` is another matter).
        if unit.number || unknown && unit.kind.is_none() && (unit.has_digit || seam) {
            continue;
        }
        let mut weight = match unit.kind {
            Some(Kind::Thing) => THING,
            Some(Kind::Operation) => OPERATION,
            Some(Kind::Asking | Kind::Everyday) => EVERYDAY,
            Some(Kind::Talk) => TALK,
            None if unknown && unit.pair.is_some() => UNKNOWN_PAIR,
            None if unknown => UNKNOWN,
            None => WORD,
        };
        if unit.generic {
            weight *= GENERIC;
        }
        if unit.capital && unknown && unit.kind.is_none() {
            weight *= CAPITAL;
        }
        if payload.iter().any(|part| part.contains(&unit.at)) {
            weight *= PAYLOAD;
        }
        let rarity = unit.terms.iter().map(|(term, _)| index.weight(*term)).fold(0.0, f32::max);
        weight *= rarity;
        let missed = if unit.hint { weight * MISSED_HINT } else { weight };
        // Said twice, or in two words of one concept, is not asked for twice.
        let same = |known: &Weighed| match (unit.kind, known.unit.kind) {
            (Some(a), Some(b)) => a == b && unit.terms[0].0 == known.unit.terms[0].0,
            (None, None) => unit.terms == known.unit.terms,
            _ => false,
        };
        match out.iter_mut().find(|known| same(known)) {
            Some(known) => {
                known.weight = known.weight.max(weight);
                known.missed = known.missed.max(missed);
                for (term, strength) in unit.terms {
                    match known.unit.terms.iter_mut().find(|(t, _)| *t == term) {
                        Some((_, known)) => *known = known.max(strength),
                        None => known.unit.terms.push((term, strength)),
                    }
                }
                known.rarity = known.rarity.max(rarity);
            }
            None => out.push(Weighed { unit, weight, missed, rarity }),
        }
    }
    out
}

/// Subjects that data speaks of by its form: the units of a path, an address and a sum.
fn by_form(query: &str, addresses: &[(Range<usize>, &'static str)]) -> Vec<Unit> {
    let mut out = Vec::new();
    for (part, subject) in addresses {
        let spoken = units(&pieces(subject), Some(&[]));
        out.extend(spoken.into_iter().map(|unit| Unit { hint: true, at: part.start, end: part.end, ..unit }));
    }
    if is_sum(query) {
        out.extend(units(&pieces("math"), Some(&[])));
    }
    out
}

/// What a word without spaces is, in a word of the vocabulary.
fn form(word: &str) -> Option<&'static str> {
    if word.starts_with("http://") || word.starts_with("https://") || word.starts_with("www.") {
        return Some("url");
    }
    let (stem, ending) = word.rsplit_once('.')?;
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
    if stem.is_empty() || !plain(stem) || stem.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return None;
    }
    match ending {
        "com" | "org" | "net" | "io" | "cn" | "edu" | "gov" | "dev" => Some("website"),
        _ if (1..=4).contains(&ending.len()) && ending.starts_with(|c: char| c.is_ascii_lowercase()) => Some("file"),
        _ => None,
    }
}

/// Whether numbers are reckoned with: `17 * 23`. A minus sign alone may be a date's.
fn is_sum(query: &str) -> bool {
    let compact: Vec<char> = query.chars().filter(|c| !c.is_whitespace()).collect();
    compact.windows(3).any(|w| {
        w[0].is_ascii_digit() && matches!(w[1], '+' | '*' | '×' | '÷' | '^') && (w[2].is_ascii_digit() || w[2] == '(')
    })
}

/// Addresses and file names, and what they are: their words are not what is asked for.
fn addresses(query: &str) -> Vec<(Range<usize>, &'static str)> {
    let mut at = 0;
    let mut out = Vec::new();
    for word in query.split_inclusive(|c: char| c.is_whitespace() || !c.is_ascii()) {
        let bare = word.trim_matches(|c: char| !(c.is_ascii_alphanumeric() || c == '/'));
        if let Some(subject) = form(bare) {
            out.push((at..at + word.len(), subject));
        }
        at += word.len();
    }
    out
}

/// The parts of a request that are data: what is in quotes, and what follows a colon.
fn payload(query: &str) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut open: Option<(usize, char)> = None;
    let mut before = ' ';
    for (i, c) in query.char_indices() {
        match open {
            Some((start, close)) if c == close => {
                parts.push(start..i);
                open = None;
            }
            Some(_) => {}
            None => {
                let close = match c {
                    '"' | '`' => Some(c),
                    '“' => Some('”'),
                    '「' => Some('」'),
                    '\'' if !before.is_alphanumeric() => Some('\''),
                    _ => None,
                };
                open = close.map(|close| (i, close));
            }
        }
        before = c;
    }
    let colon = query.char_indices().find(|(i, c)| {
        matches!(c, ':' | '：')
            && query[i + c.len_utf8()..].chars().next().is_some_and(|next| next.is_whitespace() || *c == '：')
    });
    if let Some((i, _)) = colon
        && tokens(&query[..i], false).len() >= 2
    {
        parts.push(i..query.len());
    }
    parts
}
