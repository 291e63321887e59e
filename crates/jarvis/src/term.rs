//! stdout is data, stderr is status. Colour only on a terminal and without `NO_COLOR`. Whatever is written here may
//! come from a model, a capability or a file: no control character of theirs reaches a terminal.

pub mod live;

use crate::error::{Failure, Outcome, failed};
use jarvis_protocol::{ErrorKind, is_deceptive};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::hash::{BuildHasher, RandomState};
use std::io::{ErrorKind as Io, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// `--quiet`, which is said once for the process.
static QUIET: AtomicBool = AtomicBool::new(false);

pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

pub fn quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Text to stdout: exact where it is piped, escaped where a person reads it.
pub fn text(text: impl Display) -> Outcome {
    live::clear();
    let mut out = std::io::stdout().lock();
    let written = if out.is_terminal() { write!(out, "{}", visible(&text.to_string())) } else { write!(out, "{text}") };
    written.and_then(|()| out.flush()).map_err(|e| match e.kind() {
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
    line(plain_json(&raw))
}

/// A line of status, which `--quiet` does without.
pub fn status(line: impl Display) {
    if !quiet() {
        note(line);
    }
}

/// A line on stderr that a person must see. A closed stderr is no reason to stop.
pub fn note(line: impl Display) {
    live::clear();
    let _ = writeln!(std::io::stderr().lock(), "{}", visible(&line.to_string()));
}

/// Status without a line break, for prompts.
pub fn ask(text: impl Display) {
    live::clear();
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "{}", visible(&text.to_string())).and_then(|()| err.flush());
}

/// `text` with everything that would act on a terminal as a visible escape, such as `\u{1b}`.
pub fn safe(text: &str) -> Cow<'_, str> {
    if !text.contains(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_deceptive(c) {
            true => out.extend(c.escape_unicode()),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// `safe`, and on one line.
pub fn flat(text: &str) -> String {
    safe(text).replace(['\n', '\t'], " ")
}

/// JSON leaves DEL, C1 and bidi controls raw; they stand in strings only, so an escape means the same.
fn plain_json(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        match is_deceptive(c) {
            true => _ = write!(out, "\\u{:04x}", u32::from(c)),
            false => out.push(c),
        }
    }
    out
}

/// Stands for the beginning of our own colour codes until the text is written. Random, so that no text from outside
/// can hold it.
static MARK: LazyLock<String> = LazyLock::new(|| format!("\u{1b}{:016x}", RandomState::new().hash_one(())));

/// `safe`, with our own colours.
pub fn visible(text: &str) -> String {
    let mut parts = text.split(MARK.as_str());
    let mut out = parts.next().map(safe).unwrap_or_default().into_owned();
    for part in parts {
        let (code, rest) = part.split_once('m').unwrap_or(("0", part));
        out = out + "\x1b[" + code + "m" + &safe(rest);
    }
    out
}

/// Forgets what was typed so far, so that only who has seen a question answers it.
pub fn drop_typed() {
    // What cannot be dropped was not typed on a terminal.
    let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
}

/// Whether the cursor of this kind of terminal can be moved.
pub fn can_move() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// False when the terminal at stdin went away: its window was closed, or its connection broke.
pub fn is_there() -> bool {
    rustix::termios::tcgetattr(std::io::stdin()).is_ok()
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
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && can_move()
}

impl Style {
    #[cfg(test)]
    pub fn always() -> Style {
        Style { colour: true }
    }

    #[cfg(test)]
    pub fn never() -> Style {
        Style { colour: false }
    }

    pub fn has_colour(self) -> bool {
        self.colour
    }

    /// `code` is of a select-graphic-rendition sequence, such as `1;31`.
    pub fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("{0}{code}m{text}{0}0m", *MARK) } else { text.to_owned() }
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
    width_of(std::io::stdout())
}

/// The same of stderr.
pub fn status_width() -> Option<usize> {
    width_of(std::io::stderr())
}

fn width_of(out: impl IsTerminal + AsFd) -> Option<usize> {
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(out).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// `flat` and at most `columns` wide, with `…` where something was left out. Wide (Chinese) characters count two.
pub fn cut(text: &str, columns: usize) -> String {
    let flat = flat(text);
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

/// Columns padded to their widest cell, each cell `flat`; the last one is cut to the terminal.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> Outcome {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| flat(cell)).collect()).collect();
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
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const ATTACK: &str = "a\u{1b}[2J\u{1b}]52;c;eA==\u{7}\r\u{7f}\u{9b}31m\u{202e}b\u{2066}\u{200f}\u{61c}\n\t计算";

    #[test]
    fn what_acts_on_a_terminal_is_shown_as_an_escape_and_text_stays() {
        let shown = r"a\u{1b}[2J\u{1b}]52;c;eA==\u{7}\u{d}\u{7f}\u{9b}31m\u{202e}b\u{2066}\u{200f}\u{61c}";
        assert_eq!(safe(ATTACK), format!("{shown}\n\t计算"));
        assert_eq!(safe(&safe(ATTACK)), safe(ATTACK));
        assert_eq!(flat(ATTACK), format!("{shown}  计算"));
        assert!(matches!(safe("plain 文字\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn only_our_own_colours_reach_a_terminal() {
        let style = Style { colour: true };
        let line = format!("{} {}", style.red(ATTACK), "\u{1b}[32mfine\u{1b}[0m");
        let shown = visible(&line);
        assert_eq!(shown.matches('\u{1b}').count(), 2, "{shown:?}");
        assert!(
            shown.starts_with("\u{1b}[1;31ma\\u{1b}[2J") && shown.ends_with(r"\u{1b}[32mfine\u{1b}[0m"),
            "{shown:?}"
        );
    }

    #[test]
    fn json_with_its_controls_escaped_means_the_same() {
        let raw = serde_json::to_string(&[ATTACK]).unwrap();
        let escaped = plain_json(&raw);
        assert!(escaped.contains(r"\u009b31m\u202eb") && !escaped.contains(is_deceptive), "{escaped}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&escaped).unwrap(), [ATTACK]);
    }

    #[test]
    fn chinese_text_is_cut_between_characters_and_counts_double() {
        assert_eq!(cut("计算所有能被七整除的数", 9), "计算所有…");
        assert_eq!(cut("two\nlines", 20), "two lines");
        assert_eq!(cut("short", 5), "short");
    }
}
