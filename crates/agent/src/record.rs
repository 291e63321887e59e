//! A conversation on disk, written as it happens: what is in memory and not there yet is tried again with the next
//! message, and a person is told once that it is not kept.

use crate::checkpoint::Changes;
use crate::context::Summary;
use jarvis_memory::{Loaded, NewSession, SessionError, SessionStore, SessionWriter};
use jarvis_protocol::{Message, Usage};
use tracing::Instrument as _;

/// Where a session is kept. It is there from its first message on.
#[derive(Debug)]
pub struct Record {
    store: SessionStore,
    new: NewSession,
    writer: Option<SessionWriter>,
    /// Spent and not written yet.
    spent: Usage,
    problem: Option<SessionError>,
    told: bool,
}

impl Record {
    pub fn new(store: SessionStore, new: NewSession) -> Self {
        Self { store, new, writer: None, spent: Usage::default(), problem: None, told: false }
    }

    pub(crate) fn resumed(store: SessionStore, writer: SessionWriter) -> Self {
        Self { writer: Some(writer), ..Self::new(store, NewSession::default()) }
    }

    /// The session's id, where it is known before its first message.
    pub(crate) fn id(&self) -> Option<&str> {
        self.writer.as_ref().map(SessionWriter::id).or(self.new.id.as_deref())
    }

    /// The session's id; it is made now if there is none.
    pub(crate) fn begin(&mut self) -> Option<String> {
        if self.writer.is_none() {
            let created = tracing::debug_span!("session").in_scope(|| self.store.create(self.new.clone()));
            match created {
                Ok(writer) => self.writer = Some(writer),
                Err(error) => self.problem = Some(error),
            }
        }
        self.writer.as_ref().map(|writer| writer.id().to_owned())
    }

    /// All of `history` that is not written yet.
    pub(crate) fn save(&mut self, history: &[Message], spent: Usage) {
        self.spent.add(spent);
        let usage = self.spent;
        let done = self.write(|writer| {
            let new = history.get(writer.len()..).unwrap_or_default();
            if new.is_empty() && usage == Usage::default() {
                return Ok(());
            }
            writer.append(new, usage)
        });
        if done {
            self.spent = Usage::default();
        }
    }

    pub(crate) fn set_summary(&mut self, summary: &Summary) {
        // Plain data: it always becomes JSON.
        let Ok(state) = serde_json::to_string(summary) else { return };
        self.write(|writer| writer.set_state(&state));
    }

    pub(crate) fn set_checkpoint(&mut self, at: usize, changes: &Changes) {
        // Plain data: it always becomes JSON.
        let Ok(text) = serde_json::to_string(changes) else { return };
        self.write(|writer| writer.set_checkpoint(at, &text));
    }

    /// Takes back all messages from `at` on.
    pub(crate) fn truncate(&mut self, at: usize) -> Result<(), SessionError> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.truncate(at))
    }

    /// It has its first message.
    pub(crate) fn is_written(&self) -> bool {
        self.writer.is_some()
    }

    pub(crate) fn store(&self) -> &SessionStore {
        &self.store
    }

    pub(crate) fn set_model(&mut self, model: &str) {
        self.new.model = Some(model.to_owned());
        self.write(|writer| writer.set_model(model));
    }

    pub(crate) fn set_strategy(&mut self, strategy: &str) {
        self.write(|writer| writer.set_strategy(strategy));
    }

    fn write(&mut self, work: impl FnOnce(&mut SessionWriter) -> Result<(), SessionError>) -> bool {
        let Some(writer) = &mut self.writer else { return false };
        let _span = tracing::debug_span!("session").entered();
        let done = work(writer);
        let ok = done.is_ok();
        self.problem = done.err();
        ok
    }

    /// Waits until all that was written is on disk, without holding up other conversations of this process.
    pub(crate) async fn sync(&mut self) {
        if self.writer.is_none() {
            return;
        }
        let store = self.store.clone();
        let syncing = tokio::task::spawn_blocking(move || store.sync());
        // Where the process is ending and no thread is left, what was written is in the file all the same.
        if let Ok(Err(error)) = syncing.instrument(tracing::debug_span!("sync")).await {
            self.problem = Some(error);
        }
    }

    /// What keeps it from being written, the first time.
    pub(crate) fn problem(&mut self) -> Option<String> {
        let problem = self.problem.as_ref().filter(|_| !self.told)?;
        let message = format!("this conversation is not kept: {problem}");
        self.told = true;
        Some(message)
    }
}

/// The summary that was kept with a session; one that tells of messages which are not there is none.
pub(crate) fn summary_of(loaded: &Loaded) -> Summary {
    let summary: Option<Summary> = loaded.state.as_deref().and_then(|state| serde_json::from_str(state).ok());
    summary.filter(|summary| summary.covers <= loaded.messages.len()).unwrap_or_default()
}
