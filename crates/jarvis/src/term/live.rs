//! A few lines at the end of what is on the terminal that change: the last ones of a program that runs. They are gone as
//! soon as anything else is written.

use super::{quiet, status_width, stderr_style, visible};
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is drawn. One for the process, as the terminal is.
static DRAWN: Mutex<Drawn> = Mutex::new(Drawn { rows: 0, paused: false });

struct Drawn {
    rows: usize,
    /// A question stands there and waits for its answer.
    paused: bool,
}

fn drawn() -> MutexGuard<'static, Drawn> {
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Draws `rows` in place of those before; each must be narrower than the terminal. Nothing where nothing can be drawn.
pub fn draw(rows: &[String]) {
    if quiet() || !stderr_style().has_colour() || status_width().is_none() {
        return;
    }
    let mut drawn = drawn();
    if drawn.paused {
        return;
    }
    let mut out = erased(&mut drawn);
    for row in rows {
        out += &visible(row);
        out.push('\n');
    }
    drawn.rows = rows.len();
    // A closed stderr is no reason to stop.
    let _ = std::io::stderr().lock().write_all(out.as_bytes());
}

pub fn clear() {
    let mut drawn = drawn();
    let out = erased(&mut drawn);
    if !out.is_empty() {
        let _ = std::io::stderr().lock().write_all(out.as_bytes());
    }
}

/// While a question waits, nothing is drawn over it.
pub struct Paused(());

pub fn pause() -> Paused {
    clear();
    drawn().paused = true;
    Paused(())
}

impl Drop for Paused {
    fn drop(&mut self) {
        drawn().paused = false;
    }
}

/// Up to the first of the rows, and all below it empty.
fn erased(drawn: &mut Drawn) -> String {
    match std::mem::take(&mut drawn.rows) {
        0 => String::new(),
        rows => format!("\x1b[{rows}A\r\x1b[J"),
    }
}
