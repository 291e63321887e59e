//! A conversation. It owns the history and the one model handle.

use crate::{
    agents::{AgentFolders, BrokenAgent, Delegation, Shared},
    bootstrap::Bootstrap,
    context::Strategy,
    conversation::Conversation,
    external::{External, Externals},
    native,
    record::{Record, summary_of},
    remember::Memory,
    staged,
    toolbox::Toolbox,
    turn::{Front, Turn},
};
use jarvis_dispatch::Approver;
use jarvis_forge::Forge;
use jarvis_memory::{Loaded, SessionStore, SessionWriter};
use jarvis_model::{Embedder, ModelHandle, Price};
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
    /// How a long conversation is brought below what the model reads.
    pub strategy: Strategy,
    /// Files of the workspace, a shell and HTTP are offered to models that drive tools.
    pub builtins: bool,
    /// In which dates and times are told.
    pub zone: TimeZone,
}

pub struct Session {
    pub(crate) parts: SessionParts,
    conversation: Conversation,
    pub(crate) usage: Usage,
    embedder: Option<Arc<dyn Embedder>>,
    memory: Option<Memory>,
    agents: Option<AgentFolders>,
    /// Tools of servers outside.
    external: Option<Arc<dyn External>>,
    /// Broken files of agents that were told.
    broken: Vec<BrokenAgent>,
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
        let conversation = Conversation::new(parts.strategy);
        Self {
            parts,
            conversation,
            usage: Usage::default(),
            embedder: None,
            memory: None,
            agents: None,
            external: None,
            broken: Vec::new(),
        }
    }

    /// It is kept on disk from its first message on.
    pub fn recorded(mut self, record: Record) -> Self {
        self.conversation.record = Some(record);
        self
    }

    /// Goes on with a session that was kept.
    pub fn resumed(mut self, store: SessionStore, writer: SessionWriter, loaded: Loaded) -> Self {
        self.parts.id = writer.id().to_owned();
        self.usage = loaded.info.usage;
        self.conversation.summary = summary_of(&loaded);
        let mut record = Record::resumed(store, writer);
        if loaded.info.model.as_deref() != Some(self.parts.model.id()) {
            record.set_model(self.parts.model.id());
        }
        if loaded.info.strategy.as_deref() != Some(self.parts.strategy.as_str()) {
            record.set_strategy(self.parts.strategy.as_str());
        }
        self.conversation.history = loaded.messages;
        self.conversation.record = Some(record);
        // Nothing is spent by it.
        let mut turn = Turn::start(self.parts.limits, None);
        self.conversation.close("the process ended before an answer", &mut turn);
        self
    }

    /// Notes of other conversations are told and proposed.
    pub fn with_memory(self, memory: Option<Memory>) -> Self {
        Self { memory, ..self }
    }

    /// Capabilities are searched by meaning too, where there is an embedder.
    pub fn with_embedder(self, embedder: Option<Arc<dyn Embedder>>) -> Self {
        Self { embedder, ..self }
    }

    /// A model that drives the built-in tools may start subagents.
    pub fn with_agents(self, folders: AgentFolders) -> Self {
        Self { agents: Some(folders), ..self }
    }

    /// A model that drives the built-in tools is offered those of servers outside, too.
    pub fn with_external(self, external: Option<Arc<dyn External>>) -> Self {
        Self { external, ..self }
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
        &self.conversation.history
    }

    /// Switches the model for the turns to come.
    pub fn set_model(&mut self, model: ModelHandle, mode: Mode, price: Option<Price>) {
        if let Some(record) = &mut self.conversation.record {
            record.set_model(model.id());
        }
        self.parts.model = model;
        self.parts.mode = mode;
        self.parts.price = price;
    }

    /// Runs one turn. The last event is exactly one `turn.completed` or `turn.failed`. After a failure or a cancel the
    /// history says so: what was done by then is known to the next turn, and nothing dangles. A message that cannot be
    /// taken leaves no trace.
    pub async fn turn(
        &mut self,
        text: &str,
        emit: &mut (dyn FnMut(Event) + Send),
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> TurnEnd {
        let mut turn = Turn::start(self.parts.limits, self.parts.price);
        let checked = check_message(text);
        if checked.is_ok()
            && let Some(id) = self.conversation.record.as_mut().and_then(Record::begin)
        {
            self.parts.id = id;
        }
        emit(Event::TurnStarted { session: self.parts.id.clone(), model: self.parts.model.id().to_owned() });
        if let Err(error) = checked {
            return failed(error, &turn, emit);
        }
        let result = self.answer(text, &mut turn, emit, approver, cancel).await;
        self.usage.add(turn.usage);
        match result {
            Ok((answer, stop_reason)) => {
                if stop_reason == StopReason::Cancelled {
                    self.conversation.close("cancelled by the person", &mut turn);
                }
                self.tell_unkept(&mut turn, emit);
                emit(Event::TurnCompleted {
                    answer: answer.clone(),
                    duration_ms: turn.duration_ms(),
                    capabilities_built: turn.built,
                    capabilities_used: turn.used,
                    usage: turn.usage,
                    stop_reason,
                });
                TurnEnd::Completed { answer, stop_reason }
            }
            Err(error) => {
                self.conversation.close(&format!("the turn failed: {}", error.message), &mut turn);
                self.tell_unkept(&mut turn, emit);
                failed(error, &turn, emit)
            }
        }
    }

    /// Summarises all but the last question now. Gives the number of messages that the summary tells.
    pub async fn compact(
        &mut self,
        emit: &mut (dyn FnMut(Event) + Send),
        cancel: &CancellationToken,
    ) -> Result<usize, ErrorBody> {
        let mut turn = Turn::start(self.parts.limits, self.parts.price);
        let done = self.conversation.compact(&self.parts.model, &mut turn, emit, cancel).await;
        self.usage.add(turn.usage);
        self.tell_unkept(&mut turn, emit);
        done.map_err(|e| e.body())
    }

    /// What was spent without a message is written too; what cannot be written is said once.
    fn tell_unkept(&mut self, turn: &mut Turn, emit: &mut (dyn FnMut(Event) + Send)) {
        self.conversation.save(turn);
        if let Some(message) = self.conversation.record.as_mut().and_then(Record::problem) {
            emit(Event::Notice { message });
        }
    }

    /// The notes that fit the question, where the strategy tells them.
    async fn recall(&mut self, text: &str, emit: &mut (dyn FnMut(Event) + Send), cancel: &CancellationToken) {
        self.conversation.memories.clear();
        let Some(memory) = self.memory.as_ref().filter(|_| self.parts.strategy.remembers()) else { return };
        let told = tokio::select! {
            told = memory.told(text) => told,
            () = cancel.cancelled() => return,
        };
        let (memories, notices) = told;
        self.conversation.memories = memories;
        notices.into_iter().for_each(|message| emit(Event::Notice { message }));
    }

    /// Date and time for a person, with the zone.
    pub(crate) fn now(&self) -> String {
        jiff::Timestamp::now().to_zoned(self.parts.zone.clone()).strftime("%A, %Y-%m-%d %H:%M (%Z)").to_string()
    }

    async fn answer(
        &mut self,
        text: &str,
        turn: &mut Turn,
        emit: &mut (dyn FnMut(Event) + Send),
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(String, StopReason), ErrorBody> {
        let native = is_native(&self.parts);
        self.conversation.push([Message::user(text)], turn);
        self.parts.forge.dispatch().warm();
        self.recall(text, emit, cancel).await;
        let now = self.now();
        let delegation = if native && self.parts.builtins { self.delegation(&now, emit) } else { None };
        let external = match self.external.as_ref().filter(|_| native && self.parts.builtins) {
            Some(external) => Externals::of(external, &self.parts.model, emit, cancel).await,
            None => None,
        };
        let front = Front { now: &now, model: &self.parts.model, emit, approver, cancel };
        if native {
            let bootstrap = Bootstrap::new(self.parts.forge.clone(), Some(text.to_owned()), self.parts.model.id())
                .with_embedder(self.embedder.clone());
            let memory = self.memory.clone().filter(|_| self.parts.builtins);
            let tools = Toolbox::new(bootstrap, self.parts.builtins)
                .with_memory(memory, &self.parts.id)
                .with_delegation(delegation)
                .with_external(external);
            native::run(front, &tools, &mut self.conversation, turn).await
        } else {
            staged::run(front, &self.parts.forge, self.embedder.as_ref(), &mut self.conversation, turn).await
        }
    }
}

impl Session {
    /// The subagents there are now. A file that is none is told once.
    fn delegation(&mut self, now: &str, emit: &mut (dyn FnMut(Event) + Send)) -> Option<Delegation> {
        let catalogue = self.agents.as_ref()?.load();
        for broken in catalogue.broken.iter().filter(|broken| !self.broken.contains(broken)) {
            emit(Event::Notice { message: format!("no agent: {}: {}", broken.path.display(), broken.problem) });
        }
        self.broken = catalogue.broken;
        let shared = Shared {
            forge: self.parts.forge.clone(),
            model: self.parts.model.clone(),
            embedder: self.embedder.clone(),
            price: self.parts.price,
            strategy: self.parts.strategy,
            now: now.to_owned(),
        };
        Some(Delegation::new(shared, catalogue.agents))
    }
}

fn failed(error: ErrorBody, turn: &Turn, emit: &mut (dyn FnMut(Event) + Send)) -> TurnEnd {
    emit(Event::TurnFailed { error: error.clone(), usage: turn.usage, duration_ms: turn.duration_ms() });
    TurnEnd::Failed(error)
}

/// Whether the model drives the tools itself.
pub(crate) fn is_native(parts: &SessionParts) -> bool {
    match parts.mode {
        Mode::Auto => parts.model.traits().native_tools,
        Mode::Native => true,
        Mode::Staged => false,
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
