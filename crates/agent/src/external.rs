//! Tools of servers that others wrote. A few are told to the model as they are; of many it searches the ones that fit, so
//! that it reads as much with five hundred as with ten.

use crate::bootstrap::Did;
use crate::toolbox::Calling;
use futures::future::BoxFuture;
use jarvis_dispatch::{Approver, CallError, check_arguments};
use jarvis_model::ModelHandle;
use jarvis_protocol::{ErrorBody, ErrorKind, Event, Message, Purpose, ToolSpec, Usage};
use jarvis_registry::{Shelf, Shelved};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

pub(crate) const SEARCH: &str = "search_tools";
pub(crate) const CALL: &str = "call_tool";

/// So many are told as they are, if they say no more than so many bytes.
const DIRECT: usize = 8;
const DIRECT_BYTES: usize = 16 << 10;
/// Tools that one search gives, and the characters of them all; the first is told whatever its length.
const FOUND: usize = 5;
const FOUND_CHARS: usize = 12_000;
/// Names of servers that are told.
const NAMED: usize = 20;
/// Tokens of one answer that a server may ask the model for.
const SAMPLE_TOKENS: u32 = 2048;

/// One tool, as a model may call it.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalTool {
    pub server: String,
    /// As it is called there.
    pub tool: String,
    /// Its name is one that no other tool has.
    pub spec: ToolSpec,
    /// It says that it changes nothing.
    pub read_only: bool,
}

/// What is around one call.
pub struct Around<'a> {
    pub call_id: &'a str,
    pub emit: &'a mut (dyn FnMut(Event) + Send),
    pub approver: &'a mut dyn Approver,
    pub sampler: &'a Sampler,
    pub cancel: &'a CancellationToken,
}

/// Where such tools come from.
pub trait External: Send + Sync {
    /// Those there are now. What is missing, and why, is told by `emit`; it may take a while where nothing is known of
    /// a server yet.
    fn tools<'a>(
        &'a self,
        emit: &'a mut (dyn FnMut(Event) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Vec<ExternalTool>>;

    /// Whether there is a server of this name.
    fn serves(&self, server: &str) -> bool;

    /// What a prompt of a server says, with what a person typed after its name. Passes the one dispatch.
    fn prompt<'a>(
        &'a self,
        server: &'a str,
        name: &'a str,
        said: &'a str,
        around: Around<'a>,
    ) -> BoxFuture<'a, Result<String, CallError>>;

    /// Calls one of them, by the name that its spec has. Passes the one dispatch.
    fn call<'a>(
        &'a self,
        tool: &'a str,
        args: &'a Value,
        around: Around<'a>,
    ) -> BoxFuture<'a, Result<Value, CallError>>;
}

/// `/SERVER:PROMPT WORDS`, as a person asks for a prompt: its three parts, where there is such a server.
pub(crate) fn asked<'a>(external: &dyn External, text: &'a str) -> Option<(&'a str, &'a str, &'a str)> {
    let (server, rest) = text.trim().strip_prefix('/')?.split_once(':')?;
    let (name, said) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    (!name.is_empty() && external.serves(server)).then(|| (server, name, said.trim()))
}

/// The conversation's own model, for a server that asks for an answer of one. What it uses is the turn's.
pub struct Sampler {
    model: ModelHandle,
    spent: Mutex<Usage>,
}

/// What the model said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampled {
    pub text: String,
    /// It reached the limit of tokens.
    pub cut: bool,
}

impl Sampler {
    pub fn new(model: ModelHandle) -> Self {
        Self { model, spent: Mutex::default() }
    }

    pub fn model(&self) -> &str {
        self.model.id()
    }

