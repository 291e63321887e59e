//! The registry as its doctor sees it: every capability with its statistics and what its code shows, and what running
//! recorded examples shows. Only code that reaches nothing outside is run.

use crate::verify::{judge, same, sources};
use crate::{Forge, ForgeError, call_error, grants, registry_error};
use jarvis_dispatch::{Approved, UseKind};
use jarvis_protocol::{Capability, CapabilityName, Example, ExitClass, Status};
use jarvis_registry::CallEdge;
use jarvis_registry::Damaged;
use jarvis_registry::health::{CodeState, Duplicate, Examples, Fit, Renamed, Source, Subject, written_values};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

pub struct Library {
    /// In the order of the index.
    pub subjects: Vec<Subject>,
    pub damaged: Vec<Damaged>,
}

impl Library {
    pub fn get(&self, name: &CapabilityName) -> Option<&Subject> {
        self.subjects.iter().find(|s| s.capability.name == *name)
    }
}

/// Executions that may still be made; a look at a large registry must end.
#[derive(Debug, Clone, Copy)]
pub struct Runs(pub u32);

impl Runs {
    pub(crate) fn take(&mut self) -> bool {
        let left = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        left
    }
}

/// What two capabilities did with each other's recorded calls.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Agreement {
    pub calls: u32,
    pub agreed: u32,
    /// Calls on which they differ, as JSON.
    pub differ: Vec<String>,
    /// Why nothing, or not everything, was run.
    pub not_run: Option<String>,
    /// Where several ways of naming the arguments are open: the one by which they agree.
    pub renamed: Option<Renamed>,
}

impl Forge {
    /// Everything registered and what is known of it. Reads the code, and runs nothing of it.
    pub async fn library(&self) -> Result<Library, ForgeError> {
        let registry = self.dispatch().registry();
        let listing = registry.list().map_err(registry_error)?;
        let edges = registry.calls().map_err(registry_error)?;
        let mut subjects = Vec::with_capacity(listing.capabilities.len());
        for capability in listing.capabilities {
            let name = &capability.name;
            subjects.push(Subject {
                stats: registry.stats(name).map_err(registry_error)?,
                versions: registry.version_stats(name).map_err(registry_error)?,
                builds: registry.builds(name).map_err(registry_error)?,
                code: self.code_state(&capability, &edges).await?,
                capability,
            });
        }
        Ok(Library { subjects, damaged: listing.damaged })
    }

    pub(crate) async fn code_state(
        &self,
        capability: &Capability,
        edges: &[CallEdge],
    ) -> Result<CodeState, ForgeError> {
        let code = match self.dispatch().registry().code(capability) {
            Ok(code) => code,
            Err(error) => return Ok(CodeState::Unusable(error.to_string())),
        };
        let mut source = Source { text: code.text, ..Source::default() };
        // What is retired is not looked at any further.
        if capability.status != Status::Retired {
            match self.dispatch().check_code(&source.text, capability.runtime, &capability.dependencies).await {
                Ok(Ok(checked)) => {
                    let uses = &checked.uses;
                    // What it calls reaches no more than it does itself: nothing.
                    let calls_alone = uses.iter().all(|used| used.kind == UseKind::Call);
                    source.pure = calls_alone && capability.grants.is_empty();
                    let calls = uses.iter().filter(|used| used.kind == UseKind::Call);
                    source.calls = calls.filter_map(|used| used.target.clone()).collect();
                    let beyond = uses.iter().filter_map(|used| grants::needed(used.kind, &capability.grants));
                    source.undeclared =
                        beyond.filter(|(_, _, granted)| !granted).map(|(call, ..)| call.to_owned()).collect();
                    source.undeclared.dedup();
                    source.literals = checked.literals;
                }
                Ok(Err(_)) if !code.matches_digest => {}
                Ok(Err(error)) => return Ok(CodeState::Unusable(error.to_string())),
                // Its interpreter is not there: what is written into the code can be seen all the same.
                Err(_) => source.literals = written_values(&source.text, capability.runtime),
            }
        }
        // Names that are only known at run time.
        for edge in edges.iter().filter(|edge| edge.caller == capability.name) {
            let callee = edge.callee.to_string();
            if !source.calls.contains(&callee) {
                source.calls.push(callee);
            }
        }
        Ok(if code.matches_digest { CodeState::Sound(source) } else { CodeState::Edited(source) })
    }

