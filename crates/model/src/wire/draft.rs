//! The answer while it arrives, the same for both wire formats.

use jarvis_protocol::Usage;

use super::calls::Calls;
use crate::{Completion, Delta, Finish, Request, estimate};

pub(super) type Emit<'a> = &'a mut (dyn FnMut(Delta) + Send);

pub(super) struct Draft {
    text: String,
    lead: Option<Lead>,
    reasoning: String,
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
        let (tool_calls, malformed_calls) = self.calls.finish(self.finish);
        // Finish reasons lie both ways about calls; what arrived decides.
        let called = !tool_calls.is_empty() || !malformed_calls.is_empty();
        let finish = match self.finish {
            None | Some(Finish::Stop | Finish::ToolCalls) if called => Finish::ToolCalls,
            None | Some(Finish::Stop | Finish::ToolCalls) => Finish::Stop,
            Some(other @ (Finish::Length | Finish::ContentFilter)) => other,
        };
        let mut completion = Completion {
            text: self.text,
            reasoning: Some(self.reasoning).filter(|r| !r.is_empty()),
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
