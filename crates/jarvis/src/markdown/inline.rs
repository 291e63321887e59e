//! Text within a block: where it can be cut without changing what it means, and what it looks like.

use super::rows::{Look, Piece};
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd};
use std::ops::Range;

/// Stands before a text, so that none of it is taken for a heading, a list or a rule.
const BEFORE: &str = "x ";
const CODE: &str = "36";
/// Waiting for what closes has an end.
const LONGEST: usize = 8192;

/// Follows a text and knows when nothing in it waits for an end. What it takes for open may be none; not the reverse.
#[derive(Default)]
pub struct Open {
    code: Option<usize>,
    ticks: usize,
    run: Option<(char, char)>,
    emphasis: Vec<char>,
    brackets: usize,
    parens: usize,
    behind_bracket: bool,
    tag: bool,
    escaped: bool,
    last: char,
    read: usize,
}

impl Open {
    pub fn feed(&mut self, c: char) {
        self.read += c.len_utf8();
        if self.escaped {
            self.escaped = false;
            self.last = c;
            return;
        }
        if c == '`' {
            self.end_run(c);
            self.ticks += 1;
            return;
        }
        if self.ticks > 0 {
            let ticks = std::mem::take(&mut self.ticks);
            match self.code {
                Some(length) if length == ticks => self.code = None,
                Some(_) => {}
                None => self.code = Some(ticks),
            }
            self.last = '`';
        }
        if self.code.is_some() {
            return;
        }
        if matches!(c, '*' | '_' | '~') {
            if self.run.is_none_or(|(mark, _)| mark != c) {
                self.end_run(c);
                self.run = Some((c, self.last));
            }
            self.last = c;
            return;
        }
        self.end_run(c);
        let behind_bracket = std::mem::take(&mut self.behind_bracket);
        match c {
            '\\' => self.escaped = true,
            '[' => self.brackets += 1,
            ']' => {
                self.brackets = self.brackets.saturating_sub(1);
                self.behind_bracket = true;
            }
            '(' if behind_bracket || self.parens > 0 => self.parens += 1,
            ')' => self.parens = self.parens.saturating_sub(1),
            '>' => self.tag = false,
            _ if self.last == '<' && (c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?')) => self.tag = true,
            _ => {}
        }
        self.last = c;
    }

    /// Whether it ends in a backslash, which then means a break.
    pub fn take_escape(&mut self) -> bool {
        std::mem::take(&mut self.escaped)
    }

    /// Marks of emphasis that `next` comes behind.
    fn end_run(&mut self, next: char) {
        let Some((mark, before)) = self.run.take() else { return };
        let blank = |c: char| c == '\0' || c.is_whitespace();
        if !blank(before) && self.emphasis.contains(&mark) {
            while self.emphasis.pop().is_some_and(|open| open != mark) {}
        } else if !(blank(next) || mark == '_' && before.is_alphanumeric()) {
            self.emphasis.push(mark);
        }
    }

    /// Whether a cut before `next` parts nothing.
    pub fn is_closed_before(&mut self, next: char) -> bool {
        if self.code.is_none() && self.ticks == 0 && !self.escaped {
            self.end_run(next);
        }
        let waits = self.code.is_some() || self.ticks > 0 || self.escaped || self.tag || !self.emphasis.is_empty();
        (!waits && self.brackets == 0 && self.parens == 0) || self.read > LONGEST
    }
}

/// What `text`, which is one line, looks like in `base`.
pub fn pieces(text: &str, base: Look) -> Vec<Piece> {
    let source = format!("{BEFORE}{text}");
    let options = Options::ENABLE_STRIKETHROUGH;
    let mut reading = Reading::new(&source, base);
    for (event, range) in Parser::new_ext(&source, options).into_offset_iter() {
        reading.event(event, range);
    }
    let mut pieces = reading.pieces;
    if let Some(Piece::Text(first, _)) = pieces.first_mut() {
        let rest = first.strip_prefix('x').map(|rest| rest.strip_prefix(' ').unwrap_or(rest).to_owned());
        *first = rest.unwrap_or_default();
    }
    pieces
}

/// Turns events into pieces.
pub struct Reading<'a> {
    source: &'a str,
    base: Look,
    looks: Vec<Look>,
    /// Where each open link leads, and the piece that its text begins with.
    links: Vec<(CowStr<'a>, usize)>,
    pub pieces: Vec<Piece>,
}

impl<'a> Reading<'a> {
    pub fn new(source: &'a str, base: Look) -> Self {
        Reading { source, base, looks: Vec::new(), links: Vec::new(), pieces: Vec::new() }
    }

