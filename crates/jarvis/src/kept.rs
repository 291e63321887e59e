//! What outlives a conversation: the session it is kept in.

use crate::cli::Place;
use crate::config::Settings;
use crate::error::{Failure, Outcome, unreadable};
use crate::home::Home;
use crate::model::{self, Choice};
use crate::{run, term};
use jarvis_agent::{Record, Session, Strategy};
use jarvis_memory::{Loaded, NewSession, SessionError, SessionInfo, SessionStore, SessionWriter};
use jarvis_model::Embedder;
use jarvis_protocol::{ErrorBody, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The session of this folder that changed last.
pub const LATEST: &str = "latest";

/// Where a conversation is written, and what it goes on from.
pub struct Kept {
    /// None where it cannot be opened; then nothing is kept, and that was said.
    store: Option<SessionStore>,
    resumed: Option<(SessionWriter, Loaded)>,
    workspace: String,
    /// Of a session that is not there yet, where its id must be known before its first message.
    id: Option<String>,
    pub embedder: Option<Arc<dyn Embedder>>,
}

pub fn sessions(home: &Home) -> Outcome<SessionStore> {
    Ok(SessionStore::open(&home.sessions())?)
}

/// How a session knows its folder again: with no link in its path, as the current folder is named once it is entered.
pub fn workspace(place: &Place) -> Outcome<String> {
    let folder = match &place.workspace {
        Some(folder) => std::fs::canonicalize(folder).map_err(|e| unreadable(folder, &e))?,
        None => run::workspace()?,
    };
    Ok(folder.to_string_lossy().into_owned())
}

/// The session that `id` names.
pub fn find(store: &SessionStore, id: &str, workspace: &str) -> Outcome<SessionInfo> {
    if id != LATEST {
        return Ok(store.find(id)?);
    }
    let none = || {
        let body = ErrorBody::new(ErrorKind::NotFound, "this folder has no session yet");
        Failure::Body(body.hint("`jarvis session list --all` shows those of all folders; go on with one by its id"))
    };
    store.latest_for(workspace)?.ok_or_else(none)
}

impl Kept {
    pub fn open(
        home: &Home,
        embedder: Option<Arc<dyn Embedder>>,
        resume: Option<&str>,
        place: &Place,
    ) -> Outcome<Kept> {
        let workspace = workspace(place)?;
        let store = match (sessions(home), resume) {
            (Ok(store), _) => Some(store),
            (Err(failure), Some(_)) => return Err(failure),
            // A question is answered all the same.
            (Err(failure), None) => {
                term::note(format!("note: this conversation is not kept: {}", failure.message()));
                None
            }
        };
        let resumed = match (&store, resume) {
            (Some(store), Some(id)) => Some(store.resume(&find(store, id, &workspace)?.id)?),
            _ => None,
        };
        Ok(Kept { store, resumed, workspace, id: None, embedder })
    }

    /// Of a hosted session: what cannot be kept is an error, and its id is known from the start.
    pub fn hosted(
        store: SessionStore,
        embedder: Option<Arc<dyn Embedder>>,
        resume: Option<&str>,
        workspace: &Path,
    ) -> Outcome<Kept> {
        // A program names one by its whole id.
        let whole = |id: &str| match store.find(id) {
            Ok(found) if found.id == id => Ok(store.resume(id)?),
            Ok(_) | Err(SessionError::Ambiguous { .. }) => Err(SessionError::NotFound(id.to_owned())),
            Err(error) => Err(error),
        };
        let resumed = resume.map(whole).transpose()?;
        let id = if resumed.is_none() { Some(store.fresh_id()?) } else { None };
        Ok(Kept { store: Some(store), resumed, workspace: workspace.to_string_lossy().into_owned(), id, embedder })
    }

    /// The folder that a session which is gone on with worked in.
    pub fn folder(&self) -> Option<PathBuf> {
        self.resumed.as_ref().and_then(|(_, loaded)| loaded.info.workspace.as_ref()).map(PathBuf::from)
    }

    /// The model of the flag, or that of the session, or the usual one.
    pub fn choose(&self, settings: &Settings, flag: Option<&str>) -> Outcome<Choice> {
        let own = self.resumed.as_ref().and_then(|(_, loaded)| loaded.info.model.as_deref());
        match (flag, own) {
            (None, Some(own)) => model::resolve(settings, own, "the model of this session; --model names another"),
            _ => model::choose(settings, flag),
        }
    }

    /// What is gone on with, for a person.
    pub fn tell(&self) {
        let Some((_, loaded)) = &self.resumed else { return };
        let name = term::cut(loaded.info.name(), 60);
        term::status(format!("going on with “{name}” ({}, {} messages)", loaded.info.id, loaded.messages.len()));
        if loaded.interrupted > 0 {
            term::status(format!("{} calls had been cut off; the model is told so", loaded.interrupted));
        }
    }

    pub fn record(self, session: Session, model: &str, strategy: Strategy) -> Session {
        match (self.store, self.resumed) {
            (Some(store), Some((writer, loaded))) => session.resumed(store, writer, loaded),
            (Some(store), None) => session.recorded(Record::new(
                store,
                NewSession {
                    id: self.id,
                    title: None,
                    workspace: Some(self.workspace),
                    model: Some(model.to_owned()),
                    strategy: Some(strategy.as_str().to_owned()),
                },
            )),
            (None, _) => session,
        }
    }
}
