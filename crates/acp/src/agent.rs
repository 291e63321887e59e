//! One connection with an editor: each method of the protocol, and where it is done.

use crate::errors::told;
use crate::sessions::Attached;
use crate::tell::Understands;
use crate::wire::Flow;
use crate::{Options, errors};
use agent_client_protocol as acp;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, AuthMethod, AuthMethodAgent, AuthenticateRequest, AuthenticateResponse, CancelNotification,
    ClientCapabilities, CloseSessionRequest, DeleteSessionRequest, Implementation, InitializeRequest,
    InitializeResponse, ListSessionsRequest, LoadSessionRequest, McpCapabilities, NewSessionRequest,
    PromptCapabilities, PromptRequest, ResumeSessionRequest, SessionCapabilities, SessionCloseCapabilities,
    SessionDeleteCapabilities, SessionListCapabilities, SessionNotification, SessionResumeCapabilities, SessionUpdate,
    SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Channel, Client, Error, JsonRpcResponse, on_receive_notification, on_receive_request};
use jarvis_host::Host;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) type Connection = ConnectionTo<Client>;

/// The only way to authenticate: a key in the environment.
const KEY: &str = "api-key";

pub(crate) struct Agent {
    pub host: Host,
    pub options: Options,
    flow: Arc<Flow>,
    client: OnceLock<ClientCapabilities>,
    sessions: Mutex<HashMap<String, Arc<Attached>>>,
}

impl Agent {
    pub fn new(host: Host, options: Options, flow: Arc<Flow>) -> Self {
        Self { host, options, flow, client: OnceLock::new(), sessions: Mutex::default() }
    }

    /// Serves the connection until it ends. Nothing waits in a handler: the next message comes only after it.
    pub async fn connect(self: Arc<Self>, channel: Channel) -> acp::Result<()> {
        let agent = || self.clone();
        acp::Agent
            .v1()
            .name("jarvis")
            .on_receive_request(
                {
                    let agent = agent();
                    async move |asked: InitializeRequest, responder, _: Connection| {
                        responder.respond(agent.initialize(asked))
                    }
                },
                on_receive_request!(),
            )
            .on_receive_request(
                {
                    let agent = agent();
                    async move |asked: AuthenticateRequest, responder, _: Connection| {
                        responder.respond_with_result(agent.authenticate(&asked))
                    }
                },
                on_receive_request!(),
            )
            .on_receive_request(
                {
                    let agent = agent();
                    async move |asked: NewSessionRequest, responder, cx: Connection| {
                        let (agent, with) = (agent.clone(), cx.clone());
                        cx.spawn(async move {
                            let opened = agent.new_session(asked, &with).await;
                            let id = opened.as_ref().ok().map(|opened| opened.session_id.clone());
                            answer(responder, opened);
                            agent.greet(id.as_ref(), &with).await;
                            Ok(())
                        })
                    }
                },
                on_receive_request!(),
            )
            .on_receive_request(
                {
                    let agent = agent();
                    async move |asked: LoadSessionRequest, responder, cx: Connection| {
                        let (agent, with) = (agent.clone(), cx.clone());
                        cx.spawn(async move {
                            let id = asked.session_id.clone();
                            let loaded = agent.load_session(asked, &with).await;
                            let there = loaded.is_ok();
                            answer(responder, loaded);
                            agent.greet(there.then_some(&id), &with).await;
                            Ok(())
                        })
                    }
                },
                on_receive_request!(),
            )
            .on_receive_request(
                {
                    let agent = agent();
                    async move |asked: ResumeSessionRequest, responder, cx: Connection| {
                        let (agent, with) = (agent.clone(), cx.clone());
                        cx.spawn(async move {
                            let id = asked.session_id.clone();
                            let resumed = agent.resume_session(asked, &with).await;
                            let there = resumed.is_ok();
                            answer(responder, resumed);
                            agent.greet(there.then_some(&id), &with).await;
                            Ok(())
                        })
                    }
                },
                on_receive_request!(),
            )
            .on_receive_request(
                {
                    let agent = agent();
                    async move |asked: ListSessionsRequest, responder, cx: Connection| {
                        let agent = agent.clone();
                        later(&cx, responder, async move { agent.list_sessions(asked).await })
                    }
                },
                on_receive_request!(),
            )
            .on_receive_request(
                {
                    let agent = agent();
                    async move |asked: CloseSessionRequest, responder, cx: Connection| {
                        let agent = agent.clone();
                        later(&cx, responder, async move { agent.close_session(&asked.session_id).await })
                    }
                },
                on_receive_request!(),
            )
            .on_receive_request(
                {
                    let agent = agent();
                    async move |asked: DeleteSessionRequest, responder, cx: Connection| {
                        let agent = agent.clone();
                        later(&cx, responder, async move { agent.delete_session(&asked.session_id).await })
                    }
                },
                on_receive_request!(),
            )
            .on_receive_request(
                {
                    let agent = agent();
                    async move |asked: SetSessionModeRequest, responder, cx: Connection| {
                        let (agent, with) = (agent.clone(), cx.clone());
                        later(&cx, responder, async move { agent.set_mode(asked, &with).await })
                    }
                },
                on_receive_request!(),
            )
            .on_receive_request(
                {
                    let agent = agent();
                    async move |asked: SetSessionConfigOptionRequest, responder, cx: Connection| {
                        let (agent, with) = (agent.clone(), cx.clone());
                        later(&cx, responder, async move { agent.set_option(asked, &with).await })
                    }
                },
                on_receive_request!(),
            )
            .on_receive_request(
                {
                    let agent = agent();
                    async move |asked: PromptRequest, responder, cx: Connection| {
                        let (agent, with) = (agent.clone(), cx.clone());
                        let given_up = responder.cancellation();
                        // Begun at once: a cancel that comes next finds it running.
                        let begun = agent.begin(asked, &with);
                        later(&cx, responder, async move { agent.prompt(begun?, &with, given_up).await })
                    }
                },
                on_receive_request!(),
            )
            .on_receive_notification(
                {
                    let agent = agent();
                    async move |asked: CancelNotification, _: Connection| {
                        if let Ok(attached) = agent.session(&asked.session_id) {
                            attached.cancel();
                        }
                        Ok(())
                    }
                },
                on_receive_notification!(),
            )
            .connect_to(channel)
            .await
    }

