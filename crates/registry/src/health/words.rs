//! Small questions about written-in values: what form one has, and whether a text speaks of it.

use jarvis_protocol::Capability;
use serde_json::Value;

/// Abbreviations of formats, protocols, zones and the like: names of things that are the same for everybody.
const COMMON: &str = " JSON CSV TSV HTML HTTP HTTPS URL URI API ISO UTC GMT UTF ASCII XML SQL PDF RGB RGBA HSL HEX SHA UUID ID \
    YAML TOML GET POST PUT HEAD AM PM BC AD CE BCE KB MB GB TB KIB MIB NAN OK ERROR AND OR NOT NULL TRUE FALSE DNA RNA ";

/// Round numbers, bases, sizes and units of time: constants in anybody's code.
const ORDINARY: [u64; 41] = [
    10, 11, 12, 15, 16, 20, 24, 25, 26, 28, 29, 30, 31, 32, 36, 45, 48, 50, 52, 59, 60, 64, 90, 97, 99, 100, 122, 127,
    128, 180, 255, 256, 270, 273, 360, 365, 366, 400, 500, 512, 999,
];
const ORDINARY_LONG: [u64; 12] = [1000, 1024, 1440, 1900, 1970, 2000, 3600, 4096, 10_000, 65_535, 86_400, 1_000_000];

/// What a value looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `Berlin`
    Name,
    /// `USD`
    Code,
    /// `report.csv`, `/etc/hosts`, `https://…`
    Place,
    /// Two characters or more of Chinese, Japanese or Korean.
    Ideographs,
    /// A whole number.
    Number,
}

/// None for what says nothing by itself: single characters, words in small letters, formats.
pub(crate) fn form(value: &str) -> Option<Form> {
    let value = value.trim();
    let mut chars = value.chars();
    let first = chars.next()?;
    if number(value).is_some() {
        return (!value.contains('.')).then_some(Form::Number);
    }
    if value.chars().count() < 2 || value.contains(char::is_whitespace) && !value.chars().all(plain) {
        return None;
    }
    if value.chars().all(is_ideograph) {
        return Some(Form::Ideographs);
    }
    let upper = COMMON.contains(&format!(" {} ", value.to_uppercase()));
    if upper || ["text/", "application/", "image/", "audio/"].iter().any(|kind| value.starts_with(kind)) {
        return None;
    }
    let letters = value.chars().any(char::is_alphabetic);
    let dotted = value.split(['.', '/']).filter(|part| part.chars().any(char::is_alphanumeric)).count() > 1;
    if letters && !value.contains(char::is_whitespace) && (dotted || value.starts_with('/')) && value.len() > 3 {
        return Some(Form::Place);
    }
    if value.chars().all(|c| c.is_ascii_uppercase()) {
        let roman = value.chars().all(|c| "IVXLCDM".contains(c));
        return (!roman && (2..=5).contains(&value.len())).then_some(Form::Code);
    }
    let name = first.is_uppercase() && value.chars().any(char::is_lowercase) && value.chars().count() > 2;
    (name && value.chars().all(plain)).then_some(Form::Name)
}

fn plain(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, ' ' | '-' | '\'' | '’')
}

pub(crate) fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
}

/// The value of a literal that is a number.
pub(crate) fn number(literal: &str) -> Option<f64> {
    let text = literal.trim().trim_end_matches('n');
    text.starts_with(|c: char| c.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

pub(crate) fn is_ordinary(number: f64) -> bool {
    number < 10.0
        || number.fract() != 0.0
        || ORDINARY.iter().chain(&ORDINARY_LONG).any(|ordinary| *ordinary as f64 == number)
}

/// A value and, of an address or a path, its parts.
pub(crate) fn parts(literal: &str) -> Vec<&str> {
    let whole = literal.trim();
    let mut parts = vec![whole];
    if !whole.contains(char::is_whitespace) && whole.contains(['/', '?', '&', '=']) {
        parts.extend(whole.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()));
    }
    parts
}

/// Does `text` hold `value` as a word of its own, and not only as the capital word that begins a sentence?
pub(crate) fn speaks_of(text: &str, value: &str, form: Form) -> bool {
    text.match_indices(value).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + value.len()..]);
        if form == Form::Ideographs {
            return true;
        }
        let apart = |c: Option<char>| c.is_none_or(|c| !(c.is_ascii_alphanumeric() || c == '_'));
        let begins = before.trim_end().is_empty() || before.trim_end().ends_with(['.', '!', '?', '。', '！', '？']);
        let part_of_number = form == Form::Number
            && (before.ends_with(['.', ',', '-']) && before.len() > 1 && digit_before(before) || fraction(after));
        apart(before.chars().next_back())
            && apart(after.chars().next())
            && !(form == Form::Name && begins)
            && !part_of_number
    })
}

fn digit_before(before: &str) -> bool {
    before.chars().rev().nth(1).is_some_and(|c| c.is_ascii_alphanumeric())
}

fn fraction(after: &str) -> bool {
    let mut chars = after.chars();
    matches!(chars.next(), Some('.' | ',')) && chars.next().is_some_and(|c| c.is_ascii_digit())
}

/// Every text and number in the recorded calls.
pub(crate) fn given(capability: &Capability) -> Vec<String> {
    let mut found = Vec::new();
    for example in &capability.examples {
        scalars(&example.args, &mut found);
    }
    found
}

/// Every text and number of a value.
pub(crate) fn scalars(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.trim().to_owned()),
        Value::Number(number) => found.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| scalars(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| scalars(field, found)),
        Value::Bool(_) | Value::Null => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_value_looks_like() {
        for (value, wanted) in [
            ("Berlin", Some(Form::Name)),
            ("New York", Some(Form::Name)),
            ("USD", Some(Form::Code)),
            ("report.csv", Some(Form::Place)),
            ("/etc/hosts", Some(Form::Place)),
            ("https://a.example/b", Some(Form::Place)),
            ("北京", Some(Form::Ideographs)),
            ("1776", Some(Form::Number)),
            ("utf-8", None),
            ("UTF", None),
            ("JSON", None),
            ("XIV", None),
            ("application/json", None),
            ("string", None),
            (", ", None),
            ("3.14159", None),
            ("元", None),
            ("not a number", None),
            ("", None),
        ] {
            assert_eq!(form(value), wanted, "{value}");
        }
        for ordinary in [2.0, 10.0, 100.0, std::f64::consts::PI, 86_400.0, 1e6] {
            assert!(is_ordinary(ordinary), "{ordinary}");
        }
        assert!(!is_ordinary(19.0) && !is_ordinary(1776.0));
    }

    #[test]
    fn a_text_speaks_of_whole_words() {
        assert!(speaks_of("The weather in Berlin.", "Berlin", Form::Name));
        assert!(!speaks_of("Berliner weather of Berlinale", "Berlin", Form::Name));
        assert!(!speaks_of("Total of a list. Total!", "Total", Form::Name), "the first word of a sentence");
        assert!(speaks_of("查询北京的天气", "北京", Form::Ideographs));
        assert!(speaks_of("Adds 19% tax", "19", Form::Number));
        for not in ["SHA-256", "v19", "0.19", "19.5", "1.19"] {
            assert!(!speaks_of(not, "19", Form::Number) && !speaks_of(not, "256", Form::Number), "{not}");
        }
    }
}
