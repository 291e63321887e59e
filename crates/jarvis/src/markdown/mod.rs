//! Markdown for a terminal, as it streams in. What is put out stays: a text is shown word by word, and a block whose look
//! depends on its end (a table, a quote, a line of code) once that is there.

mod block;
mod code;
mod inline;
mod rows;
mod table;
#[cfg(test)]
mod tests;

use crate::term::Style;
use block::Kind;
use code::Code;
use inline::Open;
use rows::{Look, Margin, Piece, Rows};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Quotes in quotes deeper than that are shown as they were written.
const DEEPEST: usize = 6;
const HEADING: &str = "36";
/// Before a line of code.
const CODE: usize = 2;

/// An open item of a list.
struct Item {
    /// Columns before its marker and before its text, as it was written.
    marker: usize,
    text: usize,
    number: Option<u64>,
    /// Columns before its text, as it is shown.
    shown: usize,
}

enum Leaf {
    None,
    Text(Text),
    /// Shown once it is over.
    Held {
        kind: Kind,
        lines: String,
    },
    Fence {
        mark: char,
        length: usize,
        indent: usize,
        code: Code,
    },
}

/// A text that is shown as it comes.
#[derive(Default)]
struct Text {
    /// From where it could be cut last.
    pending: String,
    open: Open,
    /// White space at its end.
    spaces: usize,
}

pub struct Markdown {
    rows: Rows,
    style: Style,
    depth: usize,
    /// Of a line whose kind is not known or that is shown whole.
    line: String,
    /// The rest of the line is text that is shown as it comes.
    live: bool,
    /// Only the end of the line says more.
    held: bool,
    leaf: Leaf,
    items: Vec<Item>,
    /// The text of an item begins at this column of its line.
    behind_marker: Option<usize>,
    /// Not yet put out.
    bullet: Option<Margin>,
    /// Blank lines came.
    gap: bool,
}

impl Markdown {
    pub fn new(width: usize, style: Style) -> Self {
        Self::inside(width, style, 0)
    }

    fn inside(width: usize, style: Style, depth: usize) -> Self {
        Markdown {
            rows: Rows::new(width, style),
            style,
            depth,
            line: String::new(),
            live: false,
            held: false,
            leaf: Leaf::None,
            items: Vec::new(),
            behind_marker: None,
            bullet: None,
            gap: false,
        }
    }

    /// More of the text; gives what is to be shown now.
    pub fn push(&mut self, text: &str) -> String {
        text.chars().for_each(|c| self.character(c));
        self.rows.take()
    }

    /// The text is over; gives the rest. The last row is not ended.
    pub fn finish(mut self) -> String {
        if self.live || !self.line.is_empty() || self.behind_marker.is_some() {
            self.character('\n');
        }
        self.end_leaf();
        self.rows.take()
    }

    fn character(&mut self, c: char) {
        match c {
            '\r' => {}
            '\n' if self.live => self.end_live(),
            c if self.live => self.text(c),
            '\n' => {
                let line = std::mem::take(&mut self.line);
                self.held = false;
                self.begin(&line, true);
                self.behind_marker = None;
            }
            c => {
                self.line.push(c);
                if !self.held && !matches!(self.leaf, Leaf::Fence { .. }) {
                    let line = std::mem::take(&mut self.line);
                    if !self.begin(&line, false) {
                        self.line = line;
                    }
                }
            }
        }
    }

    /// Does what a line asks for; false while that is not known.
    fn begin(&mut self, line: &str, complete: bool) -> bool {
        if let Leaf::Fence { mark, length, .. } = self.leaf {
            if block::closes(line, mark, length) {
                self.leaf = Leaf::None
            } else {
                self.code_line(line)
            }
            return true;
        }
        let (columns, body) = block::indent(line);
        let columns = self.behind_marker.map_or(columns, |at| at.max(columns));
        let Some(kind) = block::kind(body, complete) else { return false };
        let in_text = matches!(self.leaf, Leaf::Text(_)) && self.behind_marker.is_none();
        // Far to the right of everything is code, unless a text goes on.
        let code = !in_text && self.behind_marker.is_none() && columns >= self.base(columns) + 4;
        match kind {
            Kind::Blank if self.behind_marker.is_some() => self.bare_marker(),
            Kind::Blank => {
                self.end_leaf();
                self.gap = !self.rows.is_empty();
            }
            // A number in the middle of a text begins a list only where it is the first or a list is open.
            Kind::Item { number: Some(number), .. } if in_text && number != 1 && self.items.is_empty() => {
                self.text_line(columns, body, complete);
            }
            Kind::Item { length, number } => {
                self.item(columns, length, number);
                let rest = &body[length..];
                if (complete || !rest.trim().is_empty()) && !self.begin(rest, complete) {
                    self.line = rest.to_owned();
                }
            }
            Kind::Text if !code => self.text_line(columns, body, complete),
            _ if !complete => {
                self.held = true;
                return false;
            }
            _ if code => self.code_by_indent(columns, body),
            Kind::Text => self.text_line(columns, body, complete),
            Kind::Heading => self.heading(columns, body),
            Kind::Rule => {
                self.leave(columns);
                let (margin, _) = self.start();
                let line = "─".repeat(self.rows.width().saturating_sub(margin.columns).min(40));
                self.rows.finished(&margin, &Look::DIM.paint(self.style, &line));
            }
            Kind::Fence { mark, length } => {
                self.leave(columns);
                let code = Code::new(&body[length..]);
                self.leaf = Leaf::Fence { mark, length, indent: columns, code };
            }
            Kind::Quote | Kind::Row => self.hold(kind, columns, body),
        }
        true
    }

