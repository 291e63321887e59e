//! The flow for models that cannot drive tools: decide → (use | build) → answer from the result. The model never
//! types a result; jarvis shows it as it came.

mod decide;
mod prompt;
mod values;

use crate::{
    answer::plain,
    bootstrap::{EXECUTE, REGISTER},
    checkpoint::TurnFiles,
    conversation::Conversation,
    find::{Finding, find},
    repair::can_lead,
    turn::{Front, Turn, built},
};
use decide::Choice;
use jarvis_dispatch::CallError;
use jarvis_forge::{
    Forge, ForgeError,
    grow::{Grower, Grown, Plan},
};
use jarvis_model::{Completion, Constraint, Delta, Embedder, Finish, ModelError, estimate_message, estimate_tokens};
use jarvis_protocol::{
    Capability, CapabilityName, ErrorBody, ErrorKind, Event, Message, Role, Status, StopReason, ToolCall,
};
use jarvis_registry::{FITS, Statuses};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use tracing::{Instrument, field::Empty};

/// Capabilities that the model chooses from.
const OFFERED: usize = 3;
const CHAT_TOKENS: u32 = 800;

/// The words, and why they end there.
type Answer = (String, StopReason);
type Ended = Result<(String, StopReason), ErrorBody>;

/// What ended a step early.
enum Stop {
    Cancelled,
    /// A bound of the turn was reached.
    Bound(StopReason),
    Failed(ErrorBody),
}

impl From<ModelError> for Stop {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Cancelled => Stop::Cancelled,
            other => Stop::Failed(other.body()),
        }
    }
}

pub(crate) async fn run<'a>(
    front: Front<'a>,
    forge: &'a Forge,
    embedder: Option<&'a Arc<dyn Embedder>>,
    conversation: &mut Conversation,
    turn: &'a mut Turn,
) -> Ended {
    let request = conversation.history.last().map(|m| m.text.clone()).unwrap_or_default();
    let cancel = front.cancel;
    let files = conversation.files.clone();
    let mut flow = Flow { front, forge, embedder, files, turn };
    match flow.answer(&request, conversation).await {
        Ok((answer, reason)) => {
            conversation.push([Message::assistant(&answer)], flow.turn);
            Ok((answer, reason))
        }
        Err(Stop::Bound(reason)) => {
            conversation.close("a limit of the turn was reached", flow.turn);
            Ok((String::new(), reason))
        }
        Err(Stop::Cancelled) => Ok((String::new(), StopReason::Cancelled)),
        Err(Stop::Failed(_)) if cancel.is_cancelled() => Ok((String::new(), StopReason::Cancelled)),
        Err(Stop::Failed(body)) => Err(body),
    }
}

struct Flow<'a> {
    front: Front<'a>,
    forge: &'a Forge,
    embedder: Option<&'a Arc<dyn Embedder>>,
    files: Option<Arc<TurnFiles>>,
    turn: &'a mut Turn,
}

