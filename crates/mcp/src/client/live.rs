//! One connection to a server, from its start to its end.

use super::bounded::{Bounded, MOST_LINE};
use super::config::{ServerConfig, full};
use super::definition::{Definition, MOST_TOOLS, definition};
use super::handler::{Ask, Handler, Shared, WAITING, address};
use super::offers;
use super::refused::explained;
use super::servers::Setup;
use jarvis_dispatch::{CallError, Server, ServerRequest};
use jarvis_protocol::{ErrorBody, ErrorKind, Preset, ProcessLimits, ProcessPlan};
use rmcp::model::{PaginatedRequestParams, ServerCapabilities};
use rmcp::service::{Peer, RoleClient, RunningService, ServiceError, serve_client};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a server may be up at a stretch; the jail's own bound.
const LONGEST_MS: u64 = 86_400_000;
/// How long its end is waited for, to say how it ended.
const END: Duration = Duration::from_millis(500);
/// Pages of one list of tools.
const MOST_PAGES: usize = 100;
/// Lines of its last words.
const LAST_LINES: usize = 8;
const LAST_CHARS: usize = 1500;

enum Kind {
    Program { server: Box<Server>, too_long: Arc<AtomicBool> },
    Web(jarvis_dispatch::Handed),
}

pub(super) struct Live {
    service: RunningService<RoleClient, Handler>,
    kind: Kind,
    pub shared: Arc<Shared>,
    /// Of calls that run; whichever is first answers.
    pub asks: tokio::sync::Mutex<mpsc::Receiver<Ask>>,
    tools: Mutex<Arc<Vec<Definition>>>,
    /// Tools that are not offered, because no model could call them.
    pub left_out: Mutex<usize>,
}

impl Live {
    /// Starts or reaches the server, and reads its list of tools.
    pub async fn connect(name: &str, config: &ServerConfig, setup: &Setup) -> Result<Live, CallError> {
        let (send, asks) = mpsc::channel(WAITING);
        let shared = Shared::new(name.to_owned(), send);
        let handler = Handler { shared: shared.clone(), workspace: address(&setup.workspace) };
        let (service, kind) = match &config.url {
            Some(url) => {
                let outside = setup.dispatch.reach_server(name, url, &config.headers)?;
                let transport = StreamableHttpClientTransport::with_client(
                    outside.client,
                    StreamableHttpClientTransportConfig::with_uri(outside.url),
                );
                let served = serve_client(handler, transport).await;
                let service = served.map_err(|error| match explained(name, config, &error) {
                    Some((why, hint)) => {
                        let why = outside.handed.redact(why);
                        let message = format!("the MCP server `{name}` is not connected: {why}");
                        CallError::RespondToModel(ErrorBody::new(ErrorKind::Network, message).hint(hint))
                    }
                    None => not_connected(name, config, &outside.handed.redact(causes(&error)), ""),
                })?;
                (service, Kind::Web(outside.handed))
            }
            None => program(name, config, setup, handler).await?,
        };
        let live = Live {
            service,
            kind,
            shared,
            asks: tokio::sync::Mutex::new(asks),
            tools: Mutex::default(),
            left_out: Mutex::new(0),
        };
        live.list().await?;
        Ok(live)
    }

    pub fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    pub fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    pub fn tools(&self) -> Arc<Vec<Definition>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The isolation that is really in force; none for an address.
    pub fn layers(&self) -> &[String] {
        match &self.kind {
            Kind::Program { server, .. } => &server.layers,
            Kind::Web(_) => &[],
        }
    }

    fn has(&self, what: impl Fn(&ServerCapabilities) -> bool) -> bool {
        self.service.peer().peer_info().is_some_and(|info| what(&info.capabilities))
    }

    pub fn has_prompts(&self) -> bool {
        self.has(|capabilities| capabilities.prompts.is_some())
    }

    /// How it calls itself, with its version.
    pub fn calls_itself(&self) -> Option<String> {
        let info = self.service.peer().peer_info()?;
        let server = info.server_info.as_ref()?;
        Some(super::handler::plain(&format!("{} {}", server.name, server.version)))
    }

    /// Reads the list of tools anew, as a whole: a list that goes on for ever is cut.
    pub async fn list(&self) -> Result<(), CallError> {
        self.shared.changed.store(false, Ordering::Release);
        let mut all: Vec<Definition> = Vec::new();
        let (mut seen, mut cursor) = (0, None);
        let has_tools = self.service.peer().peer_info().is_none_or(|info| info.capabilities.tools.is_some());
        for _ in 0..if has_tools { MOST_PAGES } else { 0 } {
            let asked = cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let page = match self.service.peer().list_tools(asked).await {
                Ok(page) => page,
                Err(error) => {
                    // What changed is still to be read.
                    self.shared.changed.store(true, Ordering::Release);
                    return Err(self.failed("tools/list", &error).await);
                }
            };
            seen += page.tools.len();
            let own = page.tools.iter().filter_map(definition);
            all.extend(own.filter(|tool| !offers::is_reserved(&tool.name)));
            cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
            if cursor.is_none() || all.len() >= MOST_TOOLS {
                break;
            }
        }
        all.truncate(MOST_TOOLS);
        let mut names = std::collections::HashSet::new();
        all.retain(|tool| names.insert(tool.name.clone()));
        *self.left_out.lock().unwrap_or_else(PoisonError::into_inner) = seen - all.len();
        if self.has(|capabilities| capabilities.resources.is_some()) {
            all.extend(offers::tools());
        }
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(all);
        Ok(())
    }

