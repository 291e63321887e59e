//! Server-sent events by the HTML standard, over bytes: a chunk may end anywhere, also inside a character or a CRLF.
//!
//! Written here because the usual crate parses the line it is in from its start again with every chunk, which is
//! quadratic on long lines over a slow network (eventsource-stream, issue 11).

/// The longest line accepted, in bytes. A whole tool call of a provider that does not split them fits many times.
const MAX_LINE: usize = 16 << 20;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct SseEvent {
    /// Empty when the `event:` line is missing.
    pub event: String,
    pub data: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineTooLong;

#[derive(Default)]
pub(super) struct Sse {
    line: Vec<u8>,
    event: String,
    data: Option<String>,
    after_cr: bool,
    past_first_line: bool,
    /// A line of an event stream has come, be it a comment.
    spoke: bool,
}

impl Sse {
    /// Takes the next bytes and adds the events they complete to `out`.
    pub fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<SseEvent>) -> Result<(), LineTooLong> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')) else {
                self.line.extend_from_slice(bytes);
                break;
            };
            self.line.extend_from_slice(&bytes[..end]);
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            out.extend(self.end_line());
        }
        if self.line.len() > MAX_LINE || self.data.as_ref().is_some_and(|d| d.len() > MAX_LINE) {
            return Err(LineTooLong);
        }
        Ok(())
    }

    /// Whether what came is an event stream, even one without events.
    pub fn spoke(&self) -> bool {
        self.spoke
    }

    /// The stream ended. The standard drops an event without its closing blank line; providers exist that close the
    /// connection right after the last `data:` line, so it counts here.
    pub fn end(&mut self) -> Vec<SseEvent> {
        let mut out = Vec::new();
        if !self.line.is_empty() {
            out.extend(self.end_line());
        }
        out.extend(self.dispatch());
        out
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let mut raw = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.past_first_line, true) && raw.starts_with(b"\xEF\xBB\xBF") {
            raw.drain(..3);
        }
        if raw.is_empty() {
            return self.dispatch();
        }
        // Whole lines only, so a replacement character means that the provider really sent bad UTF-8.
        let line = String::from_utf8_lossy(&raw);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        self.spoke |= matches!(field, "data" | "event" | "id" | "retry" | "");
        match field {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "event" => self.event = value.to_owned(),
            // Comments (an empty field name), `id`, `retry` and unknown fields carry nothing for us.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let event = std::mem::take(&mut self.event);
        self.data.take().map(|data| SseEvent { event, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut sse = Sse::default();
        let mut out = Vec::new();
        for chunk in chunks {
            sse.feed(chunk, &mut out).unwrap();
        }
        out.extend(sse.end());
        out.into_iter().map(|e| (e.event, e.data)).collect()
    }

    fn pair(event: &str, data: &str) -> (String, String) {
        (event.to_owned(), data.to_owned())
    }

    #[test]
    fn reads_comments_missing_spaces_and_several_data_lines() {
        let text = b": hello\n\ndata:a\n\nevent: x\ndata: b\ndata:  c\nid: 3\nretry: 5\nfoo\n\n";
        assert_eq!(parse(&[text]), [pair("", "a"), pair("x", "b\n c")]);
    }

    #[test]
    fn any_line_ending_split_anywhere_gives_the_same_events() {
        let lf = "\u{feff}event: a\ndata: 你好 😀\n\ndata: 2\n\n: c\ndata: 3\ndata\n\n";
        let expected = [pair("a", "你好 😀"), pair("", "2"), pair("", "3\n")];
        for ending in ["\n", "\r\n", "\r"] {
            let text = lf.replace('\n', ending);
            let bytes = text.as_bytes();
            for cut in 0..=bytes.len() {
                assert_eq!(parse(&[&bytes[..cut], &bytes[cut..]]), expected, "{ending:?} cut at {cut}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(parse(&single), expected, "{ending:?} byte by byte");
        }
    }

    #[test]
    fn the_last_event_counts_without_its_blank_line() {
        assert_eq!(parse(&[b"data: a\n\ndata: b"]), [pair("", "a"), pair("", "b")]);
    }

    #[test]
    fn an_event_line_without_data_is_no_event() {
        assert_eq!(parse(&[b"event: ping\n\ndata: a\n\n"]), [pair("", "a")]);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut sse = Sse::default();
        let block = vec![b'x'; 1 << 20];
        let mut out = Vec::new();
        assert!((0..20).any(|_| sse.feed(&block, &mut out).is_err()));
    }
}
