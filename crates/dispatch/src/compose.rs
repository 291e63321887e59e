//! Capabilities that call capabilities. Each call goes the way of every other one (resolve → decide → audit → execute →
//! audit), within what its caller may reach and in what is left of its caller's time.

use crate::run::{Ran, plan_of, value_of};
use crate::{CallError, Dispatch, alias, check_arguments};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jarvis_audit::Kind;
use jarvis_policy::Approved;
use jarvis_protocol::{
    Called, Capability, CapabilityName, ErrorBody, ErrorKind, Event, ExecPlan, Execution, ExitClass, Fixed, Grants,
    ScriptError, Subject,
};
use jarvis_registry::CallEdge;
use jarvis_sandbox::{Caller, MOST_DEPTH, Nesting, Wanted};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Calls that one outermost run may make, all depths together.
pub const MOST_CALLS: usize = 1000;

/// An outermost run with all that it leads to.
#[derive(Default)]
struct Tree(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    /// Asked for, whatever became of it.
    asked: usize,
    calls: Vec<Called>,
    /// What became of capabilities by their runs here.
    events: Vec<Event>,
    /// What no code may catch: the audit cannot be written, isolation is gone.
    fatal: Option<ErrorBody>,
}

impl Tree {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One run within a tree.
pub(crate) struct Frame<'a> {
    dispatch: &'a Dispatch,
    tree: &'a Tree,
    /// What runs here, and around it, the outermost first.
    chain: Vec<CapabilityName>,
    /// What this run may reach.
    grants: Grants,
    fixed: Option<Fixed>,
    /// Whether runs say something about what is called: not while forge tries out who calls it.
    counted: bool,
    /// Something was refused here, or ended, because of who is around: a failure says nothing about the code then.
    hindered: AtomicBool,
    cancel: &'a CancellationToken,
}

impl Frame<'_> {
    /// For the executor.
    pub(crate) fn nesting(&self) -> Nesting<'_> {
        Nesting { caller: self, depth: self.depth() }
    }

    /// For the audit: who called this run, and how deep it is; nothing for the outermost.
    pub(crate) fn mark(&self, mut record: Value) -> Value {
        if let [.., caller, _] = &self.chain[..] {
            record["caller"] = json!(caller);
            record["depth"] = json!(self.depth());
        }
        record
    }

    fn depth(&self) -> usize {
        self.chain.len().saturating_sub(1)
    }
}

impl Dispatch {
    /// Runs a plan, and what it calls; with what became of those by it.
    pub(crate) async fn pass(
        &self,
        plan: ExecPlan,
        approved: &Approved,
        cancel: &CancellationToken,
    ) -> Result<(Execution, Vec<Event>), CallError> {
        let tree = Tree::default();
        let frame = Frame {
            dispatch: self,
            tree: &tree,
            chain: vec![plan.subject.name().clone()],
            grants: plan.grants.clone(),
            fixed: plan.fixed,
            counted: matches!(plan.subject, Subject::Capability { .. }),
            hindered: AtomicBool::new(false),
            cancel,
        };
        let outcome = self.pass_one(plan, approved, &frame, cancel).await;
        drop(frame);
        let Seen { calls, events, fatal, .. } = tree.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        match fatal {
            Some(body) => Err(CallError::Fatal(body)),
            None => outcome.map(|execution| (Execution { calls, ..execution }, events)),
        }
    }
}

impl Caller for Frame<'_> {
    fn call(&self, wanted: Wanted) -> BoxFuture<'_, Result<Value, ScriptError>> {
        self.nested(wanted).boxed()
    }
}

