//! Growing a capability with a model that cannot drive tools: jarvis leads, the model only writes one function body.
//!
//! Several candidates are written in one batch, each runs in the sandbox on the request's arguments and on variations
//! of them, and the answer on which most agree wins: running costs a millisecond, so evidence is cheaper than trust.

mod candidate;
mod plan;
mod prompt;

pub use plan::{Plan, typescript_type};

use crate::{Accepted, Forge, ForgeError, Way, call_error};
use candidate::{Candidate, best, try_candidate};
use jarvis_dispatch::Approver;
use jarvis_model::{Completion, Delta, ModelHandle};
use jarvis_protocol::{Event, Example, ForgeStep, Message, Origin, Purpose, Usage};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Repairs with the exact error before forge gives up.
pub const REPAIRS: usize = 3;
const FIRST_SAMPLES: u8 = 2;
const MORE_SAMPLES: u8 = 3;
/// A function of this kind is short; a longer text is a model that has lost its way.
const CODE_TOKENS: u32 = 500;

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Grown {
    /// Registered; it is run like any other capability.
    Kept(Accepted),
    /// Pure code that passed everything but was not kept, because nobody said yes. Its result stands all the same.
    OnlyRan { result: Value, reason: String },
}

pub struct Grower<'a> {
    pub forge: &'a Forge,
    pub model: &'a ModelHandle,
    /// Counts the tokens of each model call; false where the turn may have no further one.
    pub count: &'a mut (dyn FnMut(Usage) -> bool + Send),
    pub emit: &'a mut (dyn FnMut(Event) + Send),
    pub approver: &'a mut dyn Approver,
    pub cancel: &'a CancellationToken,
    /// What `count` said last; true at first.
    pub may_go_on: bool,
}

