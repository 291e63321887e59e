//! Two capabilities that do the same become one: the kept one gets a version that passes the examples of both and
//! answers to both names, and the other is retired in the same moment. Anything short of that changes nothing.

use crate::library::rename;
use crate::{Accepted, Draft, Emit, Forge, ForgeError, Way, registry_error};
use jarvis_dispatch::{ALIAS_ARGUMENTS, Approver};
use jarvis_model::{Delta, ModelHandle};
use jarvis_protocol::{
    Capability, CapabilityName, ErrorBody, ErrorKind, Event, ForgeStep, Message, Runtime, Status, Usage,
};
use jarvis_registry::health::{CodeState, Fit, Renamed, Source, Subject, fit};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Triggers that one definition holds at most.
const TRIGGERS: usize = 20;
/// Attempts of a model at one general version.
const ATTEMPTS: usize = 3;
const CODE_TOKENS: u32 = 4000;

/// What is to become one.
#[derive(Debug, Clone, PartialEq)]
pub struct Unify {
    pub keep: CapabilityName,
    pub others: Vec<CapabilityName>,
    /// Argument of one of the others → argument of the kept one, where a person says which is which.
    pub told: Renamed,
}

/// A model that may write one version for all, where the code of the kept one does not pass the others' examples.
pub struct Writer<'a> {
    pub model: &'a ModelHandle,
    /// Told what each of its replies took.
    pub count: &'a mut (dyn FnMut(Usage) + Send),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Unified {
    pub accepted: Accepted,
    /// The names that it answers to from now on, those of before included.
    pub aliases: Vec<CapabilityName>,
    pub retired: Vec<CapabilityName>,
    /// For each of the retired, which of its arguments are called how now.
    pub renamed: Vec<Renamed>,
    pub triggers_left_out: usize,
    /// A model wrote the code; else it is that of the kept one.
    pub rewritten: bool,
}

impl Forge {
    /// # Errors
    /// Then nothing has changed.
    pub async fn unify(
        &self,
        plan: &Unify,
        writer: Option<Writer<'_>>,
        emit: Emit<'_>,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Unified, ForgeError> {
        let spec = format!("answers for {} too", listed(&plan.others));
        self.step(emit, ForgeStep::Spec, &plan.keep, spec, json!({"unify": plan.others}))?;
        let result = self.unify_all(plan, writer, emit, approver, cancel).await;
        match &result {
            Err(error) => self.reject(emit, &plan.keep, error)?,
            Ok(unified) => {
                for name in &unified.retired {
                    emit(Event::Capability {
                        name: name.to_string(),
                        status: Status::Retired,
                        detail: format!("`{}` answers for it now, to this name as well", plan.keep),
                    });
                }
            }
        }
        result
    }

    async fn unify_all(
        &self,
        plan: &Unify,
        writer: Option<Writer<'_>>,
        emit: Emit<'_>,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Unified, ForgeError> {
        let keep = self.subject(&plan.keep)?;
        if !keep.is_active() {
            return Err(problem(format!("`{}` is {}", plan.keep, keep.capability.status.as_str())));
        }
        let mut others = Vec::new();
        for name in &plan.others {
            if *name == plan.keep || others.iter().any(|(other, _): &(Subject, Renamed)| other.capability.name == *name)
            {
                return Err(problem(format!("`{name}` is named twice")));
            }
            let other = self.subject(name)?;
            if other.capability.status == Status::Retired {
                return Err(problem(format!("`{name}` is retired already")));
            }
            let renamed = self.way(&keep, &other, &plan.told, cancel).await?;
            others.push((other, renamed));
        }
        let (capability, triggers_left_out) = merged(&keep.capability, &others);
        let code = keep.sound().map(|source| source.text.clone()).unwrap_or_default();
        let change = format!("answers for {} too", listed(&plan.others));
        let mut draft = Draft { capability, code, request: None, change, instead_of: None, restored: false };
        let before = self.as_verified(&plan.keep)?;
        let proved = self.prove(&mut draft, Way::Submitted, before.as_ref(), emit, approver, cancel).await;
        let mut rewritten = false;
        let verified = match (proved, writer) {
            (Ok(verified), _) => verified,
            (Err(ForgeError::Problems { step: ForgeStep::Verified, problems }), Some(writer)) => {
                rewritten = true;
                self.rewrite(&mut draft, &others, &problems.join("; "), writer, emit, approver, cancel).await?
            }
            (Err(error), _) => return Err(in_terms_of(&plan.keep, error)),
        };
        let accepted = self.register(&draft, &plan.others, verified, emit)?;
        Ok(Unified {
            accepted,
            aliases: draft.capability.aliases,
            retired: plan.others.clone(),
            renamed: others.into_iter().map(|(_, renamed)| renamed).collect(),
            triggers_left_out,
            rewritten,
        })
    }