    fn initialize(&self, asked: InitializeRequest) -> InitializeResponse {
        // Said again on the same connection, what was said first stays.
        let _ = self.client.set(asked.client_capabilities);
        let sessions = SessionCapabilities::new()
            .list(SessionListCapabilities::new())
            .resume(SessionResumeCapabilities::new())
            .close(SessionCloseCapabilities::new())
            .delete(SessionDeleteCapabilities::new());
        let capabilities = AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
            .mcp_capabilities(McpCapabilities::new().http(true))
            .session_capabilities(sessions);
        let methods = (self.options.lacks_key)().map(|lack| {
            let about = errors::told(lack).message;
            let method = AuthMethodAgent::new(KEY, "A key in the environment of jarvis").description(about);
            AuthMethod::Agent(method)
        });
        InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .auth_methods(methods.into_iter().collect())
            .agent_info(Implementation::new("jarvis", self.options.version.clone()).title("jarvis"))
    }

    /// Nothing is sent by it: the environment is looked at again.
    fn authenticate(&self, asked: &AuthenticateRequest) -> acp::Result<AuthenticateResponse> {
        if &*asked.method_id.0 != KEY {
            return Err(errors::wrong(format!("there is no way to authenticate called {}", asked.method_id)));
        }
        match (self.options.lacks_key)() {
            None => Ok(AuthenticateResponse::new()),
            Some(lack) => Err(told(lack)),
        }
    }

    pub fn client(&self) -> ClientCapabilities {
        self.client.get().cloned().unwrap_or_default()
    }

    pub fn understands(&self) -> Understands {
        self.client.get().map(Understands::of).unwrap_or_default()
    }

    pub fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<Attached>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an update once there is room for it. That the connection is over is found out by whoever drives it.
    pub async fn send(&self, session: &acp::v1::schema::SessionId, update: SessionUpdate, cx: &Connection) {
        let told = SessionNotification::new(session.clone(), update);
        // Plain data: it always becomes JSON.
        let bytes = serde_json::to_vec(&told).map_or(0, |json| json.len());
        self.flow.room_for(bytes).await;
        if let Err(error) = cx.send_notification(told) {
            tracing::debug!(?error, "an update is not sent");
        }
    }
}

/// Does the work beside the connection and answers with what comes of it.
fn later<T: JsonRpcResponse>(
    cx: &Connection,
    responder: Responder<T>,
    work: impl Future<Output = acp::Result<T>> + Send + 'static,
) -> Result<(), Error> {
    cx.spawn(async move {
        answer(responder, work.await);
        Ok(())
    })
}

/// An answer that cannot be sent ends no connection: it is over already.
fn answer<T: JsonRpcResponse>(responder: Responder<T>, result: acp::Result<T>) {
    if let Err(error) = responder.respond_with_result(result) {
        tracing::debug!(?error, "an answer is not sent");
    }
}
