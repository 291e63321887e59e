//! The answer while it arrives, the same for both wire formats.

use jarvis_protocol::{Reasoning, Usage};
use serde_json::{Map, Value};

use super::calls::{Calls, Sorted};
use crate::{Completion, Delta, Finish, Request, estimate};

pub(super) type Emit<'a> = &'a mut (dyn FnMut(Delta) + Send);

pub(super) struct Draft {
    text: String,
    lead: Option<Lead>,
    reasoning: String,
    /// The provider's own blocks of it, which it may want back.
    blocks: Vec<Value>,
    pub calls: Calls,
    pub alternatives: Vec<String>,
    pub usage: Option<Usage>,
    pub finish: Option<Finish>,
}

/// Held back until it is clear whether the answer repeats the prefix it was given.
struct Lead {
    prefix: String,
    may_repeat: bool,
    pending: String,
}

impl Draft {
    /// `may_repeat`: the provider may begin the answer with the prefix again instead of going on after it.
    pub fn new(request: &Request, may_repeat: bool) -> Self {
        let lead = request.assistant_prefix.clone().filter(|p| !p.is_empty());
        Self {
            text: String::new(),
            lead: lead.map(|prefix| Lead { prefix, may_repeat, pending: String::new() }),
            reasoning: String::new(),
            blocks: Vec::new(),
            calls: Calls::default(),
            alternatives: Vec::new(),
            usage: None,
            finish: None,
        }
    }

    pub fn add_text(&mut self, piece: &str, emit: Emit<'_>) {
        if piece.is_empty() {
            return;
        }
        let piece = match &mut self.lead {
            None => piece.to_owned(),
            Some(lead) => {
                lead.pending.push_str(piece);
                let seen = lead.pending.trim_start();
                let prefix = lead.prefix.trim_end();
                if lead.may_repeat && (seen.is_empty() || seen.len() < prefix.len() && prefix.starts_with(seen)) {
                    return;
                }
                lead.settle()
            }
        };
        self.lead = None;
        self.text.push_str(&piece);
        emit(Delta::Text(piece));
    }

    pub fn add_reasoning(&mut self, piece: &str, emit: Emit<'_>) {
        if !piece.is_empty() {
            self.reasoning.push_str(piece);
            emit(Delta::Reasoning(piece.to_owned()));
        }
    }

    /// A block of reasoning that has begun, as it came; its number.
    pub fn begin_block(&mut self, block: Value, emit: Emit<'_>) -> usize {
        if !self.reasoning.is_empty() && block.get("thinking").is_some() {
            self.add_reasoning("\n\n", emit);
        }
        self.blocks.push(block);
        self.blocks.len() - 1
    }

    /// More text for a field of a block.
    pub fn extend_block(&mut self, at: usize, field: &str, piece: &str) {
        if let Some(Value::Object(block)) = self.blocks.get_mut(at) {
            append(block, field, piece);
        }
    }

    /// One entry of `reasoning_details`. A stream sends an entry in pieces under one index.
    pub fn add_detail(&mut self, detail: &Value, whole: bool) {
        let Value::Object(piece) = detail else { return };
        let same = |block: &Value| ["index", "type"].iter().all(|f| block.get(f) == piece.get(*f));
        let begun =
            self.blocks.iter_mut().filter(|b| !whole && b.get("index").is_some_and(|i| !i.is_null()) && same(b));
        let Some(Value::Object(block)) = begun.last() else { return self.blocks.push(detail.clone()) };
        for (field, value) in piece {
            match (field.as_str(), value) {
                ("text" | "summary" | "data", Value::String(more)) => append(block, field, more),
                (_, Value::Null) => {}
                _ => drop(block.insert(field.clone(), value.clone())),
            }
        }
    }

    /// A new paragraph, so that text before and after a tool call does not run together.
    pub fn break_paragraph(&mut self, emit: Emit<'_>) {
        if !self.text.is_empty() && !self.text.ends_with(char::is_whitespace) {
            self.add_text("\n\n", emit);
        }
    }

    /// Usage is the provider's where it sends one, else an estimate: OpenAI's own servers send none in a stream unless
    /// asked by `stream_options`, which they refuse without streaming, and both modes must send the same body.
    pub fn complete(mut self, request: &Request, emit: Emit<'_>) -> Completion {
        if let Some(mut lead) = self.lead.take()
            && (self.calls.is_empty() || !lead.pending.is_empty())
        {
            let piece = lead.settle();
            self.text.push_str(&piece);
            emit(Delta::Text(piece));
        }
        let Sorted { good: tool_calls, bad: malformed_calls, extras } = self.calls.finish(self.finish);
        // Finish reasons lie both ways about calls; what arrived decides.
        let called = !tool_calls.is_empty() || !malformed_calls.is_empty();
        let finish = match self.finish {
            None | Some(Finish::Stop | Finish::ToolCalls) if called => Finish::ToolCalls,
            None | Some(Finish::Stop | Finish::ToolCalls) => Finish::Stop,
            Some(other @ (Finish::Length | Finish::ContentFilter)) => other,
        };
        let mut completion = Completion {
            text: self.text,
            reasoning: Some(Reasoning {
                text: self.reasoning,
                model: request.handle().id().to_owned(),
                blocks: self.blocks.into_iter().filter(says_something).collect(),
                calls: extras,
            })
            .filter(|r| !r.is_empty()),
            tool_calls,
            malformed_calls,
            alternatives: self.alternatives,
            usage: Usage::default(),
            finish,
        };
        let reported = self.usage.filter(|u| u.input_tokens + u.output_tokens > 0);
        completion.usage = reported.unwrap_or_else(|| {
            tracing::debug!(model = request.handle().id(), "the provider reported no usage; estimated");
            estimate::usage(request, &completion)
        });
        completion
    }
}

/// Anthropic's blocks that stayed empty are none; a signature alone is one. Others' are theirs to judge.
fn says_something(block: &Value) -> bool {
    let says = |field: &str| block.get(field).and_then(Value::as_str).is_some_and(|t| !t.is_empty());
    block.get("type").is_none_or(|t| t != "thinking") || says("thinking") || says("signature")
}

fn append(block: &mut Map<String, Value>, field: &str, piece: &str) {
    match block.get_mut(field) {
        Some(Value::String(text)) => text.push_str(piece),
        _ => drop(block.insert(field.to_owned(), piece.into())),
    }
}

impl Lead {
    fn settle(&mut self) -> String {
        let pending = std::mem::take(&mut self.pending);
        let trimmed = self.prefix.trim_end();
        if self.may_repeat && pending.trim_start().starts_with(trimmed) {
            pending.trim_start().to_owned()
        } else if trimmed.len() < self.prefix.len() && pending.starts_with(char::is_whitespace) {
            format!("{trimmed}{pending}")
        } else {
            format!("{}{pending}", self.prefix)
        }
    }
}
