//! Sessions of an editor: opened, found again, listed, set and closed.

use crate::agent::{Agent, Connection};
use crate::desk::Desk;
use crate::errors::{told, wrong};
use crate::{commands, replay, settings, tell};
use agent_client_protocol as acp;
use agent_client_protocol::v1::schema::{
    AvailableCommandsUpdate, CloseSessionResponse, ConfigOptionUpdate, CurrentModeUpdate, DeleteSessionResponse, Error,
    HttpHeader, ListSessionsRequest, ListSessionsResponse, LoadSessionRequest, LoadSessionResponse, McpServer,
    McpServerHttp, McpServerSse, McpServerStdio, NewSessionRequest, NewSessionResponse, NoticeSeverity,
    ResumeSessionRequest, ResumeSessionResponse, SessionConfigOption, SessionId, SessionInfo, SessionModeState,
    SessionUpdate, SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest,
    SetSessionModeResponse,
};
use jarvis_host::{Live, Open, Place, Server};
use jarvis_memory::{SessionError, SessionQuery, SessionStore};
use jarvis_policy::Approval;
use jarvis_protocol::{ErrorBody, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Sessions on one page.
const PAGE: u64 = 50;
/// Characters of a title in a list.
const TITLE: usize = 120;
/// How long a session that is closed may take to let go.
const LETTING_GO: Duration = Duration::from_secs(2);

/// A session with what the connection knows of it.
pub(crate) struct Attached {
    pub live: Arc<Live>,
    pub desk: Arc<Desk>,
    /// What comes into force when the turn that runs ends.
    wanted: Mutex<Option<Approval>>,
    /// The title that was told last.
    title: Mutex<Option<String>>,
    /// Servers of tools that the client brought along when it was opened.
    servers: Vec<Server>,
}

impl Attached {
    pub fn cancel(&self) {
        self.live.cancel();
    }

    fn approval(&self) -> Approval {
        let wanted = *self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.unwrap_or_else(|| self.live.snapshot().approval)
    }

    fn take_wanted(&self) -> Option<Approval> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn want(&self, approval: Approval) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Some(approval);
    }

    fn still_want(&self, approval: Approval) {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(approval);
    }

    /// The title, where it is another one than was told last.
    pub fn new_title(&self, now: &str) -> Option<String> {
        let now = jarvis_protocol::shown_line(now, TITLE);
        let mut title = self.title.lock().unwrap_or_else(PoisonError::into_inner);
        (title.as_ref() != Some(&now)).then(|| title.insert(now).clone())
    }
}

/// None for a way of connecting that was not offered.
fn brought(server: McpServer) -> Option<Server> {
    let pairs = |headers: Vec<HttpHeader>| headers.into_iter().map(|header| (header.name, header.value)).collect();
    match server {
        McpServer::Stdio(McpServerStdio { name, command, args, env, .. }) => {
            let env = env.into_iter().map(|variable| (variable.name, variable.value)).collect();
            Some(Server { name, place: Place::Program { command, args, env } })
        }
        McpServer::Http(McpServerHttp { name, url, headers, .. }) => {
            Some(Server { name, place: Place::Address { url, headers: pairs(headers) } })
        }
        // It is tried as the transport of today: many servers speak both at one address.
        McpServer::Sse(McpServerSse { name, url, headers, .. }) => {
            Some(Server { name, place: Place::Address { url, headers: pairs(headers) } })
        }
        _ => None,
    }
}

impl Agent {
    pub fn session(&self, id: &SessionId) -> acp::Result<Arc<Attached>> {
        let found = self.sessions().get(&*id.0).cloned();
        let found = found.filter(|attached| self.host.get(attached.live.id()).is_some());
        found.ok_or_else(|| Error::session_not_found(id.clone()).into())
    }

    pub async fn new_session(&self, asked: NewSessionRequest, cx: &Connection) -> acp::Result<NewSessionResponse> {
        let NewSessionRequest { cwd, additional_directories, mcp_servers, .. } = asked;
        let (id, attached) = self.open(None, cwd, &additional_directories, mcp_servers, cx).await?;
        let (modes, options) = self.set_up(&attached);
        Ok(NewSessionResponse::new(id).modes(modes).config_options(options))
    }

