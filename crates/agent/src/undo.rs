//! What a session does with its turns afterwards: undoing the last one, taking back one in which nothing was done, and
//! giving itself a title.

use crate::checkpoint::{Undone, last_turn, nothing};
use crate::session::Session;
use crate::turn::Turn;
use jarvis_dispatch::CallError;
use jarvis_protocol::ErrorBody;
use serde_json::json;

impl Session {
    /// Undoes the last turn: its messages leave the conversation, and the files it changed are as they were before it.
    /// Capabilities that it registered and notes that it proposed stay.
    ///
    /// # Errors
    /// Nothing is undone where somebody else changed one of the files since, unless `force` is given.
    pub async fn undo(&mut self, force: bool) -> Result<Undone, ErrorBody> {
        let at = last_turn(&self.conversation.history).ok_or_else(nothing)?;
        let turn = &self.conversation.history[at..];
        let changes = self.conversation.changes.get(&at);
        let checkpoints = self.checkpoints.clone();
        let paths: Vec<&str> = changes.iter().flat_map(|changes| changes.files.keys().map(String::as_str)).collect();
        let args = json!({"session": self.parts.id, "files": paths, "force": force});
        let mut undone = None;
        let work = async {
            // Files are few and small; nothing else goes on in this session.
            let done = match &checkpoints {
                Some(checkpoints) => checkpoints.undo(turn, changes, force, false)?,
                None => Undone::of(turn),
            };
            undone = Some(done);
            Ok(json!(null))
        };
        let worked = self.parts.forge.dispatch().own_tool("undo", args, work).await;
        worked.map_err(|error| match error {
            CallError::RespondToModel(body) | CallError::Fatal(body) => body,
        })?;
        self.conversation.take_back(at).map_err(|e| e.body())?;
        undone.ok_or_else(nothing)
    }

    /// The conversation is over for now. Waits for its title, but not long.
    pub async fn finish(&mut self) {
        let titled = self.titles.finish().await;
        self.conversation.spend(titled, &mut self.usage);
        if let (Some(checkpoints), Some(record)) = (&self.checkpoints, &self.conversation.record) {
            checkpoints.sweep(|| record.store().all_checkpoints().ok());
        }
    }

    pub(crate) fn begin_title(&mut self) {
        if let Some(record) = self.conversation.record.as_ref().filter(|record| record.is_written()) {
            self.titles.begin(&self.parts.model, record.store(), &self.parts.id, &self.conversation.history);
        }
    }

    /// Takes back the turn that begins at `at`, if nothing was done in it. False: it stays.
    pub(crate) fn take_back(&mut self, at: usize, turn: &Turn) -> bool {
        let acted = turn.acted || self.conversation.history[at..].iter().any(|m| !m.tool_calls.is_empty());
        // One that cannot be taken back on disk stays, closed.
        !acted && self.conversation.take_back(at).is_ok()
    }

    /// Of the turns of a session that is gone on with.
    pub(crate) fn load_changes(&mut self) {
        let (Some(checkpoints), Some(record)) = (&self.checkpoints, &mut self.conversation.record) else { return };
        if !record.is_written() {
            return;
        }
        match checkpoints.kept(record.store(), &self.parts.id) {
            Ok((kept, found)) => {
                self.conversation.changes = kept;
                if let Some((at, changes)) = found {
                    record.set_checkpoint(at, &changes);
                    self.conversation.changes.insert(at, changes);
                }
            }
            Err(error) => tracing::warn!(%error, "files of earlier turns cannot be brought back"),
        }
    }
}
