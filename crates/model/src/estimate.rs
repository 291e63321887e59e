//! Tokens of a request and its answer where neither the provider nor a tokenizer counts them.
//!
//! Text is taken apart as byte-pair tokenizers do before they merge: words with the space before them, digits, runs of
//! punctuation, white space, and ideographs. What a part costs was fitted to the vocabulary of Qwen 2.5; other current
//! vocabularies differ by a factor that a handle learns from its provider's counts.

use crate::{Completion, Request};
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

pub fn estimate_tokens(text: &str) -> u64 {
    let mut hundredths = 0;
    let mut rest = text.chars().peekable();
    let mut before = Kind::Space;
    while let Some(first) = rest.next() {
        let kind = kind(first);
        let mut length = 1;
        let mut line_ends = u64::from(first == '\n');
        let mut upper = first.is_uppercase();
        // `camelCase` is two words, `CAPITALS` one.
        while let Some(next) = rest.next_if(|c| self::kind(*c) == kind && !(kind == Kind::Word && !upper && c.is_uppercase()))
        {
            length += 1;
            line_ends += u64::from(next == '\n');
            upper = next.is_uppercase();
        }
        hundredths += cost(kind, length, line_ends, before);
        before = kind;
    }
    u64::div_ceil(hundredths, 100)
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

fn kind(c: char) -> Kind {
    match c {
        c if c.is_whitespace() => Kind::Space,
        '0'..='9' => Kind::Digit,
        'a'..='z' | 'A'..='Z' | '\u{C0}'..='\u{24F}' => Kind::Word,
        c if c.is_ascii() => Kind::Punctuation,
        '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}' => Kind::Ideograph,
        '\u{3040}'..='\u{30FF}' | '\u{AC00}'..='\u{D7AF}' => Kind::Syllable,
        // Chinese punctuation and full-width forms.
        '\u{2000}'..='\u{206F}' | '\u{3000}'..='\u{303F}' | '\u{FF00}'..='\u{FFEF}' => Kind::Punctuation,
        c if c.is_alphabetic() => Kind::Letter,
        _ => Kind::Other,
    }
}

/// In hundredths of a token.
fn cost(kind: Kind, length: u64, line_ends: u64, _before: Kind) -> u64 {
    match kind {
        // One space belongs to the word behind it; an indentation is a token, and so are the line ends before it.
        Kind::Space if length == 1 && line_ends == 0 => 0,
        Kind::Space => 100,
        Kind::Word => 100 + length.saturating_sub(7) * 15,
        Kind::Digit => length * 100,
        Kind::Punctuation => 50 + length * 50,
        Kind::Ideograph => length * 65,
        Kind::Syllable => length * 80,
        Kind::Letter => length * 45,
        Kind::Other => length * 200,
    }
}

use estimate_tokens as tokens;

/// Of one message with its calls, its images, and reasoning that goes back with its calls.
pub fn estimate_message(message: &Message) -> u64 {
    let thought = message.reasoning.as_ref().filter(|_| !message.tool_calls.is_empty()).map_or(0, reasoning);
    tokens(&message.text) + calls(&message.tool_calls) + images(&message.images) + thought + FRAME
}

/// Of all that a model is sent. `model` gets back the reasoning that it signed, with every message.
pub(crate) fn prompt(model: &str, messages: &[Message], tools: &[ToolSpec]) -> u64 {
    let signed = |m: &&Message| m.tool_calls.is_empty() && m.reasoning.as_ref().is_some_and(|r| !r.blocks_of(model).is_empty());
    let thought: u64 = messages.iter().filter(signed).filter_map(|m| m.reasoning.as_ref()).map(reasoning).sum();
    messages.iter().map(estimate_message).sum::<u64>() + thought + tools.iter().map(tool).sum::<u64>()
}

/// Of one request with its note.
pub(crate) fn request(request: &Request) -> u64 {
    prompt(request.handle().id(), &request.told(), &request.tools)
        + request.assistant_prefix.as_deref().map_or(0, tokens)
}

fn calls(list: &[ToolCall]) -> u64 {
    list.iter().map(|c| tokens(&c.name) + tokens(&c.args.to_string()) + FRAME).sum()
}

fn tool(tool: &ToolSpec) -> u64 {
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
