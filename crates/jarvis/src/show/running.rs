//! The last lines of programs that run.

use crate::term::{self, Style};
use std::collections::VecDeque;

/// How many lines are shown of one.
const LINES: usize = 5;
/// Of a line, more is not kept.
const LINE_CHARS: usize = 400;
const MARK: &str = "  │ ";

/// What was printed by each call that still runs.
#[derive(Default)]
pub struct Running(Vec<(String, Tail)>);

#[derive(Default)]
struct Tail {
    lines: VecDeque<String>,
    /// The last one is not over.
    open: bool,
}

impl Running {
    pub fn add(&mut self, call: &str, text: &str) {
        let at = match self.0.iter().position(|(known, _)| known == call) {
            Some(at) => at,
            None => {
                self.0.push((call.to_owned(), Tail::default()));
                self.0.len() - 1
            }
        };
        self.0[at].1.add(text);
    }

    /// What is to be seen of the call now, each line at most `columns` wide.
    pub fn rows(&self, call: &str, columns: usize, style: Style) -> Vec<String> {
        let tail = self.0.iter().find(|(known, _)| known == call);
        let lines = tail.into_iter().flat_map(|(_, tail)| &tail.lines);
        lines.map(|line| style.dim(&term::cut(&format!("{MARK}{line}"), columns))).collect()
    }

    pub fn ended(&mut self, call: &str) {
        self.0.retain(|(known, _)| known != call);
    }
}

impl Tail {
    fn add(&mut self, text: &str) {
        for part in text.split_inclusive('\n') {
            if !self.open {
                self.lines.push_back(String::new());
            }
            self.open = !part.ends_with('\n');
            let part = part.trim_end_matches(['\n', '\r']);
            if let Some(line) = self.lines.back_mut() {
                // A progress bar writes its line anew.
                match part.rsplit_once('\r') {
                    Some((_, anew)) => anew.clone_into(line),
                    None => line.push_str(part),
                }
                if let Some((end, _)) = line.char_indices().nth(LINE_CHARS) {
                    line.truncate(end);
                }
            }
        }
        while self.lines.len() > LINES {
            self.lines.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_call_are_kept_whatever_pieces_they_come_in() {
        let mut running = Running::default();
        for text in ["one\ntw", "o\n", "3\n4\n5\n", "10 %\r20 %\r30", " %\rdone\n六六六六六", "六"] {
            running.add("a", text);
        }
        running.add("b", "other\u{1b}[2J");
        assert_eq!(running.rows("a", 10, Style::never()), ["  │ 3", "  │ 4", "  │ 5", "  │ done", "  │ 六六…"]);
        assert_eq!(running.rows("b", 40, Style::never()), [r"  │ other\u{1b}[2J"]);
        running.ended("a");
        assert!(running.rows("a", 10, Style::never()).is_empty());
    }
}
