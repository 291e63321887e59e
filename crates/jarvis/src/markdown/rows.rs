//! Styled text laid out in rows of a width. What was put out is never taken back.

use crate::term::{self, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Too narrow to lay anything out in: the terminal breaks such lines itself.
const NARROWEST: usize = 8;

/// How a piece of text looks; the parts of a look add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Look {
    pub bold: bool,
    pub italic: bool,
    pub underlined: bool,
    pub struck: bool,
    pub dim: bool,
    /// The number of one of the terminal's own colours, so that light and dark terminals both can read it.
    pub colour: Option<&'static str>,
}

impl Look {
    pub const DIM: Look =
        Look { bold: false, italic: false, underlined: false, struck: false, dim: true, colour: None };

    fn code(self) -> String {
        let flags = [(self.bold, "1"), (self.dim, "2"), (self.italic, "3"), (self.underlined, "4"), (self.struck, "9")];
        let codes = flags.iter().filter(|(on, _)| *on).map(|(_, code)| *code).chain(self.colour);
        codes.collect::<Vec<_>>().join(";")
    }

    pub fn paint(self, style: Style, text: &str) -> String {
        if self == Look::default() { text.to_owned() } else { style.paint(&self.code(), text) }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    Text(String, Look),
    Break,
}

/// What stands before the rows of a block.
#[derive(Debug, Clone, Default)]
pub struct Margin {
    pub text: String,
    pub columns: usize,
}

impl Margin {
    pub fn spaces(columns: usize) -> Self {
        Margin { text: " ".repeat(columns), columns }
    }

    pub fn and(&self, columns: usize) -> Self {
        Margin { text: self.text.clone() + &" ".repeat(columns), columns: self.columns + columns }
    }
}

/// A character with all that combines with it.
struct Cluster {
    text: String,
    columns: usize,
    look: Look,
}

pub struct Rows {
    width: usize,
    style: Style,
    out: String,
    /// Something is on the current row, or it was begun.
    begun: bool,
    column: usize,
    margin: Margin,
    /// White space that a word needs before it on the same row.
    spaces: usize,
    word: Vec<Cluster>,
}

impl Rows {
    pub fn new(width: usize, style: Style) -> Self {
        Rows {
            width: width.max(NARROWEST),
            style,
            out: String::new(),
            begun: false,
            column: 0,
            margin: Margin::default(),
            spaces: 0,
            word: Vec::new(),
        }
    }

    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    pub fn width(&self) -> usize {
        self.width
    }

    /// Whether any row was begun.
    pub fn is_empty(&self) -> bool {
        !self.begun
    }

    /// A row that begins with `first`; those it is wrapped into begin with `rest`.
    pub fn begin(&mut self, first: &Margin, rest: Margin) {
        self.end();
        self.margin = rest;
        self.open(first);
    }

    fn open(&mut self, margin: &Margin) {
        if self.begun {
            self.out.push('\n');
        }
        self.begun = true;
        self.out += &margin.text;
        self.column = margin.columns;
        self.spaces = 0;
    }

    /// Lays out more of the block. Its last word may still grow.
    pub fn add(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            match piece {
                Piece::Break => {
                    self.end();
                    let margin = self.margin.clone();
                    self.open(&margin);
                }
                Piece::Text(text, look) => term::safe(text).chars().for_each(|c| self.character(c, *look)),
            }
        }
    }

    /// White space between two pieces.
    pub fn space(&mut self) {
        self.character(' ', Look::default());
    }

    /// The block is over.
    pub fn end(&mut self) {
        self.place();
        self.spaces = 0;
    }

    fn character(&mut self, c: char, look: Look) {
        if matches!(c, ' ' | '\n' | '\t') {
            self.place();
            // In code they count, elsewhere they are one.
            self.spaces = if look.colour.is_some() { self.spaces + 1 } else { self.spaces.max(1) };
            return;
        }
        let columns = c.width().unwrap_or(0);
        if let Some(last) = self.word.last_mut()
            && (columns == 0 || last.text.ends_with('\u{200d}'))
        {
            last.text.push(c);
            last.columns = last.text.width().max(last.columns);
            return;
        }
        if let Some(last) = self.word.last()
            && may_part(last, c, columns)
        {
            self.place();
        }
        self.word.push(Cluster { text: c.to_string(), columns, look });
    }

    fn place(&mut self) {
        let word = std::mem::take(&mut self.word);
        let columns: usize = word.iter().map(|cluster| cluster.columns).sum();
        if word.is_empty() {
            return;
        }
        let spaces = if self.column <= self.margin.columns { 0 } else { self.spaces };
        let whole = self.margin.columns + columns <= self.width;
        if self.column + spaces + columns > self.width && whole {
            let margin = self.margin.clone();
            self.open(&margin);
        } else {
            // A word that no row can hold is parted, from here on.
            let spaces = spaces.min(self.width.saturating_sub(self.column));
            self.out += &" ".repeat(spaces);
            self.column += spaces;
        }
        self.spaces = 0;
        let mut run = (String::new(), Look::default());
        for cluster in word {
            let full = self.column + cluster.columns > self.width && self.column > self.margin.columns;
            if full || cluster.look != run.1 {
                self.out += &run.1.paint(self.style, &run.0);
                run = (String::new(), cluster.look);
            }
            if full {
                let margin = self.margin.clone();
                self.open(&margin);
            }
            run.0 += &cluster.text;
            self.column += cluster.columns;
        }
        self.out += &run.1.paint(self.style, &run.0);
    }

    /// A row of code: white space as it is, broken where the row ends.
    pub fn exact(&mut self, first: &Margin, rest: &Margin, pieces: &[(String, Look)]) {
        let nothing = Margin::default();
        let empty = pieces.iter().all(|(text, _)| text.trim().is_empty()) && first.text.trim().is_empty();
        self.begin(if empty { &nothing } else { first }, rest.clone());
        if empty {
            return;
        }
        let mut left = first.columns;
        for (text, look) in pieces {
            let mut run = String::new();
            for c in term::safe(text).replace('\t', "    ").chars() {
                let before = run.width();
                run.push(c);
                // A sign may be made of several characters, and wider than they are.
                let columns = c.width().unwrap_or(0).max(run.width().saturating_sub(before));
                if self.column + columns > self.width && self.column > left {
                    run.pop();
                    self.out += &look.paint(self.style, &std::mem::take(&mut run));
                    self.open(rest);
                    left = rest.columns;
                    run.push(c);
                }
                self.column += columns;
            }
            self.out += &look.paint(self.style, &run);
        }
    }

    /// A row that is laid out already.
    pub fn finished(&mut self, margin: &Margin, row: &str) {
        self.begin(margin, margin.clone());
        self.out += row;
    }
}

/// Chinese and the like are broken between any two characters, but not before what closes nor after what opens.
fn may_part(last: &Cluster, c: char, columns: usize) -> bool {
    let opens = |c: char| matches!(c, '（' | '《' | '「' | '『' | '【' | '“' | '‘' | '〈' | '(' | '[' | '{');
    let closes = |c: char| "）》」』】”’〉，。、；：？！…—～%)]},.;:?!".contains(c);
    let wide = last.columns == 2 || columns == 2;
    wide && !closes(c) && !last.text.chars().next_back().is_some_and(opens)
}
