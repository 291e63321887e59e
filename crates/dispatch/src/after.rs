//! What follows from a run: it is counted, a call that failed is kept, and a version that fails too often is set back to
//! the one before it, or quarantined.

use crate::{CallError, Dispatch};
use jarvis_audit::{Kind, redact, redact_value};
use jarvis_protocol::{Capability, CapabilityName, ErrorBody, Event, Execution, ExitClass, Status, Version};
use jarvis_registry::{FailingCall, InUse, NewVersion, Run};
use serde_json::{Value, json};

/// Failures among the last [`JUDGED_RUNS`](jarvis_registry::JUDGED_RUNS) runs of a version after which it is not run any more.
const FAILURES: usize = 3;
/// A version that comes to that within this many runs of its own is compared with the one before it.
const FIRST_RUNS: u64 = 10;
/// Runs without which the version before has no record to be better by.
const RECORD_RUNS: u64 = 5;
/// Bytes of arguments that are kept of a failing call. One that is longer is shown cut, and is no example.
const ARGS_BYTES: usize = 8 << 10;
/// The same of the error.
const ERROR_BYTES: usize = 2 << 10;

/// What became of a capability by a run of it.
pub(crate) enum Became {
    Quarantined,
    /// The version before is back, as this one.
    SetBack {
        to: Version,
        as_version: Version,
    },
}

impl Became {
    /// For whoever made the call that was one too many.
    pub fn tell(&self, name: &CapabilityName, mut body: ErrorBody) -> ErrorBody {
        match self {
            Became::Quarantined => {
                body.message.push_str(&format!("; {FAILURES} of its last runs failed, so `{name}` is quarantined now"));
                body.hint(quarantine_hint(name))
            }
            Became::SetBack { to, as_version } => {
                let message = "; this version did worse than the one before it, so";
                body.message.push_str(&format!("{message} version {to} is back as {as_version}: call it again"));
                body
            }
        }
    }
}

/// What to do about a quarantined one, for a person and for a model.
pub(crate) fn quarantine_hint(name: &CapabilityName) -> String {
    format!(
        "`jarvis cap repair {name}`; in a conversation register_capability under the same name repairs it: the calls that \
         failed must run then"
    )
}

impl Dispatch {
    /// Never fails: a result is not thrown away because something that follows from it could not be done. That is told.
    pub(crate) fn after(
        &self,
        capability: &Capability,
        args: &Value,
        execution: &Execution,
        outcome: &Result<Value, CallError>,
        judged: bool,
    ) -> (Vec<Event>, Option<Became>) {
        let ok = outcome.is_ok();
        let telling = judged && (ok || says_something_of_the_code(execution));
        let class = match execution.exit {
            // It ran, and returned what it does not promise.
            ExitClass::Ok => "returns".to_owned(),
            exit => json!(exit).as_str().unwrap_or("failed").to_owned(),
        };
        let at = self.now().to_string();
        let failed = outcome
            .as_ref()
            .err()
            .filter(|_| telling)
            .map(|error| failing_call(capability, args, error_text(execution, error), class.clone(), at.clone()));
        let run = Run {
            version: capability.version.clone(),
            ok,
            wall_us: execution.wall_us,
            error_class: (!ok).then_some(class),
            egress: execution.egress.clone(),
            at,
        };
        let counted = tracing::debug_span!("statistics").entered();
        let used = match self.parts.registry.record_use(&capability.name, &run, failed.as_ref(), telling) {
            Ok(used) => used,
            Err(error) => {
                let message = format!("this run is missing in the statistics: {}", error.body().message);
                return (vec![Event::Notice { message }], None);
            }
        };
        drop(counted);
        if ok || !telling || used.recent_failures() < FAILURES {
            return (Vec::new(), None);
        }
        match self.take_out(capability, &used, failed.as_ref()) {
            Ok(Some((event, became))) => (vec![event], Some(became)),
            // Another process was first, or somebody has changed it meanwhile.
            Ok(None) => (Vec::new(), None),
            Err(error) => {
                let message = format!("`{}` should be quarantined, which failed: {error}", capability.name);
                (vec![Event::Notice { message }], None)
            }
        }
    }