impl Grower<'_> {
    /// Writes, tries, repairs and registers a capability for `request`. However it ends, the audit has its end.
    pub async fn grow(&mut self, request: &str, plan: &Plan) -> Result<Grown, ForgeError> {
        let grown = self.lead(request, plan).await;
        match &grown {
            Ok(Grown::Kept(_)) => {}
            Ok(Grown::OnlyRan { reason, .. }) => {
                let refused = ForgeError::NotApproved { reason: reason.clone(), hint: None };
                self.forge.reject(self.emit, &plan.name, &refused)?;
            }
            Err(error) => self.forge.reject(self.emit, &plan.name, error)?,
        }
        grown
    }

    async fn lead(&mut self, request: &str, plan: &Plan) -> Result<Grown, ForgeError> {
        let name = plan.name.clone();
        if plan.repairs.is_none() {
            self.forge.step(self.emit, ForgeStep::Gap, &name, "nothing registered fits".into(), json!({}))?;
        }
        self.forge.step(
            self.emit,
            ForgeStep::Spec,
            &name,
            format!("{} — {}", plan.signature(), plan.about),
            json!({"parameters": plan.parameters()}),
        )?;
        let mut conversation = prompt::first(request, plan);
        if let Some(repair) = &plan.repairs {
            let (problem, record) = (repair.problem(), json!({"failed_calls": repair.failures.len()}));
            prompt::add_repair(&mut conversation, &repair.code, &problem);
            self.forge.step(self.emit, ForgeStep::Repair, &name, problem, record)?;
        }
        let mut opening = prompt::opening(plan);
        let mut last_problem = String::new();
        for attempt in 0..=REPAIRS {
            if attempt > 0 {
                let record = json!({"attempt": attempt});
                self.forge.step(self.emit, ForgeStep::Repair, &name, last_problem.clone(), record)?;
            }
            let candidates = self.candidates(&conversation, &opening, request, plan, attempt).await?;
            let (code, problem) = match best(&candidates) {
                None => failed(&candidates),
                Some(chosen) => {
                    let mut draft = plan.draft(request, self.model.id(), chosen.code.clone());
                    if plan.repairs.is_none() {
                        draft.capability.examples.extend(held_out_example(plan, chosen));
                    }
                    let passed = self.forge.pass(&mut draft, Way::Submitted, self.emit, self.approver, self.cancel);
                    match passed.await {
                        Ok(accepted) => return Ok(Grown::Kept(accepted)),
                        Err(ForgeError::NotApproved { reason, .. }) => {
                            return Ok(Grown::OnlyRan { result: chosen.value().clone(), reason });
                        }
                        Err(ForgeError::Problems { problems, .. }) => (chosen.code.clone(), problems.join("; ")),
                        Err(error) => return Err(error),
                    }
                }
            };
            if let Some(helper) = prompt::missing_helper(&code, &problem) {
                // Writing stopped at the end of `run`; the helper that it calls is written now.
                opening = format!("{}\n\nfunction {helper}(", code.trim_end());
            } else {
                opening = prompt::opening(plan);
                prompt::add_repair(&mut conversation, &code, &problem);
            }
            last_problem = problem;
        }
        let problem = format!("no version of the code passed after {REPAIRS} repairs; last: {last_problem}");
        Err(ForgeError::Problems { step: ForgeStep::Verified, problems: vec![problem] })
    }

    /// A first batch; a second one only where the first does not agree.
    async fn candidates(
        &mut self,
        conversation: &[Message],
        opening: &str,
        request: &str,
        plan: &Plan,
        attempt: usize,
    ) -> Result<Vec<Candidate>, ForgeError> {
        let mut tried: Vec<Candidate> = Vec::new();
        // A repair is one batch: what fails again and again must not take minutes.
        let rounds: &[u8] = if attempt == 0 { &[FIRST_SAMPLES, MORE_SAMPLES] } else { &[FIRST_SAMPLES] };
        for (round, &samples) in rounds.iter().enumerate() {
            let seed = u32::try_from(attempt * 10 + round).unwrap_or(0);
            let reply = self.ask(conversation, opening, samples, seed).await?;
            let name = &plan.name;
            self.forge.step(
                self.emit,
                ForgeStep::Code,
                name,
                format!("{samples} candidates"),
                json!({"samples": samples}),
            )?;
            for text in std::iter::once(&reply.text).chain(&reply.alternatives) {
                let code = prompt::code_of(opening, text);
                if tried.iter().any(|c| c.code == code) {
                    tried.iter_mut().filter(|c| c.code == code).for_each(|c| c.votes += 1);
                    continue;
                }
                let candidate =
                    try_candidate(self.forge, plan, request, code, self.cancel).await.map_err(call_error)?;
                tried.push(candidate);
            }
            if candidate::agree(&tried) || tried.iter().all(|c| c.problem.is_some()) {
                break;
            }
        }
        Ok(tried)
    }

    async fn ask(
        &mut self,
        conversation: &[Message],
        opening: &str,
        samples: u8,
        seed: u32,
    ) -> Result<Completion, ForgeError> {
        if !self.may_go_on {
            return Err(ForgeError::OutOfBounds);
        }
        let mut request = self.model.request(conversation.to_vec());
        request.purpose = Purpose::Forge;
        request.stable_prefix = prompt::STABLE;
        request.assistant_prefix = Some(opening.to_owned());
        request.stop = vec!["\n}".to_owned(), "\n```\n".to_owned()];
        request.max_tokens = CODE_TOKENS;
        request.samples = samples;
        request.seed = Some(seed);
        let emit = &mut *self.emit;
        let mut on_delta = |delta: Delta| {
            if let Delta::Status(message) = delta {
                emit(Event::Status { message });
            }
        };
        let reply = request.send(&mut on_delta, self.cancel).await.map_err(|e| ForgeError::Fatal(e.body()))?;
        self.may_go_on = (self.count)(reply.usage);
        Ok(reply)
    }
}

/// A call that the coder had not seen and that ran: it must go on running in every later version.
fn held_out_example(plan: &Plan, chosen: &Candidate) -> Option<Example> {
    let ran = chosen.results.iter().skip(1).map(Option::is_some);
    let (args, _) = plan.held_out().into_iter().zip(ran).find(|(_, ran)| *ran)?;
    Some(plan::example(args, Origin::Model, true))
}

/// The code and problem that the next try is told of: the first candidate's, which was decoded greedily.
fn failed(candidates: &[Candidate]) -> (String, String) {
    candidates
        .iter()
        .find_map(|c| c.problem.as_ref().map(|p| (c.code.clone(), p.clone())))
        .unwrap_or_else(|| (String::new(), "no code was written".to_owned()))
}
