//! What a line begins, read from its first characters, so that text can be shown before its line is over.

/// Columns that a tab reaches at most.
const TAB: usize = 4;
/// CommonMark's bound on the digits of a list's number.
const DIGITS: usize = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Blank,
    Text,
    Heading,
    Quote,
    Row,
    Rule,
    Fence {
        mark: char,
        length: usize,
    },
    /// `length` bytes of marker; the number of an ordered one.
    Item {
        length: usize,
        number: Option<u64>,
    },
}

/// Columns of white space that `line` begins with, and the rest.
pub fn indent(line: &str) -> (usize, &str) {
    let mut columns = 0;
    for (at, c) in line.char_indices() {
        match c {
            ' ' => columns += 1,
            '\t' => columns += TAB - columns % TAB,
            _ => return (columns, &line[at..]),
        }
    }
    (columns, "")
}

/// The kind of a line of which `body` is known, without its indentation; none while it could still be several. The same
/// for every longer body, so that nothing shown has to be taken back.
pub fn kind(body: &str, complete: bool) -> Option<Kind> {
    let Some(first) = body.chars().next() else { return complete.then_some(Kind::Blank) };
    match first {
        '>' => Some(Kind::Quote),
        '|' => Some(Kind::Row),
        '#' => {
            let level = body.bytes().take_while(|b| *b == b'#').count();
            marked(&body[level..], complete, level <= 6, Kind::Heading)
        }
        '`' | '~' => fence(body, first, complete),
        '-' | '*' | '+' | '_' => {
            let others = body.chars().any(|c| c != first && c != ' ' && c != '\t');
            if !others && first != '+' {
                if !complete {
                    return None;
                }
                if body.chars().filter(|c| *c == first).count() >= 3 {
                    return Some(Kind::Rule);
                }
            }
            marked(&body[1..], complete, first != '_', Kind::Item { length: 1, number: None })
        }
        '0'..='9' => {
            let digits = body.bytes().take_while(u8::is_ascii_digit).count();
            match body.as_bytes().get(digits) {
                None if !complete && digits <= DIGITS => None,
                Some(b'.' | b')') if digits <= DIGITS => {
                    let item = Kind::Item { length: digits + 1, number: body[..digits].parse().ok() };
                    marked(&body[digits + 1..], complete, true, item)
                }
                _ => Some(Kind::Text),
            }
        }
        _ => Some(Kind::Text),
    }
}

/// A marker counts where white space or nothing is behind it.
fn marked(behind: &str, complete: bool, valid: bool, kind: Kind) -> Option<Kind> {
    match behind.chars().next() {
        _ if !valid => Some(Kind::Text),
        None if !complete => None,
        None | Some(' ' | '\t') => Some(kind),
        Some(_) => Some(Kind::Text),
    }
}

fn fence(body: &str, mark: char, complete: bool) -> Option<Kind> {
    let length = body.chars().take_while(|c| *c == mark).count();
    let info = &body[length..];
    if length < 3 {
        return (complete || !info.is_empty()).then_some(Kind::Text);
    }
    // Between backticks on one line is code in a text.
    if mark == '`' && info.contains('`') {
        return Some(Kind::Text);
    }
    complete.then_some(Kind::Fence { mark, length })
}

/// Whether this line ends a fence.
pub fn closes(line: &str, mark: char, length: usize) -> bool {
    let line = line.trim();
    line.chars().all(|c| c == mark) && line.len() >= length
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &[(&str, Kind)] = &[
        ("", Kind::Blank),
        ("plain", Kind::Text),
        ("# Title", Kind::Heading),
        ("#", Kind::Heading),
        ("#hashtag", Kind::Text),
        ("####### seven", Kind::Text),
        ("> quoted", Kind::Quote),
        ("| a | b |", Kind::Row),
        ("---", Kind::Rule),
        ("* * *", Kind::Rule),
        ("__", Kind::Text),
        ("**bold** text", Kind::Text),
        ("- item", Kind::Item { length: 1, number: None }),
        ("-", Kind::Item { length: 1, number: None }),
        ("--", Kind::Text),
        ("-5 degrees", Kind::Text),
        ("+ more", Kind::Item { length: 1, number: None }),
        ("12. twelve", Kind::Item { length: 3, number: Some(12) }),
        ("3.14 is pi", Kind::Text),
        ("1234567890. no", Kind::Text),
        ("```rust", Kind::Fence { mark: '`', length: 3 }),
        ("~~~~", Kind::Fence { mark: '~', length: 4 }),
        ("```code``` in a text", Kind::Text),
        ("`code`", Kind::Text),
        ("中文", Kind::Text),
    ];

    #[test]
    fn what_is_said_of_a_beginning_holds_for_the_line() {
        for (line, expected) in LINES {
            assert_eq!(kind(line, true), Some(*expected), "{line}");
            for (at, _) in line.char_indices() {
                if let Some(early) = kind(&line[..at], false) {
                    // A fence's line alone is waited for to its end: a later backtick makes it a text.
                    assert_eq!(early, *expected, "{line} at {at}");
                }
            }
        }
    }
}
