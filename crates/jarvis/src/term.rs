//! stdout is data, stderr is status. Colour only on a terminal and without `NO_COLOR`.

use crate::error::{Failure, Outcome, failed};
use jarvis_protocol::ErrorKind;
use serde::Serialize;
use std::fmt::Display;
use std::io::{ErrorKind as Io, IsTerminal, Write};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Text to stdout as it is.
pub fn text(text: impl Display) -> Outcome {
    let mut out = std::io::stdout().lock();
    write!(out, "{text}").and_then(|()| out.flush()).map_err(|e| match e.kind() {
        Io::BrokenPipe => Failure::BrokenPipe,
        _ => failed(ErrorKind::Disk, format!("stdout cannot be written: {e}")),
    })
}

pub fn line(line: impl Display) -> Outcome {
    text(format_args!("{line}\n"))
}

/// One JSON value on one line of stdout.
pub fn json(value: &impl Serialize) -> Outcome {
    let raw = serde_json::to_string(value).map_err(|e| failed(ErrorKind::Internal, e.to_string()))?;
    line(raw)
}

/// A line of status. A closed stderr is no reason to stop.
pub fn note(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Status without a line break, for prompts.
pub fn ask(text: impl Display) {
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "{text}").and_then(|()| err.flush());
}

/// True where a person sits at stdin and stderr and can be asked.
pub fn person_is_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

#[derive(Debug, Clone, Copy)]
pub struct Style {
    colour: bool,
}

pub fn stderr_style() -> Style {
    Style { colour: std::io::stderr().is_terminal() && colour_wanted() }
}

pub fn stdout_style() -> Style {
    Style { colour: std::io::stdout().is_terminal() && colour_wanted() }
}

fn colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && std::env::var_os("TERM").is_none_or(|v| v != "dumb")
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub fn red(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    pub fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub fn cyan(self, text: &str) -> String {
        self.paint("36", text)
    }
}

/// Columns of the terminal behind stdout; what is piped is not cut.
pub fn width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// At most `columns` wide, with `…` where something was left out. Wide (Chinese) characters count two; line breaks
/// become spaces.
pub fn cut(text: &str, columns: usize) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if flat.width() <= columns {
        return flat;
    }
    let mut used = 0;
    let mut kept = String::new();
    for c in flat.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > columns {
            break;
        }
        used += wide;
        kept.push(c);
    }
    kept.push('…');
    kept
}

/// Columns padded to their widest cell; the last one is cut to the terminal.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> Outcome {
    let style = stdout_style();
    let columns = header.len();
    let widths: Vec<usize> = (0..columns)
        .map(|i| rows.iter().map(|row| row[i].width()).chain([header[i].width()]).max().unwrap_or(0))
        .collect();
    let before_last: usize = widths[..columns - 1].iter().map(|w| w + 2).sum();
    let room = width().map(|w| w.saturating_sub(before_last).max(20));
    let render = |cells: &[String]| {
        let mut out = String::new();
        for (i, cell) in cells.iter().enumerate() {
            if i + 1 == columns {
                out += &room.map_or_else(|| cut(cell, usize::MAX), |room| cut(cell, room));
            } else {
                out += cell;
                out += &" ".repeat(widths[i] + 2 - cell.width());
            }
        }
        out
    };
    let head: Vec<String> = header.iter().map(|&h| h.to_owned()).collect();
    line(style.bold(render(&head).trim_end()))?;
    rows.iter().try_for_each(|row| line(render(row).trim_end()))
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn chinese_text_is_cut_between_characters_and_counts_double() {
        assert_eq!(cut("计算所有能被七整除的数", 9), "计算所有…");
        assert_eq!(cut("two\nlines", 20), "two lines");
        assert_eq!(cut("short", 5), "short");
    }
}
