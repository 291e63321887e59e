//! Sessions for the front ends that have many: each in its own folder, with models, notes and workers shared.

use crate::cli::{Reach, Turn};
use crate::config::{self, Settings};
use crate::error::{Failure, Outcome, failed, usage};
use crate::home::Home;
use crate::kept::{self, Kept};
use crate::model::{self, Choice};
use crate::{notes, run, workshop};
use futures::future::BoxFuture;
use jarvis_agent::{External, Memory, Mode};
use jarvis_dispatch::Dispatch;
use jarvis_forge::Forge;
use jarvis_host::{Editor, Host, Limits, Made, Maker, Open, Place, Server};
use jarvis_mcp::client::{ServerConfig, bring};
use jarvis_memory::{MemoryStore, SessionStore};
use jarvis_model::{Backend, Embedder, ModelHandle};
use jarvis_policy::Approval;
use jarvis_protocol::{ErrorBody, ErrorKind};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// Tools of servers outside, and what could not be had of them.
type Servers = (Option<Arc<dyn External>>, Vec<String>);

/// Models by their names, the one that was wanted last at the end.
#[derive(Default)]
struct Backends(Mutex<Vec<(String, Slot)>>);

/// One that is being got ready is waited for by whoever wants it too, and by nobody else.
type Slot = Arc<OnceCell<Arc<dyn Backend>>>;

/// Models that no session uses and that are kept all the same, as the next one may want them again.
const UNUSED: usize = 3;
/// Whoever gets a model ready tidies up when it is cancelled; a wait for somebody else's ends after this.
const TIDYING: Duration = Duration::from_secs(2);

impl Backends {
    fn slot(&self, id: &str) -> Slot {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = match known.iter().position(|(name, _)| name == id) {
            Some(at) => known.remove(at).1,
            None => Slot::default(),
        };
        let unused = |slot: &Slot| {
            Arc::strong_count(slot) == 1 && slot.get().is_none_or(|backend| Arc::strong_count(backend) == 1)
        };
        let mut spare = known.iter().filter(|(_, slot)| unused(slot)).count();
        known.retain(|(_, slot)| {
            let gone = spare > UNUSED && unused(slot);
            spare -= usize::from(gone);
            !gone
        });
        known.push((id.to_owned(), slot.clone()));
        slot
    }

    async fn get(
        &self,
        id: &str,
        making: impl Future<Output = Outcome<Arc<dyn Backend>>>,
        cancel: &CancellationToken,
    ) -> Outcome<Arc<dyn Backend>> {
        let slot = self.slot(id);
        let late = async {
            cancel.cancelled().await;
            tokio::time::sleep(TIDYING).await;
        };
        tokio::select! {
            made = slot.get_or_try_init(|| making) => made.cloned(),
            () = late => Err(failed(ErrorKind::Cancelled, "cancelled")),
        }
    }
}

/// What is the same for all sessions of a process.
struct Shared {
    settings: Settings,
    home: Home,
    /// What the front end's own command line says of turns.
    flags: Turn,
    /// The front end, on the audit.
    actor: &'static str,
    workspace: PathBuf,
    store: SessionStore,
    embedder: Option<Arc<dyn Embedder>>,
    memory: Option<Memory>,
    /// `--model`.
    model: Option<String>,
    backends: Backends,
    /// The sessions of a folder share their workers, which end with the last of them.
    dispatches: Mutex<HashMap<(PathBuf, Approval), Weak<Dispatch>>>,
    /// What runs without a session pass through. Kept from the first of them on, so that the next one finds it warm.
    usual: OnceLock<Arc<Dispatch>>,
}

/// A host of sessions, and what its sessions share that a front end looks into as well.
pub struct Hosted {
    pub host: Host,
    pub embedder: Option<Arc<dyn Embedder>>,
    pub memory: Option<Arc<dyn MemoryStore>>,
}

/// A host of sessions; the current folder is where those work that name none.
pub fn hosted(flags: Turn, named: Option<String>, actor: &'static str, limits: Limits) -> Outcome<Hosted> {
    let home = Home::find()?;
    let settings = config::load(&home)?;
    let embedder = model::embedder(&settings, &home)?;
    let memory = notes::memory(&home, &settings, embedder.clone(), &flags.reach);
    let shared = Shared {
        store: kept::sessions(&home)?,
        workspace: run::workspace()?,
        embedder,
        memory,
        settings,
        home,
        flags,
        actor,
        model: named,
        backends: Backends::default(),
        dispatches: Mutex::default(),
        usual: OnceLock::new(),
    };
    let (embedder, memory) = (shared.embedder.clone(), shared.memory.as_ref().map(|memory| memory.store.clone()));
    Ok(Hosted { host: Host::new(Arc::new(shared), limits), embedder, memory })
}

