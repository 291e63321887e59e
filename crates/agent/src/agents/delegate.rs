//! The tool `delegate`: runs a subagent to its end and checks what it says against what it did.

use super::claims::named;
use super::definition::Agent;
use super::evidence::Evidence;
use super::role::Role;
use super::tree::Tree;
use crate::bootstrap::Bootstrap;
use crate::checkpoint::TurnFiles;
use crate::context::Strategy;
use crate::conversation::Conversation;
use crate::external::{ExternalTool, Externals};
use crate::native;
use crate::remember::Memory;
use crate::session::TurnLimits;
use crate::toolbox::{Calling, Toolbox};
use crate::turn::{Front, Turn};
use futures::future::BoxFuture;
use jarvis_dispatch::{ApprovalRequest, Approver, CallError, Content, Dispatch};
use jarvis_forge::Forge;
use jarvis_model::{Embedder, ModelHandle};
use jarvis_protocol::{ErrorBody, ErrorKind, Event, Message, StopReason, ToolCall, ToolSpec};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

pub const DELEGATE: &str = "delegate";

/// Characters of an answer that reach the parent; the evidence stands before it.
const ANSWER_CHARS: usize = 12_000;
const EXPECTED_FILES: usize = 50;

/// What every subagent of a turn has in common with the conversation that starts it.
pub(crate) struct Shared {
    pub forge: Forge,
    pub model: ModelHandle,
    pub embedder: Option<Arc<dyn Embedder>>,
    pub strategy: Strategy,
    pub now: String,
    /// With the session that notes are learned in, for those that may use them.
    pub memory: Option<(Memory, String)>,
    /// What they change is the turn's.
    pub files: Option<Arc<TurnFiles>>,
    /// Tools of servers outside, for those whose file names them.
    pub external: Option<Arc<Externals>>,
}

/// The subagents that a conversation may start in one turn.
pub(crate) struct Delegation {
    shared: Shared,
    agents: Vec<Agent>,
    ledger: Mutex<Ledger>,
}

#[derive(Default)]
struct Ledger {
    /// What each of the calls of this reply may use; none: nothing is left.
    share: Option<TurnLimits>,
    /// Turns that ended since they were last taken.
    spent: Vec<Turn>,
}

/// How the loop of a subagent ended.
struct Ended {
    said: String,
    problems: Vec<String>,
    stop_reason: Option<StopReason>,
}

impl Delegation {
    pub fn new(shared: Shared, agents: Vec<Agent>) -> Self {
        Self { shared, agents, ledger: Mutex::default() }
    }

    pub fn spec(&self) -> ToolSpec {
        let names: Vec<&str> = self.agents.iter().map(|agent| agent.name.as_str()).collect();
        let about: Vec<String> = self.agents.iter().map(|a| format!("{}: {}", a.name, a.description)).collect();
        ToolSpec {
            name: DELEGATE.to_owned(),
            description:
                "Give a task of its own to a subagent, which works with its own tools and sees nothing of this \
                          conversation. Several in one reply work at the same time. The result holds evidence that was \
                          checked: files with digests, commands with exit codes; what failed is reported as failed."
                    .to_owned(),
            parameters: json!({"type": "object", "required": ["agent", "task"], "additionalProperties": false, "properties": {
                "agent": {"enum": names, "description": about.join("\n")},
                "task": {"type": "string", "minLength": 1,
                    "description": "all that it must know: what to do, which files, what the answer must hold"},
                "expect_files": {"type": "array", "maxItems": EXPECTED_FILES, "items": {"type": "string", "minLength": 1},
                    "description": "files that it must write; without each of them the result is a failure"}}}),
        }
    }

    /// What the calls of one reply may use together, a part each. The parent keeps a round for its answer.
    pub fn allot(&self, turn: &Turn, calls: &[ToolCall]) {
        let among = calls.iter().filter(|call| call.name == DELEGATE).count();
        self.ledger().share = turn.share(u32::try_from(among).unwrap_or(u32::MAX));
    }

    /// What was spent since this was asked last.
    pub fn settle(&self) -> Vec<Turn> {
        std::mem::take(&mut self.ledger().spent)
    }

    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Not `async`: this ends the circle of loop → call → loop, which has no size.
    pub fn call<'a>(&'a self, calling: Calling<'a>) -> BoxFuture<'a, Result<Value, CallError>> {
        Box::pin(self.delegate(calling))
    }

