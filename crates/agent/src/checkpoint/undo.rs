//! Undoing a turn: what it changed is put back as it was, unless somebody changed it since.

use super::entry::{Change, Changes, Entry};
use super::place::Root;
use super::{CheckpointError, Checkpoints};
use crate::record::summary_of;
use jarvis_memory::{Loaded, SessionStore, SessionWriter};
use jarvis_protocol::{ErrorBody, ErrorKind, Message, Role};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Paths of one message, at most; all of them are in what `--json` prints.
const NAMED: usize = 10;

/// What became of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Restored {
    /// The turn had made it.
    Removed,
    /// The turn had changed it.
    Restored,
    /// The turn had removed it.
    MadeAgain,
}

impl Restored {
    pub fn as_str(self) -> &'static str {
        match self {
            Restored::Removed => "removed",
            Restored::Restored => "restored",
            Restored::MadeAgain => "made again",
        }
    }
}

/// A turn that was undone, or what undoing it would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Undone {
    /// What the person had said.
    pub question: String,
    /// Messages that left the conversation.
    pub messages: usize,
    pub files: Vec<(String, Restored)>,
    /// What could not be put back, and why.
    pub left: Vec<(String, String)>,
    pub notes: Vec<String>,
}

impl Undone {
    /// Of a turn of these messages, without files.
    pub(crate) fn of(turn: &[Message]) -> Self {
        let question = turn.first().map(|message| message.text.clone()).unwrap_or_default();
        Self { question, messages: turn.len(), files: Vec::new(), left: Vec::new(), notes: Vec::new() }
    }
}

/// The message that the last turn begins at.
pub(crate) fn last_turn(history: &[Message]) -> Option<usize> {
    history.iter().rposition(|message| message.role == Role::User)
}

pub(crate) fn nothing() -> ErrorBody {
    ErrorBody::new(ErrorKind::NotFound, "nothing was said yet, so there is nothing to undo")
}

/// Undoes the last turn of a session that nothing else has open. With `look` nothing is done but to say what would be.
pub fn undo_last(
    checkpoints: &Checkpoints,
    store: &SessionStore,
    writer: &mut SessionWriter,
    loaded: &Loaded,
    (force, look): (bool, bool),
) -> Result<Undone, ErrorBody> {
    let at = last_turn(&loaded.messages).ok_or_else(nothing)?;
    let (mut kept, found) = checkpoints.kept(store, writer.id()).map_err(|e| failure(&e))?;
    if let Some((at, changes)) = found {
        // What was found of a call that was cut off is told once, and may not be undone this time.
        let record = serde_json::to_string(&changes).map_err(|e| failure(&CheckpointError::Record(e.to_string())))?;
        writer.set_checkpoint(at, &record).map_err(|e| e.body())?;
        kept.insert(at, changes);
    }
    let undone = checkpoints.undo(&loaded.messages[at..], kept.get(&at), force, look)?;
    if !look {
        writer.truncate(at).map_err(|e| e.body())?;
        // A summary of what is taken back would count again as soon as as much was said anew.
        if summary_of(loaded).covers > at {
            writer.set_state("").map_err(|e| e.body())?;
        }
    }
    Ok(undone)
}

pub(crate) fn failure(error: &CheckpointError) -> ErrorBody {
    let kind = match error {
        CheckpointError::Io { .. } => ErrorKind::Disk,
        CheckpointError::Damaged { .. } | CheckpointError::Record(_) => ErrorKind::Damaged,
    };
    ErrorBody::new(kind, error.to_string())
}

type Kept = (BTreeMap<usize, Changes>, Option<(usize, Changes)>);

impl Checkpoints {
    /// What the turns of a session changed; and, apart, what was found of a call in which the process died.
    pub(crate) fn kept(&self, store: &SessionStore, session: &str) -> Result<Kept, CheckpointError> {
        let records = store.checkpoints(session).map_err(|e| CheckpointError::Record(e.to_string()))?;
        let read = |(at, text): (usize, String)| {
            serde_json::from_str(&text).map(|changes| (at, changes)).map_err(|e| CheckpointError::Record(e.to_string()))
        };
        let kept = records.into_iter().map(read).collect::<Result<BTreeMap<_, _>, _>>()?;
        let found = self.interrupted(session, &kept);
        Ok((kept, found))
    }

