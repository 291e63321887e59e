//! Reads Anthropic messages, streamed or whole. What an event is, its data says; the `event:` line may be missing.

use jarvis_protocol::Usage;
use serde_json::{Value, json};

use super::calls::Fragment;
use super::draft::{Draft, Emit};
use crate::{Finish, Request};

pub(super) struct Reader {
    pub draft: Draft,
    usage: Counts,
    /// The block that was begun last, and whether one that is no text came after the last text.
    block: Block,
    apart: bool,
    /// Arguments that came whole with the start of a call; fragments replace them.
    whole_input: Option<Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Text,
    Call,
    Thinking,
    Other,
}

#[derive(Default)]
struct Counts {
    fresh: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
}

impl Reader {
    pub fn new(request: &Request) -> Self {
        Self {
            draft: Draft::new(request, false),
            usage: Counts::default(),
            block: Block::Other,
            apart: false,
            whole_input: None,
        }
    }

    pub fn is_finished(&self) -> bool {
        self.draft.finish.is_some()
    }

    /// True when the message has ended.
    pub fn event(&mut self, name: &str, data: &Value, emit: Emit<'_>) -> bool {
        match data.get("type").and_then(Value::as_str).unwrap_or(name) {
            "message_start" => self.count(data.pointer("/message/usage")),
            "content_block_start" => {
                if let Some(block) = data.get("content_block") {
                    self.start(block, emit);
                }
            }
            "content_block_delta" => {
                if let Some(delta) = data.get("delta") {
                    self.delta(delta, emit);
                }
            }
            "content_block_stop" => self.stop(),
            "message_delta" => {
                self.stop();
                self.count(data.get("usage"));
                self.end(data.pointer("/delta/stop_reason"));
            }
            "message_stop" => {
                self.stop();
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
            self.start(block, emit);
            self.stop();
        }
        self.count(body.get("usage"));
        self.end(body.get("stop_reason"));
        true
    }

    fn start(&mut self, block: &Value, emit: Emit<'_>) {
        self.stop();
        let text = |field: &str| block.get(field).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text" => {
                self.block = Block::Text;
                self.text(text("text"), emit);
            }
            "tool_use" => {
                self.block = Block::Call;
                self.apart = true;
                let (id, name) = (text("id"), text("name"));
                self.draft.calls.add(&Fragment { id, name, whole: true, ..Fragment::default() });
                self.whole_input = block.get("input").cloned();
            }
            "thinking" => {
                self.block = Block::Thinking;
                self.apart = true;
                self.draft.begin_block(block.clone(), emit);
                self.draft.add_reasoning(text("thinking"), emit);
            }
            "redacted_thinking" => {
                self.block = Block::Thinking;
                self.apart = true;
                self.draft.begin_block(block.clone(), emit);
            }
            _ => {
                self.block = Block::Other;
                self.apart = true;
            }
        }
    }

    fn delta(&mut self, delta: &Value, emit: Emit<'_>) {
        let text = |field: &str| delta.get(field).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text_delta" => self.text(text("text"), emit),
            "thinking_delta" => {
                if self.block != Block::Thinking {
                    // A proxy that left out the start of the block.
                    self.stop();
                    self.block = Block::Thinking;
                    self.apart = true;
                    self.draft.begin_block(json!({"type": "thinking", "thinking": ""}), emit);
                }
                self.draft.extend_block("thinking", text("thinking"));
                self.draft.add_reasoning(text("thinking"), emit);
            }
            "signature_delta" if self.block == Block::Thinking => {
                self.draft.extend_block("signature", text("signature"));
            }
            "input_json_delta" if self.block == Block::Call && !text("partial_json").is_empty() => {
                self.whole_input = None;
                self.draft.calls.append_to_last(text("partial_json"));
            }
            // Citations; and the input of tools that the provider runs itself.
            _ => {}
        }
    }

    fn text(&mut self, text: &str, emit: Emit<'_>) {
        if !text.is_empty() {
            if std::mem::take(&mut self.apart) {
                self.draft.break_paragraph(emit);
            }
            self.draft.add_text(text, emit);
        }
    }

    /// The block is over: input that came with its start, and was not replaced, is the arguments. `{}` is how every
    /// stream starts a call, so it counts as nothing sent.
    fn stop(&mut self) {
        let empty = |v: &Value| v.is_null() || v.as_object().is_some_and(serde_json::Map::is_empty);
        if let Some(input) = self.whole_input.take().filter(|v| !empty(v)) {
            self.draft.calls.append_to_last(&input.to_string());
        }
        if std::mem::replace(&mut self.block, Block::Other) == Block::Thinking {
            self.draft.end_block();
        }
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
        self.draft.usage = Some(Usage {
            input_tokens: counts.fresh + counts.cache_read + counts.cache_write,
            output_tokens: counts.output,
            cached_tokens: counts.cache_read,
            cache_write_tokens: counts.cache_write,
            ..Usage::default()
        });
    }
}