    pub async fn load_session(&self, asked: LoadSessionRequest, cx: &Connection) -> acp::Result<LoadSessionResponse> {
        let LoadSessionRequest { cwd, additional_directories, mcp_servers, session_id, .. } = asked;
        let (id, attached) = self.open(Some(&session_id), cwd, &additional_directories, mcp_servers, cx).await?;
        let kept = self.stored(move |store| store.load(&session_id.0)).await?;
        for update in replay::updates(&kept.messages, &attached.desk) {
            self.send(&id, update, cx).await;
        }
        let (modes, options) = self.set_up(&attached);
        Ok(LoadSessionResponse::new().modes(modes).config_options(options))
    }

    pub async fn resume_session(
        &self,
        asked: ResumeSessionRequest,
        cx: &Connection,
    ) -> acp::Result<ResumeSessionResponse> {
        let ResumeSessionRequest { cwd, additional_directories, mcp_servers, session_id, .. } = asked;
        let (_, attached) = self.open(Some(&session_id), cwd, &additional_directories, mcp_servers, cx).await?;
        let (modes, options) = self.set_up(&attached);
        Ok(ResumeSessionResponse::new().modes(modes).config_options(options))
    }

    async fn open(
        &self,
        resume: Option<&SessionId>,
        cwd: PathBuf,
        more: &[PathBuf],
        servers: Vec<McpServer>,
        cx: &Connection,
    ) -> acp::Result<(SessionId, Arc<Attached>)> {
        if !more.is_empty() {
            return Err(wrong("additionalDirectories are not taken: sessionCapabilities does not name them"));
        }
        let servers: Vec<Server> = servers.into_iter().filter_map(brought).collect();
        if let Some(attached) = resume.and_then(|id| self.session(id).ok()) {
            let id = SessionId::new(attached.live.id());
            // Open on this connection already: one desk, one folder, one set of servers.
            if attached.servers == servers {
                return Ok((id, attached));
            }
            if attached.live.snapshot().busy {
                return Err(wrong("a turn runs with other MCP servers: load the session when it has ended"));
            }
            self.let_go(&id).await;
        }
        let desk = Arc::new(Desk::new(cx.clone(), self.client().fs, cwd.clone()));
        let open = Open {
            workspace: Some(cwd),
            resume: resume.map(|id| id.0.to_string()),
            editor: Some(desk.clone()),
            servers: servers.clone(),
            ..Open::default()
        };
        let live = self.host.open(&open, &CancellationToken::new()).await.map_err(told)?;
        let id = SessionId::new(live.id());
        desk.opened(id.clone(), live.workspace().clone());
        let attached = Arc::new(Attached { live, desk, wanted: Mutex::default(), title: Mutex::default(), servers });
        let mut sessions = self.sessions();
        sessions.retain(|_, attached| self.host.get(attached.live.id()).is_some());
        sessions.insert(id.0.to_string(), attached.clone());
        Ok((id, attached))
    }

