//! One server over all its connections: started when it is needed, started again after it ended, never in a hurry.

use super::call::Calling;
use super::config::ServerConfig;
use super::definition::Definition;
use super::live::Live;
use super::offers;
use super::servers::Setup;
use jarvis_agent::Around;
use jarvis_dispatch::{CallError, ExternalCall, ToolRule, check_arguments};
use jarvis_protocol::{ErrorBody, ErrorKind};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a server may take to be ready, at most; its own limit may be shorter.
const START: Duration = Duration::from_secs(60);
/// After the first failure, doubled with each further one.
const PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// So long a call waits for the end of a pause, instead of failing.
const WAITS: Duration = Duration::from_secs(2);

pub(super) struct One {
    pub name: String,
    pub config: ServerConfig,
    digest: String,
    pub setup: Arc<Setup>,
    state: tokio::sync::Mutex<State>,
    known: Mutex<Option<Arc<Vec<Definition>>>>,
    /// One question about a tool at a time: the second may be answered by the first.
    deciding: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    live: Option<Arc<Live>>,
    failures: u32,
    not_before: Option<Instant>,
    /// Why it is not there.
    why: Option<ErrorBody>,
}

impl One {
    pub fn new(name: String, config: ServerConfig, setup: Arc<Setup>) -> One {
        let digest = config.digest();
        let kept = setup.store.as_ref().and_then(|store| store.tools(&name, &digest)).map(Arc::new);
        let (state, deciding) = (tokio::sync::Mutex::default(), tokio::sync::Mutex::default());
        One { name, config, digest, setup, state, known: Mutex::new(kept), deciding }
    }

    /// The tools as they are known without a start.
    pub async fn known(&self) -> Option<Arc<Vec<Definition>>> {
        // A server that runs and says that its list is another one now is asked for it.
        let live = self.state.try_lock().ok().and_then(|state| state.live.clone());
        if let Some(live) = live.filter(|live| !live.is_closed() && live.shared.changed.load(Ordering::Acquire)) {
            self.refresh(&live).await;
        }
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn refresh(&self, live: &Live) {
        let listed = tokio::time::timeout(self.patience(), live.list()).await;
        if matches!(listed, Ok(Ok(()))) {
            self.keep(live);
        }
    }

    fn keep(&self, live: &Live) {
        let tools = live.tools();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|known| **known != *tools)
            && let Some(store) = &self.setup.store
        {
            store.keep_tools(&self.name, &self.digest, &tools);
        }
        *known = Some(tools);
    }

    pub fn set_up(&self) -> String {
        self.config.set_up(&self.name)
    }

    pub fn patience(&self) -> Duration {
        START.min(Duration::from_secs(self.config.timeout_s))
    }

    /// A connection that works, made if there is none. One that was lost is made again after a pause that grows.
    pub async fn live(&self, cancel: &CancellationToken) -> Result<Arc<Live>, CallError> {
        let mut state = tokio::select! {
            state = self.state.lock() => state,
            () = cancel.cancelled() => return Err(cancelled()),
        };
        if let Some(live) = &state.live {
            if !live.is_closed() {
                return Ok(live.clone());
            }
            let how = live.ended().await.unwrap_or_else(|| "closed the connection".to_owned());
            let body = ErrorBody::new(ErrorKind::Sandbox, format!("the MCP server `{}` {how}", self.name));
            state.live = None;
            state.lost(body);
        }
        if let Some(pause) = state.not_before.and_then(|at| at.checked_duration_since(Instant::now())) {
            if pause > WAITS {
                return Err(state.waiting(&self.name, self.config.tried_by(&self.name), pause));
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = cancel.cancelled() => return Err(cancelled()),
            }
        }
        let connecting = Live::connect(&self.name, &self.config, &self.setup);
        let connected = tokio::select! {
            connected = tokio::time::timeout(self.patience(), connecting) => connected,
            () = cancel.cancelled() => return Err(cancelled()),
        };
        match connected.unwrap_or_else(|_| Err(self.slow())) {
            Ok(live) => {
                let live = Arc::new(live);
                self.keep(&live);
                state.live = Some(live.clone());
                Ok(live)
            }
            Err(error) => {
                state.lost(error.body().clone());
                Err(error)
            }
        }
    }

    fn slow(&self) -> CallError {
        let message = format!("the MCP server `{}` was not ready after {} s", self.name, self.patience().as_secs());
        CallError::RespondToModel(ErrorBody::new(ErrorKind::Timeout, message).hint(self.config.tried_by(&self.name)))
    }

