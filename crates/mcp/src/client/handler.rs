//! What a server may ask for and tell, between calls and in the middle of them. Whatever needs a person or a model is
//! handed to the call that runs; where none runs, the answer is no.

#![allow(deprecated, reason = "servers of today ask for samples and roots and write logs; a later protocol drops them")]

use jarvis_dispatch::Form;
use jarvis_protocol::{Message, is_deceptive};
use rmcp::ErrorData;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, Implementation, ListRootsResult, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProgressToken, Role, Root, SamplingMessage, SamplingMessageContentBlock,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Signs of progress that are kept until somebody listens.
const MOST_EARLY: usize = 16;
/// Characters of what a server says to a person.
const MOST_TEXT: usize = 2000;
/// Lines of its log that are kept.
const MOST_LOG: usize = 50;
/// Questions that may wait.
pub(super) const WAITING: usize = 16;
/// Messages and characters of one request for an answer of the model.
const SAMPLE_MESSAGES: usize = 50;
const SAMPLE_CHARS: usize = 100_000;
/// How long an answer is waited for, in all.
const PATIENCE: Duration = Duration::from_secs(600);

/// Something that a call has to answer.
pub(super) enum Ask {
    Fill(Form, oneshot::Sender<Option<Value>>),
    Sample(Sample, oneshot::Sender<Result<(String, jarvis_agent::Sampled), String>>),
}

/// What a server wants the model to be asked.
pub(super) struct Sample {
    pub messages: Vec<Message>,
    pub max_tokens: u32,
}

/// What calls and the handler of one connection share.
pub(super) struct Shared {
    pub server: String,
    pub asks: mpsc::Sender<Ask>,
    /// Calls that run.
    pub calls: AtomicUsize,
    /// Who wants to hear of the progress of which call.
    progress: Mutex<HashMap<ProgressToken, mpsc::Sender<String>>>,
    /// Of calls that nobody listens to yet: a server may be quicker than whoever has just sent one.
    early: Mutex<VecDeque<(ProgressToken, String)>>,
    /// The list of tools is another one than was read.
    pub changed: AtomicBool,
    log: Mutex<VecDeque<String>>,
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub fn new(server: String, asks: mpsc::Sender<Ask>) -> Arc<Shared> {
        Arc::new(Shared {
            server,
            asks,
            calls: AtomicUsize::new(0),
            progress: Mutex::default(),
            early: Mutex::default(),
            changed: AtomicBool::new(false),
            log: Mutex::default(),
        })
    }

    pub fn listen(&self, token: ProgressToken, to: mpsc::Sender<String>) {
        let mut progress = lock(&self.progress);
        let mut early = lock(&self.early);
        early.iter().filter(|(of, _)| *of == token).for_each(|(_, text)| drop(to.try_send(text.clone())));
        early.retain(|(of, _)| *of != token);
        progress.insert(token, to);
    }

    pub fn listen_no_more(&self, token: &ProgressToken) {
        lock(&self.progress).remove(token);
    }

    /// The last lines of its log.
    pub fn logged(&self) -> Vec<String> {
        lock(&self.log).iter().cloned().collect()
    }

    /// None where nobody is there to answer, or they would not.
    async fn ask<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<T>) -> Ask,
        context: &RequestContext<RoleClient>,
    ) -> Option<T> {
        if self.calls.load(Ordering::Acquire) == 0 {
            return None;
        }
        let (tell, answer) = oneshot::channel();
        self.asks.try_send(ask(tell)).ok()?;
        tokio::select! {
            answer = answer => answer.ok(),
            () = context.ct.cancelled() => None,
            () = tokio::time::sleep(PATIENCE) => None,
        }
    }
}

pub(super) struct Handler {
    pub shared: Arc<Shared>,
    /// As a URI.
    pub workspace: String,
}

/// The address of a folder.
pub(super) fn address(folder: &Path) -> String {
    url::Url::from_directory_path(folder).map(String::from).unwrap_or_default()
}