    async fn delegate(&self, calling: Calling<'_>) -> Result<Value, CallError> {
        let Calling { call, emit, approver, cancel } = calling;
        jarvis_dispatch::check_arguments(&self.spec().parameters, &call.args)
            .map_err(|problem| CallError::respond(ErrorKind::Usage, format!("{DELEGATE}: {problem}")))?;
        let text_of = |key: &str| call.args[key].as_str().unwrap_or_default();
        let Some(agent) = self.agents.iter().find(|agent| agent.name == text_of("agent")) else {
            return Err(CallError::respond(ErrorKind::NotFound, format!("no agent is called `{}`", text_of("agent"))));
        };
        let expected: Vec<&str> =
            call.args["expect_files"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if !expected.is_empty() && !agent.changes_files() {
            let message = format!("`{}` changes no files, so none can be expected of it", agent.name);
            return Err(CallError::respond(ErrorKind::Usage, message));
        }
        let Some(mut limits) = self.ledger().share else {
            let message =
                "this turn has nothing left for a subagent (rounds, tokens, cost or time): answer with what you have";
            return Err(CallError::respond(ErrorKind::Limit, message));
        };
        limits.max_rounds = limits.max_rounds.min(agent.max_iterations);
        let mut task = text_of("task").to_owned();
        if !expected.is_empty() {
            task.push_str(&format!("\n\nFiles that must be written: {}", expected.join(", ")));
        }
        let dispatch = self.shared.forge.dispatch();
        let begun = json!({
            "subject": {"kind": "agent"}, "tools": agent.tools, "task_digest": blake3::hash(task.as_bytes()).to_hex().as_str(),
            "limits": {"rounds": limits.max_rounds, "tokens": limits.max_tokens, "cost_usd": limits.max_cost_usd,
                       "seconds": limits.max_time.as_secs()},
        });
        dispatch.record_agent(&agent.name, false, begun)?;
        let mut turn = Turn::start(limits);
        let mut inner = |event: Event| {
            let (agent, call_id) = (agent.name.clone(), call.id.clone());
            emit(Event::Agent { agent, call_id, event: Box::new(event) });
        };
        let mut asks = AsAgent { name: &agent.name, inner: approver };
        let result = self.work(agent, &task, limits, &mut turn, &mut inner, &mut asks, cancel).await;
        let (built, used) = (turn.built.clone(), turn.used.clone());
        let usage = turn.usage;
        let rounds = turn.rounds;
        self.ledger().spent.push(turn);
        let checked = match result {
            Ok((ended, evidence)) if !cancel.is_cancelled() => {
                let evidence = Evidence { capabilities_built: built, capabilities_used: used, ..evidence };
                self.check(agent, ended, &evidence, &expected, cancel).await.map(|ended| (ended, evidence))
            }
            Ok(_) => Err(CallError::Fatal(ErrorBody::new(ErrorKind::Cancelled, "cancelled"))),
            Err(error) => Err(error),
        };
        let outcome = match &checked {
            Ok((ended, evidence)) => json!({"ok": ended.problems.is_empty(), "stop_reason": ended.stop_reason,
                "problems": ended.problems.len(), "files": evidence.files, "rounds": rounds}),
            Err(error) => json!({"ok": false, "error": error.body().message, "rounds": rounds}),
        };
        let mut record = json!({"subject": {"kind": "agent"}});
        if let (Some(record), Value::Object(outcome)) = (record.as_object_mut(), outcome) {
            record.extend(outcome);
        }
        dispatch.record_agent(&agent.name, true, record)?;
        let (ended, evidence) = checked?;
        let said: String = ended.said.chars().take(ANSWER_CHARS).collect();
        if ended.problems.is_empty() {
            return Ok(json!({
                "agent": agent.name, "evidence": evidence, "rounds": rounds,
                "tokens": usage.input_tokens + usage.output_tokens, "answer": said,
            }));
        }
        let message = format!(
            "the subagent `{}` failed: {}. What jarvis saw of it: {}. What it said, unproven: {said}",
            agent.name,
            ended.problems.join("; "),
            json!(evidence),
        );
        Err(CallError::respond(ErrorKind::Limit, message))
    }

    /// What it may use of servers outside. What its file names and is not there is told.
    fn external(&self, agent: &Agent, emit: &mut (dyn FnMut(Event) + Send)) -> Option<Arc<Externals>> {
        let may = |tool: &ExternalTool| agent.may_use(&tool.server, &tool.tool);
        let external = self.shared.external.as_ref().and_then(|all| all.narrowed(may));
        let there = |name: &str| external.as_ref().is_some_and(|external| external.offers(name));
        let missing: Vec<&str> = agent.external().filter(|name| !there(name)).collect();
        if !missing.is_empty() {
            let message = format!(
                "`{}` works without mcp/{}: no such server or tool is there",
                agent.name,
                missing.join(", mcp/")
            );
            emit(Event::Notice { message });
        }
        external.map(Arc::new)
    }

    /// The loop, and what was seen of it.
    #[allow(
        clippy::too_many_arguments,
        reason = "called once; the front is not yet one, for its parts are wrapped here"
    )]
    async fn work(
        &self,
        agent: &Agent,
        task: &str,
        limits: TurnLimits,
        turn: &mut Turn,
        emit: &mut (dyn FnMut(Event) + Send),
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(Ended, Evidence), CallError> {
        let Shared { forge, model, embedder, now, .. } = &self.shared;
        let bootstrap =
            Bootstrap::new(forge.clone(), Some(task.to_owned()), model.id()).with_embedder(embedder.clone());
        let tools = Toolbox::of_agent(bootstrap, Role::new(agent.clone()), self.shared.memory.clone())
            .with_files(self.shared.files.clone())
            .with_external(self.external(agent, emit));
        let mut conversation = Conversation::new(agent.context.unwrap_or(self.shared.strategy));
        conversation.history.push(Message::user(task));
        let until = cancel.child_token();
        let front = Front { now, model, emit, approver, cancel: &until };
        let mut late = false;
        let result = {
            let run = native::run(front, &tools, &mut conversation, turn);
            tokio::pin!(run);
            tokio::select! {
                biased;
                result = &mut run => result,
                () = tokio::time::sleep(limits.max_time) => {
                    late = true;
                    until.cancel();
                    run.await
                }
            }
        };
        let (said, stop_reason, mut problems) = match result {
            Ok((said, reason)) => (said, Some(reason), Vec::new()),
            Err(body) if ends_the_turn(body.kind) => return Err(CallError::Fatal(body)),
            Err(body) => (String::new(), None, vec![body.message]),
        };
        problems.extend(if late { Some("its time was over".to_owned()) } else { stop_reason.and_then(stopped) });
        let recorder = tools.into_recorder();
        let evidence = recorder.finish(&agent.name, forge.dispatch(), cancel).await?;
        Ok((Ended { said, problems, stop_reason }, evidence))
    }

    /// Adds what is wrong with what it says it wrote.
    async fn check(
        &self,
        agent: &Agent,
        mut ended: Ended,
        evidence: &Evidence,
        expected: &[&str],
        cancel: &CancellationToken,
    ) -> Result<Ended, CallError> {
        let dispatch = self.shared.forge.dispatch();
        for path in expected {
            let state = dispatch.file_state(&agent.name, path, cancel).await?;
            if !evidence.wrote_at(&state.path) {
                ended.problems.push(match state.content {
                    Content::Missing => format!("the file {path} was expected and is not there"),
                    Content::Bytes { .. } | Content::Unread(_) => {
                        format!("the file {path} was expected and it did not write it")
                    }
                });
            }
        }
        if agent.changes_files() {
            ended.problems.extend(unproven(dispatch, &agent.name, &ended.said, evidence, cancel).await?);
        }
        ended.problems.dedup();
        Ok(ended)
    }
}

