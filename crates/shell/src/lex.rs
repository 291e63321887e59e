//! Cuts a command into words and operators, as bash does: here-documents taken out, comments and continued lines gone.
//!
//! What is left for the grammar is text of keywords, operators and one stand-in character per word, so no quoting trick
//! can change what tree-sitter-bash sees. Alone it reads `r\⏎m` as two words, takes the newline of `a | b | c⏎rm -rf / && d`
//! for a blank, hides a nested backtick in a word, and rejects `{rm,-rf,/}`, `3<>f` and a second here-document; but it is
//! bounded in stack and, but for one case that is refused here, in time. The other library compared, brush-parser 0.4,
//! overflows the stack on 2000 `{`, takes half a second for 25 `(` (doubling with each), and brings 84 crates against 4.

use crate::grammar;
use crate::sheet::{CASE, Mode, Pending, Sheet};
use crate::tree::{Piece, Script, Word};
use std::rc::Rc;

/// Stands for the head of a loop that never ends: `for ((;;))`, `while ((1))`.
pub(crate) const ENDLESS: &str = "((;;))";
/// Nested substitutions, quotes and groups followed; deeper ones are refused.
pub(crate) const MAX_DEPTH: usize = 40;
/// The command cannot be read with certainty; the message says why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreadable(pub String);

pub(crate) type Reading<T> = Result<T, Unreadable>;

pub(crate) fn refuse<T>(why: impl Into<String>) -> Reading<T> {
    Err(Unreadable(why.into()))
}

/// Parses a whole command.
pub(crate) fn read(command: &str) -> Reading<Rc<Script>> {
    let chars: Vec<char> = command.chars().collect();
    Reader { chars: &chars, at: 0, depth: 0, documents: 0 }.script(Closer::End)
}

/// What ends a script: the end of the text, or the bracket of `$(`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closer {
    End,
    Bracket,
}

/// A position in the characters, shared by `lex` (statements) and `quote` (inside words).
pub(crate) struct Reader<'a> {
    pub chars: &'a [char],
    pub at: usize,
    pub depth: usize,
    /// Here-documents read so far.
    pub documents: usize,
}

