//! Small questions about text and values that several crates ask.

use serde_json::Value;
use std::borrow::Cow;

/// What a JSON value is, as a message says it: `a number`, `an array`.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A value as text: a string as it is, numbers to the last digit, the rest as JSON.
pub fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Control characters other than newline and tab, and those that change the direction of what follows: they can
/// make a text read as something else than it is.
pub fn is_deceptive(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` with all that is deceptive as a visible escape, such as `\u{1b}`. A line that ends as on Windows ends plainly.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            c if is_deceptive(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The same on one line, of at most so many characters, with `…` where something was left out.
pub fn shown_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    for (at, c) in text.trim().chars().enumerate() {
        if at == most {
            line.push('…');
            break;
        }
        match c {
            '\n' | '\t' => line.push(' '),
            c if is_deceptive(c) => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
}

/// The path in a `file://` address: `%20` and its like as the bytes they stand for.
pub fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

const QUOTES: [(char, char); 6] = [('"', '"'), ('“', '”'), ('「', '」'), ('『', '』'), ('`', '`'), ('«', '»')];

/// The first value that a request plainly holds: a number or date, something in quotes, or what stands behind a colon.
pub fn request_value(request: &str) -> Option<&str> {
    let edge = |c: char| matches!(c, '.' | '-' | ':' | '/');
    let number = request
        .split(|c: char| !(c.is_numeric() || edge(c)))
        .map(|word| word.trim_matches(edge))
        .find(|word| word.chars().any(char::is_numeric));
    let quoted = || {
        QUOTES.iter().find_map(|(open, close)| {
            let (inside, _) = request.split_once(*open)?.1.split_once(*close)?;
            (!inside.trim().is_empty()).then_some(inside)
        })
    };
    let named = || {
        let (_, rest) = request.split_once([':', '：'])?;
        (rest.trim().chars().count() > 1).then(|| rest.trim())
    };
    number.or_else(quoted).or_else(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_request_are_found_in_both_languages() {
        assert_eq!(request_value("What is the 90th Fibonacci number?"), Some("90"));
        assert_eq!(request_value("days since 2024-02-10, please"), Some("2024-02-10"));
        assert_eq!(request_value("reverse \"abc def\""), Some("abc def"));
        assert_eq!(request_value("把「你好」倒过来"), Some("你好"));
        assert_eq!(request_value("倒过来：你好"), Some("你好"));
        assert_eq!(request_value("roll a die"), None);
        assert_eq!(request_value("谢谢"), None);
    }

    #[test]
    fn what_is_shown_acts_on_nothing_and_is_cut_between_characters() {
        assert_eq!(shown("a\r\nb\rc\u{9b}2J\t计"), "a\nb\\u{d}c\\u{9b}2J\t计");
        assert!(matches!(shown("plain 文字\n"), Cow::Borrowed(_)));
        assert_eq!(shown_line(" 计算\u{1b}[2J\nnext ", 4), "计算\\u{1b}[…");
        assert_eq!(shown_line("计算", 2), "计算");
    }

    #[test]
    fn percent_signs_are_decoded_and_what_is_none_stays() {
        assert_eq!(percent_decoded("a%20b/%E7%8C%AB.png"), "a b/猫.png");
        assert_eq!(percent_decoded("100%, %zz %4 猫%"), "100%, %zz %4 猫%");
    }

    #[test]
    fn what_can_hide_a_text_is_deceptive_and_chinese_is_not() {
        assert!("\u{1b}\u{202e}\u{7f}\u{9b}\r".chars().all(is_deceptive));
        assert!(!"好 a\n\té".chars().any(is_deceptive));
    }
}