    /// The column that blocks begin at in the item that holds this one.
    fn base(&self, columns: usize) -> usize {
        self.items.iter().rev().find(|item| item.holds(columns)).map_or(0, |item| item.text)
    }

    /// Ends what is open, and the items that something at this column is no part of.
    fn leave(&mut self, columns: usize) {
        self.end_leaf();
        if self.behind_marker.is_none() {
            self.items.retain(|item| item.holds(columns));
        }
    }

    /// The margins of a block that begins now, of its first row and of the others.
    fn start(&mut self) -> (Margin, Margin) {
        if std::mem::take(&mut self.gap) {
            self.rows.finished(&Margin::default(), "");
        }
        let rest = Margin::spaces(self.items.last().map_or(0, |item| item.shown));
        (self.bullet.take().unwrap_or_else(|| rest.clone()), rest)
    }

    /// An item with nothing behind its marker.
    fn bare_marker(&mut self) {
        if self.bullet.is_some() {
            let (first, rest) = self.start();
            self.rows.begin(&first, rest);
        }
    }

    fn item(&mut self, columns: usize, length: usize, number: Option<u64>) {
        self.end_leaf();
        let mut before = None;
        if self.behind_marker.is_none() {
            self.bare_marker();
            let held = self.items.iter().take_while(|item| item.holds(columns)).count();
            before = self.items.drain(held..).next().and_then(|item| item.number);
        }
        let number = number.map(|number| before.map_or(number, |before| before + 1));
        let marker = number.map_or_else(|| "• ".to_owned(), |number| format!("{number}. "));
        let wide = marker.width();
        let most = self.rows.width() / 2;
        let left = self.bullet.take().unwrap_or_else(|| Margin::spaces(self.items.last().map_or(0, |item| item.shown)));
        let left = if left.columns + wide > most { Margin::spaces(most.saturating_sub(wide)) } else { left };
        let shown = left.columns + wide;
        self.bullet = Some(Margin { text: left.text + &marker, columns: shown });
        let text = columns + length + 1;
        self.items.push(Item { marker: columns, text, number, shown });
        self.behind_marker = Some(text);
    }

    fn heading(&mut self, columns: usize, body: &str) {
        self.leave(columns);
        let level = body.bytes().take_while(|b| *b == b'#').count();
        let text = body[level..].trim();
        // Marks at its end are no part of it, where white space is before them.
        let bare = text.trim_end_matches('#');
        let text = if bare.is_empty() || bare.ends_with([' ', '\t']) { bare.trim_end() } else { text };
        let look = Look { bold: true, colour: (level <= 2).then_some(HEADING), ..Look::default() };
        let (first, rest) = self.start();
        self.rows.begin(&first, rest);
        self.rows.add(&inline::pieces(text, look));
        self.rows.end();
    }

    fn text_line(&mut self, columns: usize, body: &str, complete: bool) {
        match &mut self.leaf {
            Leaf::Text(text) if self.behind_marker.is_none() => {
                let hard = std::mem::take(&mut text.spaces) > 1 || text.open.take_escape();
                if text.pending.ends_with('\\') && hard {
                    text.pending.pop();
                }
                if hard && text.open.is_closed_before(' ') {
                    self.cut();
                    self.rows.add(&[Piece::Break]);
                } else {
                    self.text(' ');
                }
            }
            _ => {
                self.leave(columns);
                let (first, rest) = self.start();
                self.rows.begin(&first, rest);
                self.leaf = Leaf::Text(Text::default());
            }
        }
        body.chars().for_each(|c| self.text(c));
        self.live = true;
        if complete {
            self.end_live();
        }
    }