impl Flow<'_> {
    async fn answer(&mut self, request: &str, conversation: &mut Conversation) -> Result<Answer, Stop> {
        let earlier = earlier(&conversation.history);
        let earlier = earlier.as_ref().map(|(question, answer)| (question.as_str(), answer.as_str()));
        let known = self.known(request, earlier).await?;
        let choice = match self.decide(request, earlier, &known).await? {
            Choice::Build(plan) => self.instead_of(plan, request, earlier).await?,
            other => other,
        };
        match choice {
            Choice::Chat => self.chat(request, conversation).await,
            Choice::Use { name, args } => self.use_registered(&name, args, request, earlier).await,
            Choice::Build(plan) => match self.build(request, plan).await {
                Err(Stop::Failed(error)) if error.kind == ErrorKind::Forge && !values::holds_digit(request) => {
                    // Often it was no task for a tool at all, such as a translation.
                    let message = format!("no capability for this passed ({}); answered in words", error.message);
                    (self.front.emit)(Event::Notice { message });
                    self.chat(request, conversation).await
                }
                other => other,
            },
        }
    }

    async fn use_registered(
        &mut self,
        name: &str,
        args: Value,
        request: &str,
        earlier: Option<(&str, &str)>,
    ) -> Result<Answer, Stop> {
        let before = self.registered(name)?;
        let problem = match self.execute(name, args.clone()).await? {
            Ok(value) => return Ok(self.say(&value)),
            Err(problem) => problem,
        };
        let now = self.registered(name)?;
        let set_back = |now: &Capability| {
            now.status == Status::Active && before.as_ref().is_some_and(|before| before.version != now.version)
        };
        // The version before is back; it has not had its try at this.
        if now.as_ref().is_some_and(set_back)
            && let Ok(value) = self.execute(name, args.clone()).await?
        {
            return Ok(self.say(&value));
        }
        match now.filter(|now| now.status == Status::Quarantined).and_then(|now| self.repair_of(&now, &args)) {
            Some(plan) => self.build(request, plan).await,
            None => self.instead_of_failed(name, &problem, request, earlier).await,
        }
    }

    fn registered(&self, name: &str) -> Result<Option<Capability>, Stop> {
        let name = CapabilityName::new(name).map_err(|e| forge_failure(&e))?;
        self.forge.dispatch().registry().get(&name).map_err(|e| Stop::Failed(e.body()))
    }

    /// The plan to mend what this very call has taken out of use, so that it is not left behind beside another.
    fn repair_of(&self, quarantined: &Capability, args: &Value) -> Option<Plan> {
        let repair = self.forge.repair_of(&quarantined.name, Vec::new());
        // Where it cannot be mended, another one is built, as after any failure.
        let plan = repair.ok().filter(can_lead).and_then(Plan::repair)?;
        // The call that was just made is the newest that failed, unless it was too large to be kept.
        (plan.args() == *args).then_some(plan)
    }

    /// What fits has failed: that is a gap too. A plan with the same arguments makes a new version of it, which must
    /// go on passing what was recorded; any other makes another capability.
    async fn instead_of_failed(
        &mut self,
        failed: &str,
        problem: &str,
        request: &str,
        earlier: Option<(&str, &str)>,
    ) -> Result<Answer, Stop> {
        (self.front.emit)(Event::Notice { message: format!("`{failed}` failed: {problem}; building another") });
        let Choice::Build(mut plan) = self.decide(request, earlier, &[]).await? else {
            return Err(Stop::Failed(failed_body(failed, problem)));
        };
        let mut name = CapabilityName::new(failed).map_err(|e| forge_failure(&e))?;
        let registry = self.forge.dispatch().registry();
        let old = registry.resolve(&name).map_err(|e| Stop::Failed(e.body()))?;
        if let Some(old) = &old {
            // It may have been run by another name of it.
            name = old.name.clone();
        }
        if old.is_some_and(|old| jarvis_dispatch::check_arguments(&old.parameters, &plan.args()).is_ok()) {
            plan.name = name.clone();
        } else {
            self.free_name(&mut plan)?;
        }
        plan.instead_of = Some(name);
        self.build(request, plan).await
    }

    async fn known(&mut self, request: &str, earlier: Option<(&str, &str)>) -> Result<Vec<Capability>, Stop> {
        let registry = self.forge.dispatch().registry();
        let embedder = self.embedder;
        let search = async |query: &str| {
            let found = find(registry, embedder, query, OFFERED * 2, Statuses::Active).await;
            found.map_err(|e| Stop::Failed(e.body()))
        };
        let Finding { mut hits, mut notice } = search(request).await?;
        // "and of 30?" says nothing by itself; what it goes on from does.
        if let (true, Some((question, _))) = (hits.iter().all(|h| h.score < FITS), earlier) {
            let again = search(question).await?;
            (hits, notice) = (again.hits, notice.or(again.notice));
        }
        if let Some(message) = notice {
            (self.front.emit)(Event::Notice { message });
        }
        Ok(hits
            .into_iter()
            .filter(|h| h.score >= FITS && h.suppressed_by.is_none())
            .take(OFFERED)
            .map(|h| h.capability)
            .collect())
    }

    async fn decide(
        &mut self,
        request: &str,
        earlier: Option<(&str, &str)>,
        known: &[Capability],
    ) -> Result<Choice, Stop> {
        let mut messages = prompt::decision(&prompt::in_context(request, earlier), known);
        let needed = messages.iter().map(estimate_message).sum::<u64>();
        let most = self.front.model.traits().context_tokens as u64;
        if needed > most {
            return Err(Stop::Failed(too_long(needed, most)));
        }
        let asked = messages.len();
        let mut problem = None;
        let mut incomplete = None;
        for attempt in 0..3u32 {
            let mut ask = self.front.model.request(messages.clone());
            ask.stable_prefix = prompt::STABLE;
            ask.max_tokens = u32::try_from(estimate_tokens(request).min(4000)).unwrap_or(4000) * 2 + 160;
            ask.temperature = (attempt > 1).then_some(0.7);
            ask.seed = Some(attempt);
            if self.front.model.traits().grammar {
                ask.constraint = Some(Constraint::Gbnf(decide::grammar(request, known)));
            }
            let reply = self.send(&ask, false).await?.text;
            let wrong = match decide::read(&reply, request, known) {
                Ok(choice) => match (incomplete.take(), decide::left_out(&choice, request)) {
                    // Asked again, a small model may also wander off: then its first word stands.
                    (Some(first), _) => return Ok(if decide::completes(&choice, request) { choice } else { first }),
                    // Asked for once; not every number of a request is a value of its own.
                    (None, Some(missing)) => {
                        incomplete = Some(choice);
                        format!("the inputs leave out {missing}")
                    }
                    (None, None) => return Ok(choice),
                },
                Err(wrong) => wrong,
            };
            messages.truncate(asked);
            messages.push(Message::assistant(reply.trim()));
            messages.push(Message::user(prompt::again(&wrong)));
            problem = Some(wrong);
        }
        if let Some(choice) = incomplete {
            return Ok(choice);
        }
        let problem = problem.unwrap_or_default();
        Err(Stop::Failed(
            ErrorBody::new(ErrorKind::Protocol, format!("the model did not decide in the form asked for: {problem}"))
                .hint("say it in other words, or use a stronger model with --model"),
        ))
    }

    /// A plan for what is registered already leads to reuse; one that only has its name gets another name, so that
    /// nothing which other conversations rely on is replaced.
    async fn instead_of(
        &mut self,
        mut plan: Plan,
        request: &str,
        earlier: Option<(&str, &str)>,
    ) -> Result<Choice, Stop> {
        let registry = self.forge.dispatch().registry();
        let draft = plan.capability(request, self.front.model.id());
        let named = registry.resolve(&plan.name).map_err(|e| Stop::Failed(e.body()))?;
        let alike = |found: &Capability| {
            found.status == Status::Active && jarvis_registry::similarity(found, &draft) >= jarvis_registry::SIMILAR
        };
        let found = match named.filter(alike) {
            Some(same_name) => Some(same_name),
            // Under its own name it was just found to be something else.
            None => self
                .forge
                .duplicate_of(&draft)
                .map_err(|e| Stop::Failed(e.body()))?
                .filter(|found| found.name != plan.name),
        };
        if let Some(found) = found {
            let name = found.name.clone();
            let fits = jarvis_dispatch::check_arguments(&found.parameters, &plan.args()).is_ok();
            let choice = if fits {
                Choice::Use { name: name.to_string(), args: plan.args() }
            } else {
                // The same thing with other argument names: asked again with it alone on offer.
                self.decide(request, earlier, &[found]).await?
            };
            if let Choice::Use { .. } = choice {
                self.forge.reused(self.front.emit, &name).map_err(|e| Stop::Failed(e.body()))?;
                return Ok(choice);
            }
        }
        self.free_name(&mut plan)?;
        Ok(Choice::Build(plan))
    }

    /// Another name where this one is taken.
    fn free_name(&self, plan: &mut Plan) -> Result<(), Stop> {
        let registry = self.forge.dispatch().registry();
        let stem = plan.name.as_str().to_owned();
        let mut number = 2;
        while registry.resolve(&plan.name).map_err(|e| Stop::Failed(e.body()))?.is_some() {
            plan.name = CapabilityName::new(format!("{stem}_{number}")).map_err(|e| forge_failure(&e))?;
            number += 1;
        }
        Ok(())
    }

    async fn chat(&mut self, request: &str, conversation: &mut Conversation) -> Result<Answer, Stop> {
        let kept = u64::from(CHAT_TOKENS) + 200;
        let Front { model, emit, cancel, .. } = &mut self.front;
        let sent = conversation.for_model(model, kept, self.turn, *emit, cancel).await?;
        let mut messages = vec![Message::system(prompt::chat(request))];
        messages.extend(sent);
        let mut ask = self.front.model.request(messages);
        ask.max_tokens = CHAT_TOKENS;
        ask.stable_prefix = 1;
        ask.note = Some(prompt::now(request, self.front.now));
        let reply = self.send(&ask, true).await?;
        let reason = match reply.finish {
            Finish::Stop | Finish::ToolCalls => StopReason::EndTurn,
            Finish::Length => StopReason::ReplyCut,
            Finish::ContentFilter => StopReason::Refused,
        };
        Ok((reply.text.trim().to_owned(), reason))
    }

    async fn send(&mut self, ask: &jarvis_model::Request, show: bool) -> Result<Completion, Stop> {
        if let Some(bound) = self.turn.exceeded() {
            return Err(Stop::Bound(bound));
        }
        let emit = &mut *self.front.emit;
        let mut on_delta = |delta| match delta {
            Delta::Text(text) if show => emit(Event::TextDelta { text }),
            Delta::Status(message) => emit(Event::Status { message }),
            Delta::Text(_) | Delta::Reasoning(_) => {}
        };
        let reply = ask.send(&mut on_delta, self.front.cancel).await?;
        self.turn.count(reply.usage);
        self.turn.rounds += 1;
        Ok(reply)
    }

    /// One execution of a registered capability, with its events.
    async fn execute(&mut self, name: &str, args: Value) -> Result<Result<Value, String>, Stop> {
        self.gate(EXECUTE).await?;
        self.turn.acted = true;
        let id = format!("call_{}", self.turn.rounds);
        let call = ToolCall { id: id.clone(), name: name.to_owned(), args: args.clone() };
        (self.front.emit)(Event::ToolStarted { call });
        let files = self.files.clone();
        let mut followed = None;
        if let Some(files) = &files {
            let executed = ToolCall { id: id.clone(), name: EXECUTE.to_owned(), args: json!({"name": name}) };
            followed = files.enter(&executed, self.forge.dispatch(), self.front.emit).await.then_some(files);
        }
        let started = Instant::now();
        let mut became = Vec::new();
        let span = tracing::info_span!(
            target: "jarvis::tool", "execute_tool", name, id = %id, args = %args, output = Empty, error = Empty,
        );
        let mut emit = |event| became.push(event);
        let run = self.forge.dispatch().run(name, args, &mut emit, self.front.cancel);
        let ran = run.instrument(span.clone()).await;
        let duration_ms = started.elapsed().as_secs_f64() * 1e3;
        if let Some(files) = followed {
            files.leave(self.front.emit).await;
        }
        let (ok, content) = match &ran {
            Ok(ran) => (true, json!({"result": ran.value})),
            Err(error) => (false, json!({"error": error.to_string()})),
        };
        span.record(if ok { "output" } else { "error" }, tracing::field::display(&content));
        (self.front.emit)(Event::ToolCompleted { call_id: id, name: name.to_owned(), ok, content, duration_ms });
        became.into_iter().for_each(&mut *self.front.emit);
        match ran {
            Ok(ran) => {
                self.turn.mark_used(name);
                Ok(Ok(ran.value))
            }
            Err(error @ CallError::RespondToModel(_)) => Ok(Err(error.to_string())),
            Err(CallError::Fatal(body)) => Err(Stop::Failed(body)),
        }
    }

    /// What the rules say to a tool, which a led model calls without naming it.
    async fn gate(&mut self, tool: &str) -> Result<(), Stop> {
        let gate = self.forge.dispatch().gate(tool, &mut *self.front.approver).await;
        gate.map_err(|error| Stop::Failed(error.body().clone()))
    }

    async fn build(&mut self, request: &str, plan: Plan) -> Result<Answer, Stop> {
        self.gate(REGISTER).await?;
        let turn = &mut *self.turn;
        let may_go_on = turn.exceeded().is_none();
        let mut count = |usage| {
            turn.count(usage);
            turn.rounds += 1;
            turn.exceeded().is_none()
        };
        let mut grower = Grower {
            forge: self.forge,
            model: self.front.model,
            count: &mut count,
            emit: self.front.emit,
            approver: self.front.approver,
            cancel: self.front.cancel,
            may_go_on,
        };
        let name = match grower.grow(request, &plan).await {
            Ok(Grown::Kept(accepted)) => {
                built(self.turn, self.forge, accepted.name.as_str(), self.front.emit);
                accepted.name
            }
            Ok(Grown::OnlyRan { result, reason }) => {
                let message = format!("the capability was not kept: {reason}; --approve auto keeps it");
                (self.front.emit)(Event::Notice { message });
                return Ok(self.say(&result));
            }
            Err(ForgeError::OutOfBounds) => {
                return Err(Stop::Bound(self.turn.exceeded().unwrap_or(StopReason::MaxRounds)));
            }
            Err(error) => return Err(Stop::Failed(error.body())),
        };
        match self.execute(name.as_str(), plan.args()).await? {
            Ok(value) => Ok(self.say(&value)),
            Err(problem) => Err(Stop::Failed(failed_body(name.as_str(), &problem))),
        }
    }

    fn say(&mut self, value: &Value) -> Answer {
        let text = plain(value);
        (self.front.emit)(Event::TextDelta { text: text.clone() });
        (text, StopReason::EndTurn)
    }
}

/// The question and answer before the request that `conversation` ends with.
fn earlier(conversation: &[Message]) -> Option<(String, String)> {
    match conversation {
        [.., question, answer, _] if question.role == Role::User && answer.role == Role::Assistant => {
            Some((question.text.clone(), answer.text.clone()))
        }
        _ => None,
    }
}

fn forge_failure(error: &dyn std::fmt::Display) -> Stop {
    Stop::Failed(ErrorBody::new(ErrorKind::Forge, error.to_string()))
}

fn failed_body(name: &str, problem: &str) -> ErrorBody {
    ErrorBody::new(ErrorKind::Sandbox, format!("`{name}` failed: {problem}"))
        .hint(format!("jarvis cap show {name} --code"))
}

fn too_long(needed: u64, most: u64) -> ErrorBody {
    ErrorBody::new(
        ErrorKind::ContextOverflow,
        format!("the request needs about {needed} tokens, and the model reads {most}"),
    )
    .hint("shorten it, or use a model with a larger context: --model PROVIDER/MODEL")
}