    pub fn look(&self) -> Look {
        self.looks.last().copied().unwrap_or(self.base)
    }

    pub fn event(&mut self, event: Event<'a>, range: Range<usize>) {
        let look = self.look();
        match event {
            Event::Text(text) => self.text(&text, look),
            Event::Code(code) => self.text(&code, Look { colour: Some(CODE), ..look }),
            Event::SoftBreak => self.text(" ", look),
            Event::HardBreak => self.pieces.push(Piece::Break),
            Event::InlineHtml(tag) | Event::Html(tag) => match tag.trim_end_matches(['>', '/', ' ']) {
                "<br" => self.pieces.push(Piece::Break),
                _ => self.text(&tag, look),
            },
            Event::Start(tag @ (Tag::Emphasis | Tag::Strong | Tag::Strikethrough)) => {
                let look = match (self.literal(&tag, &range), &tag) {
                    (Some(mark), _) => {
                        self.text(mark, look);
                        look
                    }
                    (None, Tag::Emphasis) => Look { italic: true, ..look },
                    (None, Tag::Strong) => Look { bold: true, ..look },
                    (None, _) => Look { struck: true, ..look },
                };
                self.looks.push(look);
            }
            Event::End(end @ (TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough)) => {
                self.looks.pop();
                let tag = match end {
                    TagEnd::Emphasis => Tag::Emphasis,
                    TagEnd::Strong => Tag::Strong,
                    _ => Tag::Strikethrough,
                };
                if let Some(mark) = self.literal(&tag, &range) {
                    self.text(mark, self.look());
                }
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                self.links.push((dest_url, self.pieces.len()));
                self.looks.push(Look { underlined: true, ..look });
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                self.looks.pop();
                if let Some((to, from)) = self.links.pop() {
                    self.leads(&to, from);
                }
            }
            _ => {}
        }
    }

    /// Where a link leads is told, unless it says so itself.
    fn leads(&mut self, to: &str, from: usize) {
        let said: String = self.pieces[from..]
            .iter()
            .map(|piece| match piece {
                Piece::Text(text, _) => text.as_str(),
                Piece::Break => " ",
            })
            .collect();
        if !to.is_empty() && said != to && to.strip_prefix("mailto:") != Some(&said) {
            self.text(&format!(" ({to})"), Look { dim: true, ..self.look() });
        }
    }

    fn text(&mut self, text: &str, look: Look) {
        self.pieces.push(Piece::Text(text.to_owned(), look));
    }

    /// The marks of what is emphasis by the book and none to a reader: `2*3*4`, `~5 to 6~`.
    fn literal(&self, tag: &Tag<'_>, range: &Range<usize>) -> Option<&'a str> {
        let (before, inside) = (self.source.get(..range.start)?, self.source.get(range.clone())?);
        let mark = match tag {
            Tag::Strong => inside.get(..2)?,
            Tag::Strikethrough if inside.starts_with("~~") => return None,
            _ => inside.get(..1)?,
        };
        if mark == "~" {
            return Some(mark);
        }
        let word = |c: char| c.is_ascii_alphanumeric();
        let behind = self.source.get(range.end..)?;
        (before.chars().next_back().is_some_and(word) && behind.chars().next().is_some_and(word)).then_some(mark)
    }
}
