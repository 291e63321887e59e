//! Bytes of tokens to text: whole characters only, stop strings cut off, nothing shown that may yet be part of one.

/// Text of one answer as it grows.
#[derive(Debug, Default)]
pub(super) struct Text {
    text: String,
    /// Bytes of a character not complete yet.
    pending: Vec<u8>,
    /// Bytes of `text` already handed out by [`Text::fresh`].
    shown: usize,
    stops: Vec<String>,
    stopped: bool,
}

impl Text {
    /// `stops` end the answer where they appear; empty ones are ignored.
    pub(super) fn new(stops: &[String]) -> Self {
        Self { stops: stops.iter().filter(|s| !s.is_empty()).cloned().collect(), ..Self::default() }
    }

    /// Adds a token's bytes. True once a stop string has been found; the text then ends before it.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        self.pending.extend_from_slice(bytes);
        let before = self.text.len();
        loop {
            match std::str::from_utf8(&self.pending) {
                Ok(whole) => {
                    self.text.push_str(whole);
                    self.pending.clear();
                    break;
                }
                Err(error) => {
                    let (good, rest) = self.pending.split_at(error.valid_up_to());
                    self.text.push_str(&String::from_utf8_lossy(good));
                    match error.error_len() {
                        // No continuation can make these bytes a character.
                        Some(bad) => {
                            self.text.push('\u{FFFD}');
                            self.pending = rest[bad..].to_vec();
                        }
                        None => {
                            self.pending = rest.to_vec();
                            break;
                        }
                    }
                }
            }
        }
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let from = floor_boundary(&self.text, before.saturating_sub(longest));
        let found = self.stops.iter().filter_map(|stop| self.text[from..].find(stop.as_str())).min();
        if let Some(at) = found {
            self.text.truncate(from + at);
            self.pending.clear();
            self.stopped = true;
        }
        self.stopped
    }

    /// What can be shown now and was not before.
    pub(super) fn fresh(&mut self) -> &str {
        let end = if self.stopped { self.text.len() } else { self.text.len() - self.held() };
        let start = self.shown.min(end);
        self.shown = end.max(self.shown);
        &self.text[start..end]
    }

    /// The end of the answer: what was held back can be shown after this.
    pub(super) fn finish(&mut self) {
        // A character cut off by the token limit is left out.
        self.pending.clear();
        self.stopped = true;
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Bytes at the end that may be the beginning of a stop string.
    fn held(&self) -> usize {
        self.stops
            .iter()
            .flat_map(|stop| stop.char_indices().map(|(i, _)| &stop[..i]))
            .filter(|start| self.text.ends_with(start))
            .map(str::len)
            .max()
            .unwrap_or(0)
    }
}

fn floor_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stops(all: &[&str]) -> Vec<String> {
        all.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn a_character_split_over_tokens_is_shown_once_and_whole() {
        let mut text = Text::new(&[]);
        let bytes = "数😀".as_bytes();
        let mut shown = String::new();
        for byte in bytes {
            text.push(&[*byte]);
            shown.push_str(text.fresh());
        }
        assert_eq!(shown, "数😀");
        assert_eq!(text.as_str(), "数😀");
    }

    #[test]
    fn bytes_that_are_no_character_become_one_replacement_mark() {
        let mut text = Text::new(&[]);
        text.push(b"a\xffb");
        text.push(b"\xe6");
        text.finish();
        assert_eq!(text.as_str(), "a\u{FFFD}b");
    }

    #[test]
    fn a_stop_string_over_several_tokens_is_neither_shown_nor_kept() {
        let mut text = Text::new(&stops(&["```", "完毕"]));
        let mut shown = String::new();
        for piece in ["let a = `x`;\n", "`", "``", "rest"] {
            let stop = text.push(piece.as_bytes());
            shown.push_str(text.fresh());
            if stop {
                break;
            }
        }
        assert_eq!(shown, "let a = `x`;\n");
        assert_eq!(text.as_str(), "let a = `x`;\n");
    }

    #[test]
    fn the_beginning_of_a_stop_string_is_shown_when_it_was_none() {
        let mut text = Text::new(&stops(&["完毕"]));
        text.push("做完".as_bytes());
        assert_eq!(text.fresh(), "做");
        text.push("了".as_bytes());
        assert_eq!(text.fresh(), "完了");
        text.push("完".as_bytes());
        assert_eq!(text.fresh(), "");
        text.finish();
        assert_eq!(text.fresh(), "完");
    }

    #[test]
    fn the_earliest_stop_string_wins() {
        let mut text = Text::new(&stops(&["END", "\n\n"]));
        assert!(text.push(b"one\n\ntwo END"));
        assert_eq!(text.as_str(), "one");
    }
}
