//! The text for the grammar: keywords and operators as they are, one stand-in character for each word.

use crate::lex::{Reading, refuse};
use crate::tree::{Piece, Word, is_name};
use std::collections::BTreeMap;

/// Stand-ins are plane-15 private-use characters, which `text` keeps out of the input.
const FIRST_HOLE: u32 = 0xF_0000;
const MAX_HOLES: usize = 0xFFFD;

pub(crate) fn hole(index: usize) -> Option<char> {
    if index >= MAX_HOLES { None } else { char::from_u32(FIRST_HOLE + index as u32) }
}

pub(crate) fn hole_index(text: &str) -> Option<usize> {
    let mut chars = text.chars();
    let index = (chars.next()? as u32).checked_sub(FIRST_HOLE)? as usize;
    (chars.next().is_none() && index < MAX_HOLES).then_some(index)
}

/// By the index of the target's stand-in: the operator and the descriptor.
pub(crate) type Redirects = BTreeMap<usize, (&'static str, Option<String>)>;

pub(crate) struct Pending {
    pub hole: usize,
    pub delimiter: String,
    pub expands: bool,
    pub tabs: bool,
}

/// What the next word is, which decides whether it can be a keyword.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Command,
    Args,
    ForName,
    ForIn,
    CaseSubject,
    CaseIn,
    Pattern,
    FunctionName,
}

/// The text for the grammar as it grows.
#[derive(Default)]
pub(crate) struct Sheet {
    pub text: String,
    pub holes: Vec<Word>,
    pub word: Option<Word>,
    pub mode: Mode,
    pub expects_target: Option<(&'static str, Option<String>)>,
    pub redirects: Redirects,
    /// The last word was the first of its command: `(` after it makes it a function's name.
    pub names_function: bool,
    pub groups: usize,
    pub after_time: bool,
    pub pending: Vec<Pending>,
    pub last: String,
    pub dangles: bool,
}

/// `last` after the bracket of a pattern, behind which a command may start on the next line.
pub(crate) const CASE: &str = "pattern)";

fn is_joint(token: &str) -> bool {
    matches!(token, "|" | "|&" | "||" | "&&")
}

impl Sheet {
    pub fn emit(&mut self, token: &str) {
        // bash takes `if (a) then`; the grammar wants the `;`.
        if matches!(token, "then" | "do") && matches!(self.last.as_str(), ")" | "}" | "fi" | "done" | "esac") {
            self.text.push_str("; ");
        }
        // `a | ;` is an error to bash too; the parser's way of finding that out is quadratic.
        self.dangles |= is_joint(&self.last)
            && matches!(token, ";" | "&" | "|" | "|&" | "||" | "&&" | ")" | "}" | ";;" | ";&" | ";;&");
        self.text.push_str(token);
        self.text.push(' ');
        self.last.clear();
        self.last.push_str(token);
    }

    /// A line end is given to the grammar as `;`, or not at all where it ends nothing: at times it takes a newline for a
    /// blank, and the command after it for arguments.
    pub fn line_end(&mut self) {
        let open = [
            "", ";", "&", "|", "|&", "&&", "||", ";;", ";&", ";;&", "(", "{", "then", "do", "else", "elif", "if",
            "while", "until", "!", "()", CASE,
        ];
        if open.contains(&self.last.as_str()) || matches!(self.mode, Mode::CaseIn | Mode::Pattern) {
            self.names_function = false;
        } else {
            self.operator(";");
        }
    }

    pub fn operator(&mut self, op: &str) {
        self.emit(op);
        self.names_function = false;
        if !matches!(self.mode, Mode::CaseIn | Mode::Pattern | Mode::ForIn) || (self.mode == Mode::ForIn && op == ";") {
            self.mode = Mode::Command;
        }
    }

    /// The grammar sees `>` for every redirection; which one it is stays with its target.
    pub fn redirect(&mut self, op: &'static str, fd: Option<String>) {
        self.emit(">");
        self.expects_target = Some((op, fd));
    }

    pub fn target(&mut self, word: Word) -> Reading<usize> {
        let hole = self.add_hole(word)?;
        self.redirects.extend(self.expects_target.take().map(|redirect| (hole, redirect)));
        Ok(hole)
    }

    pub fn add_hole(&mut self, word: Word) -> Reading<usize> {
        let index = self.holes.len();
        let Some(c) = hole(index) else { return refuse("too many words to look through") };
        self.holes.push(word);
        self.emit(c.encode_utf8(&mut [0; 4]));
        Ok(index)
    }

    pub fn piece(&mut self, piece: Piece) {
        self.word.get_or_insert_default().pieces.push(piece);
    }

    /// A command that starts no program: its name and the words whose substitutions run.
    pub fn inert(&mut self, name: &str, pieces: Vec<Piece>) -> Reading<()> {
        self.word = None;
        self.add_hole(Word::plain(name))?;
        self.add_hole(Word { pieces })?;
        self.mode = Mode::Args;
        Ok(())
    }

    pub fn end_word(&mut self) -> Reading<()> {
        let Some(word) = self.word.take() else { return Ok(()) };
        if self.expects_target.is_some() {
            return self.target(word).map(drop);
        }
        let plain = word.as_plain().unwrap_or_default().to_owned();
        self.names_function = false;
        let next = match (self.mode, plain.as_str()) {
            (
                Mode::Command,
                "if" | "then" | "elif" | "else" | "fi" | "while" | "until" | "do" | "done" | "esac" | "{" | "}" | "!",
            ) => {
                self.emit(&plain);
                return Ok(());
            }
            // A keyword that only measures: what follows is the command.
            (Mode::Command, "time") => {
                self.after_time = true;
                return Ok(());
            }
            (Mode::Command, "-p" | "--") if std::mem::take(&mut self.after_time) => return Ok(()),
            (Mode::Command, "for" | "select") => Mode::ForName,
            (Mode::Command, "case") => Mode::CaseSubject,
            (Mode::Command, "function") => Mode::FunctionName,
            (Mode::ForName, name) if is_name(name) => Mode::ForIn,
            (Mode::ForIn, "in") => Mode::Args,
            (Mode::ForIn, "do") => Mode::Command,
            (Mode::CaseIn, "in") => Mode::Pattern,
            (Mode::Pattern, "esac") => Mode::Command,
            (Mode::ForName | Mode::ForIn | Mode::CaseIn, _) => return refuse("a loop or case that cannot be read"),
            (Mode::CaseSubject, _) => {
                self.add_hole(word)?;
                self.mode = Mode::CaseIn;
                return Ok(());
            }
            (Mode::FunctionName, _) => {
                self.add_hole(word)?;
                self.names_function = true;
                self.mode = Mode::Command;
                return Ok(());
            }
            (Mode::Pattern, _) => return self.add_hole(word).map(drop),
            (Mode::Args, _) => return self.add_hole(word).map(drop),
            (Mode::Command, _) => {
                if word.as_assignment().is_none() {
                    self.mode = Mode::Args;
                    self.names_function = true;
                }
                return self.add_hole(word).map(drop);
            }
        };
        self.emit(&plain);
        self.mode = next;
        Ok(())
    }

    pub fn finish(&mut self) -> Reading<()> {
        if self.expects_target.is_some() {
            return refuse("a redirection without its file");
        }
        if !self.pending.is_empty() {
            return refuse("a here-document without its text");
        }
        if self.dangles || is_joint(&self.last) {
            return refuse("a `|`, `&&` or `||` with nothing behind it");
        }
        if self.groups > 0 {
            return refuse("a `(` without its `)`");
        }
        Ok(())
    }
}