    /// Without secrets that the server was handed.
    pub fn redact(&self, value: &mut Value) {
        match &self.kind {
            Kind::Program { server, .. } => server.handed.redact_value(value),
            Kind::Web(handed) => handed.redact_value(value),
        }
    }

    pub fn redact_text(&self, text: String) -> String {
        match &self.kind {
            Kind::Program { server, .. } => server.handed.redact(text),
            Kind::Web(handed) => handed.redact(text),
        }
    }

    /// What became of a request, in words for a model.
    pub async fn failed(&self, what: &str, error: &ServiceError) -> CallError {
        let name = &self.shared.server;
        let message = match error {
            ServiceError::McpError(error) => {
                format!("`{what}`: {} (error {})", super::handler::plain(&error.message), error.code.0)
            }
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                let why = self.ended().await.unwrap_or_else(|| causes(error));
                format!("`{what}`: the MCP server `{name}` {why}; the next call starts it again")
            }
            other => format!("`{what}`: {}", causes(other)),
        };
        CallError::respond(ErrorKind::Sandbox, self.redact_text(message))
    }

    /// How it ended, and its last words; none while it lives.
    pub async fn ended(&self) -> Option<String> {
        let Kind::Program { server, too_long } = &self.kind else { return None };
        if too_long.load(Ordering::Acquire) {
            return Some(format!("sent a message of more than {} MiB, and was ended", (MOST_LINE + 1) >> 20));
        }
        how(server).await
    }

    /// The last of what it wrote to standard error and to its log.
    pub fn last_words(&self) -> Vec<String> {
        let mut lines = match &self.kind {
            Kind::Program { server, .. } => last_lines(&server.said(), 40),
            Kind::Web(_) => Vec::new(),
        };
        lines.extend(self.shared.logged().into_iter().map(|line| self.redact_text(line)));
        lines
    }
}

async fn how(server: &Server) -> Option<String> {
    let mut ended = server.ended();
    let waited = tokio::time::timeout(END, ended.wait_for(Option::is_some)).await;
    let end = waited.ok()?.ok()?.clone()?;
    let how = match end.exit {
        Some(exit) => match (exit.code, exit.signal) {
            (Some(code), _) => format!("ended with exit code {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "ended".to_owned(),
        },
        None => "ended without a word".to_owned(),
    };
    Some(how + &words(server))
}

fn words(server: &Server) -> String {
    let lines = last_lines(&server.said(), LAST_LINES);
    if lines.is_empty() { String::new() } else { format!(" (its last words: {})", lines.join(" | ")) }
}

fn last_lines(said: &str, most: usize) -> Vec<String> {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(most);
    lines[from..].iter().map(|line| line.chars().filter(|c| !c.is_control()).take(LAST_CHARS).collect()).collect()
}

async fn program(
    name: &str,
    config: &ServerConfig,
    setup: &Setup,
    handler: Handler,
) -> Result<(RunningService<RoleClient, Handler>, Kind), CallError> {
    let mut server = setup.dispatch.start_server(request(name, config, setup)?).await?;
    let (Some(stdin), Some(stdout)) = (server.stdin.take(), server.stdout.take()) else {
        return Err(not_connected(name, config, "it has no standard streams", ""));
    };
    let stdout = Bounded::new(stdout);
    let too_long = stdout.too_long.clone();
    let transport = AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MOST_LINE + 1);
    match serve_client(handler, transport).await {
        Ok(service) => Ok((service, Kind::Program { server: Box::new(server), too_long })),
        Err(error) => {
            let why = how(&server).await;
            let said = if why.is_none() { words(&server) } else { String::new() };
            Err(not_connected(name, config, &why.unwrap_or_else(|| server.handed.redact(causes(&error))), &said))
        }
    }
}

fn request(name: &str, config: &ServerConfig, setup: &Setup) -> Result<ServerRequest, CallError> {
    let command = config.command.clone().unwrap_or_default();
    let program = (setup.find)(&command).ok_or_else(|| {
        let body = ErrorBody::new(ErrorKind::NotFound, format!("MCP server `{name}`: there is no program `{command}`"));
        CallError::RespondToModel(body.hint(match config.brought {
            true => "install it, or name the file in the editor's settings",
            false => "install it, or name the file: jarvis mcp add --replace",
        }))
    })?;
    let place = |path: &PathBuf| full(&setup.workspace, path);
    let sandbox = &config.sandbox;
    let write: Vec<PathBuf> = sandbox.write.iter().map(place).collect();
    let plan = ProcessPlan {
        argv: std::iter::once(&command).chain(&config.args).cloned().collect(),
        dir: config.cwd.as_ref().map_or_else(|| setup.workspace.clone(), place),
        preset: Preset::ReadOnly,
        read: sandbox.read.iter().map(place).collect(),
        write,
        network: sandbox.network.clone(),
        limits: ProcessLimits { timeout_ms: LONGEST_MS, memory_mb: sandbox.memory_mb, ..ProcessLimits::STANDARD },
    };
    let env = config.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok(ServerRequest { name: name.to_owned(), plan, program, env })
}

fn not_connected(name: &str, config: &ServerConfig, why: &str, said: &str) -> CallError {
    let body = ErrorBody::new(ErrorKind::Sandbox, format!("the MCP server `{name}` does not answer: {why}{said}"));
    CallError::RespondToModel(body.hint(config.tried_by(name)))
}

/// With the whole chain of causes: the last one says what happened.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    super::handler::plain(&text)
}