/// At most so many characters, without those that act on a terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars().filter(|c| !is_deceptive(*c)).take(MOST_TEXT).collect()
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().enable_sampling().enable_roots().build();
        ClientConfig::new(capabilities, Implementation::new("jarvis", env!("CARGO_PKG_VERSION")))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new(self.workspace.clone()).with_name("workspace")]))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let no = ElicitResult::new(ElicitationAction::Decline);
        // To open an address that a server names is nothing that jarvis does for it.
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = params else {
            return Ok(no);
        };
        let schema = serde_json::to_value(&requested_schema)
            .map_err(|e| ErrorData::invalid_params(format!("the schema: {e}"), None))?;
        let form = Form { server: self.shared.server.clone(), message: plain(&message), schema };
        let filled = self.shared.ask(|tell| Ask::Fill(form, tell), &context).await.flatten();
        Ok(filled.map_or(no, |value| ElicitResult::new(ElicitationAction::Accept).with_content(value)))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let sample = sample(params).map_err(|problem| ErrorData::invalid_params(problem, None))?;
        let refused = |why: String| ErrorData::new(rmcp::model::ErrorCode(-1), why, None);
        let answer = self.shared.ask(|tell| Ask::Sample(sample, tell), &context).await;
        let (model, sampled) =
            answer.unwrap_or_else(|| Err("nobody is there to allow it".to_owned())).map_err(refused)?;
        let reason = if sampled.cut {
            CreateMessageResult::STOP_REASON_END_MAX_TOKEN
        } else {
            CreateMessageResult::STOP_REASON_END_TURN
        };
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text(sampled.text), model).with_stop_reason(reason))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let of = params.total.map(|total| format!("/{total}")).unwrap_or_default();
        let message = params.message.map(|message| format!(": {}", plain(&message))).unwrap_or_default();
        let text = format!("{}{of}{message}\n", params.progress);
        let progress = lock(&self.shared.progress);
        // One that is not heard is no loss: the next one says more.
        match progress.get(&params.progress_token) {
            Some(to) => drop(to.try_send(text)),
            None => {
                let mut early = lock(&self.shared.early);
                early.push_back((params.progress_token, text));
                let over = early.len().saturating_sub(MOST_EARLY);
                early.drain(..over);
            }
        }
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        let mut log = lock(&self.shared.log);
        log.push_back(plain(&jarvis_protocol::value_text(&params.data)));
        let over = log.len().saturating_sub(MOST_LOG);
        log.drain(..over);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.shared.changed.store(true, Ordering::Release);
    }
}

/// Texts alone; what else there is cannot be asked of every model.
fn sample(params: CreateMessageRequestParams) -> Result<Sample, String> {
    if params.messages.is_empty() || params.messages.len() > SAMPLE_MESSAGES {
        return Err(format!("1 to {SAMPLE_MESSAGES} messages can be asked"));
    }
    if params.tools.is_some_and(|tools| !tools.is_empty()) {
        return Err("tools are not offered to a model that a server asks".to_owned());
    }
    let mut messages = Vec::new();
    messages.extend(params.system_prompt.map(Message::system));
    for message in params.messages {
        let mut text = String::new();
        for block in message.content.into_vec() {
            match block {
                SamplingMessageContentBlock::Text(part) => text.push_str(&part.text),
                _ => return Err("only texts can be asked".to_owned()),
            }
        }
        messages.push(match message.role {
            Role::User => Message::user(text),
            Role::Assistant => Message::assistant(text),
        });
    }
    let chars: usize = messages.iter().map(|message| message.text.chars().count()).sum();
    if chars > SAMPLE_CHARS {
        return Err(format!("{chars} characters were asked; at most {SAMPLE_CHARS} are taken"));
    }
    Ok(Sample { messages, max_tokens: params.max_tokens })
}