    /// One answer, without tools.
    ///
    /// # Errors
    /// As the model's.
    pub async fn complete(
        &self,
        messages: Vec<Message>,
        max_tokens: u32,
        cancel: &CancellationToken,
    ) -> Result<Sampled, ErrorBody> {
        let mut request = self.model.request(messages);
        request.max_tokens = max_tokens.clamp(1, SAMPLE_TOKENS);
        request.purpose = Purpose::Tools;
        let reply = request.send(&mut |_| {}, cancel).await.map_err(|e| e.body())?;
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).add(reply.usage);
        Ok(Sampled { text: reply.text, cut: reply.finish == jarvis_model::Finish::Length })
    }

    /// What was used since this was asked last.
    pub(crate) fn take(&self) -> Usage {
        std::mem::take(&mut self.spent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The tools of one turn.
pub(crate) struct Externals {
    source: Arc<dyn External>,
    tools: Vec<ExternalTool>,
    /// None where all are told as they are.
    shelf: Option<Shelf>,
    sampler: Sampler,
}

impl Externals {
    /// None where there are no tools.
    pub async fn of(
        source: &Arc<dyn External>,
        model: &ModelHandle,
        emit: &mut (dyn FnMut(Event) + Send),
        cancel: &CancellationToken,
    ) -> Option<Self> {
        let tools = source.tools(emit, cancel).await;
        Self::with(source.clone(), tools, model)
    }

    /// Those alone that a subagent may use. What servers ask of the model is counted apart.
    pub fn narrowed(&self, may: impl Fn(&ExternalTool) -> bool) -> Option<Self> {
        let tools = self.tools.iter().filter(|tool| may(tool)).cloned().collect();
        Self::with(self.source.clone(), tools, &self.sampler.model)
    }

    fn with(source: Arc<dyn External>, tools: Vec<ExternalTool>, model: &ModelHandle) -> Option<Self> {
        let bytes: usize = tools.iter().map(|t| t.spec.description.len() + t.spec.parameters.to_string().len()).sum();
        let few = tools.len() <= DIRECT && bytes <= DIRECT_BYTES;
        let shelf = (!few).then(|| {
            Shelf::of(tools.iter().map(|tool| Shelved {
                name: &tool.spec.name,
                description: &tool.spec.description,
                parameters: &tool.spec.parameters,
            }))
        });
        let sampler = Sampler::new(model.clone());
        (!tools.is_empty()).then(|| Self { source, tools, shelf, sampler })
    }

    /// As the model is told of them.
    pub fn specs(&self) -> Vec<ToolSpec> {
        if self.shelf.is_none() {
            return self.tools.iter().map(told).collect();
        }
        vec![
            ToolSpec {
                name: SEARCH.to_owned(),
                description: format!(
                    "Search the {} tools of the person's servers ({}). Answers with at most {FOUND} that fit, with the \
                     schemas of their arguments; {CALL} calls one.",
                    self.tools.len(),
                    self.servers().iter().take(NAMED).map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
                ),
                parameters: json!({"type": "object", "required": ["query"], "additionalProperties": false, "properties": {
                    "query": {"type": "string", "minLength": 1, "description": "what has to be done, in a few words"}}}),
            },
            ToolSpec {
                name: CALL.to_owned(),
                description: format!("Call a tool that {SEARCH} found."),
                parameters: json!({"type": "object", "required": ["tool", "args"], "additionalProperties": false, "properties": {
                    "tool": {"type": "string"}, "args": {"type": "object"}}}),
            },
        ]
    }

    /// Whether this is the name of one of the tools that the model was told.
    pub fn has(&self, name: &str) -> bool {
        match self.shelf {
            Some(_) => name == SEARCH || name == CALL,
            None => self.get(name).is_some(),
        }
    }

    /// The tool that is meant where one is called by way of another.
    pub fn meant<'c>(&self, call: &'c jarvis_protocol::ToolCall) -> Option<&'c str> {
        (self.shelf.is_some() && call.name == CALL).then(|| call.args["tool"].as_str()).flatten()
    }

    /// Whether there is a tool of this server, or this one: `SERVER` or `SERVER/TOOL`.
    pub fn offers(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| match name.split_once('/') {
            None => tool.server == name,
            Some((server, one)) => tool.server == server && tool.tool == one,
        })
    }

    /// Whether it may change what another call of the same reply sees.
    pub fn changes_something(&self, name: &str) -> bool {
        match self.shelf {
            Some(_) => name == CALL,
            None => self.get(name).is_some_and(|tool| !tool.read_only),
        }
    }

    /// What servers used of the model since this was asked last.
    pub fn spent(&self) -> Usage {
        self.sampler.take()
    }

    pub async fn call(&self, calling: Calling<'_>) -> Result<(Value, Did), CallError> {
        let Calling { call, emit, approver, cancel } = calling;
        let (tool, args) = match &self.shelf {
            None => (call.name.as_str(), &call.args),
            Some(shelf) => {
                let specs = self.specs();
                let spec = specs.iter().find(|spec| spec.name == call.name);
                let checked = spec.map_or(Ok(()), |spec| check_arguments(&spec.parameters, &call.args));
                checked.map_err(|e| CallError::respond(ErrorKind::Usage, format!("{}: {e}", call.name)))?;
                if call.name == SEARCH {
                    return Ok((self.search(shelf, call.args["query"].as_str().unwrap_or_default()), Did::Other));
                }
                (call.args["tool"].as_str().unwrap_or_default(), &call.args["args"])
            }
        };
        if self.get(tool).is_none() {
            let body = ErrorBody::new(ErrorKind::NotFound, format!("there is no tool `{tool}`"));
            return Err(CallError::RespondToModel(body.hint(format!("{SEARCH} finds what there is"))));
        }
        let around = Around { call_id: &call.id, emit, approver, sampler: &self.sampler, cancel };
        Ok((self.source.call(tool, args, around).await?, Did::Other))
    }

    fn get(&self, name: &str) -> Option<&ExternalTool> {
        self.tools.iter().find(|tool| tool.spec.name == name)
    }

    fn search(&self, shelf: &Shelf, query: &str) -> Value {
        let mut left = FOUND_CHARS;
        let mut found = Vec::new();
        for (position, _) in shelf.search(query, FOUND) {
            let Some(tool) = self.tools.get(position) else { continue };
            let spec = &tool.spec;
            let shown = json!({"tool": spec.name, "description": spec.description, "args": spec.parameters});
            let size = shown.to_string().chars().count();
            if size > left && !found.is_empty() {
                continue;
            }
            left = left.saturating_sub(size);
            found.push(shown);
        }
        if found.is_empty() {
            let servers: Vec<String> =
                self.servers().iter().take(NAMED).map(|(name, count)| format!("{name} ({count} tools)")).collect();
            return json!({"tools": [], "note": format!("nothing fits; the servers are {}", servers.join(", "))});
        }
        json!({"tools": found})
    }

    /// With the number of tools of each.
    fn servers(&self) -> Vec<(&str, usize)> {
        let mut servers = BTreeMap::new();
        for tool in &self.tools {
            *servers.entry(tool.server.as_str()).or_insert(0) += 1;
        }
        servers.into_iter().collect()
    }
}

/// A description is the server's own words; whose they are stands before them.
fn told(tool: &ExternalTool) -> ToolSpec {
    let description = format!("[of the server `{}`] {}", tool.server, tool.spec.description);
    ToolSpec { description, ..tool.spec.clone() }
}
