//! How sessions are made: the binary knows models, settings and folders; front ends only say what they want.

use futures::future::BoxFuture;
use jarvis_agent::{External, Mode, Session};
use jarvis_dispatch::{Dispatch, Editor};
use jarvis_memory::SessionStore;
use jarvis_model::ModelHandle;
use jarvis_policy::Approval;
use jarvis_protocol::{ErrorBody, Message};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a front end asks for.
#[derive(Debug, Clone, Default)]
pub struct Open {
    /// An absolute path; the usual one if none is named.
    pub workspace: Option<PathBuf>,
    /// `provider/model`; that of the session or the usual one if none is named.
    pub model: Option<String>,
    /// Goes on with a session that was kept: its id.
    pub resume: Option<String>,
    /// What is done where a yes is due; as set up if none is named.
    pub approval: Option<Approval>,
    /// Nothing of it is kept on disk.
    pub unkept: bool,
    /// Nobody can answer questions: each is a no.
    pub unattended: bool,
    /// Has files of the workspace open.
    pub editor: Option<Arc<dyn Editor>>,
    /// What was said before, of one that is not kept.
    pub history: Vec<Message>,
    /// Connected for this session alone, and ended with it.
    pub servers: Vec<Server>,
}

/// A server of tools that a front end brings along.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    /// For people: any text.
    pub name: String,
    pub place: Place,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    Program { command: PathBuf, args: Vec<String>, env: Vec<(String, String)> },
    Address { url: String, headers: Vec<(String, String)> },
}

/// Values of variables and headers may be keys.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Program { command, .. } => write!(f, "{} ({})", self.name, command.display()),
            Place::Address { url, .. } => write!(f, "{} ({url})", self.name),
        }
    }
}

/// A session that is ready for its first turn.
pub struct Made {
    pub session: Session,
    pub workspace: PathBuf,
    /// What is done where a yes is due.
    pub approval: Approval,
    /// What could not be had, for a person.
    pub notices: Vec<String>,
}

/// Makes sessions and knows those that were kept.
pub trait Maker: Send + Sync {
    fn make<'a>(&'a self, open: &'a Open, cancel: &'a CancellationToken) -> BoxFuture<'a, Result<Made, ErrorBody>>;

    /// The model of that name, ready to answer.
    fn model<'a>(
        &'a self,
        named: &'a str,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(ModelHandle, Mode), ErrorBody>>;

    /// What calls of a session pass through.
    fn dispatch(
        &self,
        workspace: &Path,
        approval: Approval,
        editor: Option<Arc<dyn Editor>>,
    ) -> Result<Arc<Dispatch>, ErrorBody>;

    /// Tools of servers outside, those that are set up and `brought` ones, whose calls pass through `dispatch`.
    fn external(&self, dispatch: &Arc<Dispatch>, brought: &[Server]) -> Result<Option<Arc<dyn External>>, ErrorBody>;

    fn store(&self) -> Result<SessionStore, ErrorBody>;

    /// What calls pass that no session makes, in the usual folder.
    fn usual_dispatch(&self) -> Result<Arc<Dispatch>, ErrorBody>;
}