    /// More of a text. It is shown up to where nothing that comes can change how it looks.
    fn text(&mut self, c: char) {
        let Leaf::Text(text) = &mut self.leaf else { return };
        let blank = matches!(c, ' ' | '\t');
        let last = text.pending.chars().next_back();
        if last.is_some_and(|last| blank || (is_wide_letter(last) && is_wide_letter(c)))
            && text.open.is_closed_before(c)
        {
            self.cut();
        }
        let Leaf::Text(text) = &mut self.leaf else { return };
        text.spaces = if blank { text.spaces + 1 } else { 0 };
        if blank && text.pending.is_empty() {
            self.rows.space();
        } else {
            text.pending.push(c);
            text.open.feed(c);
        }
    }

    fn cut(&mut self) {
        if let Leaf::Text(text) = &mut self.leaf {
            text.open = Open::default();
            self.rows.add(&inline::pieces(&std::mem::take(&mut text.pending), Look::default()));
        }
    }

    fn end_live(&mut self) {
        self.live = false;
        self.behind_marker = None;
    }

    fn hold(&mut self, kind: Kind, columns: usize, body: &str) {
        let body = match kind {
            Kind::Quote => body[1..].strip_prefix(' ').unwrap_or(&body[1..]),
            _ => body,
        };
        match &mut self.leaf {
            Leaf::Held { kind: open, lines } if *open == kind => *lines += &format!("{body}\n"),
            _ => {
                self.leave(columns);
                self.leaf = Leaf::Held { kind, lines: format!("{body}\n") };
            }
        }
    }

    fn code_line(&mut self, line: &str) {
        let (first, rest) = self.start();
        let Leaf::Fence { indent, code, .. } = &mut self.leaf else { return };
        let (columns, body) = block::indent(line);
        let line = if columns <= *indent { body } else { line.get(*indent..).unwrap_or(body) };
        let pieces = code.line(line);
        self.rows.exact(&first.and(CODE), &rest.and(CODE), &pieces);
    }

    fn code_by_indent(&mut self, columns: usize, body: &str) {
        let deeper = columns.saturating_sub(self.base(columns) + 4);
        self.leave(columns);
        let (first, rest) = self.start();
        let line = " ".repeat(deeper) + body;
        self.rows.exact(&first.and(CODE), &rest.and(CODE), &[(line, Look::default())]);
    }

    fn end_leaf(&mut self) {
        match std::mem::replace(&mut self.leaf, Leaf::None) {
            Leaf::None | Leaf::Fence { .. } => {}
            Leaf::Text(text) => {
                self.rows.add(&inline::pieces(&text.pending, Look::default()));
                self.rows.end();
            }
            Leaf::Held { kind, lines } => {
                let (mut first, rest) = self.start();
                let width = self.rows.width().saturating_sub(rest.columns.max(first.columns));
                for row in self.laid_out(kind, &lines, width) {
                    self.rows.finished(&first, &row);
                    first = rest.clone();
                }
            }
        }
    }

    /// A block that was waited for, in rows.
    fn laid_out(&self, kind: Kind, lines: &str, width: usize) -> Vec<String> {
        let plain = || {
            let mut rows = Rows::new(width, self.style);
            for line in lines.lines() {
                rows.begin(&Margin::default(), Margin::default());
                rows.add(&inline::pieces(line.trim(), Look::default()));
                rows.end();
            }
            rows.take()
        };
        let (mark, text) = match kind {
            Kind::Quote => {
                let mark = "│ ";
                let inside = if self.depth < DEEPEST {
                    let mut inner = Markdown::inside(width.saturating_sub(mark.width()), self.style, self.depth + 1);
                    inner.push(lines) + &inner.finish()
                } else {
                    plain()
                };
                (Look::DIM.paint(self.style, mark), inside)
            }
            _ => match table::read(lines) {
                Some(table) => return table.lay_out(width, self.style),
                None => (String::new(), plain()),
            },
        };
        text.split('\n').map(|row| format!("{mark}{row}")).collect()
    }
}

impl Item {
    /// Whether something at this column is part of it. By the book it is what stands below its text; people and models
    /// indent less behind a number.
    fn holds(&self, columns: usize) -> bool {
        columns >= self.marker + 2
    }
}

/// Of a script without white space between its words.
fn is_wide_letter(c: char) -> bool {
    c.is_alphanumeric() && c.width() == Some(2)
}