    /// Runs the recorded examples of every active capability.
    pub async fn run_examples(
        &self,
        library: &Library,
        runs: &mut Runs,
        cancel: &CancellationToken,
    ) -> Result<Examples, ForgeError> {
        let mut seen = Examples::default();
        for subject in library.subjects.iter().filter(|s| s.is_active()) {
            let capability = &subject.capability;
            let pure = subject.sound().filter(|source| source.pure);
            for example in &capability.examples {
                let Some(source) = pure.filter(|_| runs.take()) else {
                    seen.not_run += 1;
                    continue;
                };
                seen.ran += 1;
                if self.passes(capability, &source.text, example, cancel).await? {
                    seen.passed += 1;
                } else if seen.failing.last() != Some(&capability.name) {
                    seen.failing.push(capability.name.clone());
                }
            }
        }
        Ok(seen)
    }

    async fn passes(
        &self,
        capability: &Capability,
        code: &str,
        example: &Example,
        cancel: &CancellationToken,
    ) -> Result<bool, ForgeError> {
        let (now, _) = sources(self.dispatch());
        let (args, nothing) = (example.args.clone(), Approved::nothing());
        let run = self.dispatch().run_candidate(capability, code, args, Some(now), &nothing, cancel);
        Ok(judge(capability, example, &run.await.map_err(call_error)?).is_ok())
    }

    /// Runs each of the two on the other's recorded calls, and says how often they give the same.
    pub async fn agreement(
        &self,
        library: &Library,
        pair: &Duplicate,
        runs: &mut Runs,
        cancel: &CancellationToken,
    ) -> Result<Agreement, ForgeError> {
        let none = |reason: String| Agreement { not_run: Some(reason), ..Agreement::default() };
        let both = library.get(&pair.keep).zip(library.get(&pair.other));
        let Some((keep, other)) = both else { return Ok(none("one of them is gone".to_owned())) };
        for subject in [keep, other] {
            let name = &subject.capability.name;
            match subject.sound() {
                Some(source) if source.pure => {}
                Some(_) => return Ok(none(format!("`{name}` reaches outside"))),
                None => return Ok(none(format!("`{name}` does not run as it is"))),
            }
        }
        match &pair.fit {
            Fit::Plain(renamed) => self.compare(keep, other, renamed, runs, cancel).await,
            Fit::Open(ways) => {
                let mut best = none("which argument is which is open".to_owned());
                for way in ways {
                    let mut seen = self.compare(keep, other, way, runs, cancel).await?;
                    seen.renamed = Some(way.clone());
                    if seen.agreed > best.agreed || best.calls == 0 {
                        best = seen;
                    }
                }
                Ok(best)
            }
        }
    }

    /// `renamed` says how the other's arguments are called here.
    async fn compare(
        &self,
        keep: &Subject,
        other: &Subject,
        renamed: &Renamed,
        runs: &mut Runs,
        cancel: &CancellationToken,
    ) -> Result<Agreement, ForgeError> {
        let back: Renamed = renamed.iter().map(|(from, to)| (to.clone(), from.clone())).collect();
        let theirs = other.capability.examples.iter().map(|e| (e, rename(&e.args, renamed), e.args.clone()));
        let mine = keep.capability.examples.iter().map(|e| (e, e.args.clone(), rename(&e.args, &back)));
        let mut seen = Agreement::default();
        for (example, here, there) in theirs.chain(mine) {
            // A call with an argument that only one of them knows is no common ground.
            let fits =
                |s: &Subject, args: &Value| jarvis_dispatch::check_arguments(&s.capability.parameters, args).is_ok();
            if !fits(keep, &here) || !fits(other, &there) {
                continue;
            }
            if !(runs.take() && runs.take()) {
                seen.not_run = Some("the most executions of one look were made".to_owned());
                break;
            }
            let (ours, its) = (self.answer(keep, here, cancel).await?, self.answer(other, there, cancel).await?);
            seen.calls += 1;
            let alike = match (&ours, &its) {
                (Some(a), Some(b)) => same(a, b),
                (None, None) => true,
                _ => false,
            };
            if alike {
                seen.agreed += 1;
            } else {
                seen.differ.push(example.args.to_string());
            }
        }
        Ok(seen)
    }

    /// None where it failed.
    pub(crate) async fn answer(
        &self,
        subject: &Subject,
        args: Value,
        cancel: &CancellationToken,
    ) -> Result<Option<Value>, ForgeError> {
        let Some(source) = subject.sound() else { return Ok(None) };
        let (now, _) = sources(self.dispatch());
        let nothing = Approved::nothing();
        let run = self.dispatch().run_candidate(&subject.capability, &source.text, args, Some(now), &nothing, cancel);
        let execution = run.await.map_err(call_error)?;
        Ok(execution.result.filter(|_| execution.exit == ExitClass::Ok))
    }
}

/// The same call with its arguments under other names.
pub(crate) fn rename(args: &Value, renamed: &Renamed) -> Value {
    let Some(given) = args.as_object() else { return args.clone() };
    let name = |name: &String| renamed.get(name).unwrap_or(name).clone();
    Value::Object(given.iter().map(|(key, value)| (name(key), value.clone())).collect::<Map<String, Value>>())
}
