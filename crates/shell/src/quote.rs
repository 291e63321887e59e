//! Inside a word: quotes, escapes, `$…`, backticks and arithmetic.

use crate::lex::{Closer, MAX_DEPTH, Reader, Reading, refuse};
use crate::tree::{Param, ParamOp, Piece, Quoting, Word, is_name};
use std::rc::Rc;

impl Reader<'_> {
    /// Reads one part of a word: an escape, a quotation, an expansion or one plain character.
    pub fn word_part(&mut self, word: &mut Option<Word>) -> Reading<()> {
        let pieces = &mut word.get_or_insert_default().pieces;
        let Some(c) = self.peek(0) else { return Ok(()) };
        self.at += 1;
        match c {
            '\\' => {
                let escaped = self.peek(0).unwrap_or('\\');
                self.at += 1;
                pieces.push(Piece::Quoted(escaped.to_string()));
            }
            '\'' => pieces.push(Piece::Quoted(self.single()?)),
            '"' => {
                let inner = self.double()?;
                if inner.is_empty() {
                    pieces.push(Piece::Quoted(String::new()));
                }
                pieces.extend(inner);
            }
            '$' => self.dollar(pieces, Quoting::Unquoted)?,
            '`' => pieces.push(self.backtick(Quoting::Unquoted)?),
            _ => match pieces.last_mut() {
                Some(Piece::Plain(text)) => text.push(c),
                _ => pieces.push(Piece::Plain(c.to_string())),
            },
        }
        Ok(())
    }

    fn single(&mut self) -> Reading<String> {
        let start = self.at;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            if c == '\'' {
                return Ok(self.chars[start..self.at - 1].iter().collect());
            }
        }
        refuse("a quotation mark is not closed")
    }

    fn deeper(&mut self) -> Reading<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { refuse("nested too deeply to look through") } else { Ok(()) }
    }

    /// Double-quoted text up to its closing mark, which is consumed.
    fn double(&mut self) -> Reading<Vec<Piece>> {
        self.deeper()?;
        let mut pieces = Vec::new();
        loop {
            let Some(c) = self.peek(0) else { return refuse("a quotation mark is not closed") };
            if c == '"' {
                self.at += 1;
                self.depth -= 1;
                return Ok(pieces);
            }
            self.double_part(&mut pieces, false)?;
        }
    }

    /// The body of a here-document: as in double quotes, but `"` is only a character.
    pub fn here_pieces(&mut self) -> Reading<Vec<Piece>> {
        let mut pieces = Vec::new();
        while self.peek(0).is_some() {
            self.double_part(&mut pieces, true)?;
        }
        if pieces.is_empty() {
            pieces.push(Piece::Quoted(String::new()));
        }
        Ok(pieces)
    }

    fn double_part(&mut self, pieces: &mut Vec<Piece>, mark_is_text: bool) -> Reading<()> {
        let Some(c) = self.peek(0) else { return Ok(()) };
        self.at += 1;
        match (c, self.peek(0)) {
            ('\\', Some('\n')) => self.at += 1,
            ('\\', Some(next)) if matches!(next, '$' | '`' | '\\') || (next == '"' && !mark_is_text) => {
                self.at += 1;
                quoted(pieces, next);
            }
            ('$', _) => self.dollar(pieces, Quoting::Quoted)?,
            ('`', _) => pieces.push(self.backtick(Quoting::Quoted)?),
            _ => quoted(pieces, c),
        }
        Ok(())
    }

    /// After a `$`.
    fn dollar(&mut self, pieces: &mut Vec<Piece>, quoting: Quoting) -> Reading<()> {
        let Some(c) = self.peek(0) else {
            quoted(pieces, '$');
            return Ok(());
        };
        match c {
            '\'' if quoting == Quoting::Unquoted => {
                self.at += 1;
                let text = self.ansi()?;
                pieces.push(Piece::Quoted(text));
            }
            '"' if quoting == Quoting::Unquoted => {
                self.at += 1;
                let inner = self.double()?;
                pieces.push(Piece::Quoted(String::new()));
                pieces.extend(inner);
            }
            '(' if self.peek(1) == Some('(') => {
                self.at += 2;
                let inner = self.arithmetic()?;
                pieces.push(Piece::Number(inner));
            }
            '(' => {
                self.at += 1;
                let script = self.script(Closer::Bracket)?;
                pieces.push(Piece::Command(script, quoting));
            }
            '{' => {
                self.at += 1;
                let param = self.braced(quoting)?;
                pieces.push(Piece::Param(Rc::new(param), quoting));
            }
            '[' => return refuse("old arithmetic `$[…]`"),
            '@' | '*' | '#' | '?' | '$' | '!' | '-' | '0'..='9' => {
                self.at += 1;
                pieces.push(Piece::Param(
                    Rc::new(Param { name: c.to_string(), bare: false, op: ParamOp::None }),
                    quoting,
                ));
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let name = self.name();
                pieces.push(Piece::Param(Rc::new(Param { name, bare: true, op: ParamOp::None }), quoting));
            }
            _ => quoted(pieces, '$'),
        }
        Ok(())
    }

    fn name(&mut self) -> String {
        let start = self.at;
        while self.peek(0).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }

    /// After `${`.
    fn braced(&mut self, quoting: Quoting) -> Reading<Param> {
        self.deeper()?;
        let indirect = self.peek(0) == Some('!') && self.peek(1) != Some('}');
        let length = self.peek(0) == Some('#') && self.peek(1) != Some('}');
        if indirect || length {
            self.at += 1;
        }
        let mut name = self.name();
        if name.is_empty() {
            match self.peek(0) {
                Some(c @ ('@' | '*' | '#' | '?' | '$' | '!' | '-')) => {
                    name.push(c);
                    self.at += 1;
                }
                _ => return refuse("an expansion `${…}` that cannot be read"),
            }
        }
        let mut other = indirect;
        if self.peek(0) == Some('[') {
            other = true;
        }
        let op = ["", ":-", ":=", ":+", ":?", "-", "=", "+", "?", "%%", "%"]
            .into_iter()
            .skip(1)
            .find(|op| !other && self.take(op))
            .unwrap_or_default();
        let word = self.braced_word(quoting)?;
        self.depth -= 1;
        let op = match op {
            _ if length => ParamOp::Length,
            _ if other => ParamOp::Other(word),
            ":-" | "-" => ParamOp::Default(word),
            ":=" | "=" => ParamOp::Assign(word),
            ":+" | "+" => ParamOp::Alternate(word),
            ":?" | "?" => ParamOp::Required(word),
            "%" | "%%" => ParamOp::TrimEnd(word),
            _ if word.pieces.is_empty() => ParamOp::None,
            _ => ParamOp::Other(word),
        };
        Ok(Param { name, bare: false, op })
    }

    /// The rest of `${name…` up to its `}`, which is consumed.
    fn braced_word(&mut self, quoting: Quoting) -> Reading<Word> {
        let mut word: Option<Word> = None;
        loop {
            let Some(c) = self.peek(0) else { return refuse("an expansion `${…}` is not closed") };
            match (c, quoting) {
                ('}', _) => {
                    self.at += 1;
                    return Ok(word.unwrap_or_default());
                }
                ('\\', _) if self.peek(1) == Some('\n') => self.at += 2,
                // Whether it quotes depends on the operator.
                ('\'', Quoting::Quoted) => return refuse("a quotation mark inside `\"${…}\"`"),
                ('<' | '>', _) if self.peek(1) == Some('(') => return refuse("a process substitution inside `${…}`"),
                _ => self.word_part(&mut word)?,
            }
        }
    }

    /// After `((`, up to `))`, which is consumed.
    pub fn arithmetic(&mut self) -> Reading<Vec<Piece>> {
        self.deeper()?;
        let (mut pieces, mut open) = (Vec::new(), 0usize);
        loop {
            let Some(c) = self.peek(0) else { return refuse("an arithmetic expression is not closed") };
            match c {
                '(' => {
                    open += 1;
                    self.at += 1;
                }
                ')' if open > 0 => {
                    open -= 1;
                    self.at += 1;
                }
                ')' => {
                    if !self.take("))") {
                        return refuse("`((` that may be arithmetic or a group in a group");
                    }
                    self.depth -= 1;
                    return Ok(pieces);
                }
                '\'' => return refuse("a quotation mark inside arithmetic"),
                '"' => self.at += 1,
                '\\' => self.at += 2,
                '<' | '>' if self.peek(1) == Some('(') => return refuse("a process substitution inside arithmetic"),
                '$' => {
                    self.at += 1;
                    self.dollar(&mut pieces, Quoting::Quoted)?;
                }
                '`' => {
                    self.at += 1;
                    let piece = self.backtick(Quoting::Quoted)?;
                    pieces.push(piece);
                }
                _ if c.is_ascii_alphanumeric() || c == '_' => {
                    let start = self.at;
                    let name = self.name();
                    if is_name(&name) && self.is_assigned(start) {
                        let op = ParamOp::Assign(Word::plain("0"));
                        pieces.push(Piece::Param(Rc::new(Param { name, bare: false, op }), Quoting::Quoted));
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    /// Whether the name that began at `start` and has just been read is given a number.
    fn is_assigned(&self, start: usize) -> bool {
        let before: String = self.chars[start.saturating_sub(2)..start].iter().collect();
        let rest: String = self.chars[self.at..].iter().skip_while(|c| c.is_whitespace()).take(3).collect();
        let sets = ["+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--", "["];
        matches!(before.as_str(), "++" | "--")
            || (rest.starts_with('=') && !rest.starts_with("=="))
            || sets.iter().any(|s| rest.starts_with(s))
    }

    /// After a backtick: one level of backslashes is taken off, the rest is a command of its own.
    fn backtick(&mut self, quoting: Quoting) -> Reading<Piece> {
        let mut inner = Vec::new();
        loop {
            let Some(c) = self.peek(0) else { return refuse("a backtick is not closed") };
            self.at += 1;
            match (c, self.peek(0)) {
                ('`', _) => break,
                ('\\', Some(next))
                    if matches!(next, '$' | '`' | '\\') || (next == '"' && quoting == Quoting::Quoted) =>
                {
                    inner.push(next);
                    self.at += 1;
                }
                _ => inner.push(c),
            }
        }
        let mut reader = Reader { chars: &inner, at: 0, depth: self.depth, documents: 0 };
        Ok(Piece::Command(reader.script(Closer::End)?, quoting))
    }

    /// The text of `$'…'`.
    fn ansi(&mut self) -> Reading<String> {
        let start = self.at;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '\\' => self.at += 1,
                '\'' => return Ok(unescape(&self.chars[start..self.at - 1], Octal::Three)),
                _ => {}
            }
        }
        refuse("a quotation mark is not closed")
    }
}

fn quoted(pieces: &mut Vec<Piece>, c: char) {
    match pieces.last_mut() {
        Some(Piece::Quoted(text)) => text.push(c),
        _ => pieces.push(Piece::Quoted(c.to_string())),
    }
}

/// How many octal digits an escape may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Octal {
    /// `$'\162'` and the format of `printf`.
    Three,
    /// `echo -e '\0162'`: a zero and three more.
    AfterZero,
}

/// Backslash escapes of `$'…'`, `echo -e` and `printf`. A NUL ends the text, as it does in bash.
pub(crate) fn unescape(chars: &[char], octal: Octal) -> String {
    let mut bytes: Vec<u8> = Vec::new();
    let mut at = 0;
    let push = |bytes: &mut Vec<u8>, c: char| bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
    while let Some(&c) = chars.get(at) {
        at += 1;
        if c != '\\' {
            push(&mut bytes, c);
            continue;
        }
        let Some(&kind) = chars.get(at) else {
            push(&mut bytes, '\\');
            break;
        };
        at += 1;
        let mut number = |radix: u32, most: usize| {
            let digits: String = chars[at..].iter().take(most).take_while(|c| c.is_digit(radix)).collect();
            at += digits.len();
            u32::from_str_radix(&digits, radix).ok()
        };
        match kind {
            'a' => bytes.push(7),
            'b' => bytes.push(8),
            'e' | 'E' => bytes.push(27),
            'f' => bytes.push(12),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'v' => bytes.push(11),
            'x' => bytes.extend(number(16, 2).map(|n| n as u8)),
            'u' => number(16, 4).and_then(char::from_u32).into_iter().for_each(|c| push(&mut bytes, c)),
            'U' => number(16, 8).and_then(char::from_u32).into_iter().for_each(|c| push(&mut bytes, c)),
            'c' => {
                bytes.extend(chars.get(at).map(|c| *c as u8 & 0x1f));
                at += 1;
            }
            '0'..='7' => {
                at -= 1;
                let most = if kind == '0' && octal == Octal::AfterZero { 4 } else { 3 };
                let digits: String = chars[at..].iter().take(most).take_while(|c| c.is_digit(8)).collect();
                at += digits.len();
                bytes.extend(u32::from_str_radix(&digits, 8).ok().map(|n| n as u8));
            }
            '\\' | '\'' | '"' | '?' => push(&mut bytes, kind),
            other => {
                push(&mut bytes, '\\');
                push(&mut bytes, other);
            }
        }
    }
    if let Some(nul) = bytes.iter().position(|b| *b == 0) {
        bytes.truncate(nul);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
