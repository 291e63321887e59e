//! One session: what the protocol asks, answered from the registry, the audit and the skills.

#![allow(deprecated, reason = "what a later version of the protocol gives up is current in the others")]

use crate::server::watch::Count;
use crate::server::{Shared, call, complete, resources, tools};
use jarvis_agent::{Bootstrap, Skill};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CustomRequest, CustomResult,
    ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation,
    InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, LoggingLevel, PaginatedRequestParams, Prompt, PromptArgument, PromptMessage,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Role, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Tools in one page.
const PAGE: usize = 200;
/// What a person may add to a skill.
const REQUEST: &str = "request";

const INSTRUCTIONS: &str = "Capabilities are small programs that were checked and proved. Search with list_capabilities \
    before you compute, fetch or transform anything; run one with execute_capability. Where none fits, write one with \
    register_capability: general, with examples; its errors say what to mend.";

pub(crate) struct Handler {
    pub shared: Arc<Shared>,
    /// Cancelled when the host is gone or the server stops.
    pub gone: CancellationToken,
    /// What a session sends to its host ends with it.
    _ended: DropGuard,
    begun: AtomicBool,
    /// Whether it is told of changes.
    told: AtomicBool,
    level: Mutex<LoggingLevel>,
    subscribed: Arc<Mutex<BTreeSet<String>>>,
}

impl Handler {
    pub fn new(shared: Arc<Shared>, gone: CancellationToken) -> Handler {
        let gone = gone.child_token();
        Handler {
            shared,
            _ended: gone.clone().drop_guard(),
            gone,
            begun: AtomicBool::new(false),
            told: AtomicBool::new(false),
            level: Mutex::new(LoggingLevel::Warning),
            subscribed: Arc::default(),
        }
    }