    /// Puts back what `changes` says, of a turn of these messages.
    ///
    /// # Errors
    /// Nothing is changed where somebody else changed one of the files since, unless `force` is given.
    pub(crate) fn undo(
        &self,
        turn: &[Message],
        changes: Option<&Changes>,
        force: bool,
        look: bool,
    ) -> Result<Undone, ErrorBody> {
        let mut undone = Undone::of(turn);
        let Some(changes) = changes else { return Ok(undone) };
        undone.notes.clone_from(&changes.notes);
        if changes.files.is_empty() {
            return Ok(undone);
        }
        let root =
            Root::open(&changes.workspace).map_err(|e| failure(&CheckpointError::io("open", &changes.workspace, e)))?;
        let mut todo = BTreeMap::new();
        let mut conflicts = Vec::new();
        for (path, change) in &changes.files {
            match root.look(path, None) {
                Ok(now) if now == change.before => {}
                Ok(_) if !change.before.is_known() => {
                    undone.left.push((path.clone(), "its content before was not kept".to_owned()));
                }
                Ok(now) => {
                    if now != change.after || change.mixed {
                        conflicts.push(path.clone());
                    }
                    todo.insert(path.clone(), (now, change));
                }
                // What the turn put in the place of a folder above it goes first, and nothing of it is there now.
                Err(_) if change.before.is_known() && replaced_above(changes, path) => {
                    todo.insert(path.clone(), (Entry::Missing, change));
                }
                Err(error) => undone.left.push((path.clone(), format!("it cannot be reached: {error}"))),
            }
        }
        if !conflicts.is_empty() && !force {
            return Err(changed_since(&conflicts));
        }
        if look {
            undone.files = todo.iter().map(|(path, (now, change))| (path.clone(), kind(now, change))).collect();
            return Ok(undone);
        }
        self.put_back(&root, &todo, &mut undone);
        Ok(undone)
    }

    fn put_back(&self, root: &Root, todo: &BTreeMap<String, (Entry, &Change)>, undone: &mut Undone) {
        let mut done = |path: &str, now: &Entry, change: &Change, result: Result<bool, String>| match result {
            Ok(true) => undone.files.push((path.to_owned(), kind(now, change))),
            Ok(false) => undone.left.push((path.to_owned(), "the folder is not empty".to_owned())),
            Err(problem) => undone.left.push((path.to_owned(), problem)),
        };
        let folder = |entry: &Entry| matches!(entry, Entry::Folder { .. });
        // First what is in the way, what lies deepest before its folder.
        for (path, (now, change)) in todo.iter().rev() {
            let gone = change.before == Entry::Missing;
            let in_the_way = folder(now) != folder(&change.before);
            if *now != Entry::Missing && (gone || in_the_way) {
                let removed = root.remove(path, folder(now)).map_err(|e| e.to_string());
                if gone || removed != Ok(true) {
                    done(path, now, change, removed);
                }
            }
        }
        for (path, (now, change)) in todo {
            if let Entry::Folder { mode } = change.before {
                done(path, now, change, root.put_folder(path, mode).map(|()| true).map_err(|e| e.to_string()));
            }
        }
        for (path, (now, change)) in todo {
            let result = match &change.before {
                Entry::File { digest, mode } => self
                    .store
                    .get(digest)
                    .map_err(|e| e.to_string())
                    .and_then(|bytes| root.put_file(path, &bytes, *mode).map_err(|e| e.to_string())),
                Entry::Link { target } => root.put_link(path, target).map_err(|e| e.to_string()),
                _ => continue,
            };
            done(path, now, change, result.map(|()| true));
        }
        undone.files.sort_by(|a, b| a.0.cmp(&b.0));
    }
}

/// A folder that `path` was in is something else since the turn, and is put back with it.
fn replaced_above(changes: &Changes, path: &str) -> bool {
    let folder = |entry: &Entry| matches!(entry, Entry::Folder { .. });
    let mut above = Path::new(path).ancestors().skip(1).filter_map(|above| changes.files.get(above.to_str()?));
    above.any(|change| folder(&change.before) && !folder(&change.after))
}

fn kind(now: &Entry, change: &Change) -> Restored {
    match (&change.before, now) {
        (Entry::Missing, _) => Restored::Removed,
        (_, Entry::Missing) => Restored::MadeAgain,
        _ => Restored::Restored,
    }
}

fn changed_since(paths: &[String]) -> ErrorBody {
    let named: Vec<&str> = paths.iter().take(NAMED).map(String::as_str).collect();
    let more = paths.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = format!("changed since, perhaps by somebody else, and not overwritten: {}{more}", named.join(", "));
    ErrorBody::new(ErrorKind::Conflict, message)
        .hint("keep a copy of what is wanted; with --force they are overwritten")
}