/// Files that the answer names and that are not there, or says it wrote and did not.
async fn unproven(
    dispatch: &Dispatch,
    who: &str,
    answer: &str,
    evidence: &Evidence,
    cancel: &CancellationToken,
) -> Result<Vec<String>, CallError> {
    let mut problems = Vec::new();
    let mut tree = None;
    for name in named(answer) {
        let relative = |reading: &str| {
            let below = std::path::Path::new(reading).strip_prefix(dispatch.workspace());
            below.map_or_else(|_| reading.to_owned(), |path| path.to_string_lossy().into_owned())
        };
        let readings: Vec<String> = name.readings().map(relative).collect();
        if readings.iter().any(|reading| evidence.wrote(reading)) {
            continue;
        }
        if name.written {
            problems.push(format!("it says that it wrote {}, and it did not", name.word));
            continue;
        }
        if readings.iter().any(|reading| evidence.removed(reading)) {
            continue;
        }
        let mut there = false;
        for reading in &readings {
            let state = dispatch.file_state(who, reading, cancel).await?;
            there |= state.content != Content::Missing;
        }
        if tree.is_none() {
            tree = Some(Tree::of(dispatch.workspace()).await);
        }
        // A bare name may mean a file further below.
        there |= tree.as_ref().is_some_and(|tree| !tree.complete || readings.iter().any(|name| tree.holds(name)));
        if !there {
            problems.push(format!("it names {}, and there is no such file", name.word));
        }
    }
    Ok(problems)
}

/// An error that is no subagent's fault and that the next call would meet, too.
fn ends_the_turn(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Disk | ErrorKind::Damaged | ErrorKind::Sandbox | ErrorKind::Internal)
}

/// Why an end is none of its own.
fn stopped(reason: StopReason) -> Option<String> {
    let why = match reason {
        StopReason::EndTurn => return None,
        StopReason::MaxRounds => "it did not finish within its rounds",
        StopReason::MaxTokens => "its part of the turn's tokens was used up",
        StopReason::ReplyCut => "its answer was cut at the length of one reply",
        StopReason::MaxCost => "its part of the turn's cost was used up",
        StopReason::MaxTime => "its time was over",
        StopReason::Cancelled => "it was cancelled",
        StopReason::RepeatedFailure => "the same call failed three times",
        StopReason::Refused => "the model refused",
    };
    Some(why.to_owned())
}

/// A question says which subagent it comes from.
struct AsAgent<'a> {
    name: &'a str,
    inner: &'a mut dyn Approver,
}

impl Approver for AsAgent<'_> {
    fn ask<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let reason = format!("subagent {}: {}", self.name, request.reason);
            self.inner.ask(&ApprovalRequest { reason, ..request.clone() }).await
        })
    }
}