impl Frame<'_> {
    async fn nested(&self, wanted: Wanted) -> Result<Value, ScriptError> {
        let asked = {
            let mut seen = self.tree.seen();
            seen.asked += 1;
            seen.asked
        };
        if asked > MOST_CALLS {
            self.hinder();
            return Err(error("RangeError", format!("one run may make {MOST_CALLS} calls of capabilities in all")));
        }
        let (capability, code) = self.find(&wanted.name)?;
        if let Some(why) = self.circle(&capability.name) {
            self.hinder();
            self.refuse(&capability.name, &why)?;
            return Err(error("PermissionError", format!("`{}` is not called: {why}", capability.name)));
        }
        let args = alias::arguments(&capability, &wanted.name, wanted.args);
        check_arguments(&capability.parameters, &args)
            .map_err(|problem| error("TypeError", format!("`{}`: {problem}", capability.signature())))?;
        let left = u64::try_from(wanted.left.as_millis()).unwrap_or(u64::MAX);
        if left == 0 {
            self.hinder();
            return Err(error("TimeoutError", format!("no time is left to call `{}`", capability.name)));
        }
        let mut running = Running { frame: self, capability: &capability, ended: false };
        let outcome = self.run(&capability, code, args, left).await;
        running.end(outcome.is_ok());
        outcome.map(|ran| ran.value)
    }

    /// What is registered under the name and may run now.
    fn find(&self, name: &str) -> Result<(Capability, String), ScriptError> {
        let Ok(name) = CapabilityName::new(name) else {
            let shown: String = name.chars().take(64).collect();
            return Err(error("NotFoundError", format!("{shown:?} is not the name of a capability")));
        };
        self.dispatch.resolve(name.as_str()).map_err(|failure| match failure.body() {
            body if body.kind == ErrorKind::NotFound => {
                error("NotFoundError", format!("no capability is called `{name}`"))
            }
            body => error("PermissionError", body.message.clone()),
        })
    }

    /// Why a call of this one would not end, if so.
    fn circle(&self, name: &CapabilityName) -> Option<String> {
        let way = || self.chain.iter().chain([name]).map(CapabilityName::as_str).collect::<Vec<_>>().join(" → ");
        if self.chain.contains(name) {
            return Some(format!("calls would go round in a circle ({})", way()));
        }
        (self.chain.len() > MOST_DEPTH).then(|| format!("calls would nest more than {MOST_DEPTH} deep ({})", way()))
    }

    fn refuse(&self, name: &CapabilityName, why: &str) -> Result<(), ScriptError> {
        let caller = self.chain.last();
        let record = json!({"decision": "deny", "reason": why, "caller": caller, "depth": self.depth() + 1});
        self.dispatch.record(Kind::Decision, name.as_str(), record).map_err(|failure| self.give_up(failure))
    }

    async fn run(&self, capability: &Capability, code: String, args: Value, left: u64) -> Result<Ran, ScriptError> {
        let approved = Approved::with_version(capability).within(&self.grants, self.dispatch.workspace());
        let subject = Subject::Capability {
            name: capability.name.clone(),
            version: capability.version.clone(),
            digest: capability.digest.clone(),
        };
        let mut plan = plan_of(capability, subject, code, args.clone(), self.fixed);
        plan.grants = approved.grants().clone();
        plan.limits.timeout_ms = plan.limits.timeout_ms.min(left);
        let short_of_time = plan.limits.timeout_ms < capability.limits.timeout_ms;
        let less = less(&capability.grants, &plan.grants, self.dispatch);
        let inner = Frame {
            dispatch: self.dispatch,
            tree: self.tree,
            chain: self.chain.iter().chain([&capability.name]).cloned().collect(),
            grants: plan.grants.clone(),
            fixed: self.fixed,
            counted: self.counted,
            hindered: AtomicBool::new(false),
            cancel: self.cancel,
        };
        let execution = match self.dispatch.pass_one(plan, &approved, &inner, self.cancel).await {
            Ok(execution) => execution,
            Err(CallError::RespondToModel(body)) => return Err(error("PermissionError", body.message)),
            Err(fatal) => return Err(self.give_up(fatal)),
        };
        // What failed for its caller's grants or time, or for the calls around it, says nothing about it.
        let hindered = match execution.exit {
            ExitClass::Ok => false,
            ExitClass::Cancelled => true,
            exit => {
                (short_of_time && exit == ExitClass::Timeout)
                    || less.is_some()
                    || inner.hindered.load(Ordering::Relaxed)
            }
        };
        if hindered {
            self.hinder();
        }
        let value = value_of(capability, &execution);
        if self.counted && !hindered {
            // Arguments come from the caller, which could make any other one fail: that takes nothing out of use.
            let (events, _) = self.dispatch.after(capability, &args, &execution, &value, value.is_ok());
            self.tree.seen().events.extend(events);
        }
        let value = value.map_err(|failure| {
            let kind = if execution.exit == ExitClass::Timeout { "TimeoutError" } else { "CapabilityError" };
            let mut message = failure.body().message.clone();
            if let (Some(less), Some(caller)) = (&less, self.chain.last()) {
                message.push_str(&format!("; called by `{caller}`, which may not: {less}"));
            }
            error(kind, message)
        })?;
        Ok(Ran { value, execution })
    }

    fn hinder(&self) {
        self.hindered.store(true, Ordering::Relaxed);
    }

    /// Ends the outermost run as well, whatever its code makes of it.
    fn give_up(&self, failure: CallError) -> ScriptError {
        let body = failure.body().clone();
        let message = body.message.clone();
        self.tree.seen().fatal.get_or_insert(body);
        error("Error", message)
    }
}

/// What the version was approved for and its caller may not reach, if anything.
fn less(own: &Grants, given: &Grants, dispatch: &Dispatch) -> Option<String> {
    // Spelled alike, so that only what is missing differs.
    let own = jarvis_policy::within(own, own, dispatch.workspace());
    let missing = own.beyond(given);
    (!missing.is_empty()).then(|| missing.to_string())
}

/// Notes the end of a call, also where its caller ends before it.
struct Running<'a> {
    frame: &'a Frame<'a>,
    capability: &'a Capability,
    ended: bool,
}

impl Running<'_> {
    fn end(&mut self, ok: bool) {
        self.ended = true;
        let Frame { dispatch, tree, chain, counted, .. } = self.frame;
        let Some(caller) = chain.last().cloned() else { return };
        let (name, version) = (self.capability.name.clone(), self.capability.version.clone());
        let depth = u32::try_from(chain.len()).unwrap_or(u32::MAX);
        tree.seen().calls.push(Called { caller: caller.clone(), name: name.clone(), version, ok, depth });
        if *counted {
            let edge = CallEdge { caller, callee: name, runs: 1, failures: u64::from(!ok) };
            // Statistics can be lost without losing anything else.
            if let Err(problem) = dispatch.registry().record_call(&edge) {
                tracing::warn!(%problem, "a call is missing in the statistics");
            }
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.end(false);
        }
    }
}

fn error(name: &str, message: impl Into<String>) -> ScriptError {
    ScriptError::new(name, message)
}