impl Reader<'_> {
    pub fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    pub fn take(&mut self, text: &str) -> bool {
        let found = text.chars().enumerate().all(|(i, c)| self.peek(i) == Some(c));
        if found {
            self.at += text.chars().count();
        }
        found
    }

    /// Skips blanks and continued lines within a line.
    pub fn skip_blanks(&mut self) {
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(' ' | '\t'), _) => self.at += 1,
                (Some('\\'), Some('\n')) => self.at += 2,
                _ => return,
            }
        }
    }

    /// Reads statements up to `closer`, which is consumed.
    pub fn script(&mut self, closer: Closer) -> Reading<Rc<Script>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return refuse("nested too deeply to look through");
        }
        let mut sheet = Sheet::default();
        self.statements(&mut sheet, closer)?;
        self.depth -= 1;
        let body = grammar::tree(&sheet.text, sheet.holes, &sheet.redirects)?;
        Ok(Rc::new(Script { body }))
    }

    fn statements(&mut self, sheet: &mut Sheet, closer: Closer) -> Reading<()> {
        let documents = self.documents;
        loop {
            let Some(c) = self.peek(0) else {
                sheet.end_word()?;
                return match closer {
                    Closer::Bracket => refuse("a substitution is not closed"),
                    Closer::End => sheet.finish(),
                };
            };
            match c {
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                ' ' | '\t' => {
                    self.at += 1;
                    sheet.end_word()?;
                }
                '\n' => {
                    self.at += 1;
                    sheet.end_word()?;
                    sheet.line_end();
                    for pending in std::mem::take(&mut sheet.pending) {
                        self.documents += 1;
                        let body = self.here_document(&pending)?;
                        sheet.holes[pending.hole] = body;
                    }
                }
                '#' if sheet.word.is_none() => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                ';' => {
                    sheet.end_word()?;
                    let op = [";;&", ";;", ";&", ";"].into_iter().find(|op| self.take(op)).unwrap_or(";");
                    sheet.operator(op);
                    if op != ";" {
                        sheet.mode = Mode::Pattern;
                    }
                }
                '|' => {
                    sheet.end_word()?;
                    let op = ["||", "|&", "|"].into_iter().find(|op| self.take(op)).unwrap_or("|");
                    if sheet.mode == Mode::Pattern { sheet.emit(op) } else { sheet.operator(op) }
                }
                '&' if self.peek(1) == Some('>') => {
                    sheet.end_word()?;
                    let op = if self.take("&>>") {
                        "&>>"
                    } else {
                        self.at += 2;
                        "&>"
                    };
                    sheet.redirect(op, None);
                }
                '&' => {
                    sheet.end_word()?;
                    let op = if self.take("&&") {
                        "&&"
                    } else {
                        self.at += 1;
                        "&"
                    };
                    sheet.operator(op);
                }
                '<' | '>' if self.peek(1) == Some('(') => {
                    self.at += 2;
                    let script = self.script(Closer::Bracket)?;
                    sheet.piece(Piece::Process(script));
                }
                '<' | '>' => self.redirection(sheet)?,
                '(' => self.open(sheet)?,
                ')' => {
                    self.at += 1;
                    sheet.end_word()?;
                    if sheet.mode == Mode::Pattern {
                        sheet.emit(")");
                        CASE.clone_into(&mut sheet.last);
                        sheet.mode = Mode::Command;
                    } else if sheet.groups > 0 {
                        sheet.groups -= 1;
                        sheet.emit(")");
                        sheet.mode = Mode::Command;
                    } else if closer == Closer::Bracket {
                        return sheet.finish();
                    } else {
                        return refuse("a `)` without its `(`");
                    }
                }
                '[' if sheet.mode == Mode::Command && sheet.word.is_none() && self.at_test() => self.test(sheet)?,
                // bash 5.2 loses the `;` between commands behind a here-document in `$(…)`.
                _ if closer == Closer::Bracket && self.documents > documents && sheet.word.is_none() => {
                    return refuse("commands behind a here-document inside a substitution");
                }
                _ => {
                    let start = self.at;
                    self.word_part(&mut sheet.word)?;
                    // Versions of bash differ in whether the here-document starts after this line break or the next one.
                    if !sheet.pending.is_empty() && self.chars[start..self.at.min(self.chars.len())].contains(&'\n') {
                        return refuse("a here-document beside a word of several lines");
                    }
                }
            }
        }
    }

    fn redirection(&mut self, sheet: &mut Sheet) -> Reading<()> {
        let fd = match sheet.word.as_ref().and_then(Word::as_plain) {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                let fd = Some(digits.to_owned());
                sheet.word = None;
                fd
            }
            _ => {
                // `a[1<<2]=3` is a shift in bash: not a here-document.
                if sheet
                    .word
                    .as_ref()
                    .is_some_and(|w| matches!(w.pieces.first(), Some(Piece::Plain(t)) if t.contains('[')))
                {
                    return refuse("`<` or `>` inside an array index");
                }
                sheet.end_word()?;
                None
            }
        };
        if sheet.expects_target.is_some() {
            return refuse("a redirection without its file");
        }
        let ops = ["<<<", "<<-", "<<", "<>", "<&", "<", ">>", ">&", ">|", ">"];
        let op = ops.into_iter().find(|op| self.take(op)).unwrap_or(">");
        match op {
            "<<" | "<<-" => {
                let (delimiter, expands) = self.delimiter()?;
                sheet.redirect("<<<", fd);
                let hole = sheet.target(Word::default())?;
                sheet.pending.push(Pending { hole, delimiter, expands, tabs: op == "<<-" });
            }
            // It opens for writing too, so it is judged as writing.
            "<>" => sheet.redirect(">>", fd),
            _ => sheet.redirect(op, fd),
        }
        Ok(())
    }

    fn open(&mut self, sheet: &mut Sheet) -> Reading<()> {
        // The array of `name=(…)`.
        if let Some(word) = &mut sheet.word {
            let is_array = matches!(word.as_assignment(), Some((_, value, _)) if value.pieces.is_empty());
            if is_array {
                self.at += 1;
                let elements = self.array()?;
                word.pieces.push(Piece::Array(elements));
                return Ok(());
            }
        }
        sheet.end_word()?;
        let here = self.at;
        self.at += 1;
        // The brackets of `name ()`.
        if sheet.names_function {
            self.skip_blanks();
            if !self.take(")") {
                return refuse("a bracket after a word");
            }
            sheet.emit("()");
            sheet.mode = Mode::Command;
            sheet.names_function = false;
            return Ok(());
        }
        match sheet.mode {
            Mode::Command if self.peek(0) == Some('(') => {
                self.at += 1;
                let (start, pieces) = (self.at, self.arithmetic()?);
                let number: String = self.chars[start..self.at - 2].iter().filter(|c| !c.is_whitespace()).collect();
                let endless = number.parse::<u64>().is_ok_and(|n| n > 0);
                sheet.inert(if endless { ENDLESS } else { "((" }, pieces)
            }
            Mode::ForName if self.peek(0) == Some('(') && sheet.last == "for" => {
                self.at += 1;
                let (start, pieces) = (self.at, self.arithmetic()?);
                let text: String = self.chars[start..self.at - 2].iter().filter(|c| !c.is_whitespace()).collect();
                let endless = text.split(';').nth(1).is_none_or(str::is_empty);
                // The grammar is given the `while` that it is.
                sheet.text.truncate(sheet.text.len() - "for ".len());
                sheet.emit("while");
                sheet.mode = Mode::Command;
                sheet.inert(if endless { ENDLESS } else { "((" }, pieces)?;
                self.skip_blanks();
                if self.peek(0) != Some(';') && self.peek(0) != Some('\n') {
                    sheet.operator(";");
                }
                Ok(())
            }
            Mode::Command => {
                sheet.emit("(");
                sheet.groups += 1;
                Ok(())
            }
            Mode::Pattern => {
                sheet.emit("(");
                Ok(())
            }
            _ => {
                self.at = here;
                refuse("a bracket where none can be")
            }
        }
    }

    fn array(&mut self) -> Reading<Vec<Word>> {
        let mut elements = Vec::new();
        let mut word: Option<Word> = None;
        loop {
            match self.peek(0) {
                None => return refuse("an array is not closed"),
                Some(')') => {
                    self.at += 1;
                    elements.extend(word.take());
                    return Ok(elements);
                }
                Some(' ' | '\t' | '\n') => {
                    self.at += 1;
                    elements.extend(word.take());
                }
                Some('\\') if self.peek(1) == Some('\n') => self.at += 2,
                Some('<' | '>' | '(' | '|' | '&' | ';') => return refuse("an operator inside an array"),
                Some('#') if word.is_none() => return refuse("a comment inside an array"),
                Some(_) => self.word_part(&mut word)?,
            }
        }
    }

    fn at_test(&self) -> bool {
        self.peek(1) == Some('[') && matches!(self.peek(2), Some(' ' | '\t' | '\n'))
    }

    /// `[[ … ]]`: it starts nothing itself, only its substitutions matter.
    fn test(&mut self, sheet: &mut Sheet) -> Reading<()> {
        self.at += 2;
        let mut pieces = Vec::new();
        let mut word: Option<Word> = None;
        loop {
            let Some(c) = self.peek(0) else { return refuse("`[[` is not closed") };
            match c {
                ' ' | '\t' | '\n' | '<' | '>' | '(' | ')' | '|' | '&' | ';' => {
                    if word.as_ref().and_then(Word::as_plain) == Some("]]") {
                        break;
                    }
                    if matches!((c, self.peek(1)), ('<' | '>', Some('('))) {
                        return refuse("a process substitution inside `[[`");
                    }
                    if let Some(word) = word.take() {
                        pieces.extend(word.pieces);
                        pieces.push(Piece::Quoted(" ".to_owned()));
                    }
                    self.at += 1;
                }
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                '#' if word.is_none() => return refuse("a comment inside `[[`"),
                _ => self.word_part(&mut word)?,
            }
            if self.peek(0).is_none() && word.as_ref().and_then(Word::as_plain) == Some("]]") {
                break;
            }
        }
        sheet.inert("[[", pieces)
    }
}