    /// Out of use; then back to the version before, where that has the better record. Killed between the two, it is out
    /// of use.
    fn take_out(
        &self,
        capability: &Capability,
        used: &InUse,
        last: Option<&FailingCall>,
    ) -> Result<Option<(Event, Became)>, CallError> {
        let name = &capability.name;
        let reason = format!("{} of its last {} runs failed", used.recent_failures(), used.recent.len());
        let record = json!({
            "change": "quarantine", "version": capability.version, "reason": reason,
            "runs": used.runs, "failures": used.failures,
        });
        // Asked under the registry's lock, so that of two processes one takes it out, and tells of it.
        let done = self.parts.registry.set_status_if(name, Status::Quarantined, |now| {
            let mine = same(capability, now);
            if mine {
                self.record(Kind::Registry, name.as_str(), record)?;
            }
            Ok::<bool, CallError>(mine)
        })?;
        if done.is_none() {
            return Ok(None);
        }
        let mut more = String::new();
        if let Some(before) = self.better_before(capability, used)? {
            let narrow = before.capability.grants.beyond(&capability.grants).is_empty()
                && before.capability.dependencies.iter().all(|needed| capability.dependencies.contains(needed));
            if narrow {
                return self.set_back(capability, used, before).map(Some);
            }
            // A grant that was given up takes a yes to come back, and nobody was asked.
            more = format!(
                "; version {0} did better but reaches further, so only you can bring it back: jarvis cap rollback {name} {0}",
                before.capability.version
            );
        }
        let error = last.map(|call| format!(", the last with {}", first_line(&call.error))).unwrap_or_default();
        let detail = format!("{reason}{error}; to mend it: jarvis cap repair {name}{more}");
        let event = Event::Capability { name: name.to_string(), status: Status::Quarantined, detail };
        Ok(Some((event, Became::Quarantined)))
    }

    /// The version before `capability`, where `capability` failed from the start and the other did not.
    fn better_before(&self, capability: &Capability, used: &InUse) -> Result<Option<Before>, CallError> {
        let (registry, name) = (&self.parts.registry, &capability.name);
        if used.runs > FIRST_RUNS {
            return Ok(None);
        }
        let versions = registry.history(name)?.into_iter().map(|entry| entry.version);
        let Some(before) = versions.filter(|version| *version < capability.version).max() else { return Ok(None) };
        let record = registry.in_use(name, &before)?;
        // At most one failure in five, at most half as many as now, and not one that was itself taken out.
        let better = record.runs >= RECORD_RUNS
            && record.failures * 5 <= record.runs
            && record.failures * used.runs * 2 <= used.failures * record.runs
            && record.recent_failures() < FAILURES;
        if !better {
            return Ok(None);
        }
        let kept = registry.at(name, &before)?;
        let intact = kept.filter(|(old, code)| jarvis_registry::digest(old, code) == old.digest);
        Ok(intact.map(|(capability, code)| Before { capability, code, record }))
    }

    /// The content of the version before, as a new one: it was approved as it is, and reaches no further.
    fn set_back(&self, capability: &Capability, used: &InUse, before: Before) -> Result<(Event, Became), CallError> {
        let name = &capability.name;
        let (from, to) = (&capability.version, before.capability.version.clone());
        let reason = format!(
            "version {from} failed {} of its first {} runs, version {to} {} of {}",
            used.failures, used.runs, before.record.failures, before.record.runs
        );
        let record = json!({"change": "rollback", "from": from, "to": to, "reason": reason});
        self.record(Kind::Registry, name.as_str(), record)?;
        let registered = self.parts.registry.register(NewVersion {
            created_by: before.capability.created_by,
            model: before.capability.model.clone(),
            capability: before.capability,
            code: before.code,
            change: format!("rolled back to {to}: {reason}"),
            now: self.now().to_string(),
        })?;
        let as_version = registered.version;
        let record = json!({"change": "registered", "version": as_version, "commit": registered.commit});
        self.record(Kind::Registry, name.as_str(), record)?;
        let detail = format!("{reason}; so {to} is back, as version {as_version}");
        let event = Event::Capability { name: name.to_string(), status: Status::Active, detail };
        Ok((event, Became::SetBack { to, as_version }))
    }
}

