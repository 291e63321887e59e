//! A conversation. It owns the history and the one model handle.

use crate::{
    agents::{AgentFolders, Delegation, Shared},
    bootstrap::Bootstrap,
    checkpoint::Checkpoints,
    context::Strategy,
    conversation::Conversation,
    create::Workshop,
    external::{self, Around, External, Externals, Sampler},
    native,
    record::{Record, summary_of},
    remember::Memory,
    skills::Skill,
    staged,
    title::Titles,
    toolbox::Toolbox,
    turn::{Front, Turn},
};
use jarvis_dispatch::{Approver, Broken, Dispatch};
use jarvis_forge::Forge;
use jarvis_memory::{Loaded, SessionStore, SessionWriter};
use jarvis_model::{Embedder, ModelHandle};
use jarvis_protocol::{ErrorBody, ErrorKind, Event, Image, Message, StopReason, Usage};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

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
    /// How a long conversation is brought below what the model reads.
    pub strategy: Strategy,
    /// Files of the workspace, a shell and HTTP are offered to models that drive tools.
    pub builtins: bool,
    /// In which dates and times are told.
    pub zone: TimeZone,
}

pub struct Session {
    pub(crate) parts: SessionParts,
    pub(crate) conversation: Conversation,
    pub(crate) usage: Usage,
    embedder: Option<Arc<dyn Embedder>>,
    memory: Option<Memory>,
    agents: Option<AgentFolders>,
    /// Tools of servers outside.
    external: Option<Arc<dyn External>>,
    /// That a model that is led is not offered them was told.
    told_led: bool,
    workshop: Option<Workshop>,
    /// Broken files that were told.
    broken: Vec<Broken>,
    pub(crate) checkpoints: Option<Checkpoints>,
    pub(crate) titles: Titles,
    broken_skills: Vec<Broken>,
}

/// What a person says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input {
    pub text: String,
    pub images: Vec<Image>,
}

impl From<&str> for Input {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<String> for Input {
    fn from(text: String) -> Self {
        Self { text, images: Vec::new() }
    }
}

/// How a turn ended; the same was told by its last event.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEnd {
    Completed { answer: String, stop_reason: StopReason },
    Failed(ErrorBody),
}

const LED: &str = "this model is led step by step, with capabilities alone: it is not offered the tools of MCP servers. A model \
                   that drives tools itself is: --model PROVIDER/MODEL";