    /// The least important level this request's log messages may have. Later versions of the protocol say it with each
    /// request, or want none.
    pub fn level(&self, context: &RequestContext<RoleServer>) -> Option<LoggingLevel> {
        if crate::server::ask::asks_by_retry(context.protocol_version().as_ref()) {
            return context.meta.log_level();
        }
        Some(*self.level.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// For what only reads.
    fn bootstrap(&self) -> Bootstrap {
        (self.shared.setup.bootstrap)("mcp")
    }

    fn tools(&self, after: Option<String>) -> Result<ListToolsResult, ErrorData> {
        let mut all = tools::bootstrap();
        if self.shared.setup.capabilities_as_tools {
            let mut capabilities = tools::capabilities(self.bootstrap().dispatch()).map_err(|e| call::internal(&e))?;
            capabilities.sort_by(|a, b| a.name.cmp(&b.name));
            all.extend(capabilities);
        }
        let from = match after {
            None => 0,
            Some(cursor) => {
                let known = all.iter().position(|tool| tool.name == cursor.as_str());
                known.ok_or_else(|| ErrorData::invalid_params("this cursor is none of an earlier answer", None))? + 1
            }
        };
        let more = all.len() > from + PAGE;
        let page: Vec<_> = all.into_iter().skip(from).take(PAGE).collect();
        let next_cursor = page.last().filter(|_| more).map(|tool| tool.name.to_string());
        Ok(ListToolsResult { next_cursor, tools: page, ..Default::default() })
    }

    /// One that cannot be read is left out, with a word in the log.
    fn skills(&self) -> Vec<Skill> {
        let catalogue = self.shared.setup.skills.load();
        for broken in &catalogue.broken {
            tracing::warn!(skill = %broken.path.display(), problem = broken.problem, "a skill cannot be used");
        }
        catalogue.skills
    }

    fn prompts(&self) -> Vec<Prompt> {
        let argument = PromptArgument::new(REQUEST).with_description("What to do with it, in your own words");
        self.skills()
            .into_iter()
            .map(|s| Prompt::new(s.name, Some(s.description), Some(vec![argument.clone()])))
            .collect()
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_completions()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .build();
        if let Some(tools) = &mut capabilities.tools {
            tools.list_changed = self.shared.setup.capabilities_as_tools.then_some(true);
        }
        let mut info = ServerConfig::new(capabilities).with_instructions(INSTRUCTIONS);
        info.server_info = Implementation::new("jarvis", self.shared.setup.version.clone());
        info
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        if self.begun.swap(true, Ordering::Relaxed) {
            return Err(ErrorData::invalid_request("this session has been initialized already", None));
        }
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if self.told.swap(true, Ordering::Relaxed) {
            return;
        }
        let (shared, subscribed) = (self.shared.clone(), self.subscribed.clone());
        let (peer, ended) = (context.peer, self.gone.clone());
        tokio::spawn(async move {
            ended.run_until_cancelled(tell_changes(&shared, &peer, &subscribed)).await;
        });
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        aside(|| self.tools(request.and_then(|page| page.cursor)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        call::call(self, request, context).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult { resources: resources::list(), ..Default::default() })
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult { resource_templates: resources::templates(), ..Default::default() })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match aside(|| resources::read(&self.shared, self.bootstrap().dispatch(), &request.uri)) {
            Ok(Some(contents)) => Ok(ReadResourceResult::new(vec![contents]).into()),
            Ok(None) => {
                let data = serde_json::json!({"uri": request.uri});
                Err(ErrorData::resource_not_found("there is no such resource", Some(data)))
            }
            Err(error) => Err(call::internal(&error)),
        }
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        if !resources::is_watched(&request.uri) {
            return Err(ErrorData::invalid_params("only the audit and the statistics can be subscribed to", None));
        }
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::default();
        accepted.tools_list_changed = self.shared.setup.capabilities_as_tools.then_some(true);
        let wanted = requested.resource_subscriptions.iter().flatten();
        let watched: Vec<String> = wanted.filter(|uri| resources::is_watched(uri)).cloned().collect();
        accepted.resource_subscriptions = (!watched.is_empty()).then_some(watched);
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let tell = async {
            let mut changes = self.shared.changes.subscribe();
            let mut before = *changes.borrow();
            while changes.changed().await.is_ok() {
                let now = *changes.borrow_and_update();
                let sink = context.sink();
                let accepted = context.accepted();
                if now.capabilities != before.capabilities && accepted.tools_list_changed == Some(true) {
                    let _ = sink.notify_tool_list_changed().await;
                }
                if now.audit != before.audit {
                    for uri in accepted.resource_subscriptions.iter().flatten() {
                        let _ = sink.notify_resource_updated(uri.clone()).await;
                    }
                }
                before = now;
            }
        };
        tokio::select! {
            () = tell => {}
            () = context.cancelled() => {}
            () = self.gone.cancelled() => {}
        }
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult { prompts: aside(|| self.prompts()), ..Default::default() })
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let skill = aside(|| self.skills()).into_iter().find(|skill| skill.name == request.name);
        let skill =
            skill.ok_or_else(|| ErrorData::invalid_params(format!("there is no skill `{}`", request.name), None))?;
        let wish = request.arguments.as_ref().and_then(|given| given.get(REQUEST)).and_then(|value| value.as_str());
        let text = match wish.map(str::trim).filter(|wish| !wish.is_empty()) {
            Some(wish) => format!("{}\n\n{wish}", skill.instructions),
            None => skill.instructions,
        };
        let message = PromptMessage::new_text(Role::User, text);
        Ok(GetPromptResult::new(vec![message]).with_description(skill.description).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let found = aside(|| complete::complete(self.bootstrap().dispatch(), &request));
        let found = found.map_err(|e| call::internal(&e))?;
        Ok(CompleteResult::new(found))
    }

    async fn set_level(&self, request: SetLevelRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = request.level;
        Ok(())
    }

    /// What the library knows no message for: another method, or one of the protocol's with wrong parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        const METHODS: [&str; 12] = [
            "initialize",
            "tools/call",
            "tools/list",
            "prompts/get",
            "prompts/list",
            "resources/read",
            "resources/list",
            "resources/templates/list",
            "resources/subscribe",
            "resources/unsubscribe",
            "completion/complete",
            "logging/setLevel",
        ];
        let method = request.method.as_str();
        if METHODS.contains(&method) {
            return Err(ErrorData::invalid_params(format!("these are no parameters of {method}"), None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method {method}"), None))
    }
}

/// Reads files: what else this thread would do goes on on others, so a slow disk holds up nobody's ping.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Tells a host of changes until its session ends.
async fn tell_changes(shared: &Shared, peer: &Peer<RoleServer>, subscribed: &Mutex<BTreeSet<String>>) {
    let mut changes = shared.changes.subscribe();
    let mut before: Count = *changes.borrow();
    while changes.changed().await.is_ok() {
        let now = *changes.borrow_and_update();
        let mut told = Ok(());
        if shared.setup.capabilities_as_tools && now.capabilities != before.capabilities {
            told = peer.notify_tool_list_changed().await;
        }
        if now.audit != before.audit {
            let wanted: Vec<String> =
                subscribed.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
            for uri in wanted {
                let updated = rmcp::model::ResourceUpdatedNotificationParam::new(uri);
                told = told.and(peer.notify_resource_updated(updated).await);
            }
        }
        if told.is_err() {
            return;
        }
        before = now;
    }
}
