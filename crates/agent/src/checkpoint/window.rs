//! The calls of one turn that may change files, and what they changed.

use super::entry::{Changes, Entry};
use super::manifest::{Bounds, Manifest, Unfollowed, Walk};
use super::place::Root;
use super::{CheckpointError, Checkpoints};
use crate::agents::DELEGATE;
use crate::bootstrap;
use crate::create::CREATE_TOOL;
use crate::remember::{RECALL, REMEMBER};
use crate::skills::SKILL;
use jarvis_dispatch::{Dispatch, full_path};
use jarvis_protocol::{CapabilityName, Event, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const TOO_LARGE: &str = "the workspace is too large to be followed: what commands and capabilities change in it cannot be \
                         undone, only what the file tools change";
const UNREADABLE: &str =
    "the workspace could not be looked through: what commands and capabilities changed cannot be undone";
const UNSEEN: &str =
    "jarvis ended in the middle of a call: what is in the files now may be the call's work or somebody's after it";
const LOST: &str = "jarvis ended in the middle of a call; what it changed is not known";

/// What a call may change.
enum Scope {
    /// One file of the workspace, by its path below it.
    File(String),
    Workspace,
}

/// The files of one turn. Shared by its subagents.
#[derive(Debug)]
pub(crate) struct TurnFiles {
    checkpoints: Checkpoints,
    workspace: PathBuf,
    /// Under which an open call is known to the next process.
    session: String,
    /// The message that the turn begins at.
    pub at: usize,
    open: tokio::sync::Mutex<Open>,
    changes: Mutex<(Changes, bool)>,
}

/// Calls that run now.
#[derive(Debug, Default)]
struct Open {
    calls: usize,
    /// The workspace before the first of them.
    before: Option<Arc<Manifest>>,
    files: BTreeMap<String, Entry>,
}

/// On disk while a call runs.
#[derive(Debug, Serialize, Deserialize)]
struct Marker {
    at: usize,
    workspace: PathBuf,
    /// Of the index as it was before the call.
    digest: String,
    /// What earlier calls of the turn changed: of a reply that did not end it is in no other place.
    #[serde(default)]
    changes: Changes,
}

impl TurnFiles {
    pub fn new(checkpoints: Checkpoints, workspace: &Path, session: &str, at: usize) -> Self {
        let changes = Changes { workspace: workspace.to_owned(), ..Changes::default() };
        let session = session.to_owned();
        let workspace = workspace.to_owned();
        Self { checkpoints, workspace, session, at, open: Default::default(), changes: Mutex::new((changes, false)) }
    }

    /// Before a call. Gives whether [`TurnFiles::leave`] must follow.
    pub async fn enter(&self, call: &ToolCall, dispatch: &Dispatch, emit: &mut (dyn FnMut(Event) + Send)) -> bool {
        let Some(scope) = self.scope(call, dispatch) else { return false };
        let mut open = self.open.lock().await;
        match scope {
            Scope::File(path) => {
                // Folders that are made on the way to it are changes, too.
                let mut above: Vec<String> = Path::new(&path)
                    .ancestors()
                    .skip(1)
                    .filter_map(|folder| folder.to_str().filter(|folder| !folder.is_empty()).map(str::to_owned))
                    .collect();
                above.reverse();
                for folder in above {
                    if let Some(Entry::Missing) = self.look(&folder).await {
                        open.files.entry(folder).or_insert(Entry::Missing);
                    }
                }
                if let Some(entry) = self.look(&path).await {
                    open.files.entry(path).or_insert(entry);
                }
            }
            Scope::Workspace if open.before.is_none() => match self.walk().await {
                Ok(manifest) => {
                    self.mark(&manifest);
                    open.before = Some(Arc::new(manifest));
                }
                Err(unfollowed) => self.tell(&unfollowed, emit),
            },
            Scope::Workspace => {}
        }
        open.calls += 1;
        true
    }

    /// A second look before the call begins. Beside other calls the files are not only a person's, so the first one stays.
    pub async fn again(&self) {
        let mut open = self.open.lock().await;
        if open.calls != 1 {
            return;
        }
        for (path, entry) in &mut open.files {
            if let Some(now) = self.look(path).await {
                *entry = now;
            }
        }
        if open.before.is_some()
            && let Ok(manifest) = self.walk().await
        {
            self.mark(&manifest);
            open.before = Some(Arc::new(manifest));
        }
    }

    /// After it.
    pub async fn leave(&self, emit: &mut (dyn FnMut(Event) + Send)) {
        let mut open = self.open.lock().await;
        open.calls = open.calls.saturating_sub(1);
        if open.calls > 0 {
            return;
        }
        let Open { before, files, .. } = std::mem::take(&mut *open);
        let mut found: Vec<(String, Entry, Entry)> = Vec::new();
        if let Some(before) = before {
            match self.walk().await {
                Ok(after) => {
                    found.extend(before.compare(&after).map(|(path, was, is)| (path.to_owned(), was, is)));
                    if let Err(error) = self.checkpoints.save_index(&self.workspace, &after) {
                        tracing::warn!(%error, "the workspace will be read anew");
                    }
                }
                Err(unfollowed) => self.tell(&unfollowed, emit),
            }
            self.checkpoints.store.remove(&marker(&self.session));
        }
        for (path, before) in files {
            found.retain(|(known, ..)| *known != path);
            if let Some(after) = self.look(&path).await {
                found.push((path, before, after));
            }
        }
        self.enter_all(found);
    }

    /// What was changed since this was asked last, if anything was.
    pub fn news(&self) -> Option<Changes> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut changes.1).then(|| changes.0.clone())
    }

    fn enter_all(&self, found: Vec<(String, Entry, Entry)>) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        for (path, before, after) in found {
            changes.0.enter(&path, before, after);
            changes.1 = true;
        }
    }

    fn tell(&self, unfollowed: &Unfollowed, emit: &mut (dyn FnMut(Event) + Send)) {
        let note = match unfollowed {
            Unfollowed::TooLarge => TOO_LARGE,
            Unfollowed::Io(error) => {
                tracing::warn!(%error, "the workspace cannot be looked through");
                UNREADABLE
            }
        };
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.0.note(note);
        changes.1 = true;
        if self.checkpoints.first_time() {
            emit(Event::Notice { message: note.to_owned() });
        }
    }

    /// None: it changes no file, or one that is not followed.
    fn scope(&self, call: &ToolCall, dispatch: &Dispatch) -> Option<Scope> {
        let writes = |grants: &Value| grants["write"].as_array().is_some_and(|paths| !paths.is_empty());
        match call.name.as_str() {
            "file_write" | "file_edit" => self.below(call.args.get("path").and_then(Value::as_str)?).map(Scope::File),
            bootstrap::EXECUTE => {
                let name = CapabilityName::new(call.args.get("name").and_then(Value::as_str)?).ok()?;
                // One that is not there, or cannot be read, does not run.
                let capability = dispatch.registry().resolve(&name).ok()??;
                (!capability.grants.write.is_empty()).then_some(Scope::Workspace)
            }
            // Its examples are run.
            bootstrap::REGISTER => writes(&call.args["definition"]["grants"]).then_some(Scope::Workspace),
            // What computes, looks, or does its work by calls of its own.
            CREATE_TOOL | SKILL | bootstrap::LIST | DELEGATE | REMEMBER | RECALL => None,
            "file_read" | "file_list" | "file_search" | "http_request" => None,
            // Of a tool that is not known here, anything may be expected.
            _ => Some(Scope::Workspace),
        }
    }

    /// A path below the workspace, as the file tools understand it.
    fn below(&self, path: &str) -> Option<String> {
        let full = full_path(path, &self.workspace);
        let below = full.strip_prefix(&self.workspace).ok()?.to_str()?;
        (!below.is_empty()).then(|| below.to_owned())
    }

    /// None: it cannot be looked at, such as behind a link, where the file tools do not write either.
    async fn look(&self, path: &str) -> Option<Entry> {
        let (checkpoints, workspace, path) = (self.checkpoints.clone(), self.workspace.clone(), path.to_owned());
        let work = move || Root::open(&workspace)?.look(&path, Some(&checkpoints.store));
        tokio::task::spawn_blocking(work).await.ok()?.ok()
    }

    async fn walk(&self) -> Result<Manifest, Unfollowed> {
        let (checkpoints, workspace) = (self.checkpoints.clone(), self.workspace.clone());
        let lost = |e: tokio::task::JoinError| Unfollowed::Io(std::io::Error::other(e));
        tokio::task::spawn_blocking(move || walk(&checkpoints, &workspace)).await.map_err(lost)?
    }

    fn mark(&self, manifest: &Manifest) {
        let kept = self.checkpoints.save_index(&self.workspace, manifest).and_then(|digest| {
            let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner).0.clone();
            let marker = Marker { at: self.at, workspace: self.workspace.clone(), digest, changes };
            let bytes = serde_json::to_vec(&marker).map_err(|e| CheckpointError::Record(e.to_string()))?;
            self.checkpoints.store.write(&self::marker(&self.session), &bytes)
        });
        if let Err(error) = kept {
            tracing::warn!(%error, "should jarvis die now, this call could not be undone");
        }
    }
}

