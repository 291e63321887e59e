//! Tokens of a request and its answer where neither the provider nor a tokenizer counts them.
//!
//! Text is taken apart as byte-pair tokenizers do before they merge: words with the space before them, digits, runs of
//! punctuation, white space, and ideographs. What a part costs was fitted to the vocabulary of Qwen 2.5; other current
//! vocabularies differ by a factor that a handle learns from its provider's counts.

use crate::{Completion, Request, Tool};
use jarvis_protocol::{Image, Message, Reasoning, ToolCall, ToolSpec, Usage};

/// A count, and whether a tokenizer made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    pub count: u64,
    pub exact: bool,
}

/// What providers put around a message: its role and separators.
const FRAME: u64 = 4;
/// What the most common formats put around a tool.
const TOOL_FRAME: u64 = 10;
/// The most that an image costs where large ones are made smaller; also for one whose size is not known.
const IMAGE: u64 = 1600;
const LEAST_IMAGE: u64 = 85;
/// Pixels for one token of an image.
const PIXELS: u64 = 750;

/// Unbroken letters and digits from this length on are no words: base64, digests.
const BLOB: u64 = 40;

pub fn estimate_tokens(text: &str) -> u64 {
    let mut hundredths = 0;
    let mut solid = Solid::default();
    let mut rest = text.chars().peekable();
    while let Some(first) = rest.next() {
        let mut run = Run { kind: kind(first), first, last: first, length: 1, breaks_line: first == '\n' };
        // `camelCase` is two words, `CAPITALS` one.
        let more = |run: &Run, c: char| {
            kind(c) == run.kind && !(run.kind == Kind::Word && c.is_uppercase() && !run.last.is_uppercase())
        };
        while let Some(next) = rest.next_if(|c| more(&run, *c)) {
            run.length += 1;
            run.last = next;
            run.breaks_line |= next == '\n';
        }
        if matches!(run.kind, Kind::Word | Kind::Digit) {
            solid.length += run.length;
            solid.cost += run.cost();
        } else {
            hundredths += std::mem::take(&mut solid).total() + run.cost();
        }
    }
    (hundredths + solid.total()).div_ceil(100)
}

/// Words and digits with nothing between them.
#[derive(Default)]
struct Solid {
    length: u64,
    cost: u64,
}

impl Solid {
    fn total(self) -> u64 {
        if self.length < BLOB { self.cost } else { self.cost.max(self.length * 75) }
    }
}

/// Characters of one kind in a row.
struct Run {
    kind: Kind,
    first: char,
    last: char,
    length: u64,
    breaks_line: bool,
}

