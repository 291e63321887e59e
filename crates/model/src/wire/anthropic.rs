//! Reads Anthropic messages, streamed or whole. What an event is, its data says; the `event:` line may be missing.

use jarvis_protocol::Usage;
use serde_json::{Value, json};

use super::calls::Fragment;
use super::draft::{Draft, Emit};
use crate::{Finish, Request};

pub(super) struct Reader {
    pub draft: Draft,
    usage: Counts,
    /// Blocks that have begun and not ended, in their order. Providers send one after the other; gateways that gather
    /// parallel calls from elsewhere send them interleaved.
    open: Vec<Open>,
    /// Something that is no text came after the last text.
    apart: bool,
}

struct Open {
    index: Option<u64>,
    block: Block,
}

enum Block {
    Text,
    Call {
        /// Its number among the calls.
        at: usize,
        /// Arguments that came whole with the start; fragments replace them.
        whole_input: Option<Value>,
    },
    Thinking {
        /// Its number among the draft's blocks.
        at: usize,
    },
    Other,
}

#[derive(Default)]
struct Counts {
    fresh: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
    thinking: u64,
}

impl Reader {
    pub fn new(request: &Request) -> Self {
        Self { draft: Draft::new(request, false), usage: Counts::default(), open: Vec::new(), apart: false }
    }

    pub fn is_finished(&self) -> bool {
        self.draft.finish.is_some()
    }

    /// True when the message has ended.
    pub fn event(&mut self, name: &str, data: &Value, emit: Emit<'_>) -> bool {
        let index = data.get("index").and_then(Value::as_u64);
        match data.get("type").and_then(Value::as_str).unwrap_or(name) {
            "message_start" => self.count(data.pointer("/message/usage")),
            "content_block_start" => {
                if let Some(block) = data.get("content_block") {
                    self.start(index, block, emit);
                }
            }
            "content_block_delta" => {
                if let Some(delta) = data.get("delta") {
                    self.delta(index, delta, emit);
                }
            }
            "content_block_stop" => self.stop(index),
            "message_delta" => {
                self.stop_all();
                self.count(data.get("usage"));
                self.end(data.pointer("/delta/stop_reason"));
            }
            "message_stop" => {
                self.stop_all();
                return true;
            }
            // `ping`, and kinds that are yet to come.
            _ => {}
        }
        false
    }

    /// False when the body is no message.
    pub fn whole(&mut self, body: &Value, emit: Emit<'_>) -> bool {
        let Some(blocks) = body.get("content").and_then(Value::as_array) else { return false };
        for block in blocks {
            self.start(None, block, emit);
        }
        self.stop_all();
        self.count(body.get("usage"));
        self.end(body.get("stop_reason"));
        true
    }

    fn start(&mut self, index: Option<u64>, block: &Value, emit: Emit<'_>) {
        // One that was never ended, or has no number to be told by.
        self.stop(index);
        let text = |field: &str| block.get(field).and_then(Value::as_str).unwrap_or_default();
        let block = match text("type") {
            "text" => {
                self.text(text("text"), emit);
                Block::Text
            }
            "tool_use" => {
                self.apart = true;
                let (id, name) = (text("id"), text("name"));
                let at = self.draft.calls.add(&Fragment { id, name, whole: true, ..Fragment::default() });
                Block::Call { at, whole_input: block.get("input").cloned() }
            }
            "thinking" | "redacted_thinking" => {
                self.apart = true;
                let at = self.draft.begin_block(block.clone(), emit);
                self.draft.add_reasoning(text("thinking"), emit);
                Block::Thinking { at }
            }
            _ => {
                self.apart = true;
                Block::Other
            }
        };
        self.open.push(Open { index, block });
    }

