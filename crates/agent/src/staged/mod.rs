//! The flow for models that cannot drive tools: decide → (use | build) → answer from the result. The model never
//! types a result; jarvis shows it as it came.

mod decide;
mod prompt;
mod values;

use crate::{
    answer::plain,
    history,
    turn::{Front, Turn},
};
use decide::{Choice, Known};
use jarvis_dispatch::CallError;
use jarvis_forge::{
    Forge, ForgeError,
    grow::{Grower, Grown, Plan},
};
use jarvis_model::{Constraint, Delta, ModelError, estimate_message, estimate_tokens};
use jarvis_protocol::{
    CapabilityName, ErrorBody, ErrorKind, Event, Message, Role, Status, StopReason, ToolCall, Usage,
};
use jarvis_registry::FITS;
use serde_json::{Value, json};
use std::time::Instant;

/// Capabilities that the model chooses from.
const OFFERED: usize = 3;
const CHAT_TOKENS: u32 = 800;

type Ended = Result<(String, StopReason), ErrorBody>;

/// What ended a step early.
enum Stop {
    Cancelled,
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
    conversation: &mut Vec<Message>,
    turn: &'a mut Turn,
) -> Ended {
    let request = conversation.last().map(|m| m.text.clone()).unwrap_or_default();
    let cancel = front.cancel;
    let mut flow = Flow { front, forge, turn };
    match flow.answer(&request, conversation).await {
        Ok(answer) => {
            conversation.push(Message::assistant(&answer));
            Ok((answer, StopReason::EndTurn))
        }
        Err(Stop::Cancelled) => Ok((String::new(), StopReason::Cancelled)),
        Err(Stop::Failed(_)) if cancel.is_cancelled() => Ok((String::new(), StopReason::Cancelled)),
        Err(Stop::Failed(body)) => Err(body),
    }
}

struct Flow<'a> {
    front: Front<'a>,
    forge: &'a Forge,
    turn: &'a mut Turn,
}