/// An earlier version and how it did.
struct Before {
    capability: Capability,
    code: String,
    record: InUse,
}

/// Still what ran, and in use.
fn same(ran: &Capability, now: &Capability) -> bool {
    now.version == ran.version && now.digest == ran.digest && now.status == Status::Active
}

/// Whether a failure counts against the code. Arguments that were refused, missing isolation and a cancel never come
/// here: nothing ran, or a person ended it. What is refused to code that asks for it (a host, a file or a secret that is
/// not granted or not there any more, a package that is not installed) is for a person to give, and no other code would
/// get it. The code could throw these names itself; then it only keeps itself from being taken out.
fn says_something_of_the_code(execution: &Execution) -> bool {
    let refused =
        || execution.error.as_ref().is_some_and(|e| matches!(&*e.name, "PermissionError" | "DependencyError"));
    match execution.exit {
        ExitClass::Cancelled => false,
        ExitClass::Threw | ExitClass::Rejected => !refused(),
        ExitClass::Ok | ExitClass::Timeout | ExitClass::Memory | ExitClass::Output | ExitClass::Crashed => true,
    }
}

fn error_text(execution: &Execution, error: &CallError) -> String {
    match execution.exit {
        ExitClass::Ok => error.body().message.clone(),
        _ => execution.failure(),
    }
}

fn failing_call(capability: &Capability, args: &Value, error: String, class: String, at: String) -> FailingCall {
    let clean = redact_value(args);
    let text = clean.to_string();
    let shown = cut(&text, ARGS_BYTES);
    FailingCall {
        version: capability.version.clone(),
        exact: clean == *args && shown.len() == text.len(),
        args: shown.to_owned(),
        class,
        error: cut(&redact(&error), ERROR_BYTES).to_owned(),
        at,
    }
}

/// Never inside of a character.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

fn first_line(text: &str) -> &str {
    cut(text.lines().next().unwrap_or_default(), 200)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_protocol::ScriptError;

    fn ended(exit: ExitClass, error: Option<&str>) -> Execution {
        Execution {
            exit,
            result: None,
            error: error.map(|name| ScriptError::new(name, "no")),
            printed: String::new(),
            wall_us: 1,
            cpu_us: 1,
            peak_memory_kb: 1,
            isolation: Vec::new(),
            egress: Vec::new(),
            calls: Vec::new(),
        }
    }

    #[test]
    fn what_nobody_granted_is_not_the_fault_of_the_code() {
        let telling = |exit, error| says_something_of_the_code(&ended(exit, error));
        assert!(telling(ExitClass::Threw, Some("TypeError")));
        assert!(telling(ExitClass::Timeout, None) && telling(ExitClass::Memory, None));
        assert!(telling(ExitClass::Output, None) && telling(ExitClass::Crashed, Some("WorkerError")));
        assert!(telling(ExitClass::Ok, None));
        assert!(!telling(ExitClass::Threw, Some("PermissionError")));
        assert!(!telling(ExitClass::Rejected, Some("DependencyError")));
        assert!(!telling(ExitClass::Cancelled, None));
    }

    #[test]
    fn a_kept_call_has_no_secret_in_it_and_is_cut_between_characters() {
        let capability = Capability::new(CapabilityName::new("probe").unwrap(), "Probes");
        let keep = |args: Value| {
            failing_call(&capability, &args, "TypeError: no".to_owned(), "threw".to_owned(), String::new())
        };
        let plain = keep(json!({"text": "计算"}));
        assert!(plain.exact && plain.args == "{\"text\":\"计算\"}");
        let secret = keep(json!({"password": "hunter2hunter2", "text": "x"}));
        assert!(!secret.exact && !secret.args.contains("hunter2"), "{}", secret.args);
        let long = keep(json!({"text": "计".repeat(5000)}));
        assert!(!long.exact && long.args.len() <= ARGS_BYTES && long.args.ends_with('计'));
    }
}
