//! What `jarvis bench turns` measures in: a temporary home with one capability and one file, conversations in it, and
//! the model that answers them.

use super::bench_turns::Sample;
use super::bench_turns_meter::{Meter, TURN};
use crate::cli::{Place, Reach};
use crate::config::{self, Settings};
use crate::error::{Failure, Outcome, disk, failed};
use crate::home::Home;
use crate::{kept, notes, run};
use futures::future::BoxFuture;
use jarvis_agent::{Memory, Mode, Record, Session, SessionParts, Strategy, TurnEnd, TurnLimits};
use jarvis_audit::{AuditLog, Filter, Kind as AuditKind};
use jarvis_dispatch::DenyAll;
use jarvis_forge::{Draft, Forge};
use jarvis_memory::{NewSession, SessionStore};
use jarvis_model::{Backend, Completion, Delta, Finish, ModelError, ModelHandle, Request, Traits};
use jarvis_protocol::{Capability, ErrorKind, Message, Role, ToolCall, Usage};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// What a turn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Answer,
    File,
    Capability,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Answer, Kind::File, Kind::Capability];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Answer => "an answer alone",
            Kind::File => "a file is read",
            Kind::Capability => "a capability is run",
        }
    }

    pub fn calls(self) -> bool {
        self != Kind::Answer
    }

    fn call(self) -> Option<(&'static str, Value)> {
        match self {
            Kind::Answer => None,
            Kind::File => Some(("file_read", json!({"path": "notes.txt"}))),
            Kind::Capability => Some(("execute_capability", json!({"name": "double_number", "args": {"n": 21}}))),
        }
    }

    /// What the result of the call says.
    fn result(self) -> &'static str {
        match self {
            Kind::Answer => "",
            Kind::File => "first line",
            Kind::Capability => "42",
        }
    }
}

const ANSWER: &str = "That is 42, as far as this model knows.";

/// Calls the tool of its kind for each question, and answers when it has the result.
struct Scripted(Kind);

impl Backend for Scripted {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        let asked = request.messages.last().is_some_and(|message| message.role == Role::User);
        let call = self.0.call().filter(|_| asked);
        let tool_calls: Vec<ToolCall> = call
            .into_iter()
            .map(|(name, args)| ToolCall { id: "call_1".to_owned(), name: name.to_owned(), args })
            .collect();
        let text = if tool_calls.is_empty() { ANSWER } else { "" };
        if !text.is_empty() {
            on_delta(Delta::Text(text.to_owned()));
        }
        let completion = Completion {
            text: text.to_owned(),
            reasoning: None,
            finish: if tool_calls.is_empty() { Finish::Stop } else { Finish::ToolCalls },
            tool_calls,
            malformed_calls: Vec::new(),
            alternatives: Vec::new(),
            usage: Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() },
        };
        Box::pin(std::future::ready(Ok(completion)))
    }
}

/// A conversation that is over.
pub struct Talk {
    pub samples: Vec<Sample>,
    id: String,
    turns: u32,
    answered: bool,
}

#[derive(Clone)]
pub struct World {
    meter: Meter,
    forge: Forge,
    store: SessionStore,
    memory: Memory,
    audit: Arc<AuditLog>,
    workspace: String,
    /// Removed with the last clone.
    _folders: Arc<tempfile::TempDir>,
}

impl World {
    pub fn new(meter: Meter) -> Outcome<World> {
        let folders = tempfile::tempdir().map_err(|e| failed(ErrorKind::Disk, format!("no temporary folder: {e}")))?;
        let (root, workspace) = (folders.path().join("home"), folders.path().join("workspace"));
        for folder in [&root, &workspace] {
            std::fs::create_dir(folder).map_err(|e| disk(folder, &e))?;
        }
        let file = workspace.join("notes.txt");
        std::fs::write(&file, "first line\n第二行\n".repeat(20)).map_err(|e| disk(&file, &e))?;
        run::enter(&Place { workspace: Some(workspace.clone()) })?;
        let home = Home::at(&root);
        let settings: Settings = config::load(&home)?;
        let reach = Reach::default();
        let memory = notes::open(&home, &settings, None)?;
        Ok(World {
            meter,
            forge: run::forge(&settings, &reach, &home)?,
            store: kept::sessions(&home)?,
            memory: Memory { store: memory, keeps: false },
            audit: Arc::new(AuditLog::open(home.audit())),
            workspace: workspace.to_string_lossy().into_owned(),
            _folders: Arc::new(folders),
        })
    }

