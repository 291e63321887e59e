//! The shape of a parsed command: words are already free of quotes, their substitutions already parsed.

use std::rc::Rc;

/// A word as written: literal text and the expansions between it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Word {
    pub pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    /// Unquoted text: braces, globs and a leading tilde act.
    Plain(String),
    /// Quoted or escaped text; empty for `''`.
    Quoted(String),
    /// `$x`, `${x…}`.
    Param(Rc<Param>, Quoting),
    /// `$(…)` and backticks.
    Command(Rc<Script>, Quoting),
    /// `<(…)`, `>(…)`.
    Process(Rc<Script>),
    /// `$((…))`: always a number; the pieces are kept for the commands inside.
    Number(Vec<Piece>),
    /// `(a b c)` after `name=`.
    Array(Vec<Word>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quoting {
    Quoted,
    Unquoted,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Param {
    pub name: String,
    /// Written without braces: text that a brace expansion puts behind it becomes part of the name.
    pub bare: bool,
    pub op: ParamOp,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ParamOp {
    None,
    /// `:-`, `-`: the word stands in when the variable is unset.
    Default(Word),
    /// `:=`, `=`: it does, and stays.
    Assign(Word),
    /// `:+`, `+`.
    Alternate(Word),
    /// `:?`, `?`.
    Required(Word),
    /// `%`, `%%`: the end is cut off.
    TrimEnd(Word),
    /// `#name`: a number.
    Length,
    /// Anything else: the value is not followed, the pieces are kept for the commands inside.
    Other(Word),
}

/// A list of statements with its own text.
#[derive(Debug, PartialEq)]
pub(crate) struct Script {
    pub body: Node,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Simple(Simple),
    /// Statements one after the other, each with what joins it to the one before.
    Sequence(Vec<(Joint, Node)>),
    Pipeline(Vec<Node>),
    /// `( … )`.
    Subshell(Box<Node>),
    /// `if` and `case`: the head always runs, of the arms one or none.
    Branch {
        head: Box<Node>,
        words: Vec<Word>,
        arms: Vec<Node>,
    },
    /// `for`, `select`, `while`, `until`.
    Loop {
        variable: Option<(String, Vec<Word>)>,
        head: Box<Node>,
        body: Box<Node>,
    },
    Function {
        name: Word,
        body: Rc<Node>,
    },
    Redirected(Box<Node>, Vec<Redirect>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joint {
    /// First, or after `;` or a newline.
    Then,
    /// After `&&`.
    And,
    /// After `||`.
    Or,
    /// After `&`: the one before runs in the background.
    Beside,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Simple {
    /// Assignments and words as written; assignments lead.
    pub words: Vec<Word>,
    pub redirects: Vec<Redirect>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Redirect {
    /// `>`, `>>`, `>|`, `&>`, `&>>`, `>&`, `<`, `<&`, `<<<`; here-documents are `<<<`.
    pub op: &'static str,
    /// None is stdin for `<` and stdout for `>`.
    pub fd: Option<String>,
    pub target: Word,
}

impl Word {
    pub fn plain(text: impl Into<String>) -> Word {
        Word { pieces: vec![Piece::Plain(text.into())] }
    }

    /// The text, if there is no quote and no expansion in it.
    pub fn as_plain(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Plain(text)] => Some(text),
            _ => None,
        }
    }

    /// The text, if there is no expansion in it.
    pub fn as_literal(&self) -> Option<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Plain(t) | Piece::Quoted(t) => text.push_str(t),
                _ => return None,
            }
        }
        Some(text)
    }

    /// Splits `name=value` and `name+=value`; the flag says that it appends.
    pub fn as_assignment(&self) -> Option<(&str, Word, bool)> {
        let Some(Piece::Plain(first)) = self.pieces.first() else { return None };
        let equals = first.find('=')?;
        let (name, append) = match first[..equals].strip_suffix('+') {
            Some(name) => (name, true),
            None => (&first[..equals], false),
        };
        if !is_name(name) {
            return None;
        }
        let mut pieces = self.pieces[1..].to_vec();
        let rest = &first[equals + 1..];
        if !rest.is_empty() {
            pieces.insert(0, Piece::Plain(rest.to_owned()));
        }
        Some((name, Word { pieces }, append))
    }
}

pub(crate) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Calls `found` for every script inside the pieces: substitutions, also in defaults and array elements.
pub(crate) fn scripts_in(pieces: &[Piece], found: &mut dyn FnMut(&Rc<Script>)) {
    for piece in pieces {
        match piece {
            Piece::Plain(_) | Piece::Quoted(_) => {}
            Piece::Command(script, _) | Piece::Process(script) => found(script),
            Piece::Number(pieces) => scripts_in(pieces, found),
            Piece::Array(words) => words.iter().for_each(|w| scripts_in(&w.pieces, found)),
            Piece::Param(param, _) => match &param.op {
                ParamOp::None | ParamOp::Length => {}
                ParamOp::Default(w)
                | ParamOp::Assign(w)
                | ParamOp::Alternate(w)
                | ParamOp::Required(w)
                | ParamOp::TrimEnd(w)
                | ParamOp::Other(w) => scripts_in(&w.pieces, found),
            },
        }
    }
}

/// Calls `found` for every `${name:=word}` in the pieces.
pub(crate) fn assigns_in(pieces: &[Piece], found: &mut dyn FnMut(&str, &Word)) {
    for piece in pieces {
        match piece {
            Piece::Param(param, _) => match &param.op {
                ParamOp::Assign(word) => {
                    assigns_in(&word.pieces, found);
                    found(&param.name, word);
                }
                ParamOp::Default(w)
                | ParamOp::Alternate(w)
                | ParamOp::Required(w)
                | ParamOp::TrimEnd(w)
                | ParamOp::Other(w) => {
                    assigns_in(&w.pieces, found);
                }
                ParamOp::None | ParamOp::Length => {}
            },
            Piece::Number(pieces) => assigns_in(pieces, found),
            Piece::Array(words) => words.iter().for_each(|w| assigns_in(&w.pieces, found)),
            _ => {}
        }
    }
}