/// The host alone.
pub fn host(flags: Turn, named: Option<String>, actor: &'static str, limits: Limits) -> Outcome<Host> {
    Ok(hosted(flags, named, actor, limits)?.host)
}

impl Shared {
    fn folder(&self, named: Option<&Path>) -> Outcome<PathBuf> {
        let Some(folder) = named else { return Ok(self.workspace.clone()) };
        if !folder.is_absolute() {
            return Err(usage(format!("the folder {} is no absolute path", folder.display()), "give the whole path"));
        }
        let found = std::fs::canonicalize(folder).ok().filter(|found| found.is_dir());
        found.ok_or_else(|| usage(format!("there is no folder {}", folder.display()), "name one that exists"))
    }

    fn dispatch(
        &self,
        workspace: &Path,
        approval: Approval,
        editor: Option<Arc<dyn Editor>>,
    ) -> Outcome<Arc<Dispatch>> {
        // An editor's files are those of one session.
        if editor.is_some() {
            return Ok(Arc::new(self.new_dispatch(workspace, approval)?.with_editor(editor)));
        }
        let mut known = self.dispatches.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, dispatch| dispatch.strong_count() > 0);
        let key = (workspace.to_owned(), approval);
        if let Some(dispatch) = known.get(&key).and_then(Weak::upgrade) {
            return Ok(dispatch);
        }
        let made = Arc::new(self.new_dispatch(workspace, approval)?);
        known.insert(key, Arc::downgrade(&made));
        Ok(made)
    }

    fn new_dispatch(&self, workspace: &Path, approval: Approval) -> Outcome<Dispatch> {
        let settings = Settings { approve: approval, ..self.settings.clone() };
        let reach = Reach { approve: None, ..self.flags.reach.clone() };
        run::dispatch_in(&settings, &reach, &self.home, workspace.to_owned(), self.actor)
    }

    async fn answerer(&self, choice: &Choice, cancel: &CancellationToken) -> Outcome<run::Answerer> {
        let making = run::backend(choice, &self.settings, &self.flags.tape, &self.home, cancel);
        let backend = async || self.backends.get(&choice.id, making, cancel).await;
        run::answerer_with(choice, &self.settings, &self.flags, backend).await
    }

    /// Those that are set up with those of the session; what is left out of them is told.
    fn external(&self, dispatch: &Arc<Dispatch>, brought: &[Server]) -> Outcome<Servers> {
        let mut configs = self.settings.mcp.servers.clone();
        let left = bring(&mut configs, &self.settings.mcp.editor, brought.iter().map(in_config));
        let notices = left.into_iter().map(|(name, why)| format!("the MCP server `{name}` is not connected: {why}"));
        Ok((run::external_of(configs, dispatch.clone(), &self.home)?, notices.collect()))
    }

    async fn made(&self, open: &Open, cancel: &CancellationToken) -> Outcome<Made> {
        let resume = open.resume.as_deref();
        let named = open.workspace.as_deref();
        let kept = Kept::hosted(self.store.clone(), self.embedder.clone(), resume, &self.folder(named)?)?;
        // A session that is gone on with works where it did, unless it is told otherwise.
        let workspace = self.folder(named.or(kept.folder().as_deref()))?;
        let choice = kept.choose(&self.settings, open.model.as_deref().or(self.model.as_deref()));
        let choice = choice.map_err(unauthenticated)?;
        let approval = open.approval.or(self.flags.reach.approve.map(Approval::from)).unwrap_or(self.settings.approve);
        let forge = Forge::new(self.dispatch(&workspace, approval, open.editor.clone())?);
        let (external, notices) = self.external(forge.dispatch(), &open.servers)?;
        let answerer = self.answerer(&choice, cancel).await?;
        let model = answerer.handle.id().to_owned();
        let memory = self.memory.as_ref().map(|memory| Memory { keeps: approval == Approval::Auto, ..memory.clone() });
        let session = run::unkept(answerer, forge, &self.settings, &self.flags, self.embedder.clone())
            .with_memory(memory)
            .with_agents(run::agents_in(&self.home, &workspace))
            .with_checkpoints(run::checkpoints(&self.home))
            .with_workshop(workshop::workshop(&self.home, &workspace))
            .with_external(external);
        let session = if self.settings.titles { session.with_titles() } else { session };
        let session = if open.unkept {
            session.with_history(open.history.clone())
        } else {
            kept.record(session, &model, self.settings.context)
        };
        Ok(Made { session, workspace, approval, notices })
    }
}

