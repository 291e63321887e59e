//! Here-documents: the mark after `<<` and the text up to it.

use crate::lex::{Reader, Reading, refuse};
use crate::sheet::Pending;
use crate::tree::{Piece, Word};

impl Reader<'_> {
    /// The word after `<<`; quoted in any part, the body is literal.
    pub fn delimiter(&mut self) -> Reading<(String, bool)> {
        self.skip_blanks();
        let (mut text, mut expands, start) = (String::new(), true, self.at);
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                '\\' => {
                    expands = false;
                    text.extend(self.peek(1));
                    self.at += 2;
                }
                '\'' | '"' => {
                    expands = false;
                    self.at += 1;
                    while self.peek(0).is_some_and(|q| q != c) {
                        match self.peek(0) {
                            Some('\n' | '\\' | '$' | '`') => return refuse("a strange here-document mark"),
                            other => text.extend(other),
                        }
                        self.at += 1;
                    }
                    self.at += 1;
                }
                '$' | '`' => return refuse("an expansion in a here-document mark"),
                _ => {
                    text.push(c);
                    self.at += 1;
                }
            }
        }
        if self.at == start { refuse("a here-document without its mark") } else { Ok((text, expands)) }
    }

    pub fn here_document(&mut self, pending: &Pending) -> Reading<Word> {
        let mut body = Vec::new();
        while self.at < self.chars.len() {
            let mut line = Vec::new();
            while let Some(c) = self.peek(0) {
                self.at += 1;
                match c {
                    '\n' => break,
                    // Lines are joined before they are compared with the mark, as bash does.
                    '\\' if pending.expands && self.peek(0) == Some('\n') => self.at += 1,
                    '\\' if pending.expands => {
                        line.push(c);
                        line.extend(self.peek(0));
                        self.at += 1;
                    }
                    _ => line.push(c),
                }
            }
            if pending.tabs {
                let tabs = line.iter().take_while(|c| **c == '\t').count();
                line.drain(..tabs);
            }
            if line.iter().copied().eq(pending.delimiter.chars()) {
                if !pending.expands {
                    return Ok(Word { pieces: vec![Piece::Quoted(body.into_iter().collect())] });
                }
                let mut inner = Reader { chars: &body, at: 0, depth: self.depth, documents: 0 };
                return Ok(Word { pieces: inner.here_pieces()? });
            }
            body.extend(line);
            body.push('\n');
        }
        refuse(format!("the here-document up to `{}` does not end", pending.delimiter))
    }
}
