//! A conversation. It owns the history and the one model handle.

use crate::{
    bootstrap::Bootstrap,
    native, staged,
    turn::{Front, Turn},
};
use jarvis_dispatch::Approver;
use jarvis_forge::Forge;
use jarvis_model::{Embedder, ModelHandle};
use jarvis_protocol::{ErrorBody, ErrorKind, Event, Message, StopReason, Usage};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How a model is led.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// By what the model can: native where it drives tools, staged where not.
    #[default]
    Auto,
    Native,
    Staged,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Price {
    pub input: f64,
    pub output: f64,
}

/// Bounds of one turn; each ends it with its own stop reason. No `Default`: see [`TurnLimits::STANDARD`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TurnLimits {
    /// Model replies with tool calls.
    pub max_rounds: u32,
    /// Tokens in and out, over all model calls.
    pub max_tokens: u64,
    pub max_cost_usd: Option<f64>,
    pub max_time: Duration,
}

impl TurnLimits {
    pub const STANDARD: TurnLimits =
        TurnLimits { max_rounds: 25, max_tokens: 500_000, max_cost_usd: None, max_time: Duration::from_secs(900) };
}

pub struct SessionParts {
    pub id: String,
    pub model: ModelHandle,
    pub forge: Forge,
    pub mode: Mode,
    pub limits: TurnLimits,
    pub price: Option<Price>,
    /// In which dates and times are told.
    pub zone: TimeZone,
}

pub struct Session {
    parts: SessionParts,
    history: Vec<Message>,
    usage: Usage,
    embedder: Option<Arc<dyn Embedder>>,
}

/// How a turn ended; the same was told by its last event.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEnd {
    Completed { answer: String, stop_reason: StopReason },
    Failed(ErrorBody),
}

/// Bytes of one user message. More belongs into a file.
const MESSAGE_BYTES: usize = 4 << 20;

impl Session {
    pub fn new(parts: SessionParts) -> Self {
        Self { parts, history: Vec::new(), usage: Usage::default(), embedder: None }
    }

    /// Capabilities are searched by meaning too, where there is an embedder.
    pub fn with_embedder(self, embedder: Option<Arc<dyn Embedder>>) -> Self {
        Self { embedder, ..self }
    }

    pub fn id(&self) -> &str {
        &self.parts.id
    }

    pub fn model(&self) -> &ModelHandle {
        &self.parts.model
    }

    /// Over all turns.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    pub fn history(&self) -> &[Message] {
        &self.history
    }

    /// Switches the model for the turns to come.
    pub fn set_model(&mut self, model: ModelHandle, mode: Mode, price: Option<Price>) {
        self.parts.model = model;
        self.parts.mode = mode;
        self.parts.price = price;
    }

    /// Runs one turn. The last event is exactly one `turn.completed` or `turn.failed`; after a failure or a cancel
    /// the history is what it was before, so nothing dangles.
    pub async fn turn(
        &mut self,
        text: &str,
        emit: &mut (dyn FnMut(Event) + Send),
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> TurnEnd {
        let mut turn = Turn::start(self.parts.limits, self.parts.price);
        emit(Event::TurnStarted { session: self.parts.id.clone(), model: self.parts.model.id().to_owned() });
        let before = self.history.len();
        let result = match check_message(text) {
            Ok(()) => self.answer(text, &mut turn, emit, approver, cancel).await,
            Err(error) => Err(error),
        };
        self.usage.add(turn.usage);
        let duration_ms = u64::try_from(turn.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        match result {
            Ok((answer, stop_reason)) => {
                if stop_reason == StopReason::Cancelled {
                    self.history.truncate(before);
                }
                emit(Event::TurnCompleted {
                    answer: answer.clone(),
                    capabilities_built: turn.built,
                    capabilities_used: turn.used,
                    usage: turn.usage,
                    duration_ms,
                    stop_reason,
                });
                TurnEnd::Completed { answer, stop_reason }
            }
            Err(error) => {
                self.history.truncate(before);
                emit(Event::TurnFailed { error: error.clone(), usage: turn.usage, duration_ms });
                TurnEnd::Failed(error)
            }
        }
    }

    async fn answer(
        &mut self,
        text: &str,
        turn: &mut Turn,
        emit: &mut (dyn FnMut(Event) + Send),
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(String, StopReason), ErrorBody> {
        let native = match self.parts.mode {
            Mode::Auto => self.parts.model.traits().native_tools,
            Mode::Native => true,
            Mode::Staged => false,
        };
        self.history.push(Message::user(text));
        self.parts.forge.dispatch().warm();
        let now =
            jiff::Timestamp::now().to_zoned(self.parts.zone.clone()).strftime("%A, %Y-%m-%d %H:%M (%Z)").to_string();
        let front = Front { now: &now, model: &self.parts.model, emit, approver, cancel };
        if native {
            let bootstrap = Bootstrap::new(self.parts.forge.clone(), Some(text.to_owned()), self.parts.model.id())
                .with_embedder(self.embedder.clone());
            native::run(front, &bootstrap, &mut self.history, turn).await
        } else {
            staged::run(front, &self.parts.forge, self.embedder.as_ref(), &mut self.history, turn).await
        }
    }
}

fn check_message(text: &str) -> Result<(), ErrorBody> {
    if text.trim().is_empty() {
        return Err(ErrorBody::new(ErrorKind::Usage, "the question is empty")
            .hint("jarvis \"What is the 90th Fibonacci number?\""));
    }
    if text.len() > MESSAGE_BYTES {
        return Err(ErrorBody::new(
            ErrorKind::Limit,
            format!("the question has {} bytes; at most {MESSAGE_BYTES} are taken", text.len()),
        )
        .hint("shorten it; what is that long is for a capability that was granted the file"));
    }
    Ok(())
}