    fn subject(&self, name: &CapabilityName) -> Result<Subject, ForgeError> {
        let registry = self.dispatch().registry();
        let capability = registry.get(name).map_err(registry_error)?.ok_or_else(|| {
            let body = ErrorBody::new(ErrorKind::NotFound, format!("no capability is called `{name}`"));
            ForgeError::Fatal(body.hint("`jarvis cap list` shows what there is"))
        })?;
        let code = registry.code(&capability).map_err(registry_error)?;
        if !code.matches_digest {
            return Err(problem(format!(
                "`{name}` was changed by hand since it was checked: register it, or put its file back, first"
            )));
        }
        Ok(Subject {
            capability,
            stats: Default::default(),
            versions: Vec::new(),
            builds: Vec::new(),
            code: CodeState::Sound(Source { text: code.text, ..Source::default() }),
        })
    }

    /// How the other's arguments are called in the kept one. Where that is open by kind, what both do with the other's
    /// recorded calls decides, if it is plain.
    async fn way(
        &self,
        keep: &Subject,
        other: &Subject,
        told: &Renamed,
        cancel: &CancellationToken,
    ) -> Result<Renamed, ForgeError> {
        let known = other.capability.takes();
        let told: Renamed = told
            .iter()
            .filter(|(from, _)| known.iter().any(|p| p.name == from.as_str()))
            .map(|(from, to)| (from.clone(), to.clone()))
            .collect();
        let (keep_name, other_name) = (&keep.capability.name, &other.capability.name);
        let ways = match fit(&keep.capability, &other.capability, &told) {
            Ok(Fit::Plain(renamed)) => return Ok(renamed),
            Ok(Fit::Open(ways)) => ways,
            Err(why) => {
                let why = format!("`{keep_name}` does not take the calls of `{other_name}`: {why}");
                return Err(problem(format!(
                    "{why}. Try it the other way round (jarvis cap unify {other_name} {keep_name}), or give one of \
                     them a new version first"
                )));
            }
        };
        let mut fitting = Vec::new();
        if keep.capability.grants.is_empty() {
            for way in &ways {
                if self.answers_alike(keep, other, way, cancel).await? {
                    fitting.push(way.clone());
                }
            }
        }
        match fitting.as_slice() {
            [only] => Ok(only.clone()),
            _ => Err(problem(format!(
                "which argument of `{other_name}` is which of `{keep_name}` is open; say it: {}",
                ways.first().map(said).unwrap_or_default()
            ))),
        }
    }

    /// Does the kept one give what is recorded for every call of the other with a known answer?
    async fn answers_alike(
        &self,
        keep: &Subject,
        other: &Subject,
        way: &Renamed,
        cancel: &CancellationToken,
    ) -> Result<bool, ForgeError> {
        let mut known = 0;
        for example in &other.capability.examples {
            let Some(expected) = &example.returns else { continue };
            known += 1;
            let got = self.answer(keep, rename(&example.args, way), cancel).await?;
            if !got.is_some_and(|got| crate::verify::same(expected, &got)) {
                return Ok(false);
            }
        }
        Ok(known > 0)
    }

