//! Reads the answer of either wire, from the bytes of a stream or from a whole body.

use serde_json::Value;

use super::classify;
use super::draft::{Draft, Emit};
use super::sse::{LineTooLong, Sse, SseEvent};
use super::{Wire, anthropic, openai, surrogates};
use crate::{ModelError, Request};

/// Bytes from the beginning of a stream kept to show what came, should it be no event stream.
const OPENING: usize = 2048;

pub(super) struct Answer {
    format: Format,
    sse: Sse,
    opening: Vec<u8>,
    saw_any: bool,
    done: bool,
}

enum Format {
    OpenAi(openai::Reader),
    Anthropic(anthropic::Reader),
}

impl Answer {
    pub fn new(wire: Wire, request: &Request) -> Self {
        let format = match wire {
            Wire::OpenAi => Format::OpenAi(openai::Reader::new(request)),
            Wire::Anthropic => Format::Anthropic(anthropic::Reader::new(request)),
        };
        Self { format, sse: Sse::default(), opening: Vec::new(), saw_any: false, done: false }
    }

    /// The finish reason has come, for every answer asked for.
    pub fn is_finished(&self) -> bool {
        match &self.format {
            Format::OpenAi(reader) => reader.is_finished(),
            Format::Anthropic(reader) => reader.is_finished(),
        }
    }

    /// The end mark has come.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Takes the next bytes of a stream, which may be cut anywhere.
    pub fn feed(&mut self, bytes: &[u8], emit: Emit<'_>) -> Result<(), ModelError> {
        let room = OPENING.saturating_sub(self.opening.len()).min(bytes.len());
        self.opening.extend_from_slice(&bytes[..room]);
        let mut events = Vec::new();
        let too_long = |LineTooLong| ModelError::Protocol { message: "an event of more than 16 MiB".to_owned() };
        self.sse.feed(bytes, &mut events).map_err(too_long)?;
        for event in &events {
            self.event(event, emit)?;
            if self.done {
                break;
            }
        }
        Ok(())
    }

    /// The stream ended. Without a finish reason or an end mark it broke off.
    pub fn end(&mut self, emit: Emit<'_>) -> Result<(), ModelError> {
        for event in self.sse.end() {
            // The last one may be cut anywhere, which is no fault in its format.
            self.event(&event, emit).map_err(|error| match error {
                ModelError::Protocol { .. } if self.saw_any => broken_off(),
                error => error,
            })?;
        }
        if self.is_finished() || self.done {
            return Ok(());
        }
        Err(if !self.saw_any && !self.sse.spoke() && !self.opening.trim_ascii().is_empty() {
            ModelError::Protocol { message: String::from_utf8_lossy(&self.opening).into_owned() }
        } else {
            broken_off()
        })
    }

    fn event(&mut self, event: &SseEvent, emit: Emit<'_>) -> Result<(), ModelError> {
        let data = event.data.trim();
        let (data, done) = match data.strip_suffix("[DONE]") {
            Some(rest) if rest.is_empty() || rest.ends_with('\n') => (rest, true),
            _ => (data, false),
        };
        let data = &surrogates::mend(data);
        // More than one value: a proxy that leaves out the blank line between events.
        for value in serde_json::Deserializer::from_str(data).into_iter::<Value>() {
            let value =
                value.map_err(|e| ModelError::Protocol { message: format!("an event is not JSON ({e}): {data}") })?;
            if let Some(error) = classify::inside(&value) {
                return Err(error);
            }
            self.saw_any = true;
            match &mut self.format {
                Format::OpenAi(reader) => reader.event(&value, emit),
                Format::Anthropic(reader) => self.done |= reader.event(&event.event, &value, emit),
            }
        }
        self.done |= done && self.saw_any;
        Ok(())
    }

    pub fn whole(&mut self, body: &str, emit: Emit<'_>) -> Result<(), ModelError> {
        let not_ours = || ModelError::Protocol { message: body.to_owned() };
        let value: Value = serde_json::from_str(&surrogates::mend(body)).map_err(|_| not_ours())?;
        if let Some(error) = classify::inside(&value) {
            return Err(error);
        }
        let understood = match &mut self.format {
            Format::OpenAi(reader) => reader.whole(&value, emit),
            Format::Anthropic(reader) => reader.whole(&value, emit),
        };
        if understood { Ok(()) } else { Err(not_ours()) }
    }

    pub fn draft(self) -> Draft {
        match self.format {
            Format::OpenAi(reader) => reader.draft,
            Format::Anthropic(reader) => reader.into_draft(),
        }
    }
}

fn broken_off() -> ModelError {
    ModelError::Broken { message: "the server closed the stream before its end".to_owned() }
}