    /// What can be typed, once the client knows the session.
    pub async fn greet(&self, id: Option<&SessionId>, cx: &Connection) {
        let Some(id) = id else { return };
        let update = SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands::all()));
        self.send(id, update, cx).await;
        let Ok(attached) = self.session(id) else { return };
        for text in attached.live.notices() {
            self.send(id, tell::notice(self.understands(), text, NoticeSeverity::Warning), cx).await;
        }
    }

    fn set_up(&self, attached: &Attached) -> (SessionModeState, Vec<SessionConfigOption>) {
        (settings::modes(attached.approval()), self.config(attached))
    }

    fn config(&self, attached: &Attached) -> Vec<SessionConfigOption> {
        settings::options(&attached.live.snapshot(), attached.approval(), &self.options.models)
    }

    pub async fn list_sessions(&self, asked: ListSessionsRequest) -> acp::Result<ListSessionsResponse> {
        let offset = match asked.cursor.as_deref() {
            None => 0,
            Some(cursor) => cursor.parse().map_err(|_| wrong("the cursor is none that was given out"))?,
        };
        // As sessions are kept: with no link in the path.
        let folder = asked.cwd.map(|cwd| std::fs::canonicalize(&cwd).unwrap_or(cwd));
        let workspace = folder.map(|folder| folder.to_string_lossy().into_owned());
        let page =
            self.stored(move |store| store.list(&SessionQuery { text: None, workspace, offset, limit: PAGE })).await?;
        let next = offset + page.sessions.len() as u64;
        let more = (next < page.total && !page.sessions.is_empty()).then(|| next.to_string());
        let sessions = page.sessions.into_iter().map(|info| {
            let title = jarvis_protocol::shown_line(info.name(), TITLE);
            let cwd = info.workspace.unwrap_or_else(|| "/".to_owned());
            SessionInfo::new(info.id, cwd).title(title).updated_at(info.updated.to_string())
        });
        Ok(ListSessionsResponse::new(sessions.collect()).next_cursor(more))
    }

    pub async fn close_session(&self, id: &SessionId) -> acp::Result<CloseSessionResponse> {
        self.session(id)?;
        self.let_go(id).await;
        Ok(CloseSessionResponse::new())
    }

    pub async fn delete_session(&self, id: &SessionId) -> acp::Result<DeleteSessionResponse> {
        self.let_go(id).await;
        let id = id.0.to_string();
        // The store takes the beginning of an id, which a person may type; a program says all of it.
        let whole = id.clone();
        let found = self.stored(move |store| store.find(&whole)).await?;
        if found.id != id {
            return Err(told(ErrorBody::new(ErrorKind::NotFound, format!("there is no session {id}"))));
        }
        self.stored(move |store| store.delete(&id)).await?;
        Ok(DeleteSessionResponse::new())
    }

    async fn let_go(&self, id: &SessionId) {
        self.sessions().remove(&*id.0);
        self.host.close(&id.0);
        let gone = async {
            while self.host.get(&id.0).is_some() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(LETTING_GO, gone).await.is_err() {
            tracing::warn!(%id, "a session that is closed does not let go");
        }
    }

    async fn stored<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SessionStore) -> Result<T, SessionError> + Send + 'static,
    ) -> acp::Result<T> {
        let store = self.host.store().map_err(told)?;
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        let done = done.map_err(|e| told(ErrorBody::new(ErrorKind::Internal, e.to_string())))?;
        done.map_err(|error| told(error.body()))
    }

    pub async fn title(&self, attached: &Attached) -> Option<String> {
        let id = attached.live.id().to_owned();
        let info = self.stored(move |store| store.find(&id)).await.ok()?;
        attached.new_title(info.name())
    }

    pub async fn set_mode(&self, asked: SetSessionModeRequest, cx: &Connection) -> acp::Result<SetSessionModeResponse> {
        let attached = self.session(&asked.session_id)?;
        self.approve(&attached, &asked.mode_id.0).await?;
        self.tell_settings(&asked.session_id, &attached, cx).await;
        Ok(SetSessionModeResponse::new())
    }

    pub async fn set_option(
        &self,
        asked: SetSessionConfigOptionRequest,
        cx: &Connection,
    ) -> acp::Result<SetSessionConfigOptionResponse> {
        let attached = self.session(&asked.session_id)?;
        let value = asked.value.as_value_id().ok_or_else(|| wrong("the value is not one of a list"))?;
        match &*asked.config_id.0 {
            settings::MODE => {
                self.approve(&attached, &value.0).await?;
                let mode = CurrentModeUpdate::new(settings::id(attached.approval()));
                self.send(&asked.session_id, SessionUpdate::CurrentModeUpdate(mode), cx).await;
            }
            settings::MODEL => {
                let changed = attached.live.set_model(&value.0).await;
                self.settle(&attached).await;
                changed.map_err(told)?;
            }
            other => return Err(wrong(format!("there is no option {other}"))),
        }
        Ok(SetSessionConfigOptionResponse::new(self.config(&attached)))
    }

    /// At once, or when the turn that runs has ended.
    async fn approve(&self, attached: &Attached, id: &str) -> acp::Result<()> {
        let approval = settings::approval(id).ok_or_else(|| wrong(format!("there is no mode {id}")))?;
        if attached.live.snapshot().busy {
            attached.want(approval);
            return Ok(());
        }
        attached.live.set_approval(approval).await.map_err(told)
    }

    /// After whatever kept the session busy: what was wanted meanwhile.
    pub async fn settle(&self, attached: &Attached) {
        let Some(approval) = attached.take_wanted() else { return };
        if let Err(error) = attached.live.set_approval(approval).await {
            // The next turn has begun already: it comes into force after that, unless another was wanted meanwhile.
            attached.still_want(approval);
            tracing::debug!(error = error.message, "the mode is not changed yet");
        }
    }

    pub async fn tell_settings(&self, id: &SessionId, attached: &Attached, cx: &Connection) {
        let mode = CurrentModeUpdate::new(settings::id(attached.approval()));
        self.send(id, SessionUpdate::CurrentModeUpdate(mode), cx).await;
        let options = ConfigOptionUpdate::new(self.config(attached));
        self.send(id, SessionUpdate::ConfigOptionUpdate(options), cx).await;
    }
}