impl Flow<'_> {
    async fn answer(&mut self, request: &str, conversation: &[Message]) -> Result<String, Stop> {
        let earlier = earlier(conversation);
        let known = self.known(request, earlier)?;
        let choice = match self.decide(request, earlier, &known).await? {
            Choice::Build(plan) => self.instead_of(plan, request, earlier).await?,
            other => other,
        };
        match choice {
            Choice::Chat => self.chat(request, conversation).await,
            Choice::Use { name, args } => match self.execute(&name, args).await? {
                Ok(value) => Ok(self.say(&value)),
                // What fits has failed: that is a gap too, closed without the failing one on offer.
                Err(problem) => {
                    (self.front.emit)(Event::Notice {
                        message: format!("`{name}` failed: {problem}; building another"),
                    });
                    match self.decide(request, earlier, &[]).await? {
                        Choice::Build(plan) => self.build(request, plan).await,
                        Choice::Chat | Choice::Use { .. } => Err(Stop::Failed(failed_body(&name, &problem))),
                    }
                }
            },
            Choice::Build(plan) => match self.build(request, plan).await {
                Err(Stop::Failed(error)) if error.kind == ErrorKind::Forge && !values::holds_digit(request) => {
                    // Often it was no task for a tool at all, such as a translation.
                    (self.front.emit)(Event::Notice {
                        message: format!("no tool for this passed ({}); answered in words", error.message),
                    });
                    self.chat(request, conversation).await
                }
                other => other,
            },
        }
    }

    fn known(&mut self, request: &str, earlier: Option<(&str, &str)>) -> Result<Vec<Known>, Stop> {
        let registry = self.forge.dispatch().registry();
        let search = |query: &str| registry.search(query, OFFERED * 2).map_err(|e| Stop::Failed(e.body()));
        let mut hits = search(request)?;
        // "and of 30?" says nothing by itself; what it goes on from does.
        if let (true, Some((question, _))) = (hits.iter().all(|h| h.score < FITS), earlier) {
            hits = search(question)?;
        }
        Ok(hits
            .into_iter()
            .filter(|h| h.score >= FITS && h.suppressed_by.is_none() && h.capability.status == Status::Active)
            .take(OFFERED)
            .map(|h| Known { capability: h.capability })
            .collect())
    }

    async fn decide(&mut self, request: &str, earlier: Option<(&str, &str)>, known: &[Known]) -> Result<Choice, Stop> {
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
            let reply = self.send(&ask, false).await?;
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
        let registry = self.forge.dispatch().registry().clone();
        let named = registry.get(&plan.name).map_err(|e| Stop::Failed(e.body()))?;
        let found = match named.filter(|c| c.status == Status::Active) {
            Some(same_name) => Some(same_name),
            None => self
                .forge
                .duplicate_of(&plan.capability(request, self.front.model.id()))
                .map_err(|e| Stop::Failed(e.body()))?,
        };
        if let Some(found) = found {
            if jarvis_dispatch::check_arguments(&found.parameters, &plan.args()).is_ok() {
                return Ok(Choice::Use { name: found.name.to_string(), args: plan.args() });
            }
            // The same thing with other argument names: asked again with it alone on offer.
            let again = self.decide(request, earlier, &[Known { capability: found }]).await?;
            if let Choice::Use { .. } = again {
                return Ok(again);
            }
        }
        let mut number = 2;
        let stem = plan.name.as_str().to_owned();
        while registry.get(&plan.name).map_err(|e| Stop::Failed(e.body()))?.is_some() {
            plan.name = CapabilityName::new(format!("{stem}_{number}"))
                .map_err(|e| Stop::Failed(ErrorBody::new(ErrorKind::Forge, e.to_string())))?;
            number += 1;
        }
        Ok(Choice::Build(plan))
    }

    async fn chat(&mut self, request: &str, conversation: &[Message]) -> Result<String, Stop> {
        let budget = history::budget(self.front.model, CHAT_TOKENS + 200);
        let mut messages = vec![Message::system(prompt::chat(request, self.front.now))];
        messages.extend(history::window(conversation, budget));
        let mut ask = self.front.model.request(messages);
        ask.max_tokens = CHAT_TOKENS;
        Ok(self.send(&ask, true).await?.trim().to_owned())
    }

    async fn send(&mut self, ask: &jarvis_model::Request, show: bool) -> Result<String, Stop> {
        let emit = &mut *self.front.emit;
        let mut on_delta = |delta| match delta {
            Delta::Text(text) if show => emit(Event::TextDelta { text }),
            Delta::Status(message) => emit(Event::Status { message }),
            Delta::Text(_) | Delta::Reasoning(_) => {}
        };
        let reply = ask.send(&mut on_delta, self.front.cancel).await?;
        self.turn.count(reply.usage);
        self.turn.rounds += 1;
        Ok(reply.text)
    }

    /// One execution of a registered capability, with its events.
    async fn execute(&mut self, name: &str, args: Value) -> Result<Result<Value, String>, Stop> {
        let id = format!("call_{}", self.turn.rounds);
        let call = ToolCall { id: id.clone(), name: name.to_owned(), args: args.clone() };
        (self.front.emit)(Event::ToolStarted { call });
        let started = Instant::now();
        let ran = self.forge.dispatch().run(name, args, self.front.emit, self.front.approver, self.front.cancel).await;
        let duration_ms = started.elapsed().as_secs_f64() * 1e3;
        let (ok, content) = match &ran {
            Ok(ran) => (true, json!({"result": ran.value})),
            Err(error) => (false, json!({"error": error.to_string()})),
        };
        (self.front.emit)(Event::ToolCompleted { call_id: id, name: name.to_owned(), ok, content, duration_ms });
        match ran {
            Ok(ran) => {
                self.turn.mark_used(name);
                Ok(Ok(ran.value))
            }
            Err(CallError::RespondToModel(problem)) => Ok(Err(problem)),
            Err(CallError::Fatal(body)) => Err(Stop::Failed(body)),
        }
    }

    async fn build(&mut self, request: &str, plan: Plan) -> Result<String, Stop> {
        let mut usages: Vec<Usage> = Vec::new();
        let mut count = |usage| usages.push(usage);
        let mut grower = Grower {
            forge: self.forge,
            model: self.front.model,
            count: &mut count,
            emit: self.front.emit,
            approver: self.front.approver,
            cancel: self.front.cancel,
        };
        let grown = grower.grow(request, &plan).await;
        for usage in usages {
            self.turn.count(usage);
            self.turn.rounds += 1;
        }
        let name = match grown {
            Ok(Grown::Kept(accepted)) => {
                self.turn.mark_built(accepted.name.as_str());
                accepted.name
            }
            Ok(Grown::OnlyRan { result, reason }) => {
                (self.front.emit)(Event::Notice {
                    message: format!("the tool was not kept: {reason}; --approve auto keeps it"),
                });
                return Ok(self.say(&result));
            }
            // The spec came out as something that exists: then that is what is used.
            Err(ForgeError::Duplicate { name, .. }) => name,
            Err(ForgeError::Fatal(body)) => return Err(Stop::Failed(body)),
            Err(error) => return Err(Stop::Failed(error.body())),
        };
        match self.execute(name.as_str(), plan.args()).await? {
            Ok(value) => Ok(self.say(&value)),
            Err(problem) => Err(Stop::Failed(failed_body(name.as_str(), &problem))),
        }
    }

    fn say(&mut self, value: &Value) -> String {
        let text = plain(value);
        (self.front.emit)(Event::TextDelta { text: text.clone() });
        text
    }
}

/// The question and answer before the request that `conversation` ends with.
fn earlier(conversation: &[Message]) -> Option<(&str, &str)> {
    match conversation {
        [.., question, answer, _] if question.role == Role::User && answer.role == Role::Assistant => {
            Some((&question.text, &answer.text))
        }
        _ => None,
    }
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
