//! The history of a session with its summary, and what a model is sent of it.

use crate::checkpoint::{Changes, TurnFiles};
use crate::context::{self, Input, Strategy, Summariser, Summary};
use crate::record::Record;
use crate::turn::Turn;
use jarvis_memory::SessionError;
use jarvis_model::{ModelError, ModelHandle};
use jarvis_protocol::{Event, Message, Role, Usage};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Messages that must be said after a failed summary before the next one is tried.
const NEXT_TRY: usize = 20;
/// Builds until the counted tokens fit.
const COUNTS: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Conversation {
    /// All of it; nothing is taken away by what is sent. Grows by [`Conversation::push`] alone.
    pub history: Vec<Message>,
    /// Where it is kept on disk, if it is.
    pub record: Option<Record>,
    pub summary: Summary,
    pub strategy: Strategy,
    /// Of this turn: notes from other conversations.
    pub memories: Vec<String>,
    /// Of this turn: the files that its calls change.
    pub files: Option<Arc<TurnFiles>>,
    /// What turns changed, by the message that each begins at.
    pub changes: BTreeMap<usize, Changes>,
    failed_at: Option<usize>,
}

impl Conversation {
    pub fn new(strategy: Strategy) -> Self {
        Self { strategy, ..Self::default() }
    }

    /// One step of the conversation; in the session's file when this returns, where it is kept.
    pub fn push(&mut self, messages: impl IntoIterator<Item = Message>, turn: &mut Turn) {
        self.history.extend(messages);
        self.save(turn);
    }

    /// What is not on disk yet, with what was spent since.
    pub fn save(&mut self, turn: &mut Turn) {
        self.keep_changes();
        if let Some(record) = &mut self.record {
            record.save(&self.history, turn.take_unwritten());
        }
    }

    /// What was spent between turns.
    pub fn spend(&mut self, spent: Option<Usage>, all: &mut Usage) {
        let Some(spent) = spent else { return };
        all.add(spent);
        if let Some(record) = &mut self.record {
            record.save(&self.history, spent);
        }
    }

    fn keep_changes(&mut self) {
        let Some(files) = &self.files else { return };
        let Some(changes) = files.news() else { return };
        if let Some(record) = &mut self.record {
            record.set_checkpoint(files.at, &changes);
        }
        self.changes.insert(files.at, changes);
    }

    /// Takes back the messages from `at` on, with what is known of them.
    pub fn take_back(&mut self, at: usize) -> Result<(), SessionError> {
        if let Some(record) = &mut self.record {
            record.truncate(at)?;
        }
        self.history.truncate(at);
        self.changes.split_off(&at);
        self.failed_at = self.failed_at.filter(|failed| *failed <= at);
        if self.summary.covers > at {
            // It tells what is no longer said. All of the history is still there to be summarised.
            self.summary = Summary::default();
            self.keep_summary();
        }
        Ok(())
    }

    fn keep_summary(&mut self) {
        if let Some(record) = &mut self.record {
            record.set_summary(&self.summary);
        }
    }

    /// The messages behind the system prompt, when `kept` tokens are used by everything else.
    pub async fn for_model(
        &mut self,
        model: &ModelHandle,
        kept: u64,
        turn: &mut Turn,
        emit: &mut (dyn FnMut(Event) + Send),
        cancel: &CancellationToken,
    ) -> Result<Vec<Message>, ModelError> {
        let budget = context::budget(model, kept);
        let seen = if model.takes_images() { None } else { without_images(&self.history) };
        let summariser = Summariser { model, budget, cancel };
        let tried = self.failed_at.is_some_and(|at| self.history.len() < at + NEXT_TRY);
        if self.strategy.summarises() && !tried && summariser.is_due(&self.history, &self.summary) {
            self.summarise(&summariser, false, turn, emit).await?;
        }
        let mut room = budget;
        let mut count = 0;
        loop {
            let mut built = context::build(&Input {
                strategy: self.strategy,
                history: seen.as_deref().unwrap_or(&self.history),
                summary: &self.summary,
                memories: &self.memories,
                budget: room,
            });
            // What is estimated above is counted here, by the model's own tokenizer where it has one.
            let counted = model.count(&built.messages, &[]).count;
            count += 1;
            // Where not even the question can be cut so far, the model itself says that it is too long.
            if counted <= budget || count == COUNTS {
                built.report.tokens_estimate = counted;
                built.report.budget_available = budget;
                built.report.tell(emit);
                return Ok(built.messages);
            }
            room = (room * budget / counted.max(1)).saturating_sub(room / 20);
        }
    }

    /// Summarises all but the last question now. Gives the number of messages that the summary tells.
    pub async fn compact(
        &mut self,
        model: &ModelHandle,
        turn: &mut Turn,
        emit: &mut (dyn FnMut(Event) + Send),
        cancel: &CancellationToken,
    ) -> Result<usize, ModelError> {
        // As much as the model reads, less what a turn needs beside it.
        let budget = context::budget(model, 6_000).max(1_000);
        let summariser = Summariser { model, budget, cancel };
        summariser.run(&self.history, &mut self.summary, true, turn, emit).await?;
        self.keep_summary();
        Ok(self.summary.covers)
    }

    async fn summarise(
        &mut self,
        summariser: &Summariser<'_>,
        all: bool,
        turn: &mut Turn,
        emit: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), ModelError> {
        match summariser.run(&self.history, &mut self.summary, all, turn, emit).await {
            Ok(()) => {
                self.failed_at = None;
                self.keep_summary();
            }
            Err(ModelError::Cancelled) => return Err(ModelError::Cancelled),
            Err(error) => {
                self.failed_at = Some(self.history.len());
                let message =
                    format!("the earlier conversation could not be summarised, its last part is sent: {error}");
                emit(Event::Notice { message });
            }
        }
        Ok(())
    }

    /// Makes the history valid after a turn that did not end by an answer: every call has a result, and the last word is
    /// the assistant's.
    pub fn close(&mut self, why: &str, turn: &mut Turn) {
        let open = open_calls(&self.history).into_iter();
        let mut missing: Vec<Message> = open.map(|id| Message::tool(id, format!("no result: {why}"), true)).collect();
        let last = missing.last().or(self.history.last());
        if last.is_some_and(|m| m.role != Role::Assistant || !m.tool_calls.is_empty()) {
            missing.push(Message::assistant(format!("({why})")));
        }
        self.push(missing, turn);
    }
}

/// For a model that looks at none, chosen after some were shown: where they were is said instead. None: there are none.
fn without_images(history: &[Message]) -> Option<Vec<Message>> {
    if history.iter().all(|message| message.images.is_empty()) {
        return None;
    }
    let mut messages = history.to_vec();
    for message in messages.iter_mut().filter(|message| !message.images.is_empty()) {
        for image in std::mem::take(&mut message.images) {
            let name = image.source().unwrap_or("without a name").to_owned();
            message.text.push_str(&format!("\n[an image was here, {name}, which you cannot see]"));
        }
    }
    Some(messages)
}

/// Calls of the last reply that have no result.
fn open_calls(history: &[Message]) -> Vec<String> {
    let Some(reply) = history.iter().rposition(|m| m.role != Role::Tool) else { return Vec::new() };
    let mut answered: Vec<&str> = history[reply..].iter().filter_map(|m| m.tool_call_id.as_deref()).collect();
    let mut open = Vec::new();
    for call in &history[reply].tool_calls {
        // Some providers give two calls of one reply the same id; each has a result of its own.
        match answered.iter().position(|id| *id == call.id) {
            Some(at) => drop(answered.remove(at)),
            None => open.push(call.id.clone()),
        }
    }
    open
}