/// Bytes of one user message. More belongs into a file.
const MESSAGE_BYTES: usize = 4 << 20;
/// Images of one message, and their bytes together.
const IMAGES: usize = 20;
const IMAGE_BYTES: usize = 40 << 20;

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
            workshop: None,
            external: None,
            told_led: false,
            broken: Vec::new(),
            checkpoints: None,
            titles: Titles::default(),
            broken_skills: Vec::new(),
        }
    }

    /// It is kept on disk from its first message on.
    pub fn recorded(mut self, record: Record) -> Self {
        if let Some(id) = record.id() {
            id.clone_into(&mut self.parts.id);
        }
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
        if loaded.info.title.is_some() {
            self.titles.given();
        }
        self.conversation.history = loaded.messages;
        self.conversation.record = Some(record);
        // Nothing is spent by it.
        let mut turn = Turn::start(self.parts.limits);
        self.conversation.close("the process ended before an answer", &mut turn);
        self.load_changes();
        self
    }

    /// What turns change in the workspace is kept, so that it can be undone.
    pub fn with_checkpoints(mut self, checkpoints: Checkpoints) -> Self {
        self.checkpoints = Some(checkpoints);
        self.load_changes();
        self
    }

    /// It gets a title after its first turn, by the same model: for conversations that a person comes back to.
    pub fn with_titles(self) -> Self {
        let titles = self.titles.wanted();
        Self { titles, ..self }
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

    /// It reads skills, and may make what later turns find.
    pub fn with_workshop(self, workshop: Workshop) -> Self {
        Self { workshop: Some(workshop), ..self }
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

    /// What its calls pass.
    pub fn dispatch(&self) -> &Arc<Dispatch> {
        self.parts.forge.dispatch()
    }

    /// Goes on from what was said elsewhere; of a session that is not recorded.
    pub fn with_history(mut self, history: Vec<Message>) -> Self {
        self.conversation.history = history;
        self
    }

    /// Switches the model for the turns to come.
    pub fn set_model(&mut self, model: ModelHandle, mode: Mode) {
        if let Some(record) = &mut self.conversation.record {
            record.set_model(model.id());
        }
        self.parts.model = model;
        self.parts.mode = mode;
    }

    /// What is called in the turns to come passes through this one; `keeps`: what is worth it is remembered unasked.
    pub fn set_dispatch(&mut self, dispatch: Arc<Dispatch>, external: Option<Arc<dyn External>>, keeps: bool) {
        self.external = external;
        self.parts.forge = Forge::new(dispatch);
        if let Some(memory) = &mut self.memory {
            memory.keeps = keeps;
        }
    }

    /// Runs one turn. The last event is exactly one `turn.completed` or `turn.failed`. After a failure or a cancel the
    /// history says so: what was done by then is known to the next turn, and nothing dangles. A message that cannot be
    /// taken leaves no trace; nor does one that the model refused or that failed before anything was done, for it would
    /// be refused again with every message after it.
    pub async fn turn(
        &mut self,
        input: impl Into<Input>,
        emit: &mut (dyn FnMut(Event) + Send),
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> TurnEnd {
        let input = input.into();
        let titled = self.titles.before_turn(self.parts.model.traits().grammar).await;
        self.conversation.spend(titled, &mut self.usage);
        let mut turn = Turn::start(self.parts.limits);
        let checked = check_message(&input, &self.parts.model);
        if checked.is_ok()
            && let Some(id) = self.conversation.record.as_mut().and_then(Record::begin)
        {
            self.parts.id = id;
        }
        emit(Event::TurnStarted { session: self.parts.id.clone(), model: self.parts.model.id().to_owned() });
        if let Err(error) = checked {
            return failed(error, &turn, emit);
        }
        let at = self.conversation.history.len();
        let result = self.answer(input, &mut turn, emit, approver, cancel).await;
        self.usage.add(turn.usage);
        match result {
            Ok((answer, stop_reason)) => {
                match stop_reason {
                    StopReason::Cancelled => self.conversation.close("cancelled by the person", &mut turn),
                    StopReason::Refused => {
                        self.take_back(at, &turn);
                    }
                    _ => {}
                }
                self.tell_unkept(&mut turn, emit).await;
                if !matches!(stop_reason, StopReason::Cancelled | StopReason::Refused) {
                    self.begin_title();
                }
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
                if !self.take_back(at, &turn) {
                    self.conversation.close(&format!("the turn failed: {}", error.message), &mut turn);
                } else if at > 0 {
                    emit(Event::Notice { message: "the message is not part of the conversation".to_owned() });
                }
                self.tell_unkept(&mut turn, emit).await;
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
        let mut turn = Turn::start(self.parts.limits);
        let done = self.conversation.compact(&self.parts.model, &mut turn, emit, cancel).await;
        self.usage.add(turn.usage);
        self.tell_unkept(&mut turn, emit).await;
        done.map_err(|e| e.body())
    }

    /// What was spent without a message is written too, and all of it is on disk then; what cannot be written is said
    /// once.
    async fn tell_unkept(&mut self, turn: &mut Turn, emit: &mut (dyn FnMut(Event) + Send)) {
        self.conversation.save(turn);
        if let Some(record) = &mut self.conversation.record {
            record.sync().await;
        }
        if let Some(message) = self.conversation.record.as_mut().and_then(Record::problem) {
            emit(Event::Notice { message });
        }
    }

    /// The notes that fit the question, where the strategy tells them.
    async fn recall(&mut self, text: &str, emit: &mut (dyn FnMut(Event) + Send), cancel: &CancellationToken) {
        self.conversation.memories.clear();
        let Some(memory) = self.memory.as_ref().filter(|_| self.parts.strategy.remembers()) else { return };
        let told = tokio::select! {
            told = memory.told(text).instrument(tracing::debug_span!("recall")) => told,
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
        input: Input,
        turn: &mut Turn,
        emit: &mut (dyn FnMut(Event) + Send),
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(String, StopReason), ErrorBody> {
        let native = is_native(&self.parts);
        let text = self.prompted(input.text, turn, emit, approver, cancel).await?;
        self.conversation.push([Message { images: input.images, ..Message::user(&text) }], turn);
        let dispatch = self.parts.forge.dispatch();
        let at = self.conversation.history.len() - 1;
        let turn_files = |checkpoints: &Checkpoints| checkpoints.turn(dispatch.workspace(), &self.parts.id, at);
        self.conversation.files = self.checkpoints.as_ref().and_then(turn_files);
        dispatch.warm();
        self.recall(&text, emit, cancel).await;
        let now = self.now();
        let external = match self.external.as_ref().filter(|_| native && self.parts.builtins) {
            Some(external) => Externals::of(external, &self.parts.model, emit, cancel).await.map(Arc::new),
            None => None,
        };
        if !native && self.external.is_some() && !std::mem::replace(&mut self.told_led, true) {
            emit(Event::Notice { message: LED.to_owned() });
        }
        let delegation = match native && self.parts.builtins {
            true => self.delegation(&now, external.clone(), emit),
            false => None,
        };
        let files = self.conversation.files.clone();
        let skills = if native && self.parts.builtins { self.skills(emit) } else { Vec::new() };
        let front = Front { now: &now, model: &self.parts.model, emit, approver, cancel };
        if native {
            let bootstrap = Bootstrap::new(self.parts.forge.clone(), Some(text), self.parts.model.id())
                .with_embedder(self.embedder.clone());
            let memory = self.memory.clone().filter(|_| self.parts.builtins);
            let tools = Toolbox::new(bootstrap, self.parts.builtins)
                .with_memory(memory, &self.parts.id)
                .with_workshop(self.workshop.clone(), &skills)
                .with_delegation(delegation)
                .with_external(external)
                .with_files(files);
            native::run(front, &tools, &mut self.conversation, turn).await
        } else {
            staged::run(front, &self.parts.forge, self.embedder.as_ref(), &mut self.conversation, turn).await
        }
    }
}

impl Session {
    /// Whether this is a prompt of one of the servers outside: `/SERVER:PROMPT`.
    pub fn is_prompt(&self, text: &str) -> bool {
        self.external.as_ref().is_some_and(|external| external::asked(external.as_ref(), text).is_some())
    }

    /// What a person said, with the words of a server in place of the name of its prompt.
    async fn prompted(
        &self,
        text: String,
        turn: &mut Turn,
        emit: &mut (dyn FnMut(Event) + Send),
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<String, ErrorBody> {
        let Some(external) = &self.external else { return Ok(text) };
        let Some((server, name, said)) = external::asked(external.as_ref(), &text) else { return Ok(text) };
        emit(Event::Status { message: format!("asking the MCP server {server} for its prompt {name}") });
        let sampler = Sampler::new(self.parts.model.clone());
        let around = Around { call_id: name, emit, approver, sampler: &sampler, cancel };
        let answer = external.prompt(server, name, said, around).await;
        turn.count(sampler.take());
        answer.map_err(|error| error.body().clone())
    }

    /// The subagents there are now. A file that is none is told once.
    fn delegation(
        &mut self,
        now: &str,
        external: Option<Arc<Externals>>,
        emit: &mut (dyn FnMut(Event) + Send),
    ) -> Option<Delegation> {
        let catalogue = self.agents.as_ref()?.load();
        tell_broken("agent", &mut self.broken, catalogue.broken, emit);
        let shared = Shared {
            forge: self.parts.forge.clone(),
            model: self.parts.model.clone(),
            embedder: self.embedder.clone(),
            strategy: self.parts.strategy,
            now: now.to_owned(),
            memory: self.memory.clone().map(|memory| (memory, self.parts.id.clone())),
            files: self.conversation.files.clone(),
            external,
        };
        Some(Delegation::new(shared, catalogue.agents))
    }
}

impl Session {
    /// The skills there are now, with the same for a file that is none.
    fn skills(&mut self, emit: &mut (dyn FnMut(Event) + Send)) -> Vec<Skill> {
        let Some(workshop) = &self.workshop else { return Vec::new() };
        let catalogue = workshop.skills.load();
        tell_broken("skill", &mut self.broken_skills, catalogue.broken, emit);
        catalogue.skills
    }
}

/// Each once, as long as it stays as it is.
fn tell_broken(what: &str, told: &mut Vec<Broken>, now: Vec<Broken>, emit: &mut (dyn FnMut(Event) + Send)) {
    for broken in now.iter().filter(|broken| !told.contains(broken)) {
        emit(Event::Notice { message: broken.told(what) });
    }
    *told = now;
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

fn check_message(Input { text, images }: &Input, model: &ModelHandle) -> Result<(), ErrorBody> {
    if !images.is_empty() && !model.takes_images() {
        let message = format!("{} looks at no images, and {} came with the question", model.id(), images.len());
        return Err(ErrorBody::new(ErrorKind::Usage, message).hint("another model does: --model PROVIDER/MODEL"));
    }
    let bytes: usize = images.iter().map(|image| image.data().len() / 4 * 3).sum();
    if images.len() > IMAGES || bytes > IMAGE_BYTES {
        let message = format!(
            "{} images of {} MB came with the question; at most {IMAGES} of {} MB together are taken",
            images.len(),
            bytes >> 20,
            IMAGE_BYTES >> 20
        );
        return Err(ErrorBody::new(ErrorKind::Limit, message).hint("send fewer, or smaller ones"));
    }
    if text.trim().is_empty() && images.is_empty() {
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
