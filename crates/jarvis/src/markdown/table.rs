//! Tables: columns as wide as what is in them, and no wider together than the terminal.

use super::inline::Reading;
use super::rows::{Look, Piece};
use crate::term::{self, Style};
use pulldown_cmark::{Alignment, Event, Options, Parser, Tag, TagEnd};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A column is not made narrower; where even that is too wide, columns at the end are left out.
const NARROWEST: usize = 3;
const BETWEEN: &str = " │ ";

type Cell = Vec<(String, Look)>;

pub struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Cell>>,
}

/// None where it is no table after all.
pub fn read(source: &str) -> Option<Table> {
    let mut table: Option<Table> = None;
    let mut reading: Option<Reading<'_>> = None;
    let mut head = false;
    for (event, range) in
        Parser::new_ext(source, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).into_offset_iter()
    {
        match (event, &mut table) {
            (Event::Start(Tag::Table(alignments)), None) => table = Some(Table { alignments, rows: Vec::new() }),
            (_, None) => return None,
            (Event::Start(row @ (Tag::TableHead | Tag::TableRow)), Some(table)) => {
                head = row == Tag::TableHead;
                table.rows.push(Vec::new());
            }
            (Event::Start(Tag::TableCell), _) => {
                reading = Some(Reading::new(source, Look { bold: head, ..Look::default() }));
            }
            (Event::End(TagEnd::TableCell), Some(table)) => {
                if let (Some(reading), Some(row)) = (reading.take(), table.rows.last_mut()) {
                    row.push(reading.pieces.into_iter().map(flat).collect());
                }
            }
            (event, _) => {
                if let Some(reading) = &mut reading {
                    reading.event(event, range);
                }
            }
        }
    }
    table
}

fn flat(piece: Piece) -> (String, Look) {
    match piece {
        Piece::Text(text, look) => (term::flat(&text), look),
        Piece::Break => (" ".to_owned(), Look::default()),
    }
}

fn columns_of(cell: &Cell) -> usize {
    cell.iter().map(|(text, _)| text.width()).sum()
}

impl Table {
    /// Its rows, each at most `width` columns wide.
    pub fn lay_out(&self, width: usize, style: Style) -> Vec<String> {
        let widths = self.widths(width);
        let between = Look::DIM.paint(style, BETWEEN);
        let mut out = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            let cells = widths.iter().enumerate().map(|(i, columns)| {
                let nothing = Cell::new();
                self.cell(row.get(i).unwrap_or(&nothing), i, *columns, style)
            });
            out.push(cells.collect::<Vec<_>>().join(&between).trim_end_matches(' ').to_owned());
            if at == 0 {
                let line = widths.iter().map(|columns| "─".repeat(*columns)).collect::<Vec<_>>().join("─┼─");
                out.push(Look::DIM.paint(style, &line));
            }
        }
        out
    }

    fn widths(&self, width: usize) -> Vec<usize> {
        let count = self.alignments.len();
        let widest =
            |i: usize| self.rows.iter().filter_map(|row| row.get(i)).map(columns_of).max().unwrap_or(0).min(width);
        let mut widths: Vec<usize> = (0..count).map(|i| widest(i).max(1)).collect();
        let between = BETWEEN.width();
        let all = |widths: &[usize]| widths.iter().sum::<usize>() + between * widths.len().saturating_sub(1);
        while all(&widths) > width {
            let widest = (0..widths.len()).filter(|i| widths[*i] > NARROWEST).max_by_key(|i| widths[*i]);
            match widest {
                Some(widest) => widths[widest] -= 1,
                None if widths.len() > 1 => drop(widths.pop()),
                None => break,
            }
        }
        widths
    }

    fn cell(&self, cell: &Cell, column: usize, columns: usize, style: Style) -> String {
        let cuts = columns_of(cell) > columns;
        let room = if cuts { columns - 1 } else { columns };
        let (mut used, mut out) = (0, String::new());
        for (text, look) in cell {
            let mut kept = String::new();
            for c in text.chars() {
                let wide = c.width().unwrap_or(0);
                if used + wide > room {
                    break;
                }
                used += wide;
                kept.push(c);
            }
            out += &look.paint(style, &kept);
            if kept.len() < text.len() {
                break;
            }
        }
        if cuts {
            out.push('…');
            used += 1;
        }
        let free = columns.saturating_sub(used);
        match self.alignments.get(column) {
            Some(Alignment::Right) => " ".repeat(free) + &out,
            Some(Alignment::Center) => " ".repeat(free / 2) + &out + &" ".repeat(free - free / 2),
            _ => out + &" ".repeat(free),
        }
    }
}