    fn delta(&mut self, index: Option<u64>, delta: &Value, emit: Emit<'_>) {
        let text = |field: &str| delta.get(field).and_then(Value::as_str).unwrap_or_default();
        let kind = text("type");
        match kind {
            "text_delta" => return self.text(text("text"), emit),
            "thinking_delta" if !matches!(self.find(index), Some(Block::Thinking { .. })) => {
                // A gateway that left out the start of the block.
                self.start(index, &json!({"type": "thinking", "thinking": ""}), emit);
            }
            _ => {}
        }
        match (kind, self.find(index)) {
            ("thinking_delta", Some(Block::Thinking { at })) => {
                let at = *at;
                self.draft.extend_block(at, "thinking", text("thinking"));
                self.draft.add_reasoning(text("thinking"), emit);
            }
            ("signature_delta", Some(Block::Thinking { at })) => {
                let at = *at;
                self.draft.extend_block(at, "signature", text("signature"));
            }
            ("input_json_delta", Some(Block::Call { at, whole_input })) if !text("partial_json").is_empty() => {
                *whole_input = None;
                let at = *at;
                self.draft.calls.append(at, text("partial_json"));
            }
            // Citations; and the input of tools that the provider runs itself.
            _ => {}
        }
    }

    /// The open block that a delta belongs to: the one of its number, or the last where numbers are missing.
    fn find(&mut self, index: Option<u64>) -> Option<&mut Block> {
        let numbered = self.open.iter().rposition(|o| index.is_some() && o.index == index);
        let at = numbered.or_else(|| {
            let last = self.open.len().checked_sub(1)?;
            (index.is_none() || self.open[last].index.is_none()).then_some(last)
        })?;
        Some(&mut self.open[at].block)
    }

    fn text(&mut self, text: &str, emit: Emit<'_>) {
        if !text.is_empty() {
            if std::mem::take(&mut self.apart) {
                self.draft.break_paragraph(emit);
            }
            self.draft.add_text(text, emit);
        }
    }

    /// The blocks of this number are over; without a number, or without theirs, all that began before.
    fn stop(&mut self, index: Option<u64>) {
        for open in self.open.extract_if(.., |o| index.is_none() || o.index.is_none() || o.index == index) {
            match open.block {
                // Input that came with the start, and was not replaced, is the arguments. `{}` is how every stream
                // starts a call, so it counts as nothing sent.
                Block::Call { at, whole_input: Some(input) } if !is_empty(&input) => {
                    self.draft.calls.append(at, &input.to_string());
                }
                Block::Call { .. } | Block::Thinking { .. } | Block::Text | Block::Other => {}
            }
        }
    }

    /// Also of a stream that ended without ending its blocks.
    pub fn into_draft(mut self) -> Draft {
        self.stop_all();
        self.draft
    }

    fn stop_all(&mut self) {
        self.stop(None);
    }

    fn end(&mut self, stop_reason: Option<&Value>) {
        if let Some(reason) = stop_reason.and_then(Value::as_str) {
            self.draft.finish = Some(match reason {
                "max_tokens" | "model_context_window_exceeded" => Finish::Length,
                "tool_use" => Finish::ToolCalls,
                "refusal" => Finish::ContentFilter,
                // "end_turn", "stop_sequence", "pause_turn".
                _ => Finish::Stop,
            });
        }
    }

    /// Counts in later events are totals, not additions; some proxies send them only there, others as zero there.
    fn count(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage.filter(|u| u.is_object()) else { return };
        let counts = &mut self.usage;
        let fields = [
            ("input_tokens", &mut counts.fresh),
            ("cache_read_input_tokens", &mut counts.cache_read),
            ("cache_creation_input_tokens", &mut counts.cache_write),
            ("output_tokens", &mut counts.output),
        ];
        for (name, count) in fields {
            *count = (*count).max(usage.get(name).and_then(Value::as_u64).unwrap_or(0));
        }
        let thinking = ["thinking_tokens", "reasoning_tokens"].iter().find_map(|f| {
            usage.get("output_tokens_details").and_then(|d| d.get(f)).or_else(|| usage.get(f)).and_then(Value::as_u64)
        });
        counts.thinking = counts.thinking.max(thinking.unwrap_or(0)).min(counts.output);
        self.draft.usage = Some(Usage {
            input_tokens: counts.fresh + counts.cache_read + counts.cache_write,
            output_tokens: counts.output,
            cached_tokens: counts.cache_read,
            cache_write_tokens: counts.cache_write,
            reasoning_tokens: counts.thinking,
            ..Usage::default()
        });
    }
}

fn is_empty(input: &Value) -> bool {
    input.is_null() || input.as_object().is_some_and(serde_json::Map::is_empty)
}