    /// Registers the capability that is run, by the way of every other one.
    pub async fn prepare(&self, cancel: &CancellationToken) -> Outcome {
        let capability: Capability = serde_json::from_value(json!({
            "name": "double_number", "capability": "Doubles a whole number.", "triggers": ["twice a number"],
            "parameters": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
            "returns": {"type": "integer"},
            "examples": [{"args": {"n": 2}, "returns": 4}, {"args": {"n": 50}, "returns": 100}],
        }))
        .map_err(|e| failed(ErrorKind::Internal, e.to_string()))?;
        let draft = Draft {
            capability,
            code: super::bench_sandbox::TYPESCRIPT.to_owned(),
            request: None,
            change: "for a measurement".to_owned(),
            instead_of: None,
            restored: false,
        };
        let accepted = self.forge.submit(draft, &mut |_| {}, &mut DenyAll, cancel).await;
        accepted.map(|_| ()).map_err(|e| Failure::Body(e.body()))
    }

    /// One conversation of `turns` turns.
    pub async fn talk(&self, kind: Kind, number: u32, turns: u32, cancel: &CancellationToken) -> Outcome<Talk> {
        let traits = Traits { native_tools: true, grammar: false, context_tokens: 32_768 };
        let mut session = Session::new(SessionParts {
            id: format!("bench-{number}"),
            model: ModelHandle::new("bench/scripted", traits, Arc::new(Scripted(kind))),
            forge: self.forge.clone(),
            mode: Mode::Native,
            limits: TurnLimits::STANDARD,
            strategy: Strategy::default(),
            builtins: true,
            zone: jiff::tz::TimeZone::UTC,
        })
        .with_memory(Some(self.memory.clone()))
        .recorded(Record::new(
            self.store.clone(),
            NewSession { workspace: Some(self.workspace.clone()), ..NewSession::default() },
        ));
        let mut talk = Talk { samples: Vec::new(), id: String::new(), turns, answered: true };
        for turn in 0..turns {
            if cancel.is_cancelled() {
                return Err(failed(ErrorKind::Cancelled, "cancelled"));
            }
            let question = format!("Conversation {number}, question {turn}: what is twice 21? 两倍是多少？");
            let span = tracing::info_span!(TURN);
            let started = Instant::now();
            let end = session.turn(question.as_str(), &mut |_| {}, &mut DenyAll, cancel).instrument(span.clone()).await;
            let wall = started.elapsed();
            talk.answered &= matches!(&end, TurnEnd::Completed { answer, .. } if answer == ANSWER);
            talk.samples.push(Sample { wall, spent: self.meter.spent(&span) });
        }
        talk.id = session.id().to_owned();
        Ok(talk)
    }

    /// Whether all of a conversation is on disk, with the results that its calls had to give.
    pub fn is_whole(&self, talk: &Talk, kind: Kind) -> Outcome<bool> {
        let loaded = self.store.load(&talk.id)?;
        let results: Vec<&Message> = loaded.messages.iter().filter(|message| message.role == Role::Tool).collect();
        let right = results.iter().all(|message| !message.is_error && message.text.contains(kind.result()));
        let (calls, messages) = if kind.calls() { (talk.turns, talk.turns * 4) } else { (0, talk.turns * 2) };
        Ok(talk.answered
            && right
            && loaded.interrupted == 0
            && (results.len(), loaded.messages.len()) == (calls as usize, messages as usize))
    }

    /// Outcomes of calls that are on the audit, whose chain must hold.
    pub fn calls_on_audit(&self) -> Outcome<u64> {
        let verified = self.audit.verify()?;
        if let Some(problem) = verified.problems.first() {
            return Err(failed(ErrorKind::Disk, format!("the audit does not verify: {}", problem.what)));
        }
        let outcomes = Filter { kind: Some(AuditKind::Outcome), ..Filter::default() };
        Ok(self.audit.tail(usize::MAX, &outcomes)?.entries.len() as u64)
    }
}
