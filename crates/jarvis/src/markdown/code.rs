//! Code in colours, line by line. What knows the languages is loaded with the first block that has one.

use super::rows::Look;
use std::sync::LazyLock;
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

/// A line or a block beyond it has no colours: they would take longer than the line is worth.
const LINE_BYTES: usize = 2_000;
const BLOCK_BYTES: usize = 200_000;

static LANGUAGES: LazyLock<SyntaxSet> = LazyLock::new(SyntaxSet::load_defaults_newlines);

/// Names that people use for a language, where the set has another or only a near one.
const ALSO: &[(&str, &str)] = &[
    ("typescript", "js"),
    ("ts", "js"),
    ("tsx", "js"),
    ("jsx", "js"),
    ("mjs", "js"),
    ("shell", "sh"),
    ("console", "sh"),
    ("zsh", "sh"),
    ("jsonc", "json"),
    ("jsonl", "json"),
    ("c++", "cpp"),
    ("golang", "go"),
    ("python3", "py"),
];

/// The first that fits, from the innermost scope outwards.
static LOOKS: LazyLock<Vec<(Scope, Look)>> = LazyLock::new(|| {
    let coloured = |colour| Look { colour: Some(colour), ..Look::default() };
    let looks = [
        ("comment", Look::DIM),
        ("string", coloured("32")),
        ("constant.character.escape", coloured("36")),
        ("constant", coloured("36")),
        ("keyword.operator", Look::default()),
        ("keyword", coloured("35")),
        ("storage", coloured("35")),
        ("entity.name.tag", coloured("35")),
        ("entity.name", coloured("33")),
        ("entity.other.attribute-name", coloured("33")),
        ("support", coloured("33")),
        ("variable.function", coloured("33")),
        ("markup.inserted", coloured("32")),
        ("markup.deleted", coloured("31")),
        ("markup.heading", Look { bold: true, ..Look::default() }),
    ];
    looks.into_iter().filter_map(|(scope, look)| Some((Scope::new(scope).ok()?, look))).collect()
});

/// One block.
pub struct Code {
    state: Option<(ParseState, ScopeStack)>,
    read: usize,
}

impl Code {
    /// `info` is what stands behind the fence.
    pub fn new(info: &str) -> Code {
        let word =
            info.split(|c: char| c.is_whitespace() || matches!(c, ',' | '{' | ':')).find(|word| !word.is_empty());
        let language = word.map(str::to_lowercase);
        let state = language.and_then(|named| {
            let known = ALSO.iter().find(|(also, _)| *also == named).map_or(named.as_str(), |(_, name)| name);
            let syntax = LANGUAGES.find_syntax_by_token(known)?;
            Some((ParseState::new(syntax), ScopeStack::new()))
        });
        Code { state, read: 0 }
    }

    /// The next line, without its end.
    pub fn line(&mut self, line: &str) -> Vec<(String, Look)> {
        self.read += line.len();
        if line.len() > LINE_BYTES || self.read > BLOCK_BYTES {
            self.state = None;
        }
        match self.coloured(line) {
            Some(pieces) => pieces,
            None => {
                self.state = None;
                vec![(line.to_owned(), Look::default())]
            }
        }
    }

    fn coloured(&mut self, line: &str) -> Option<Vec<(String, Look)>> {
        let (state, stack) = self.state.as_mut()?;
        let whole = format!("{line}\n");
        // A language that cannot be followed further leaves the rest plain.
        let changes = state.parse_line(&whole, &LANGUAGES).ok()?;
        let mut pieces: Vec<(String, Look)> = Vec::new();
        let mut from = 0;
        for (at, change) in changes {
            piece(&mut pieces, &whole[from..at], stack);
            from = at;
            stack.apply(&change).ok()?;
        }
        piece(&mut pieces, &whole[from..], stack);
        Some(pieces)
    }
}

fn piece(pieces: &mut Vec<(String, Look)>, text: &str, stack: &ScopeStack) {
    let text = text.trim_end_matches('\n');
    if text.is_empty() {
        return;
    }
    let looks = |scope: &Scope| LOOKS.iter().find(|(known, _)| known.is_prefix_of(*scope)).map(|(_, look)| *look);
    let look = stack.as_slice().iter().rev().find_map(looks).unwrap_or_default();
    match pieces.last_mut() {
        Some((before, same)) if *same == look => before.push_str(text),
        _ => pieces.push((text.to_owned(), look)),
    }
}