    /// Has a model write one version that passes all examples.
    #[expect(clippy::too_many_arguments, reason = "what every step of forge is given")]
    async fn rewrite(
        &self,
        draft: &mut Draft,
        others: &[(Subject, Renamed)],
        problem: &str,
        writer: Writer<'_>,
        emit: Emit<'_>,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<crate::Verified, ForgeError> {
        let name = draft.capability.name.clone();
        let mut conversation = vec![Message::system(SYSTEM), Message::user(task(draft, others, problem))];
        let mut last = problem.to_owned();
        for attempt in 1..=ATTEMPTS {
            self.step(emit, ForgeStep::Repair, &name, last.clone(), json!({"attempt": attempt}))?;
            let mut request = writer.model.request(conversation.clone());
            request.stable_prefix = 1;
            request.max_tokens = CODE_TOKENS;
            let mut on_delta = |delta: Delta| {
                if let Delta::Status(message) = delta {
                    emit(Event::Status { message });
                }
            };
            let reply = request.send(&mut on_delta, cancel).await.map_err(|e| ForgeError::Fatal(e.body()))?;
            (writer.count)(reply.usage);
            draft.code = code_in(&reply.text);
            draft.capability.model = Some(writer.model.id().to_owned());
            let lines = draft.code.lines().count();
            self.step(emit, ForgeStep::Code, &name, format!("{lines} lines"), json!({"lines": lines}))?;
            let before = self.as_verified(&name)?;
            match self.prove(draft, Way::Submitted, before.as_ref(), emit, approver, cancel).await {
                Err(ForgeError::Problems { problems, .. }) => {
                    last = problems.join("; ");
                    conversation.push(Message::assistant(&reply.text));
                    conversation
                        .push(Message::user(format!("That fails: {last}\nWrite the whole module again, corrected.")));
                }
                other => return other,
            }
        }
        Err(ForgeError::Problems {
            step: ForgeStep::Verified,
            problems: vec![format!("no version for all passed after {ATTEMPTS} attempts; last: {last}")],
        })
    }
}

const SYSTEM: &str = "Several functions do the same, each a little otherwise. Write one general function in their place. \
Answer with one module in a fence of three backticks and nothing else. No imports, no network, no files. What is computed \
must come from the arguments: never write an expected result into the code.";

fn task(draft: &Draft, others: &[(Subject, Renamed)], problem: &str) -> String {
    let capability = &draft.capability;
    let language = if capability.runtime == Runtime::Python { "python" } else { "typescript" };
    let form = match capability.runtime {
        Runtime::Python => "`def run(args, ctx)`, with the arguments in the dictionary `args`",
        Runtime::Typescript | Runtime::Deno => {
            "`export default function run(args)`, with the arguments in the object `args`"
        }
    };
    let mut text = format!(
        "The function: {}\nIt does: {}\nIts form: {language}, {form}.\nParameters: {}\n\nThe code that is kept:\n```\n{}\n```\n",
        capability.signature(),
        capability.capability,
        capability.parameters,
        draft.code.trim_end()
    );
    for (other, renamed) in others {
        let source = other.sound().map(|source| source.text.trim_end()).unwrap_or_default();
        text.push_str(&format!(
            "\nThe code of {} ({}):\n```\n{source}\n```\n",
            other.capability.name, other.capability.capability
        ));
        for (from, to) in renamed {
            text.push_str(&format!("Its argument `{from}` is `{to}` now.\n"));
        }
    }
    text.push_str("\nCalls that must pass:\n");
    for example in capability.examples.iter().filter(|example| !example.held_out) {
        let wanted = match (&example.returns, &example.matches) {
            (Some(value), _) => format!(" → {value}"),
            (None, Some(pattern)) => format!(" → text that matches {pattern}"),
            (None, None) => String::new(),
        };
        text.push_str(&format!("{}{wanted}\n", example.args));
    }
    text.push_str(&format!("\nThe kept code fails: {problem}\n"));
    text
}

/// What stands in the first fence; without one the whole reply.
fn code_in(reply: &str) -> String {
    let Some((_, rest)) = reply.split_once("```") else { return reply.trim().to_owned() };
    let body = rest.split_once('\n').map_or(rest, |(_, body)| body);
    format!("{}\n", body.split("```").next().unwrap_or(body).trim_end())
}