impl Run {
    /// In hundredths of a token.
    fn cost(&self) -> u64 {
        let length = self.length;
        match self.kind {
            // Line ends join what is before them; an indentation is mostly a token.
            Kind::Space if self.breaks_line => 25 + if self.last == '\n' { 0 } else { 65 },
            // One space belongs to the word behind it.
            Kind::Space => u64::from(length > 1) * 60,
            Kind::Word => 98 + length.saturating_sub(7) * 20,
            Kind::Digit => length * 105,
            Kind::Punctuation if self.first.is_ascii() => 85 + (length - 1) * 15,
            Kind::Punctuation => length * 90,
            Kind::Ideograph => 30 + length * 58,
            Kind::Syllable => length * 70,
            Kind::Letter => length * 40,
            Kind::Other => length * 170,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Space,
    /// Latin letters.
    Word,
    Digit,
    Punctuation,
    Ideograph,
    /// Kana and Hangul.
    Syllable,
    /// Letters of other alphabets.
    Letter,
    /// Emoji and the like.
    Other,
}

/// Most of what is counted; a table is several times quicker than the questions.
const ASCII: [Kind; 128] = {
    let mut kinds = [Kind::Punctuation; 128];
    let mut at: u8 = 0;
    while at < 128 {
        kinds[at as usize] = match at {
            b'\t'..=b'\r' | b' ' => Kind::Space,
            b'0'..=b'9' => Kind::Digit,
            b'a'..=b'z' | b'A'..=b'Z' => Kind::Word,
            _ => Kind::Punctuation,
        };
        at += 1;
    }
    kinds
};

fn kind(c: char) -> Kind {
    if let Some(kind) = ASCII.get(c as usize) {
        return *kind;
    }
    match c {
        c if c.is_whitespace() => Kind::Space,
        '\u{C0}'..='\u{24F}' => Kind::Word,
        '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}' => Kind::Ideograph,
        '\u{3040}'..='\u{30FF}' | '\u{AC00}'..='\u{D7AF}' => Kind::Syllable,
        // Chinese punctuation and full-width forms.
        '\u{2000}'..='\u{206F}' | '\u{3000}'..='\u{303F}' | '\u{FF00}'..='\u{FFEF}' => Kind::Punctuation,
        c if c.is_alphabetic() => Kind::Letter,
        _ => Kind::Other,
    }
}

use estimate_tokens as tokens;

/// Of one message with its calls, its images, and reasoning that goes back with its calls.
pub fn estimate_message(message: &Message) -> u64 {
    let thought = message.reasoning.as_ref().filter(|_| !message.tool_calls.is_empty()).map_or(0, reasoning);
    tokens(&message.text) + calls(&message.tool_calls) + images(&message.images) + thought + FRAME
}

/// Of all that a model is sent. `model` gets back the reasoning that it signed, with every message.
pub(crate) fn prompt(model: &str, messages: &[Message], tools: &[Tool]) -> u64 {
    let signed =
        |m: &&Message| m.tool_calls.is_empty() && m.reasoning.as_ref().is_some_and(|r| !r.blocks_of(model).is_empty());
    let thought: u64 = messages.iter().filter(signed).filter_map(|m| m.reasoning.as_ref()).map(reasoning).sum();
    messages.iter().map(estimate_message).sum::<u64>() + thought + tools.iter().map(Tool::tokens).sum::<u64>()
}

/// Of one request with its note.
pub(crate) fn request(request: &Request) -> u64 {
    prompt(request.handle().id(), &request.told(), &request.tools)
        + request.assistant_prefix.as_deref().map_or(0, tokens)
}

fn calls(list: &[ToolCall]) -> u64 {
    list.iter().map(|c| tokens(&c.name) + tokens(&c.args.to_string()) + FRAME).sum()
}

pub(crate) fn tool(tool: &ToolSpec) -> u64 {
    tokens(&tool.name) + tokens(&tool.description) + tokens(&tool.parameters.to_string()) + TOOL_FRAME
}

fn reasoning(reasoning: &Reasoning) -> u64 {
    tokens(&reasoning.text) + FRAME * reasoning.blocks.len() as u64
}

fn images(list: &[Image]) -> u64 {
    let one = |image: &Image| match image.pixels() {
        Some((width, height)) => (u64::from(width) * u64::from(height)).div_ceil(PIXELS).clamp(LEAST_IMAGE, IMAGE),
        None => IMAGE,
    };
    list.iter().map(one).sum()
}

pub(crate) fn usage(request: &Request, completion: &Completion) -> Usage {
    let malformed: u64 = completion.malformed_calls.iter().map(|c| tokens(&c.name) + tokens(&c.arguments)).sum();
    let output = tokens(&completion.text)
        + completion.reasoning.as_ref().map_or(0, reasoning)
        + completion.alternatives.iter().map(|a| tokens(a)).sum::<u64>()
        + calls(&completion.tool_calls)
        + malformed;
    Usage { input_tokens: self::request(request), output_tokens: output, estimated: true, ..Usage::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_counted_by_its_kinds() {
        for (text, from, to) in [
            ("", 0, 0),
            ("Hello, world!", 3, 4),
            ("你好世界", 2, 3),
            ("fn estimateTokens(text: &str) -> u64 {", 11, 14),
            ("{\"id\": 12, \"ok\": true}", 10, 13),
            ("1234567890", 10, 11),
            ("\n\n\n", 1, 1),
            ("🎉🎉", 2, 4),
        ] {
            let count = estimate_tokens(text);
            assert!((from..=to).contains(&count), "{text:?}: {count}");
        }
        // Base64 costs far more than words of its length.
        assert!(estimate_tokens(&"aGVsbG8gd29ybGQh".repeat(50)) > 500);
    }

    #[test]
    fn everything_a_message_carries_counts() {
        let plain = estimate_message(&Message::assistant("hi"));
        let mut called = Message::assistant("hi");
        called.tool_calls =
            vec![ToolCall { id: "a".into(), name: "write".into(), args: json!({"text": "word ".repeat(200)}) }];
        let with_call = estimate_message(&called);
        assert!(with_call > plain + 180, "{with_call}");
        called.reasoning = Some(Reasoning::from("thought ".repeat(100).as_str()));
        assert!(estimate_message(&called) > with_call + 90, "it goes back with its call");
        let png = |w: u32, h: u32| {
            let head = [b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".as_slice(), &w.to_be_bytes(), &h.to_be_bytes()].concat();
            let mut message = Message::user("");
            message.images = vec![Image::from_bytes(&head, None).unwrap()];
            estimate_message(&message) - FRAME
        };
        assert_eq!((png(16, 16), png(750, 1000), png(8000, 8000)), (85, 1000, 1600));
        let tool = ToolSpec { name: "f".into(), description: "x ".repeat(100), parameters: json!({"type": "object"}) };
        assert!(prompt("m", &[], &[tool.into()]) > 100);
    }

    #[test]
    fn signed_reasoning_counts_for_the_model_that_gets_it_back() {
        let mut message = Message::assistant("done");
        let text = "thought ".repeat(100);
        let blocks = vec![json!({"type": "thinking", "thinking": text, "signature": "s"})];
        message.reasoning = Some(Reasoning { text, model: "a/m".into(), blocks, ..Reasoning::default() });
        let messages = [message];
        assert!(prompt("a/m", &messages, &[]) > prompt("b/m", &messages, &[]) + 90);
    }
}
