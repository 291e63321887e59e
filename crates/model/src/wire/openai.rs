//! Reads OpenAI chat completions, streamed or whole, as all the servers that follow them send them.

use jarvis_protocol::Usage;
use serde_json::Value;
use std::collections::BTreeSet;

use super::calls::Fragment;
use super::draft::{Draft, Emit};
use crate::{Finish, Request};

pub(super) struct Reader {
    pub draft: Draft,
    answers: usize,
    finished: BTreeSet<usize>,
    refused: bool,
}

impl Reader {
    pub fn new(request: &Request) -> Self {
        Self {
            draft: Draft::new(request, true),
            answers: usize::from(request.samples.max(1)),
            finished: BTreeSet::new(),
            refused: false,
        }
    }

    pub fn is_finished(&self) -> bool {
        self.finished.len() >= self.answers
    }

    pub fn event(&mut self, chunk: &Value, emit: Emit<'_>) {
        self.take(chunk, false, emit);
    }

    /// False when the body is no chat completion.
    pub fn whole(&mut self, body: &Value, emit: Emit<'_>) -> bool {
        self.take(body, true, emit);
        body.get("choices").and_then(Value::as_array).is_some_and(|c| !c.is_empty())
    }

    fn take(&mut self, chunk: &Value, whole: bool, emit: Emit<'_>) {
        let choices = chunk.get("choices").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        // In its own place, in Groq's, and in Moonshot's.
        let places = [chunk.get("usage"), chunk.pointer("/x_groq/usage"), choices.first().and_then(|c| c.get("usage"))];
        if let Some(usage) = places.into_iter().flatten().find_map(usage) {
            self.draft.usage = Some(usage);
        }
        for (position, choice) in choices.iter().enumerate() {
            let at = choice.get("index").and_then(Value::as_u64).map_or(position, |i| i as usize);
            let said = ["delta", "message"].into_iter().find_map(|f| choice.get(f).filter(|v| v.is_object()));
            match said {
                Some(said) if at == 0 => self.first(said, whole, emit),
                Some(said) => self.alternative(at, said),
                None => {}
            }
            let reason = choice.get("finish_reason").and_then(Value::as_str).filter(|r| !r.is_empty());
            if let Some(reason) = reason {
                self.finished.insert(at);
                if at == 0 {
                    self.draft.finish = Some(if self.refused { Finish::ContentFilter } else { finish(reason) });
                }
            }
        }
    }

    fn first(&mut self, said: &Value, whole: bool, emit: Emit<'_>) {
        let mut reasoning = ["reasoning_content", "reasoning"]
            .into_iter()
            .find_map(|f| said.get(f).and_then(Value::as_str).filter(|t| !t.is_empty()))
            .map(str::to_owned)
            .unwrap_or_default();
        let (text, thought) = content(said.get("content"));
        reasoning.push_str(&thought);
        for detail in said.get("reasoning_details").and_then(Value::as_array).into_iter().flatten() {
            self.draft.add_detail(detail, whole);
            if said.get("reasoning").is_none_or(Value::is_null)
                && said.get("reasoning_content").is_none_or(Value::is_null)
            {
                let piece = ["text", "summary"].into_iter().find_map(|f| detail.get(f).and_then(Value::as_str));
                reasoning.push_str(piece.unwrap_or_default());
            }
        }
        self.draft.add_reasoning(&reasoning, emit);
        self.draft.add_text(&text, emit);
        if let Some(refusal) = said.get("refusal").and_then(Value::as_str).filter(|r| !r.is_empty()) {
            self.refused = true;
            self.draft.add_text(refusal, emit);
        }
        let entries = said.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for entry in entries {
            let function = entry.get("function").unwrap_or(entry);
            let text = |v: &'_ Value, f: &str| v.get(f).and_then(Value::as_str).map(str::to_owned).unwrap_or_default();
            self.draft.calls.add(&Fragment {
                index: entry.get("index").and_then(Value::as_u64),
                id: &text(entry, "id"),
                name: &text(function, "name"),
                arguments: function.get("arguments"),
                extra: entry.get("extra_content"),
                whole,
            });
        }
    }

    fn alternative(&mut self, at: usize, said: &Value) {
        if at < self.answers {
            let others = &mut self.draft.alternatives;
            others.resize(others.len().max(at), String::new());
            others[at - 1].push_str(&content(said.get("content")).0);
        }
    }
}

/// Text and reasoning of `content`: a string, or parts as Mistral sends them.
fn content(value: Option<&Value>) -> (String, String) {
    let mut text = String::new();
    let mut thought = String::new();
    match value {
        Some(Value::String(plain)) => text.push_str(plain),
        Some(Value::Array(parts)) => {
            for part in parts {
                let piece = part.get("text").and_then(Value::as_str).unwrap_or_default();
                match part.get("type").and_then(Value::as_str) {
                    Some("thinking") => thought.push_str(&content(part.get("thinking")).0),
                    _ => text.push_str(piece),
                }
            }
        }
        _ => {}
    }
    (text, thought)
}

fn finish(reason: &str) -> Finish {
    match reason.to_ascii_lowercase().as_str() {
        "length" | "max_tokens" => Finish::Length,
        "tool_calls" | "function_call" => Finish::ToolCalls,
        "content_filter" | "safety" => Finish::ContentFilter,
        // "stop", and the many names that servers have for it ("eos", "end_turn", …).
        _ => Finish::Stop,
    }
}

fn usage(value: &Value) -> Option<Usage> {
    let count = |pointer: &str| value.pointer(pointer).and_then(Value::as_u64);
    let first = |pointers: &[&str]| pointers.iter().find_map(|p| count(p));
    // OpenAI's and most servers' spelling, then the one of its newer interface, which some gateways use here too.
    let input = first(&["/prompt_tokens", "/input_tokens"])?;
    let cached = [
        "/prompt_tokens_details/cached_tokens",
        "/input_tokens_details/cached_tokens",
        // DeepSeek; Moonshot; gateways before Anthropic.
        "/prompt_cache_hit_tokens",
        "/cached_tokens",
        "/cache_read_input_tokens",
    ];
    let written = ["/prompt_tokens_details/cache_write_tokens", "/cache_creation_input_tokens"];
    let reasoning =
        ["/completion_tokens_details/reasoning_tokens", "/output_tokens_details/reasoning_tokens", "/reasoning_tokens"];
    let cached_tokens = first(&cached).unwrap_or(0).min(input);
    // Gemini and xAI leave reasoning out of the completion; the total has it.
    let output = first(&["/completion_tokens", "/output_tokens"]).unwrap_or(0);
    let output = output.max(count("/total_tokens").unwrap_or(0).saturating_sub(input));
    Some(Usage {
        input_tokens: input,
        output_tokens: output,
        cached_tokens,
        cache_write_tokens: first(&written).unwrap_or(0).min(input - cached_tokens),
        reasoning_tokens: first(&reasoning).unwrap_or(0).min(output),
        // OpenRouter says what the call cost, in US dollars.
        cost_usd: value.get("cost").and_then(Value::as_f64).filter(|c| c.is_finite() && *c >= 0.0).unwrap_or(0.0),
        estimated: false,
    })
}