    /// Decides, and calls, with the definition that the server has now.
    pub async fn call(&self, tool: &str, args: &Value, around: Around<'_>) -> Result<Value, CallError> {
        let live = self.live(around.cancel).await?;
        if live.shared.changed.load(Ordering::Acquire) {
            self.refresh(&live).await;
        }
        let tools = live.tools();
        let Some(definition) = tools.iter().find(|known| known.name == tool) else {
            let message = format!("the MCP server `{}` has no tool `{tool}` any more", self.name);
            return Err(CallError::respond(ErrorKind::NotFound, message));
        };
        check_arguments(&definition.parameters, args)
            .map_err(|problem| CallError::respond(ErrorKind::Usage, format!("`{tool}`: {problem}")))?;
        let dispatch = &self.setup.dispatch;
        let Around { call_id, emit, approver, sampler, cancel } = around;
        let permit = {
            let _turn = self.deciding.lock().await;
            let call = self.question(tool, &definition.digest, definition.read_only, self.config.rule(tool));
            dispatch.external_permit(call, args, approver, || self.remember(tool, &definition.digest)).await?
        };
        let mut calling = Calling { one: self, live: &live, call_id, emit, approver, sampler, cancel };
        let done = dispatch.external(permit, args, calling.run(tool, args)).await;
        if done.is_ok() {
            self.state.lock().await.failures = 0;
        }
        done
    }

    /// What one of its prompts says, with what a person typed after its name.
    pub async fn prompt(&self, name: &str, said: &str, around: Around<'_>) -> Result<Value, CallError> {
        let live = self.live(around.cancel).await?;
        let found = tokio::select! {
            found = tokio::time::timeout(self.patience(), offers::find(&live, name)) => found,
            () = around.cancel.cancelled() => return Err(cancelled()),
        };
        let prompt = found.unwrap_or_else(|_| Err(self.slow()))?;
        let parameters = offers::parameters(&prompt);
        let wrong = |problem: String| {
            let takes: Vec<&str> = prompt.arguments.iter().flatten().map(|argument| argument.name.as_str()).collect();
            let body = ErrorBody::new(ErrorKind::Usage, format!("/{}:{name}: {problem}", self.name));
            CallError::RespondToModel(body.hint(format!("it takes: {}", takes.join(", "))))
        };
        let arguments = jarvis_agent::read_arguments(&parameters, said).map_err(&wrong)?;
        check_arguments(&parameters, &arguments).map_err(|problem| wrong(problem.to_string()))?;
        let args = json!({"name": name, "arguments": arguments});
        let dispatch = &self.setup.dispatch;
        let Around { call_id, emit, approver, sampler, cancel } = around;
        let call = self.question(offers::PROMPT, offers::PROMPT, true, self.config.rule(offers::PROMPT));
        let permit = dispatch.external_permit(call, &args, approver, || {}).await?;
        let mut calling = Calling { one: self, live: &live, call_id, emit, approver, sampler, cancel };
        dispatch.external(permit, &args, calling.run(offers::PROMPT, &args)).await
    }

    /// What is to be decided about one call.
    pub fn question(&self, tool: &str, definition: &str, read_only: bool, rule: Option<ToolRule>) -> ExternalCall {
        let allowed_before =
            self.setup.store.as_ref().is_some_and(|store| store.is_allowed(&self.name, &self.digest, tool, definition));
        ExternalCall {
            server: self.name.clone(),
            set_up: self.set_up(),
            tool: tool.to_owned(),
            definition: definition.to_owned(),
            read_only,
            rule,
            allowed_before,
        }
    }

    pub fn remember(&self, tool: &str, definition: &str) {
        if let Some(store) = &self.setup.store {
            store.allow(&self.name, &self.digest, tool, definition);
        }
    }
}

impl State {
    fn lost(&mut self, why: ErrorBody) {
        let pause = PAUSE.saturating_mul(1 << self.failures.min(10)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(Instant::now() + pause);
        self.why = Some(why);
    }

    fn waiting(&self, name: &str, hint: String, pause: Duration) -> CallError {
        let why = self.why.as_ref().map(|body| format!(": {}", body.message)).unwrap_or_default();
        let message = format!(
            "the MCP server `{name}` failed {} times and is not started again before {} s{why}",
            self.failures,
            pause.as_secs().max(1)
        );
        CallError::RespondToModel(ErrorBody::new(ErrorKind::Sandbox, message).hint(hint))
    }
}

pub(super) fn cancelled() -> CallError {
    CallError::Fatal(ErrorBody::new(ErrorKind::Cancelled, "cancelled"))
}