fn marker(session: &str) -> String {
    format!("open/{session}")
}

fn walk(checkpoints: &Checkpoints, workspace: &Path) -> Result<Manifest, Unfollowed> {
    let known = checkpoints.index(workspace);
    let walk = Walk {
        store: &checkpoints.store,
        workspace,
        never: &checkpoints.never,
        bounds: Bounds::STANDARD,
        known: &known,
    };
    walk.run()
}

impl Checkpoints {
    /// For a turn of a conversation; none where nothing of the workspace may be looked at.
    pub(crate) fn turn(&self, workspace: &Path, session: &str, at: usize) -> Option<Arc<TurnFiles>> {
        self.may_follow(workspace).then(|| Arc::new(TurnFiles::new(self.clone(), workspace, session, at)))
    }

    /// What a call changed in which the process died, with the message that its turn begins at: all that is different
    /// now, whoever did it.
    pub(crate) fn interrupted(&self, session: &str, kept: &BTreeMap<usize, Changes>) -> Option<(usize, Changes)> {
        let marker: Marker = serde_json::from_slice(&self.store.read(&marker(session))?).ok()?;
        self.store.remove(&self::marker(session));
        let mut changes = marker.changes;
        if changes.files.is_empty() {
            changes = kept.get(&marker.at).cloned().unwrap_or_default();
        }
        changes.workspace.clone_from(&marker.workspace);
        let same = self.store.read(&Self::index_name(&marker.workspace));
        let before = same
            .filter(|bytes| blake3::hash(bytes).to_hex().as_str() == marker.digest)
            .and_then(|bytes| serde_json::from_slice::<Manifest>(&bytes).ok());
        match (before, walk(self, &marker.workspace)) {
            (Some(before), Ok(after)) => {
                for (path, was, is) in before.compare(&after) {
                    changes.enter(path, was, is);
                    // Nobody saw how the call left it: what is there now may be the person's.
                    if let Some(change) = changes.files.get_mut(path) {
                        change.mixed = true;
                    }
                }
                changes.note(UNSEEN);
            }
            _ => changes.note(LOST),
        }
        Some((marker.at, changes))
    }
}
