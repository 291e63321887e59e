//! What is heard of a turn, said in OpenAI's form. Streamed or not, the text is the same.

use jarvis_protocol::{ErrorBody, Event, StopReason, Usage};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

pub struct Saying {
    id: String,
    model: String,
    created: u64,
    /// What was said since the last call of a tool.
    since: String,
    /// Something was said before.
    begun: bool,
    /// A tool was called since: what comes next is a new paragraph.
    apart: bool,
}

/// What an event says.
#[derive(Debug, PartialEq)]
pub enum Spoken {
    Nothing,
    Text(String),
    /// The end; `rest` is what of the answer was not said yet.
    Done {
        rest: String,
        finish: &'static str,
        usage: Usage,
    },
    Failed(ErrorBody),
}

impl Saying {
    pub fn new(session: &str, model: String) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { id: format!("chatcmpl-{session}"), model, created, since: String::new(), begun: false, apart: false }
    }

    pub fn hear(&mut self, event: &Event) -> Spoken {
        match event {
            Event::TextDelta { text } => self.text(text),
            Event::ToolStarted { .. } => {
                self.since.clear();
                self.apart = self.begun;
                Spoken::Nothing
            }
            Event::TurnCompleted { answer, usage, stop_reason, .. } => {
                // An answer that was put together here was not heard as it came.
                let rest = match answer.strip_prefix(self.since.as_str()) {
                    Some(rest) if self.since.is_empty() => self.said(rest),
                    Some(rest) => rest.to_owned(),
                    None if self.since.trim() == answer.trim() => String::new(),
                    None => {
                        self.apart = true;
                        self.said(answer)
                    }
                };
                Spoken::Done { rest, finish: finish(*stop_reason), usage: *usage }
            }
            Event::TurnFailed { error, .. } => Spoken::Failed(error.clone()),
            _ => Spoken::Nothing,
        }
    }

    fn text(&mut self, text: &str) -> Spoken {
        self.since.push_str(text);
        match self.said(text) {
            text if text.is_empty() => Spoken::Nothing,
            text => Spoken::Text(text),
        }
    }

    fn said(&mut self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let apart = std::mem::take(&mut self.apart) && self.begun;
        self.begun = true;
        if apart { format!("\n\n{text}") } else { text.to_owned() }
    }

    fn chunk(&self, choices: &Value) -> Value {
        json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model,
            "choices": choices,
        })
    }

    pub fn opening(&self) -> Value {
        let delta = json!({"role": "assistant", "content": ""});
        self.chunk(&json!([{"index": 0, "delta": delta, "finish_reason": null}]))
    }

    pub fn piece(&self, text: &str) -> Value {
        self.chunk(&json!([{"index": 0, "delta": {"content": text}, "finish_reason": null}]))
    }

    pub fn ending(&self, finish: &str) -> Value {
        self.chunk(&json!([{"index": 0, "delta": {}, "finish_reason": finish}]))
    }

    pub fn usage(&self, usage: &Usage) -> Value {
        let mut chunk = self.chunk(&json!([]));
        chunk["usage"] = counted(usage);
        chunk
    }

    pub fn whole(&self, text: &str, finish: &str, usage: &Usage) -> Value {
        json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": self.model,
            "choices": [{
                "index": 0, "message": {"role": "assistant", "content": text, "refusal": null},
                "logprobs": null, "finish_reason": finish,
            }],
            "usage": counted(usage),
        })
    }
}

fn counted(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "cost_usd": usage.cost_usd,
    })
}

fn finish(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn | StopReason::Cancelled | StopReason::RepeatedFailure => "stop",
        StopReason::MaxRounds
        | StopReason::MaxTokens
        | StopReason::ReplyCut
        | StopReason::MaxCost
        | StopReason::MaxTime => "length",
        StopReason::Refused => "content_filter",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_protocol::ToolCall;

    fn completed(answer: &str) -> Event {
        Event::TurnCompleted {
            answer: answer.to_owned(),
            capabilities_built: Vec::new(),
            capabilities_used: Vec::new(),
            usage: Usage::default(),
            duration_ms: 1,
            stop_reason: StopReason::EndTurn,
        }
    }

    fn heard(events: &[Event]) -> String {
        let mut saying = Saying::new("s", "m".to_owned());
        let said = events.iter().map(|event| match saying.hear(event) {
            Spoken::Text(text) | Spoken::Done { rest: text, .. } => text,
            Spoken::Nothing | Spoken::Failed(_) => String::new(),
        });
        said.collect()
    }

    fn text(text: &str) -> Event {
        Event::TextDelta { text: text.to_owned() }
    }

    fn tool() -> Event {
        let (id, name) = ("c".to_owned(), "t".to_owned());
        Event::ToolStarted { call: ToolCall { id, name, args: json!({}) } }
    }

    #[test]
    fn text_before_and_after_a_call_does_not_run_together() {
        assert_eq!(
            heard(&[text("I loo"), text("k."), tool(), text("It is "), text("42."), completed("It is 42.")]),
            "I look.\n\nIt is 42."
        );
    }

    #[test]
    fn an_answer_that_was_not_streamed_is_said_in_the_end() {
        assert_eq!(heard(&[tool(), completed("四十二")]), "四十二");
        assert_eq!(heard(&[text("First."), tool(), completed("Then.")]), "First.\n\nThen.");
        assert_eq!(heard(&[text("A"), completed("A, and more")]), "A, and more");
        assert_eq!(heard(&[text("other"), completed("the answer")]), "other\n\nthe answer");
    }
}