impl Maker for Shared {
    fn make<'a>(&'a self, open: &'a Open, cancel: &'a CancellationToken) -> BoxFuture<'a, Result<Made, ErrorBody>> {
        Box::pin(async move { self.made(open, cancel).await.map_err(body) })
    }

    fn model<'a>(
        &'a self,
        named: &'a str,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(ModelHandle, Mode), ErrorBody>> {
        Box::pin(async move {
            let choice = model::resolve(&self.settings, named, "asked for by name");
            let choice = choice.map_err(unauthenticated).map_err(body)?;
            let answerer = self.answerer(&choice, cancel).await.map_err(body)?;
            Ok((answerer.handle, answerer.mode))
        })
    }

    fn dispatch(
        &self,
        workspace: &Path,
        approval: Approval,
        editor: Option<Arc<dyn Editor>>,
    ) -> Result<Arc<Dispatch>, ErrorBody> {
        Shared::dispatch(self, workspace, approval, editor).map_err(body)
    }

    fn store(&self) -> Result<SessionStore, ErrorBody> {
        Ok(self.store.clone())
    }

    fn external(&self, dispatch: &Arc<Dispatch>, brought: &[Server]) -> Result<Option<Arc<dyn External>>, ErrorBody> {
        Ok(Shared::external(self, dispatch, brought).map_err(body)?.0)
    }

    fn usual_dispatch(&self) -> Result<Arc<Dispatch>, ErrorBody> {
        if let Some(usual) = self.usual.get() {
            return Ok(usual.clone());
        }
        // By the settings and flags that this process began with, which are the same for every caller.
        let approval = self.flags.reach.approve.map_or(self.settings.approve, Approval::from);
        let made = self.dispatch(&self.workspace, approval, None).map_err(body)?;
        Ok(self.usual.get_or_init(|| made).clone())
    }
}

/// As if it were set up in the config.
fn in_config(server: &Server) -> (String, ServerConfig) {
    let config = match server.place.clone() {
        Place::Program { command, args, env } => ServerConfig {
            command: Some(command.to_string_lossy().into_owned()),
            args,
            env: env.into_iter().collect(),
            ..ServerConfig::default()
        },
        Place::Address { url, headers } => {
            ServerConfig { url: Some(url), headers: headers.into_iter().collect(), ..ServerConfig::default() }
        }
    };
    (server.name.clone(), config)
}

/// A key that is missing is what a front end can ask for.
pub fn unauthenticated(failure: Failure) -> Failure {
    match failure {
        Failure::Body(body) if model::lacks_key(&body) => Failure::Body(ErrorBody { kind: ErrorKind::Auth, ..body }),
        other => other,
    }
}

/// A failure as a front end tells it.
pub fn body(failure: Failure) -> ErrorBody {
    match failure {
        Failure::Body(body) => body,
        other => ErrorBody::new(ErrorKind::Internal, other.message()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_testkit::ScriptedModel;

    #[tokio::test]
    async fn a_model_that_is_got_ready_holds_up_nobody_who_wants_another() {
        let backends = Backends::default();
        let cancel = CancellationToken::new();
        let made = || async { Ok(ScriptedModel::new(Vec::new()) as Arc<dyn Backend>) };
        let never = std::future::pending::<Outcome<Arc<dyn Backend>>>();
        let mut downloads = std::pin::pin!(backends.get("local/big", never, &cancel));
        assert!(futures::poll!(downloads.as_mut()).is_pending());
        let other = backends.get("a/b", made(), &cancel).await.ok().unwrap();
        let again = backends.get("a/b", async { panic!("it is there") }, &cancel).await.ok().unwrap();
        assert!(Arc::ptr_eq(&other, &again));
        // Many names fill nothing: those that are used stay, of others the last ones.
        for number in 0..50 {
            drop(backends.get(&format!("a/{number}"), made(), &cancel).await);
        }
        let known = backends.0.lock().unwrap();
        assert!(known.len() <= UNUSED + 3 && known.iter().any(|(id, _)| id == "a/b"), "{}", known.len());
        assert!(known.iter().any(|(id, _)| id == "local/big"));
    }
}