/// The definition that answers for all, and how many triggers did not find room.
fn merged(keep: &Capability, others: &[(Subject, Renamed)]) -> (Capability, usize) {
    let mut next = keep.clone();
    let mut renamings = next.extra.remove(ALIAS_ARGUMENTS).unwrap_or_else(|| json!({}));
    let mut left_out = 0;
    for (other, renamed) in others {
        let other = &other.capability;
        for example in &other.examples {
            let example = jarvis_protocol::Example { args: rename(&example.args, renamed), ..example.clone() };
            let known = next
                .examples
                .iter()
                .any(|e| e.args == example.args && e.returns == example.returns && e.matches == example.matches);
            if !known {
                next.examples.push(example);
            }
        }
        for trigger in other.triggers.iter().filter(|trigger| !keep.triggers.contains(trigger)) {
            if next.triggers.len() < TRIGGERS {
                next.triggers.push(trigger.clone());
            } else {
                left_out += 1;
            }
        }
        for alias in std::iter::once(&other.name).chain(&other.aliases) {
            if !next.aliases.contains(alias) {
                next.aliases.push(alias.clone());
            }
            // Its own aliases were put into its words, and those into the words of now.
            let before = other.extra.get(ALIAS_ARGUMENTS).and_then(|all| all.get(alias.as_str()));
            let way = through(before, renamed);
            if !way.is_empty() {
                renamings[alias.as_str()] = json!(way);
            }
        }
    }
    if renamings.as_object().is_some_and(|all| !all.is_empty()) {
        next.extra.insert(ALIAS_ARGUMENTS.to_owned(), renamings);
    }
    let names: Vec<CapabilityName> = others.iter().map(|(other, _)| other.capability.name.clone()).collect();
    next.supersedes =
        Some(keep.supersedes.iter().cloned().chain([listed_plain(&names)]).collect::<Vec<_>>().join(", "));
    (next, left_out)
}

/// Old names → names of the capability that is about to go → names of now.
fn through(before: Option<&Value>, renamed: &Renamed) -> Renamed {
    let mut all = renamed.clone();
    for (from, to) in before.and_then(Value::as_object).into_iter().flatten() {
        let to = to.as_str().unwrap_or_default();
        all.insert(from.clone(), renamed.get(to).cloned().unwrap_or_else(|| to.to_owned()));
    }
    all
}

fn listed(names: &[CapabilityName]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn listed_plain(names: &[CapabilityName]) -> String {
    names.iter().map(CapabilityName::as_str).collect::<Vec<_>>().join(", ")
}

fn said(way: &Renamed) -> String {
    way.iter().map(|(from, to)| format!("--map {from}={to}")).collect::<Vec<_>>().join(" ")
}

fn problem(text: String) -> ForgeError {
    ForgeError::Problems { step: ForgeStep::Checked, problems: vec![text] }
}

/// Says whose code it is that fails.
fn in_terms_of(keep: &CapabilityName, error: ForgeError) -> ForgeError {
    match error {
        ForgeError::Problems { step: ForgeStep::Verified, problems } => {
            let told = format!(
                "the code of `{keep}` does not pass the examples of all: {}. Nothing was changed; --rewrite has the \
                 model write one version for all",
                problems.join("; ")
            );
            ForgeError::Problems { step: ForgeStep::Verified, problems: vec![told] }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_reply_is_what_stands_in_its_fence() {
        assert_eq!(code_in("Here:\n```ts\nlet a = 1;\n```\nDone."), "let a = 1;\n");
        assert_eq!(code_in("```\n文 = 1\n"), "文 = 1\n");
        assert_eq!(code_in(" plain "), "plain");
    }

    #[test]
    fn names_lead_through_a_capability_that_was_made_of_others_itself() {
        let renamed = Renamed::from([("x".to_owned(), "base".to_owned())]);
        let way = through(Some(&json!({"n": "x", "m": "exponent"})), &renamed);
        assert_eq!(json!(way), json!({"x": "base", "n": "base", "m": "exponent"}));
        assert_eq!(through(None, &renamed), renamed);
    }
}
